//! restart: sets units to loaded, and then to launched. Units that are not in the cluster are
//! submitted first. A global unit restarts everywhere at once; `rollout` does it gradually.

use super::arguments::Down;
use super::bring_down::known;
use super::creation;
use super::output::warn;
use super::progress;
use super::session::{Session, is_global};
use super::trouble::Trouble;
use super::waiting::{self, Outage, Patience};
use crate::desired::Desired;
use crate::wire::Unit;
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
    let (mut restarted, mut faults) = (Vec::new(), Vec::new());
    for unit in known(session, &what.units).await? {
        let name = unit.name.clone();
        if unit.desired_state == "inactive" {
            warn(&format!("Unable to restart unit {name} in state inactive"));
            continue;
        }
        let down = go_down(session, &unit, patience).await;
        // Launches the unit even if the first step failed or was not observed.
        let client = &mut session.client;
        let set_desired = async || client.set_desired(&name, Desired::Launched).await;
        match down.and(waiting::answered(patience.limit(), set_desired).await) {
            Ok(()) => restarted.push(name),
            Err(trouble) => faults.push(trouble.message),
        }
    }
    let patience = if blocks { patience } else { Patience::None };
    let up = waiting::until(session, &restarted, Desired::Launched, patience, "start").await;
    faults.extend(up.err().map(|trouble| trouble.message));
    match faults.is_empty() {
        true => Ok(0),
        false => Err(Trouble::new(faults.join("\n"))),
    }
}

/// Stops a running unit. A unit without a machine is not running.
async fn go_down(session: &mut Session, unit: &Unit, patience: Patience) -> Result<(), Trouble> {
    let is_nowhere = !is_global(unit) && unit.machine_id.is_empty();
    if unit.desired_state != "launched" || is_nowhere {
        return Ok(());
    }
    let (name, client) = (&unit.name, &mut session.client);
    let set_desired = async || client.set_desired(name, Desired::Loaded).await;
    waiting::answered(patience.limit(), set_desired).await?;
    match is_global(unit) {
        true => wait_for_no_active(session, name, patience).await,
        false => {
            let down = waiting::arrive(session, name, Desired::Loaded, patience, false).await;
            down.map(|_| ())
        }
    }
}

/// Waits until no machine runs the global unit.
async fn wait_for_no_active(
    session: &mut Session,
    name: &str,
    patience: Patience,
) -> Result<(), Trouble> {
    let began = Instant::now();
    let mut outage = Outage::default();
    loop {
        let up = |active: &str| ["active", "activating", "deactivating"].contains(&active);
        if let Some(states) = outage.bridged(session.client.states().await)? {
            let own = states.iter().filter(|state| state.name == name);
            let count = own.filter(|state| up(&state.systemd_active_state)).count();
            if count == 0 {
                return Ok(());
            }
            progress::show(name, &format!("waiting to be stopped, up on {count}"), began);
        }
        if patience.is_over(began) {
            return Err(Trouble::new(format!("timed out waiting for unit {name} to stop")));
        }
        sleep(LOOK).await;
    }
}
