//! Waits until a unit is active with its new file, or until the timeout.

use super::super::client::hash_of;
use super::super::output::say;
use super::super::session::is_global;
use super::super::trouble::Trouble;
use super::super::waiting::{Outage, has_run, text_with_reasons};
use super::Rolling;
use crate::wire::{Unit, UnitState};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const LOOK: Duration = Duration::from_millis(100);
/// A registered machine that does not report a global unit for this long no longer has it: it
/// drains, or its metadata has changed.
const SILENT: Duration = Duration::from_secs(5);

/// Runs of units on machines, by unit and machine.
pub(super) type Runs = BTreeMap<(String, String), String>;

/// The result of waiting for a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The unit is active.
    Up,
    /// The unit was stopped in the meantime.
    Stopped,
    /// The unit was destroyed.
    Gone,
}

/// The current progress.
enum Look {
    There(Arrival),
    /// The condition that the unit does not meet yet.
    Lacks(String),
}

/// Observations of one unit and, for a global unit, of its machines.
#[derive(Default)]
pub(super) struct Seen {
    /// True once fleetctl has printed that the unit was stopped.
    is_stop_reported: bool,
    /// Machines on which the new file was active.
    pub(super) up: BTreeSet<String>,
    /// Registered machines that do not report the unit, with the start of their silence.
    silent: BTreeMap<String, Instant>,
    /// Machines that no longer have the unit.
    off: BTreeSet<String>,
}

impl Rolling<'_> {
    /// Waits until the unit is active with the new file on its machine, on all machines for a
    /// global unit, or on the given ones. A unit that was stopped or destroyed in the meantime is
    /// reported and is no failure.
    pub(super) async fn wait(
        &mut self,
        name: &str,
        machines: Option<&[String]>,
    ) -> Result<Arrival, Trouble> {
        let patience = self.patience();
        let began = Instant::now();
        let mut outage = Outage::default();
        let mut last = String::from("no machine has reported it");
        while began.elapsed() < patience {
            match outage.bridged(self.look_at(name, machines).await)? {
                Some(Look::There(arrival)) => return Ok(self.note_arrival(name, arrival)),
                Some(Look::Lacks(what)) => last = what,
                None => {}
            }
            sleep(LOOK).await;
        }
        let seconds = patience.as_secs_f64();
        Err(Trouble::new(format!("unit {name} is not active after {seconds} s: {last}")))
    }

    /// Prints that a unit was stopped or destroyed. A destroyed unit is not restored.
    fn note_arrival(&mut self, name: &str, arrival: Arrival) -> Arrival {
        match arrival {
            Arrival::Up => {}
            Arrival::Stopped => {
                if !std::mem::replace(&mut self.seen.is_stop_reported, true) {
                    say(&format!("Unit {name} was stopped in the meantime; not waiting for it"));
                }
            }
            Arrival::Gone => self.forget_destroyed(name),
        }
        arrival
    }

    /// Checks that units stay active for a while, each in the run in which it came up.
    ///
    /// # Errors
    /// A unit was not active or was restarted.
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
                        self.note_arrival(&name, arrival);
                        names.retain(|one| *one != name);
                    }
                    None => is_known = false,
                }
            }
            if is_last && is_known {
                break;
            }
            if began.elapsed() >= span + self.patience() {
                return Err(Trouble::new(
                    "cannot check whether the new file stays active: no server answers",
                ));
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
        let unit = match self.launched_unit(name).await? {
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
                "restarted".to_string()
            } else {
                note_run(&mut self.runs, state);
                continue;
            };
            // The unit may be inactive because its desired state has changed.
            if let Err(arrival) = self.launched_unit(name).await? {
                return Ok(arrival);
            }
            let id = &state.machine_id;
            return Err(Trouble::new(format!("unit {name} came up on {id} and was then {fault}")));
        }
        Ok(Arrival::Up)
    }

    async fn look_at(&mut self, name: &str, machines: Option<&[String]>) -> Result<Look, Trouble> {
        let hash = self.file.hash();
        let unit = match self.launched_unit(name).await? {
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
            // The unit may have failed because it was stopped.
            if let Err(arrival) = self.launched_unit(name).await? {
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
        if let Some(due) = self.awaited_machine(name, silent).await? {
            return Ok(Look::Lacks(due));
        }
        // A global unit may be on no machine now.
        if up.len() == own.len() && (is_global(&unit) || !up.is_empty()) {
            return Ok(Look::There(Arrival::Up));
        }
        Ok(Look::Lacks(match self.session.client.why(name).await? {
            Some(why) if why.unplaceable => text_with_reasons(&why),
            _ => format!("{} of {} run the new file", up.len(), own.len()),
        }))
    }

    /// Returns the unit while it should run, or why it should not.
    ///
    /// # Errors
    /// The unit's file has changed.
    async fn launched_unit(&mut self, name: &str) -> Result<Result<Unit, Arrival>, Trouble> {
        let Some(unit) = self.session.client.unit(name).await? else {
            return Ok(Err(Arrival::Gone));
        };
        if hash_of(&unit) != self.file.hash() {
            return Err(Trouble::new(format!("the file of unit {name} has changed")));
        }
        Ok(if unit.desired_state == "launched" { Ok(unit) } else { Err(Arrival::Stopped) })
    }

    /// Returns one of the silent machines that fleetctl still waits for, and why it does not
    /// report. fleetctl also waits for a machine that disappeared before the new file was active
    /// there: the file may have brought the machine down.
    async fn awaited_machine(
        &mut self,
        name: &str,
        silent: Vec<String>,
    ) -> Result<Option<String>, Trouble> {
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
                let why =
                    if there.contains(&id) { "has not reported it" } else { "is not registered" };
                due = Some(format!("{id} {why}"));
            } else if self.seen.off.insert(id.clone()) {
                say(&format!("Unit {name} is no longer on {id}"));
            }
        }
        Ok(due)
    }
}

/// Returns true if the unit is active, or has run to its end.
fn is_up(state: &UnitState) -> bool {
    ["active", "reloading"].contains(&state.systemd_active_state.as_str()) || has_run(state)
}

/// Records the run of a unit. A unit that has run to its end may run again by its timer.
fn note_run(runs: &mut Runs, state: &UnitState) {
    let key = (state.name.clone(), state.machine_id.clone());
    let run = if has_run(state) { String::new() } else { state.run.clone() };
    let known = runs.entry(key).or_default();
    if known.is_empty() || run.is_empty() {
        *known = run;
    }
}
