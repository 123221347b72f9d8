//! drain and undrain: moves all units except global ones off a machine, or lets it take units
//! again.
//!
//! Before a drain, fleetctl runs the engine's [`Scheduler`] on the data of the API. It lists the
//! units that would stop because no other machine can have them. Then it asks for confirmation.

use super::arguments::{Drain, Machines};
use super::inspection::machine;
use super::output::{say, warn};
use super::progress;
use super::session::{Session, is_global, short};
use super::trouble::Trouble;
use super::waiting::Outage;
use crate::desired::Desired;
use crate::machine::{self, MachineId};
use crate::placement;
use crate::requirement::Requirement;
use crate::scheduler::Scheduler;
use crate::unit_file::UnitFile;
use crate::unit_name::UnitName;
use crate::wire::{Machine, Unit};
use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal, Read, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const LOOK: Duration = Duration::from_millis(250);
/// Maximum length of an answer in bytes.
const LONGEST_ANSWER: u64 = 100;
/// Maximum number of units in one message.
const NAMED: usize = 20;

pub(super) async fn undrain(session: &mut Session, what: &Machines) -> Result<u8, Trouble> {
    for named in &what.machines {
        let id = machine(session, named).await?;
        session.client.drain(&id, false).await?;
        say(&format!("Machine {id} takes units again"));
    }
    Ok(0)
}

pub(super) async fn drain(session: &mut Session, what: &Drain) -> Result<u8, Trouble> {
    let mut ids = Vec::new();
    for named in &what.machines.machines {
        ids.push(machine(session, named).await?);
    }
    let units = session.client.units().await?;
    let stopping = stopping(&units, session.machines().await?, &ids);
    if !stopping.is_empty() {
        let count = stopping.len();
        let (noun, verb) = if count == 1 { ("unit", "stops") } else { ("units", "stop") };
        let mut text = format!("{count} {noun} {verb}, because no other machine can have them:");
        for (name, why) in stopping.iter().take(NAMED) {
            text.push_str(&format!("\n  {name}: {why}"));
        }
        if count > NAMED {
            text.push_str(&format!("\n  and {} more", count - NAMED));
        }
        warn(&text);
        if !what.yes && !agreed()? {
            return Err(Trouble::new("nothing drained"));
        }
    }
    for id in &ids {
        session.client.drain(id, true).await?;
        say(&format!("Machine {id} is draining"));
    }
    if !what.wait {
        return Ok(0);
    }
    let limit = Duration::try_from_secs_f64(what.timeout).unwrap_or(Duration::MAX);
    let label = ids.iter().map(|id| short(id)).collect::<Vec<_>>().join(" ");
    progress::beside(&label, "waiting to be empty", wait_until_empty(session, &ids, limit)).await
}

/// Asks the user at the terminal.
///
/// # Errors
/// There is no terminal.
fn agreed() -> Result<bool, Trouble> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Trouble::new("nothing drained: use --yes to stop these units"));
    }
    let mut err = std::io::stderr().lock();
    let asked = err.write_all(b"Drain anyway (yes/no)? ").and_then(|()| err.flush());
    let mut answer = String::new();
    let read = stdin.lock().take(LONGEST_ANSWER).read_line(&mut answer);
    Ok(asked.is_ok() && read.is_ok() && matches!(answer.trim(), "yes" | "y"))
}

/// Returns the launched units on these machines that no other machine can have, with the reasons of
/// the remaining machines.
fn stopping(units: &[Unit], machines: &[Machine], drained: &[String]) -> Vec<(String, String)> {
    let mut scheduler = Scheduler::default();
    for one in machines {
        let Ok(id) = MachineId::new(&one.id) else { continue };
        let host = machine::Machine {
            ip: one.primary_ip.clone(),
            metadata: one.metadata.clone(),
            draining: one.draining || drained.contains(&one.id),
            ..machine::Machine::default()
        };
        scheduler.set_machine(&id, Some(host));
    }
    let mut on_them = Vec::new();
    for unit in units {
        let Ok(name) = UnitName::new(&unit.name) else { continue };
        let file = UnitFile { options: unit.options.clone() };
        let desired: Desired = unit.desired_state.parse().unwrap_or_default();
        if desired == Desired::Launched && drained.contains(&unit.machine_id) {
            on_them.push(name.clone());
        }
        let asks = Arc::new(Requirement::of(&file, Some(&name)));
        let on = MachineId::new(&unit.machine_id).ok();
        scheduler.set_unit(&name, Some(placement::Unit { asks, desired, machine: on, since: 0 }));
    }
    scheduler.decide();
    let nowhere = |name: &UnitName| {
        let unit = scheduler.units().get(name)?;
        if unit.machine.is_some() {
            return None;
        }
        let mut whys = Vec::new();
        for (id, why) in scheduler.refusals(name) {
            if !drained.iter().any(|drained| drained == id.as_str()) {
                whys.push(format!("{}: {why}", short(id.as_str())));
            }
        }
        let why = if whys.is_empty() { "no machine is left".into() } else { whys.join("; ") };
        Some((name.to_string(), why))
    };
    on_them.iter().filter_map(nowhere).collect()
}

/// Waits until these machines have no units except global ones, and publish no state of other
/// units.
async fn wait_until_empty(
    session: &mut Session,
    ids: &[String],
    limit: Duration,
) -> Result<u8, Trouble> {
    let began = Instant::now();
    let mut outage = Outage::default();
    loop {
        let seen = left(session, ids).await;
        let left = outage.bridged(seen)?;
        if left.as_ref().is_some_and(BTreeSet::is_empty) {
            for id in ids {
                say(&format!("Machine {id} is empty"));
            }
            return Ok(0);
        }
        if began.elapsed() >= limit {
            let names: Vec<String> = left.unwrap_or_default().into_iter().take(NAMED).collect();
            let seconds = limit.as_secs();
            return Err(Trouble::new(format!(
                "timed out after {seconds} s waiting for {}",
                names.join(" ")
            )));
        }
        sleep(LOOK.min(limit.saturating_sub(began.elapsed()))).await;
    }
}

/// Returns the units, except global ones, that have their place on these machines or a state there.
///
/// # Errors
/// One of the machines takes units again, because another client undrained it.
async fn left(session: &mut Session, ids: &[String]) -> Result<BTreeSet<String>, Trouble> {
    let units = session.client.units().await?;
    let states = session.client.states().await?;
    session.forget_machines();
    let back = |machine: &&Machine| ids.contains(&machine.id) && !machine.draining;
    if let Some(machine) = session.machines().await?.iter().find(back) {
        let words = format!("Machine {} is no longer draining: it takes units again", machine.id);
        return Err(Trouble::new(words));
    }
    let globals: BTreeSet<&str> =
        units.iter().filter(|unit| is_global(unit)).map(|unit| unit.name.as_str()).collect();
    let placed = units.iter().map(|unit| (&unit.name, &unit.machine_id));
    let published = states.iter().map(|state| (&state.name, &state.machine_id));
    let here = placed.chain(published).filter(|(_, on)| ids.contains(on));
    Ok(here.map(|(name, _)| name.clone()).filter(|name| !globals.contains(name.as_str())).collect())
}
