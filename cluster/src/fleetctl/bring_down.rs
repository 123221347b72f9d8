//! stop, unload, destroy: commands that take units down. An unknown unit is not an error.

use super::arguments::Down;
use super::output::{say, warn};
use super::session::{Session, is_global};
use super::trouble::Trouble;
use super::waiting::{self, Outage, Patience};
use crate::desired::Desired;
use crate::unit_name::mangle;
use crate::wire::Unit;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const LOOK: Duration = Duration::from_millis(50);

/// Returns the named units that exist.
pub(super) async fn known(session: &mut Session, named: &[String]) -> Result<Vec<Unit>, Trouble> {
    if named.is_empty() {
        warn("No units given");
        return Ok(Vec::new());
    }
    let mut found: Vec<Unit> = Vec::new();
    let mut absent = Vec::new();
    for argument in named {
        let name = name_of(argument);
        if found.iter().all(|unit| unit.name != name) {
            match session.client.unit(&name).await? {
                Some(unit) => found.push(unit),
                None => absent.push(name),
            }
        }
    }
    warn_of_unknown(&absent, found.is_empty());
    Ok(found)
}

/// Warns about unknown units. If other units of the command exist, the warning names each unknown
/// one, because its name may be a typing error.
fn warn_of_unknown(absent: &[String], none_is_there: bool) {
    if none_is_there {
        warn("Units not found in registry");
        return;
    }
    for name in absent {
        warn(&format!("Unit {name} does not exist."));
    }
}

/// Returns the unit name of an argument; a native file stands for its unit.
pub(super) fn name_of(argument: &str) -> String {
    match crate::native_unit::stem(argument.rsplit('/').next().unwrap_or(argument)) {
        Some(_) => super::creation::name_of(argument),
        None => mangle(argument),
    }
}

pub(super) async fn stop(session: &mut Session, what: &Down) -> Result<u8, Trouble> {
    let known = known(session, &what.units).await?;
    let mut stopping = Vec::new();
    for unit in &known {
        if !is_global(unit) {
            if unit.current_state == "inactive" {
                let name = &unit.name;
                return Err(Trouble::new(format!("Unable to stop unit {name} in state inactive")));
            }
            if unit.desired_state == "loaded" && unit.current_state == "loaded" {
                continue;
            }
        }
        if !is_global(unit) || unit.desired_state == "launched" {
            session.client.set_desired(&unit.name, Desired::Loaded).await?;
        }
        stopping.push(unit);
    }
    finish(session, what, &stopping, Desired::Loaded, "stop").await?;
    Ok(report(&known, &stopping, "stopped"))
}

pub(super) async fn unload(session: &mut Session, what: &Down) -> Result<u8, Trouble> {
    let known = known(session, &what.units).await?;
    let mut unloading = Vec::new();
    for unit in known.iter().filter(|unit| unit.desired_state != "inactive") {
        session.client.set_desired(&unit.name, Desired::Inactive).await?;
        unloading.push(unit);
    }
    finish(session, what, &unloading, Desired::Inactive, "unload").await?;
    Ok(report(&known, &unloading, "unloaded"))
}

async fn finish(
    session: &mut Session,
    what: &Down,
    units: &[&Unit],
    desired: Desired,
    command: &str,
) -> Result<(), Trouble> {
    let names: Vec<String> = units.iter().map(|unit| unit.name.clone()).collect();
    waiting::until(session, &names, desired, what.waiting.patience(), command).await
}

/// Prints fleet's final message, without global units, which the command does not wait for.
fn report(known: &[Unit], changed: &[&Unit], done: &str) -> u8 {
    if !known.is_empty() {
        let names = changed.iter().filter(|unit| !is_global(unit)).map(|unit| unit.name.as_str());
        warn(&format!("Successfully {done} units [{}].", names.collect::<Vec<_>>().join(" ")));
    }
    0
}

pub(super) async fn destroy(session: &mut Session, what: &Down) -> Result<u8, Trouble> {
    if what.units.is_empty() {
        warn("No units given");
    }
    let (mut faults, mut absent) = (Vec::new(), Vec::new());
    for argument in &what.units {
        let name = name_of(argument);
        match destroy_one(session, &name, what.waiting.patience()).await {
            Ok(Some(after)) => say(&format!("Destroyed {name}{after}")),
            Ok(None) => absent.push(name),
            Err(trouble) => faults.push(trouble.message),
        }
    }
    if !absent.is_empty() {
        warn_of_unknown(&absent, absent.len() == what.units.len());
    }
    match faults.is_empty() {
        true => Ok(0),
        false => Err(Trouble::new(faults.join("\n"))),
    }
}

/// Destroys a unit. Returns a suffix for the message, or `None` if the unit did not exist.
async fn destroy_one(
    session: &mut Session,
    name: &str,
    patience: Patience,
) -> Result<Option<&'static str>, Trouble> {
    let created = match patience {
        Patience::None => 0,
        // The request itself finds out whether the unit exists.
        Patience::Attempts(_) | Patience::Endless => {
            created(session, name).await.ok().flatten().unwrap_or_default()
        }
    };
    let failure = |trouble: Trouble| format!("Error destroying units: {}", trouble.message);
    let there =
        session.client.destroy(name).await.map_err(|trouble| Trouble::new(failure(trouble)))?;
    if !there || patience == Patience::None {
        return Ok(there.then_some(""));
    }
    wait_until_gone(session, name, created, patience).await.map(Some)
}

/// Returns the revision that created the unit, or `None` if it does not exist. The revision is 0 if
/// the server does not report it.
async fn created(session: &mut Session, name: &str) -> Result<Option<i64>, Trouble> {
    Ok(session.client.why(name).await?.map(|why| why.created))
}

/// Waits until the unit is gone, or a new one has its name.
async fn wait_until_gone(
    session: &mut Session,
    name: &str,
    destroyed: i64,
    patience: Patience,
) -> Result<&'static str, Trouble> {
    let began = Instant::now();
    let mut outage = Outage::default();
    loop {
        match outage.bridged(session.client.unit(name).await)? {
            Some(None) => return Ok(""),
            Some(Some(_)) if destroyed > 0 => {
                let now = outage.bridged(created(session, name).await)?.flatten();
                if now.is_some_and(|now| now > destroyed) {
                    return Ok("; a new unit has the same name");
                }
            }
            Some(Some(_)) | None => {}
        }
        if patience.is_over(began) {
            return Err(Trouble::new(format!("timed out waiting for unit {name} to be destroyed")));
        }
        sleep(LOOK).await;
    }
}
