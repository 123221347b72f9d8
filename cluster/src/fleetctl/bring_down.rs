//! stop, unload, destroy: what takes units down. A name that is not there is no mistake.

use super::arguments::Down;
use super::session::{Session, is_global, say, warn};
use super::trouble::Trouble;
use super::waiting::{self, Outage, Patience};
use crate::desired::Desired;
use crate::unit_name::mangle;
use crate::wire::Unit;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const LOOK: Duration = Duration::from_millis(50);

/// The units that are there, of those named.
pub(super) async fn known(session: &mut Session, named: &[String]) -> Result<Vec<Unit>, Trouble> {
    if named.is_empty() {
        warn("No units given");
        return Ok(Vec::new());
    }
    let mut found: Vec<Unit> = Vec::new();
    for argument in named {
        let name = name_of(argument);
        if found.iter().all(|unit| unit.name != name) {
            found.extend(session.client.unit(&name).await?);
        }
    }
    if found.is_empty() {
        warn("Units not found in registry");
    }
    Ok(found)
}

/// A native file's name means its unit.
pub(super) fn name_of(argument: &str) -> String {
    match crate::native_unit::stem(argument.rsplit('/').next().unwrap_or(argument)) {
        Some(_) => super::creation::name_of(argument),
        None => mangle(argument),
    }
}

pub(super) async fn stop(session: &mut Session, what: &Down) -> Result<u8, Trouble> {
    let mut stopping = Vec::new();
    for unit in known(session, &what.units).await? {
        if !is_global(&unit) {
            if unit.current_state == "inactive" {
                let name = &unit.name;
                return Err(Trouble::new(format!("Unable to stop unit {name} in state inactive")));
            }
            if unit.desired_state == "loaded" && unit.current_state == "loaded" {
                continue;
            }
        } else if unit.desired_state != "launched" {
            continue;
        }
        session.client.wish(&unit.name, Desired::Loaded).await?;
        stopping.push(unit.name);
    }
    finish(session, what, &stopping, Desired::Loaded, "stop", "stopped").await
}

pub(super) async fn unload(session: &mut Session, what: &Down) -> Result<u8, Trouble> {
    let mut unloading = Vec::new();
    for unit in known(session, &what.units).await? {
        if unit.desired_state != "inactive" {
            session.client.wish(&unit.name, Desired::Inactive).await?;
            unloading.push(unit.name);
        }
    }
    finish(session, what, &unloading, Desired::Inactive, "unload", "unloaded").await
}

async fn finish(
    session: &mut Session,
    what: &Down,
    names: &[String],
    wished: Desired,
    command: &str,
    done: &str,
) -> Result<u8, Trouble> {
    if names.is_empty() {
        return Ok(0);
    }
    waiting::until(session, names, wished, what.waiting.patience(), command).await?;
    if !what.waiting.no_block {
        warn(&format!("Successfully {done} units [{}].", names.join(" ")));
    }
    Ok(0)
}

pub(super) async fn destroy(session: &mut Session, what: &Down) -> Result<u8, Trouble> {
    if what.units.is_empty() {
        warn("No units given");
    }
    let mut faults = Vec::new();
    for argument in &what.units {
        let name = name_of(argument);
        match session.client.destroy(&name).await {
            Ok(there) => {
                let gone = match there {
                    true => wait_until_gone(session, &name, what.waiting.patience()).await,
                    false => Ok(()),
                };
                match gone {
                    Ok(()) => say(&format!("Destroyed {name}")),
                    Err(trouble) => faults.push(trouble.message),
                }
            }
            Err(trouble) => faults.push(format!("Error destroying units: {}", trouble.message)),
        }
    }
    match faults.is_empty() {
        true => Ok(0),
        false => Err(Trouble::new(faults.join("\n"))),
    }
}

async fn wait_until_gone(
    session: &mut Session,
    name: &str,
    patience: Patience,
) -> Result<(), Trouble> {
    if patience == Patience::None {
        return Ok(());
    }
    let began = Instant::now();
    let mut outage = Outage::default();
    while outage.bridged(session.client.unit(name).await)? != Some(None) {
        if patience.is_over(began) {
            return Err(Trouble::new(format!("timed out waiting for unit {name} to be destroyed")));
        }
        sleep(LOOK).await;
    }
    Ok(())
}
