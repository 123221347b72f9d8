//! rollout: puts a new file in the place of a unit, of all instances of a template, or of
//! a global unit; a few at a time, each waited for until it is active again. The first
//! that does not come up ends it, and what was replaced gets its old file back.

mod arrival;

use super::arguments::Rollout;
use super::client::Client;
use super::creation::{check, name_of, read};
use super::session::{Session, is_global, say, warn};
use super::trouble::Trouble;
use super::waiting::answered;
use crate::requirement::Requirement;
use crate::unit_file::UnitFile;
use crate::unit_name::UnitName;
use crate::wire::{Before, Unit};
use arrival::Seen;
use std::collections::BTreeSet;
use std::time::Duration;

/// A file on its way to the units that are to have it.
struct Rolling<'r> {
    session: &'r mut Session,
    what: &'r Rollout,
    file: UnitFile,
    /// What goes back where it fails, as it was.
    done: Vec<Unit>,
    /// Of the global unit that is under way.
    seen: Seen,
}

pub(super) async fn rollout(session: &mut Session, what: &Rollout) -> Result<u8, Trouble> {
    let argument = what.file.to_string_lossy().into_owned();
    let name = UnitName::new(&name_of(&argument))
        .map_err(|error| Trouble::new(format!("{argument}: {error}")))?;
    let file = read(&what.file)?;
    check(&name, &file)?;
    let targets = targets(session, &name, &file).await?;
    if targets.is_empty() {
        say(&format!("Nothing to do: no unit of {name} has another file"));
        return Ok(0);
    }
    vouch(session, what, &file, &targets)?;
    let mut rolling = Rolling { session, what, file, done: Vec::new(), seen: Seen::default() };
    let rolled = match targets.iter().any(is_global) {
        true => rolling.on_all_machines(&targets).await,
        false => rolling.one_by_one(&targets).await,
    };
    rolling.ended(rolled).await
}

fn hash_of(unit: &Unit) -> String {
    UnitFile { options: unit.options.clone() }.hash()
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

/// As it was before the rollout that is under way; `None`: nobody has kept that.
fn as_before(unit: &Unit) -> Option<Unit> {
    let Before { options, signature } = unit.before.clone()?;
    Some(Unit { options, signature, machines: None, before: None, ..unit.clone() })
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
            false => session.client.may_go_back(unit, session.client.signs.is_some())?,
        }
    }
    Ok(())
}

/// Its old file, where the new one of that hash stands; whoever never took part keeps what it has. False:
/// it has it already.
async fn give_back(client: &mut Client, old: &Unit, new: &str) -> Result<bool, Trouble> {
    let there = client.unit(&old.name).await?;
    let there = there.ok_or_else(|| Trouble::new("it was destroyed"))?;
    if hash_of(&there) == hash_of(old) {
        return Ok(false);
    }
    if hash_of(&there) != new {
        return Err(Trouble::new("another file was put there meanwhile, and stays"));
    }
    let machines = old.machines.iter().flatten().chain(there.machines.iter().flatten());
    let machines: BTreeSet<String> = machines.cloned().collect();
    let all_have_it = old.machines.is_none() || there.machines.is_none();
    let machines = (!all_have_it).then(|| machines.into_iter().collect());
    // What was wished meanwhile stands: it is the file that goes back.
    let desired_state =
        if there.desired_state.is_empty() { &old.desired_state } else { &there.desired_state };
    let old = Unit { desired_state: desired_state.clone(), ..old.clone() };
    client.put_back(&old, machines).await.map(|()| true)
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
                self.done.push(now.clone());
                say(&format!("Replacing {}", unit.name));
                self.replace(&now, None).await?;
                launched.extend((now.desired_state == "launched").then_some(now.name));
            }
            for name in launched {
                self.wait(&name, None).await?;
                say(&format!("Unit {name} runs the new file"));
            }
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
                self.done.extend(as_before(&unit));
                self.go_on(&unit, &running).await?;
                continue;
            }
            self.done.push(unit.clone());
            if running.is_empty() {
                self.replace(&unit, None).await?;
                say(&format!("Replaced {}, which runs nowhere", unit.name));
            } else {
                self.machine_by_machine(&unit, &running).await?;
            }
        }
        Ok(())
    }

    /// A global unit: some machines take its file, the others keep theirs until those have it up.
    async fn machine_by_machine(&mut self, unit: &Unit, running: &[String]) -> Result<(), Trouble> {
        let mut rest = running.chunks(self.batch());
        let first = rest.next().unwrap_or_default();
        say(&format!("Replacing {} on {}", unit.name, first.join(" ")));
        self.replace(unit, Some(first)).await?;
        self.wait(&unit.name, Some(first)).await?;
        self.spread_to(unit, first.to_vec(), rest).await
    }

    /// A rollout that was left in the middle: who has the new file keeps it, the others take it.
    async fn go_on(&mut self, unit: &Unit, running: &[String]) -> Result<(), Trouble> {
        let named = unit.machines.as_deref().unwrap_or_default();
        let have = |machine: &String| named.contains(machine);
        let (done, left): (Vec<String>, Vec<String>) = running.iter().cloned().partition(have);
        if !done.is_empty() {
            self.wait(&unit.name, Some(&done)).await?;
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
            self.spread(&unit.name, &done).await?;
            self.wait(&unit.name, Some(&done)).await?;
        }
        if !done.is_empty() {
            // What was there before is kept until all that was told of it is up.
            self.wait(&unit.name, Some(&done)).await?;
        }
        self.spread(&unit.name, &[]).await?;
        if !done.is_empty() {
            self.wait(&unit.name, None).await?;
        }
        say(&format!("Rolled out {} on {} machines", unit.name, self.seen.up.len()));
        Ok(())
    }

    /// It has the new file, on those machines first; where nobody answers it is asked again, for the
    /// same file is not put twice.
    async fn replace(&mut self, unit: &Unit, first: Option<&[String]>) -> Result<(), Trouble> {
        let desired = Some(unit.desired_state.parse().unwrap_or_default());
        let (limit, client, options) =
            (self.patience(), &mut self.session.client, &self.file.options);
        let put = async || match first {
            Some(first) => client.create_on(first, &unit.name, options, desired).await,
            None => client.create(&unit.name, options, desired).await,
        };
        answered(limit, put).await
    }

    async fn spread(&mut self, name: &str, machines: &[String]) -> Result<(), Trouble> {
        let (limit, client, options) =
            (self.patience(), &mut self.session.client, &self.file.options);
        answered(limit, async || client.spread(name, options, machines).await).await
    }

    /// What is said in the end; where it failed, what is done has its old file again.
    async fn ended(&mut self, rolled: Result<(), Trouble>) -> Result<u8, Trouble> {
        let Err(trouble) = rolled else { return Ok(0) };
        warn(&trouble.message);
        if self.what.no_rollback {
            return Err(Trouble::said());
        }
        let (limit, hash) = (self.patience(), self.file.hash());
        for old in self.done.iter().rev() {
            let client = &mut self.session.client;
            let back = answered(limit, async || give_back(client, old, &hash).await).await;
            match back {
                Ok(true) => warn(&format!("Unit {} has its old file again", old.name)),
                // The server refused the new file: the old one is still there.
                Ok(false) => {}
                Err(again) => warn(&format!("Unit {}: {}", old.name, again.message)),
            }
        }
        Err(Trouble::said())
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
