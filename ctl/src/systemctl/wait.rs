//! Waits as systemctl does: until each named unit has reached its requested state or failed.
//! `initctl --wait` waits for the whole system instead.

use crate::connection::Connection;
use crate::exit::{Error, Exit};
use crate::session::Session;
use groundstate_units::control::answer::{Cause, Event, Status, UnitStatus};
use groundstate_units::control::request::Verb;
use groundstate_units::machine::reason::State;
use groundstate_units::text::name::Name;
use std::collections::BTreeMap;
use std::time::Duration;

/// Without an event for this long, the states are polled.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The awaited state of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// The unit is active, in another run than this one.
    Up(Option<u64>),
    /// The unit is stopped.
    Down,
    /// The unit has reloaded its configuration.
    Reloaded,
}

/// An awaited unit.
#[derive(Clone, Debug)]
pub(super) struct Awaited {
    /// The unit's name.
    pub(super) unit: String,
    /// The number of its failures before the request.
    pub(super) attempt: u32,
    /// The awaited state.
    pub(super) aim: Aim,
}

/// An event listener, created before the change.
pub(super) struct Watch {
    events: Connection,
    /// The last failure of each unit.
    why: BTreeMap<String, String>,
}

impl Watch {
    /// Starts to listen.
    pub(super) fn begin(session: &Session) -> Result<Watch, Error> {
        let seq = session.init()?.map_or(0, |init| init.seq);
        let mut events = session.connect()?;
        events.begin(Verb::Events { follow: true, after: seq }, Some(POLL_INTERVAL))?;
        Ok(Watch { events, why: BTreeMap::new() })
    }

    /// Waits until all units are done. Returns those that failed, with reasons.
    pub(super) fn until(
        mut self,
        session: &Session,
        awaited: &[Awaited],
    ) -> Result<Vec<(UnitStatus, String)>, Error> {
        loop {
            let (status, _) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?;
            let mut moving = false;
            let mut failed = Vec::new();
            for one in awaited {
                let Some(unit) = status.units.iter().find(|unit| unit.unit == one.unit) else {
                    continue;
                };
                match outcome(unit, one) {
                    None => moving = true,
                    Some(true) => {}
                    Some(false) => failed.push((unit.clone(), self.cause(unit, one.aim))),
                }
            }
            if !moving {
                return Ok(failed);
            }
            match self.events.next::<Event>() {
                Ok(Some(Event { unit: Some(unit), reason: Some(why), .. })) => {
                    let waits = matches!(why.cause, Cause::Backoff { .. } | Cause::On { .. });
                    if !waits {
                        self.why.insert(unit, why.text);
                    }
                }
                Ok(Some(_)) => {}
                Err(Error::Failed(Exit::TimedOut, _)) | Ok(None) => {
                    self.events = Watch::begin(session)?.events;
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// Returns the cause of the failure; waiting for a retry is not one.
    fn cause(&self, unit: &UnitStatus, aim: Aim) -> String {
        if aim == Aim::Reloaded && unit.state.is_active() {
            return "its reload command failed".to_string();
        }
        let now = unit.reason.as_ref().filter(|why| !matches!(why.cause, Cause::Backoff { .. }));
        let now = now.map(|why| why.text.clone());
        now.or_else(|| self.why.get(&unit.unit).cloned())
            .unwrap_or_else(|| unit.reason.as_ref().map(|why| why.text.clone()).unwrap_or_default())
    }
}

/// Returns whether the unit has reached the awaited state, or `None` while it may still do so.
fn outcome(unit: &UnitStatus, awaited: &Awaited) -> Option<bool> {
    let up = !matches!(unit.state, State::Disabled | State::Waiting | State::Failed);
    match awaited.aim {
        Aim::Down => (!up).then_some(true),
        Aim::Reloaded => {
            let well = unit.state.is_active() && !unit.reload_failed;
            (unit.state != State::Reloading).then_some(well)
        }
        Aim::Up(before) => {
            if unit.state.is_active() {
                return (before.is_none() || unit.run != before).then_some(true);
            }
            let retrying = matches!(
                unit.reason.as_ref().map(|why| &why.cause),
                Some(Cause::Backoff { .. } | Cause::Config { .. })
            );
            let lost = unit.state == State::Failed
                || unit.attempt > awaited.attempt
                || (unit.state == State::Waiting && retrying)
                || (unit.state == State::Disabled && !unit.needed);
            lost.then_some(false)
        }
    }
}

/// Parses names for the control socket and drops invalid ones.
pub(super) fn names(units: &[String]) -> Vec<Name> {
    units.iter().filter_map(|unit| Name::new(unit).ok()).collect()
}
