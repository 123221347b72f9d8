//! submit, load, start: create missing units, set the desired state, wait.

use super::arguments::Up;
use super::creation;
use super::output::warn;
use super::session::Session;
use super::trouble::Trouble;
use super::waiting::{self, Patience};
use crate::desired::Desired;
use std::collections::BTreeSet;

pub(super) async fn submit(session: &mut Session, what: &Up) -> Result<u8, Trouble> {
    ensure_all(session, what, "submit").await?;
    Ok(0)
}

pub(super) async fn load(session: &mut Session, what: &Up) -> Result<u8, Trouble> {
    bring(session, what, Desired::Loaded, "load").await
}

pub(super) async fn start(session: &mut Session, what: &Up) -> Result<u8, Trouble> {
    bring(session, what, Desired::Launched, "start").await
}

/// Creates the missing units and returns all names without duplicates. An error does not undo
/// earlier units.
async fn ensure_all(
    session: &mut Session,
    what: &Up,
    command: &str,
) -> Result<Vec<String>, Trouble> {
    if what.units.is_empty() {
        warn("No units given");
    }
    if what.sign {
        warn("WARNING: The signed/verified units feature is deprecated and has no effect.");
    }
    let mut names = Vec::new();
    let mut seen = BTreeSet::new();
    for argument in &what.units {
        if seen.insert(creation::name_of(argument)) {
            let patience = what.waiting.patience();
            let name = creation::ensure(session, argument, what.replace, command, patience).await?;
            names.push(name);
        }
    }
    Ok(names)
}

async fn bring(
    session: &mut Session,
    what: &Up,
    desired: Desired,
    command: &str,
) -> Result<u8, Trouble> {
    let names = ensure_all(session, what, command).await?;
    let mut triggered = Vec::new();
    for name in names {
        let unit = session.client.unit(&name).await?;
        let unit = unit.ok_or_else(|| Trouble::new(format!("unit {name} was destroyed")))?;
        let desired_already = unit.desired_state == desired.as_str();
        if !desired_already {
            session.client.set_desired(&name, desired).await?;
        }
        let arrived = unit.current_state == desired.as_str() || super::session::is_global(&unit);
        if !desired_already || !arrived {
            triggered.push(name);
        }
    }
    let patience: Patience = what.waiting.patience();
    waiting::until(session, &triggered, desired, patience, command).await?;
    Ok(0)
}
