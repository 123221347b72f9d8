//! rollout: replaces the file of a unit, of all instances of a template, or of a global unit. It
//! replaces a few at a time and waits until they are active again. If one does not come up, the
//! rollout ends and restores the old file.

mod arrival;
mod rollback;

use super::arguments::Rollout;
use super::client::hash_of;
use super::creation::{check, name_of, read};
use super::output::say;
use super::review::review;
use super::session::{Session, is_global};
use super::trouble::Trouble;
use super::waiting::answered;
use crate::requirement::Requirement;
use crate::unit_file::UnitFile;
use crate::unit_name::UnitName;
use crate::wire::Unit;
use arrival::{Arrival, Runs, Seen};
use rollback::unit_before_rollout;
use std::time::Duration;

/// A unit that has, or may have, the new file.
struct Done {
    /// The unit before the rollout, to restore.
    old: Unit,
    /// The revision that created the unit with the new file; a re-created unit has another. `None`
    /// if unknown.
    made: Option<i64>,
}

/// A rollout in progress.
struct Rolling<'r> {
    session: &'r mut Session,
    what: &'r Rollout,
    file: UnitFile,
    done: Vec<Done>,
    /// Observations of the current global unit.
    seen: Seen,
    /// The run in which each unit was first seen active with the new file, by unit and machine.
    runs: Runs,
}

pub(super) async fn rollout(session: &mut Session, what: &Rollout) -> Result<u8, Trouble> {
    let argument = what.file.to_string_lossy().into_owned();
    let name = UnitName::new(&name_of(&argument))
        .map_err(|error| Trouble::new(format!("{argument}: {error}")))?;
    let file = read(&what.file)?;
    review(name.as_str(), &what.file);
    check(&name, &file)?;
    let targets = targets(session, &name, &file).await?;
    if targets.is_empty() {
        say(&format!("Nothing to do: all units of {name} have this file"));
        return Ok(0);
    }
    check_restorable(session, what, &file, &targets)?;
    let mut rolling =
        Rolling { session, what, file, done: Vec::new(), seen: Seen::default(), runs: Runs::new() };
    let rolled = match targets.iter().any(is_global) {
        true => rolling.replace_global_units(&targets).await,
        false => rolling.replace_units(&targets).await,
    };
    rolling.finish(rolled).await
}

/// Checks that the server could read the unit's desired state.
///
/// # Errors
/// The desired state cannot be read.
fn check_desired_is_readable(unit: &Unit) -> Result<(), Trouble> {
    if !unit.desired_state.is_empty() {
        return Ok(());
    }
    let name = &unit.name;
    Err(Trouble::new(format!("the desired state of {name} cannot be read: set it again")))
}

/// Checks before the first replacement that every unit can be restored.
///
/// # Errors
/// The first unit that cannot be restored.
fn check_restorable(
    session: &Session,
    what: &Rollout,
    file: &UnitFile,
    targets: &[Unit],
) -> Result<(), Trouble> {
    for unit in targets.iter().filter(|_| !what.no_rollback) {
        match hash_of(unit) == file.hash() {
            true => {
                let old = unit_before_rollout(unit).unwrap_or_default();
                session.client.may_restore(&old, unit.signature.is_some())?;
            }
            false => {
                // In an unfinished rollout a unit has two files, and both must be restorable.
                for old in std::iter::once(unit.clone()).chain(unit_before_rollout(unit)) {
                    session.client.may_restore(&old, session.client.signing_key.is_some())?;
                }
            }
        }
    }
    Ok(())
}

impl Rolling<'_> {
    fn patience(&self) -> Duration {
        Duration::try_from_secs_f64(self.what.timeout).unwrap_or(Duration::from_secs(60))
    }

    fn batch(&self) -> usize {
        self.what.batch.max(1)
    }

    /// Returns the machines that run a global unit.
    async fn machines_of(&mut self, unit: &Unit) -> Result<Vec<String>, Trouble> {
        let (limit, client) = (self.patience(), &mut self.session.client);
        let states = answered(limit, async || client.states().await).await?;
        let own = states.into_iter().filter(|state| state.name == unit.name);
        let mut machines: Vec<String> = own.map(|state| state.machine_id).collect();
        machines.sort();
        Ok(machines)
    }

    /// Replaces units with one machine each: a batch is replaced once the previous one is active.
    async fn replace_units(&mut self, targets: &[Unit]) -> Result<(), Trouble> {
        for batch in targets.chunks(self.batch()) {
            let mut launched = Vec::new();
            for unit in batch {
                let Some(now) = self.current_unit(unit).await? else { continue };
                say(&format!("Replacing {}", unit.name));
                if let Some(now) = self.replace(now, None).await? {
                    launched.extend((now.desired_state == "launched").then_some(now.name));
                }
            }
            let mut up = Vec::new();
            self.runs.clear();
            for name in launched {
                self.seen = Seen::default();
                if self.wait(&name, None).await? == Arrival::Up {
                    say(&format!("Unit {name} runs the new file"));
                    up.push(name);
                }
            }
            self.stay_healthy(up, None).await?;
        }
        say(&format!("Rolled out {} units", self.done.len()));
        Ok(())
    }

    /// Returns the current unit, because the list may be outdated. Returns `None` if the unit is
    /// skipped, and prints why.
    ///
    /// # Errors
    /// The unit's file has changed.
    async fn current_unit(&mut self, listed: &Unit) -> Result<Option<Unit>, Trouble> {
        let (name, limit) = (&listed.name, self.patience());
        let client = &mut self.session.client;
        let Some(now) = answered(limit, async || client.unit(name).await).await? else {
            say(&format!("Unit {name} was destroyed in the meantime"));
            return Ok(None);
        };
        let hash = hash_of(&now);
        if hash == self.file.hash() && now.machines.is_none() {
            say(&format!("Unit {name} already has the new file"));
            return Ok(None);
        }
        if hash == hash_of(listed) {
            check_desired_is_readable(&now)?;
            return Ok(Some(now));
        }
        Err(Trouble::new(format!("the file of unit {name} has changed")))
    }

    /// Replaces global units one after the other; a template may have several.
    async fn replace_global_units(&mut self, targets: &[Unit]) -> Result<(), Trouble> {
        for listed in targets {
            let Some(unit) = self.current_unit(listed).await? else { continue };
            self.seen = Seen::default();
            let running = match unit.desired_state.as_str() {
                "launched" => self.machines_of(&unit).await?,
                _ => Vec::new(),
            };
            if hash_of(&unit) == self.file.hash() {
                if let Some(old) = unit_before_rollout(&unit) {
                    self.done.push(Done { old, made: None });
                    self.note_creation(&unit.name).await?;
                }
                self.resume(&unit, &running).await?;
            } else if !running.is_empty() {
                self.machine_by_machine(unit, &running).await?;
            } else if let Some(unit) = self.replace(unit, None).await? {
                say(&format!("Replaced {}, which runs nowhere", unit.name));
            }
        }
        Ok(())
    }

    /// Replaces a global unit batch by batch: a batch of machines takes the file once the previous
    /// batch is active.
    async fn machine_by_machine(&mut self, unit: Unit, running: &[String]) -> Result<(), Trouble> {
        let mut rest = running.chunks(self.batch());
        let first = rest.next().unwrap_or_default();
        say(&format!("Replacing {} on {}", unit.name, first.join(" ")));
        let Some(unit) = self.replace(unit, Some(first)).await? else { return Ok(()) };
        if self.destroyed_before_healthy(&unit, Some(first)).await? {
            return Ok(());
        }
        self.spread_to(&unit, first.to_vec(), rest).await
    }

    /// Continues an interrupted rollout: machines with the new file keep it, and the others take
    /// it.
    async fn resume(&mut self, unit: &Unit, running: &[String]) -> Result<(), Trouble> {
        let named = unit.machines.as_deref().unwrap_or_default();
        let have = |machine: &String| named.contains(machine);
        let (done, left): (Vec<String>, Vec<String>) = running.iter().cloned().partition(have);
        if !done.is_empty() && self.destroyed_before_healthy(unit, Some(&done)).await? {
            return Ok(());
        }
        self.spread_to(unit, done, left.chunks(self.batch())).await
    }

    /// Continues after the `done` machines with these batches, except machines that no longer run
    /// the unit. Finally all machines take the file, including new ones.
    async fn spread_to(
        &mut self,
        unit: &Unit,
        mut done: Vec<String>,
        batches: std::slice::Chunks<'_, String>,
    ) -> Result<(), Trouble> {
        for batch in batches {
            let on = self.machines_of(unit).await?;
            let batch: Vec<String> = batch.iter().filter(|id| on.contains(id)).cloned().collect();
            if batch.is_empty() {
                continue;
            }
            say(&format!("Replacing {} on {}", unit.name, batch.join(" ")));
            done.extend(batch);
            if !self.spread(&unit.name, &done).await?
                || self.destroyed_before_healthy(unit, Some(&done)).await?
            {
                return Ok(());
            }
        }
        // The old file stays stored until all machines of the rollout are active.
        if !done.is_empty() && self.wait(&unit.name, Some(&done)).await? == Arrival::Gone {
            return Ok(());
        }
        if !self.spread(&unit.name, &[]).await?
            || !done.is_empty() && self.wait(&unit.name, None).await? == Arrival::Gone
        {
            return Ok(());
        }
        say(&format!("Rolled out {} on {} machines", unit.name, self.seen.up.len()));
        Ok(())
    }

    /// Waits until a global unit is active on the machines and stays so. Returns true if the unit
    /// was destroyed.
    async fn destroyed_before_healthy(
        &mut self,
        unit: &Unit,
        on: Option<&[String]>,
    ) -> Result<bool, Trouble> {
        let arrival = self.wait(&unit.name, on).await?;
        if arrival == Arrival::Up {
            self.stay_healthy(vec![unit.name.clone()], on).await?;
        }
        Ok(arrival == Arrival::Gone)
    }

    /// Replaces the file, first on these machines. It retries while no server answers, because the
    /// server does not apply the same replacement twice. Returns the unit before the replacement,
    /// or `None` if it was destroyed or already has the file.
    async fn replace(
        &mut self,
        mut unit: Unit,
        first: Option<&[String]>,
    ) -> Result<Option<Unit>, Trouble> {
        let (limit, mut lost) = (self.patience(), false);
        loop {
            self.done.push(Done { old: unit.clone(), made: None });
            let (client, options) = (&mut self.session.client, &self.file.options);
            let put = async || client.replace(&unit, options, first, &mut lost).await;
            if answered(limit, put).await? {
                self.note_creation(&unit.name).await?;
                return Ok(Some(unit));
            }
            self.done.pop();
            let Some(now) = self.current_unit(&unit).await? else { return Ok(None) };
            unit = now;
        }
    }

    /// Records the revision that created the last replaced unit.
    async fn note_creation(&mut self, name: &str) -> Result<(), Trouble> {
        let (limit, client) = (self.patience(), &mut self.session.client);
        let why = answered(limit, async || client.why(name).await).await?;
        if let Some(last) = self.done.last_mut() {
            last.made = why.map(|why| why.created);
        }
        Ok(())
    }

    /// Returns false if the unit was destroyed in the meantime.
    async fn spread(&mut self, name: &str, machines: &[String]) -> Result<bool, Trouble> {
        let (limit, client, options) =
            (self.patience(), &mut self.session.client, &self.file.options);
        let spread = answered(limit, async || client.spread(name, options, machines).await).await;
        let Err(trouble) = spread else { return Ok(true) };
        match answered(limit, async || client.unit(name).await).await? {
            Some(_) => Err(trouble),
            None => {
                self.forget_destroyed(name);
                Ok(false)
            }
        }
    }

    /// A destroyed unit is not restored.
    fn forget_destroyed(&mut self, name: &str) {
        say(&format!("Unit {name} was destroyed in the meantime"));
        self.done.retain(|done| done.old.name != name);
    }
}

/// Returns units with another file, or with a rollout in progress. A template stands for its
/// instances and comes last.
async fn targets(
    session: &mut Session,
    name: &UnitName,
    file: &UnitFile,
) -> Result<Vec<Unit>, Trouble> {
    let units = session.client.units().await?;
    let is_one = |unit: &Unit| {
        let own = UnitName::new(&unit.name).ok();
        let instance = own.and_then(|own| own.template()).is_some_and(|of| of == *name);
        unit.name == name.as_str() || (name.is_template() && instance)
    };
    let differs = |unit: &Unit| hash_of(unit) != file.hash() || unit.machines.is_some();
    let found: Vec<Unit> = units.into_iter().filter(is_one).collect();
    if found.is_empty() {
        return Err(Trouble::new(format!("Unit {name} does not exist: start it first")));
    }
    for unit in &found {
        check_desired_is_readable(unit)?;
        let own = UnitName::new(&unit.name).ok();
        if Requirement::of(file, own.as_ref()).global != is_global(unit) {
            let (is, says) = if is_global(unit) { ("", "not ") } else { ("not ", "") };
            let name = &unit.name;
            return Err(Trouble::new(format!(
                "Unit {name} is {is}global, and the new file makes it {says}global: a rollout cannot change that; \
                 use start --replace"
            )));
        }
    }
    let mut targets: Vec<Unit> = found.into_iter().filter(differs).collect();
    targets.sort_by_key(|unit| (unit.name == name.as_str(), unit.name.clone()));
    Ok(targets)
}
