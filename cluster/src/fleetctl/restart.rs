//! restart: down to loaded, and only then up again. What is not in the cluster is put there, as
//! submit does, or is a mistake. A global unit goes down and up everywhere at once; a few at a
//! time is `rollout`'s.

use super::arguments::Down;
use super::bring_down::known;
use super::creation;
use super::session::{Session, is_global, warn};
use super::trouble::Trouble;
use super::waiting::{self, Patience};
use crate::desired::Desired;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const LOOK: Duration = Duration::from_millis(50);

pub(super) async fn restart(session: &mut Session, what: &Down) -> Result<u8, Trouble> {
    let mut patience = what.waiting.patience();
    let blocks = patience != Patience::None;
    if !blocks {
        patience = Patience::Endless;
    }
    for argument in &what.units {
        creation::ensure(session, argument, false, "restart", patience).await?;
    }
    let mut restarted = Vec::new();
    for unit in known(session, &what.units).await? {
        let name = unit.name.clone();
        if unit.desired_state == "inactive" {
            warn(&format!("Unable to restart unit {name} in state inactive"));
            continue;
        }
        if unit.desired_state == "launched" {
            session.client.wish(&name, Desired::Loaded).await?;
            if is_global(&unit) {
                wait_for_no_active(session, &name, patience).await?;
            } else {
                waiting::arrive(session, &name, Desired::Loaded, patience, false).await?;
            }
        }
        session.client.wish(&name, Desired::Launched).await?;
        restarted.push(name);
    }
    let patience = if blocks { patience } else { Patience::None };
    waiting::until(session, &restarted, Desired::Launched, patience, "start").await?;
    Ok(0)
}

/// No machine runs that global unit any more.
async fn wait_for_no_active(
    session: &mut Session,
    name: &str,
    patience: Patience,
) -> Result<(), Trouble> {
    let began = Instant::now();
    loop {
        let states = session.client.states().await?;
        let up = |active: &str| ["active", "activating", "deactivating"].contains(&active);
        let mut own = states.iter().filter(|state| state.name == name);
        if !own.any(|state| up(&state.systemd_active_state)) {
            return Ok(());
        }
        if let Patience::Attempts(attempts) = patience
            && began.elapsed() >= waiting::ATTEMPT * attempts
        {
            return Err(Trouble::new(format!("timed out waiting for unit {name} to stop")));
        }
        sleep(LOOK).await;
    }
}
