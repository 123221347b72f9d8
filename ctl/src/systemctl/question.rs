//! `is-active`, `is-failed`, `is-system-running`: one word per line, and an exit status.

use super::enablement::Enablement;
use super::snapshot::{Found, Snapshot, session_of};
use super::words::Asked;
use super::{FAILED, NO_SUCH_UNIT, NOT_RUNNING, Outcome};
use crate::session;
use groundstate_units::control::answer::{Settled, System};
use groundstate_units::control::request::Verb;

/// `is-active`: exits 0 if any unit is active, else 3; 4 if none is known.
pub(super) fn is_active(asked: &Asked) -> Outcome {
    ask(asked, &["active", "reloading"])
}

/// `is-failed`: exits 0 if any unit has failed, else 1; 4 if none is known.
pub(super) fn is_failed(asked: &Asked) -> Outcome {
    let exit = ask(asked, &["failed"])?;
    Ok(if exit == NOT_RUNNING { FAILED } else { exit })
}

fn ask(asked: &Asked, good: &[&str]) -> Outcome {
    let session = session_of(asked.user);
    let snapshot = Snapshot::take(&session)?;
    let (mut any, mut known) = (false, false);
    for found in snapshot.chosen(&asked.names) {
        let word = match found {
            Found::Unit(unit) => {
                known = true;
                snapshot.shown(unit).active
            }
            Found::Unknown(name) => {
                known |= Enablement::of(&session, None)?.find(&name).is_some();
                "inactive"
            }
        };
        any |= good.contains(&word);
        if !asked.quiet {
            session::print(word)?;
        }
    }
    Ok(match (any, known) {
        (true, _) => 0,
        (false, true) => NOT_RUNNING,
        (false, false) => NO_SUCH_UNIT,
    })
}

/// `is-system-running`.
pub(super) fn is_system_running(asked: &Asked) -> Outcome {
    let session = session_of(asked.user);
    if asked.wait {
        session.connect()?.ask_within::<Settled>(&Verb::Wait {}, None)?;
    }
    let snapshot = Snapshot::take(&session)?;
    let word = system_word(snapshot.status.system);
    if !asked.quiet {
        session::print(word)?;
    }
    Ok(if word == "running" { 0 } else { FAILED })
}

/// Returns the word for the system state; systemd has none for a failed goal.
pub(super) fn system_word(system: System) -> &'static str {
    match system {
        System::Running => "running",
        System::Starting => "starting",
        System::Stopping => "stopping",
        System::Degraded | System::Failed => "degraded",
    }
}
