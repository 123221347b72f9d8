//! Whether a unit has come up with its new file: asked again until it has, or its time is over.

use super::super::client::hash_of;
use super::super::output::say;
use super::super::session::is_global;
use super::super::trouble::Trouble;
use super::super::waiting::{Outage, has_run, told_reasons};
use super::Rolling;
use crate::wire::{Unit, UnitState};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const LOOK: Duration = Duration::from_millis(100);
/// A machine that is there and says nothing of a global unit for as long does not have it any more: it is
/// drained, or another by its metadata.
const SILENT: Duration = Duration::from_secs(5);

/// Runs of units on machines, by the names of both.
pub(super) type Runs = BTreeMap<(String, String), String>;

/// How waiting for a unit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It is active.
    Up,
    /// It is not to be, by now: another has stopped it.
    Unwished,
    /// Another has destroyed it.
    Gone,
}

/// How far it is.
enum Look {
    There(Arrival),
    /// What is missing until it is active.
    Lacks(String),
}

/// What was seen of the unit that is waited for, and of the machines of a global one.
#[derive(Default)]
pub(super) struct Seen {
    /// That it is not to run any more was said.
    unwished: bool,
    /// Those that had the new file up.
    pub(super) up: BTreeSet<String>,
    /// Those that are there and say nothing of it, and since when.
    silent: BTreeMap<String, Instant>,
    /// Those that do not have it any more.
    off: BTreeSet<String>,
}

impl Rolling<'_> {
    /// Active with that file: everywhere it runs, for a global unit, or on those machines. What others wish
    /// or destroy meanwhile is no failure of it, and is said.
    pub(super) async fn wait(
        &mut self,
        name: &str,
        machines: Option<&[String]>,
    ) -> Result<Arrival, Trouble> {
        let patience = self.patience();
        let began = Instant::now();
        let mut outage = Outage::default();
        let mut last = String::from("no machine says anything of it");
        while began.elapsed() < patience {
            match outage.bridged(self.look_at(name, machines).await)? {
                Some(Look::There(arrival)) => return Ok(self.arrived(name, arrival)),
                Some(Look::Lacks(what)) => last = what,
                None => {}
            }
            sleep(LOOK).await;
        }
        let seconds = patience.as_secs_f64();
        Err(Trouble::new(format!("unit {name} is not active after {seconds} s: {last}")))
    }

    fn arrived(&mut self, name: &str, arrival: Arrival) -> Arrival {
        match arrival {
            Arrival::Up => {}
            Arrival::Unwished => {
                if !std::mem::replace(&mut self.seen.unwished, true) {
                    say(&format!("Unit {name} is not to run any more, and is not waited for"));
                }
            }
            Arrival::Gone => self.leave_out(name),
        }
        arrival
    }

    /// Units that are up stay so for a while, each in the run in which it came up.
    ///
    /// # Errors
    /// One of them was not active, or was started again.
    pub(super) async fn stay_healthy(
        &mut self,
        mut names: Vec<String>,
        machines: Option<&[String]>,
    ) -> Result<(), Trouble> {
        let span = Duration::try_from_secs_f64(self.what.healthy_for).unwrap_or(Duration::ZERO);
        let (began, mut outage) = (Instant::now(), Outage::default());
        while !names.is_empty() && !span.is_zero() {
            let is_last = began.elapsed() >= span;
            let mut is_known = true;
            for name in names.clone() {
                match outage.bridged(self.is_healthy(&name, machines).await)? {
                    Some(Arrival::Up) => {}
                    Some(arrival) => {
                        self.arrived(&name, arrival);
                        names.retain(|one| *one != name);
                    }
                    None => is_known = false,
                }
            }
            if is_last && is_known {
                break;
            }
            if began.elapsed() >= span + self.patience() {
                return Err(Trouble::new("nobody says whether the new file stays up"));
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    async fn is_healthy(
        &mut self,
        name: &str,
        machines: Option<&[String]>,
    ) -> Result<Arrival, Trouble> {
        let unit = match self.as_wished(name).await? {
            Ok(unit) => unit,
            Err(arrival) => return Ok(arrival),
        };
        let all = self.session.client.states().await?;
        let here = |machine: &str| match machines {
            Some(some) => some.iter().any(|one| one == machine),
            None => is_global(&unit) || machine == unit.machine_id,
        };
        let hash = self.file.hash();
        let own = all.iter().filter(|state| state.name == name && here(&state.machine_id));
        for state in own.filter(|state| state.hash == hash) {
            let key = (name.to_string(), state.machine_id.clone());
            let before = self.runs.get(&key).filter(|run| !run.is_empty());
            let fault = if !is_up(state) {
                format!("{} ({})", state.systemd_active_state, state.systemd_sub_state)
            } else if before.is_some_and(|run| !state.run.is_empty() && *run != state.run) {
                "started anew".to_string()
            } else {
                note_run(&mut self.runs, state);
                continue;
            };
            // It may be on its way down, as another wished.
            if let Err(arrival) = self.as_wished(name).await? {
                return Ok(arrival);
            }
            let id = &state.machine_id;
            return Err(Trouble::new(format!("unit {name} came up on {id} and was then {fault}")));
        }
        Ok(Arrival::Up)
    }

    async fn look_at(&mut self, name: &str, machines: Option<&[String]>) -> Result<Look, Trouble> {
        let hash = self.file.hash();
        let unit = match self.as_wished(name).await? {
            Ok(unit) => unit,
            Err(arrival) => return Ok(Look::There(arrival)),
        };
        let client = &mut self.session.client;
        let all = client.states().await?;
        let here = |machine: &str| match machines {
            Some(some) => some.iter().any(|one| one == machine),
            None => is_global(&unit) || machine == unit.machine_id,
        };
        let own = all.iter().filter(|state| state.name == name && here(&state.machine_id));
        let own: Vec<_> = own.collect();
        let new = own.iter().filter(|state| state.hash == hash);
        if let Some(failed) = new.clone().find(|state| state.systemd_active_state == "failed") {
            // It may have failed in being stopped.
            if let Err(arrival) = self.as_wished(name).await? {
                return Ok(Look::There(arrival));
            }
            let (id, sub) = (&failed.machine_id, &failed.systemd_sub_state);
            return Err(Trouble::new(format!("unit {name} failed on {id} ({sub})")));
        }
        let up: Vec<&UnitState> = new.copied().filter(|state| is_up(state)).collect();
        up.iter().for_each(|state| note_run(&mut self.runs, state));
        let up: Vec<String> = up.into_iter().map(|state| state.machine_id.clone()).collect();
        let says = |id: &String| own.iter().any(|state| state.machine_id == *id);
        let silent = machines.into_iter().flatten().filter(|id| !says(id)).cloned().collect();
        self.seen.up.extend(up.iter().cloned());
        if let Some(due) = self.due(name, silent).await? {
            return Ok(Look::Lacks(due));
        }
        // A global unit may be on no machine by now.
        if up.len() == own.len() && (is_global(&unit) || !up.is_empty()) {
            return Ok(Look::There(Arrival::Up));
        }
        Ok(Look::Lacks(match self.session.client.why(name).await? {
            Some(why) if why.unplaceable => told_reasons(&why),
            _ => format!("{} of {} run the new file", up.len(), own.len()),
        }))
    }

    /// The unit, as long as it is to run; else what became of it.
    ///
    /// # Errors
    /// It has another file.
    async fn as_wished(&mut self, name: &str) -> Result<Result<Unit, Arrival>, Trouble> {
        let Some(unit) = self.session.client.unit(name).await? else {
            return Ok(Err(Arrival::Gone));
        };
        if hash_of(&unit) != self.file.hash() {
            return Err(Trouble::new(format!("unit {name} has another file by now")));
        }
        Ok(if unit.desired_state == "launched" { Ok(unit) } else { Err(Arrival::Unwished) })
    }

    /// Of machines that say nothing of it one that is to, and why it does not. One that has left is not
    /// waited for if it had the new file up: it may be the file that it fell by.
    async fn due(&mut self, name: &str, silent: Vec<String>) -> Result<Option<String>, Trouble> {
        self.seen.silent.retain(|id, _| silent.contains(id));
        self.seen.off.retain(|id| silent.contains(id));
        if silent.iter().all(|id| self.seen.off.contains(id)) {
            return Ok(None);
        }
        let there = self.session.client.machines().await?;
        let there: BTreeSet<String> = there.into_iter().map(|machine| machine.id).collect();
        let mut due = None;
        for id in silent {
            let is_off = match there.contains(&id) {
                true => {
                    let since = self.seen.silent.entry(id.clone()).or_insert_with(Instant::now);
                    since.elapsed() >= SILENT
                }
                false => self.seen.up.contains(&id),
            };
            if !is_off {
                let why = if there.contains(&id) { "says nothing of it" } else { "is not there" };
                due = Some(format!("{id} {why}"));
            } else if self.seen.off.insert(id.clone()) {
                say(&format!("Unit {name} is not on {id} any more"));
            }
        }
        Ok(due)
    }
}

/// It is active, or has run to its end.
fn is_up(state: &UnitState) -> bool {
    ["active", "reloading"].contains(&state.systemd_active_state.as_str()) || has_run(state)
}

/// A unit that has run to its end may run again, as its timer says.
fn note_run(runs: &mut Runs, state: &UnitState) {
    let key = (state.name.clone(), state.machine_id.clone());
    let run = if has_run(state) { String::new() } else { state.run.clone() };
    let known = runs.entry(key).or_default();
    if known.is_empty() || run.is_empty() {
        *known = run;
    }
}
