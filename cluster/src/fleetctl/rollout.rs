//! rollout: puts a new file in the place of a unit, of all instances of a template, or of
//! a global unit; a few at a time, each waited for until it is active again. The first
//! that does not come up ends it, and what was replaced gets its old file back.

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
use rollback::as_before;
use std::time::Duration;

/// A unit that has the new file, or may have.
struct Done {
    /// What goes back where it fails, as it was.
    old: Unit,
    /// The revision that made what has the new file: who makes it anew makes another, though it be of the
    /// same file. `None`: not known.
    made: Option<i64>,
}

/// A file on its way to the units that are to have it.
struct Rolling<'r> {
    session: &'r mut Session,
    what: &'r Rollout,
    file: UnitFile,
    done: Vec<Done>,
    /// Of the global unit that is under way.
    seen: Seen,
    /// The run in which each unit was first seen up with the new file, by unit and machine.
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
        say(&format!("Nothing to do: no unit of {name} has another file"));
        return Ok(0);
    }
    vouch(session, what, &file, &targets)?;
    let mut rolling =
        Rolling { session, what, file, done: Vec::new(), seen: Seen::default(), runs: Runs::new() };
    let rolled = match targets.iter().any(is_global) {
        true => rolling.on_all_machines(&targets).await,
        false => rolling.one_by_one(&targets).await,
    };
    rolling.ended(rolled).await
}

/// # Errors
/// Nobody knows what is wished for it.
fn readable(unit: &Unit) -> Result<(), Trouble> {
    if !unit.desired_state.is_empty() {
        return Ok(());
    }
    let name = &unit.name;
    Err(Trouble::new(format!("what is wished for {name} can not be read: wish it anew")))
}

/// # Errors
/// What could not go back is not begun with.
fn vouch(
    session: &Session,
    what: &Rollout,
    file: &UnitFile,
    targets: &[Unit],
) -> Result<(), Trouble> {
    for unit in targets.iter().filter(|_| !what.no_rollback) {
        match hash_of(unit) == file.hash() {
            true => {
                let old = as_before(unit).unwrap_or_default();
                session.client.may_go_back(&old, unit.signature.is_some())?;
            }
            false => {
                // In the middle of another rollout it has two files.
                for old in std::iter::once(unit.clone()).chain(as_before(unit)) {
                    session.client.may_go_back(&old, session.client.signs.is_some())?;
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

    /// The machines that a global unit is on.
    async fn on(&mut self, unit: &Unit) -> Result<Vec<String>, Trouble> {
        let (limit, client) = (self.patience(), &mut self.session.client);
        let states = answered(limit, async || client.states().await).await?;
        let own = states.into_iter().filter(|state| state.name == unit.name);
        let mut machines: Vec<String> = own.map(|state| state.machine_id).collect();
        machines.sort();
        Ok(machines)
    }

    /// Units of machines: a few take the file, and the next ones when those have it up.
    async fn one_by_one(&mut self, targets: &[Unit]) -> Result<(), Trouble> {
        for batch in targets.chunks(self.batch()) {
            let mut launched = Vec::new();
            for unit in batch {
                let Some(now) = self.as_it_is(unit).await? else { continue };
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

    /// A unit as it is by now: the list may be old. `None`: it is left out, and that is said.
    ///
    /// # Errors
    /// It is not what was to be replaced any more.
    async fn as_it_is(&mut self, listed: &Unit) -> Result<Option<Unit>, Trouble> {
        let (name, limit) = (&listed.name, self.patience());
        let client = &mut self.session.client;
        let Some(now) = answered(limit, async || client.unit(name).await).await? else {
            say(&format!("Unit {name} was destroyed meanwhile"));
            return Ok(None);
        };
        let hash = hash_of(&now);
        if hash == self.file.hash() && now.machines.is_none() {
            say(&format!("Unit {name} was given the new file meanwhile"));
            return Ok(None);
        }
        if hash == hash_of(listed) {
            readable(&now)?;
            return Ok(Some(now));
        }
        Err(Trouble::new(format!("unit {name} has another file by now")))
    }

    /// Global units, one after the other: of a template they may be several.
    async fn on_all_machines(&mut self, targets: &[Unit]) -> Result<(), Trouble> {
        for listed in targets {
            let Some(unit) = self.as_it_is(listed).await? else { continue };
            self.seen = Seen::default();
            let running = match unit.desired_state.as_str() {
                "launched" => self.on(&unit).await?,
                _ => Vec::new(),
            };
            if hash_of(&unit) == self.file.hash() {
                if let Some(old) = as_before(&unit) {
                    self.done.push(Done { old, made: None });
                    self.note_who_made_it(&unit.name).await?;
                }
                self.go_on(&unit, &running).await?;
            } else if !running.is_empty() {
                self.machine_by_machine(unit, &running).await?;
            } else if let Some(unit) = self.replace(unit, None).await? {
                say(&format!("Replaced {}, which runs nowhere", unit.name));
            }
        }
        Ok(())
    }

    /// A global unit: some machines take its file, the others keep theirs until those have it up.
    async fn machine_by_machine(&mut self, unit: Unit, running: &[String]) -> Result<(), Trouble> {
        let mut rest = running.chunks(self.batch());
        let first = rest.next().unwrap_or_default();
        say(&format!("Replacing {} on {}", unit.name, first.join(" ")));
        let Some(unit) = self.replace(unit, Some(first)).await? else { return Ok(()) };
        if self.is_gone(&unit, Some(first)).await? {
            return Ok(());
        }
        self.spread_to(&unit, first.to_vec(), rest).await
    }

    /// A rollout that was left in the middle: who has the new file keeps it, the others take it.
    async fn go_on(&mut self, unit: &Unit, running: &[String]) -> Result<(), Trouble> {
        let named = unit.machines.as_deref().unwrap_or_default();
        let have = |machine: &String| named.contains(machine);
        let (done, left): (Vec<String>, Vec<String>) = running.iter().cloned().partition(have);
        if !done.is_empty() && self.is_gone(unit, Some(&done)).await? {
            return Ok(());
        }
        self.spread_to(unit, done, left.chunks(self.batch())).await
    }

    /// After those that are `done` these take it, unless it is off them by then, and in the end whoever
    /// came meanwhile.
    async fn spread_to(
        &mut self,
        unit: &Unit,
        mut done: Vec<String>,
        batches: std::slice::Chunks<'_, String>,
    ) -> Result<(), Trouble> {
        for batch in batches {
            let on = self.on(unit).await?;
            let batch: Vec<String> = batch.iter().filter(|id| on.contains(id)).cloned().collect();
            if batch.is_empty() {
                continue;
            }
            say(&format!("Replacing {} on {}", unit.name, batch.join(" ")));
            done.extend(batch);
            if !self.spread(&unit.name, &done).await? || self.is_gone(unit, Some(&done)).await? {
                return Ok(());
            }
        }
        // What was there before is kept until all that was told of it is up.
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

    /// Waits until a global unit is up on those machines and has stayed so. True: it was destroyed.
    async fn is_gone(&mut self, unit: &Unit, on: Option<&[String]>) -> Result<bool, Trouble> {
        let arrival = self.wait(&unit.name, on).await?;
        if arrival == Arrival::Up {
            self.stay_healthy(vec![unit.name.clone()], on).await?;
        }
        Ok(arrival == Arrival::Gone)
    }

    /// It has the new file, on those machines first; where nobody answers it is asked again, for the
    /// same file is not put twice. It is answered as it was by then; `None`: it was destroyed before, or
    /// was given that file by another.
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
                self.note_who_made_it(&unit.name).await?;
                return Ok(Some(unit));
            }
            self.done.pop();
            let Some(now) = self.as_it_is(&unit).await? else { return Ok(None) };
            unit = now;
        }
    }

    /// Of the last that has the new file.
    async fn note_who_made_it(&mut self, name: &str) -> Result<(), Trouble> {
        let (limit, client) = (self.patience(), &mut self.session.client);
        let why = answered(limit, async || client.why(name).await).await?;
        if let Some(last) = self.done.last_mut() {
            last.made = why.map(|why| why.created);
        }
        Ok(())
    }

    /// False: it was destroyed meanwhile.
    async fn spread(&mut self, name: &str, machines: &[String]) -> Result<bool, Trouble> {
        let (limit, client, options) =
            (self.patience(), &mut self.session.client, &self.file.options);
        let spread = answered(limit, async || client.spread(name, options, machines).await).await;
        let Err(trouble) = spread else { return Ok(true) };
        match answered(limit, async || client.unit(name).await).await? {
            Some(_) => Err(trouble),
            None => {
                self.leave_out(name);
                Ok(false)
            }
        }
    }

    /// What was destroyed does not go back.
    fn leave_out(&mut self, name: &str) {
        say(&format!("Unit {name} was destroyed meanwhile"));
        self.done.retain(|done| done.old.name != name);
    }
}

/// Units whose file is another, or not on all machines yet; a template stands for its instances and
/// comes last.
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
        readable(unit)?;
        let own = UnitName::new(&unit.name).ok();
        if Requirement::of(file, own.as_ref()).global != is_global(unit) {
            let (is, says) = if is_global(unit) { ("", "not ") } else { ("not ", "") };
            let name = &unit.name;
            return Err(Trouble::new(format!(
                "Unit {name} is {is}global, and the file says that it is {says}to be: that is no rollout, \
                 but start --replace"
            )));
        }
    }
    let mut targets: Vec<Unit> = found.into_iter().filter(differs).collect();
    targets.sort_by_key(|unit| (unit.name == name.as_str(), unit.name.clone()));
    Ok(targets)
}
