//! All the machine knows of one unit: what is stored, and what is derived from it
//! and from the unit's neighbours. Derived values are kept up by
//! [`super::propagation`]; nothing else writes them.

use super::phase::Phase;
use crate::machine::reason::{Reason, State};
use crate::text::time::Time;
use crate::unit::generation::TargetId;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Cell {
    // --- stored ---
    pub(super) phase: Phase,
    /// Failures in a row.
    pub(super) failures: u32,
    /// When the last ones were, for a `restart-limit` with a span.
    pub(super) recent: VecDeque<Time>,
    /// Its failures count for others until it is active again.
    pub(super) verdict: bool,
    /// The last failure.
    pub(super) last: Option<Box<Reason>>,
    /// The last failure was of the run for a connection. It is told until somebody connects again,
    /// and no more than told: what is over is nobody's trouble.
    pub(super) connection_lost: bool,
    /// When the last failed run ended.
    pub(super) ended: Time,
    /// Since it became needed it has neither been active nor failed by itself.
    pub(super) untried: bool,
    /// A trigger that has fired, and whose activation has not ended.
    pub(super) triggered: bool,
    /// N had it only because a unit failed or exited, see [`super::needed_set::NeededSet::is_brought`].
    pub(super) brought: bool,

    // --- derived: by one search per change of goal or generation ---
    /// In N.
    pub(super) needed: bool,
    /// It lost against this target's unit, with which it may not be up.
    pub(super) conflict: Option<TargetId>,
    /// Its file can not be used.
    pub(super) broken: bool,
    /// Longest chain of needed units that waits for it.
    pub(super) rank: u32,

    // --- derived: kept up event by event ---
    /// Up, and has to stop.
    pub(super) must_stop: bool,
    /// Gates that keep it from starting.
    pub(super) closed_gates: u32,
    /// Hard dependencies that are failed or nobody's.
    pub(super) failed_deps: u32,
    /// Units that have to be down before it may be told to stop.
    pub(super) dependents_up: u32,
    /// What its neighbours were last told.
    pub(super) facets: u16,
    /// In the worklist.
    pub(super) queued: bool,
    /// In the list of units whose shown state may have changed.
    pub(super) touched: bool,
    /// In the list of units whose record may have changed.
    #[serde(skip)]
    pub(super) changed: bool,
    /// Last shown.
    pub(super) shown: State,
    /// Since when.
    pub(super) since: Time,
}

impl Cell {
    /// Of no unit.
    pub(super) fn empty() -> Cell {
        Cell::new(Time::ZERO)
    }

    pub(super) fn new(now: Time) -> Cell {
        Cell {
            phase: Phase::Idle,
            failures: 0,
            recent: VecDeque::new(),
            verdict: false,
            last: None,
            connection_lost: false,
            ended: Time::ZERO,
            untried: true,
            triggered: false,
            brought: false,
            needed: false,
            conflict: None,
            broken: false,
            rank: 0,
            must_stop: false,
            closed_gates: 0,
            failed_deps: 0,
            dependents_up: 0,
            facets: 0,
            queued: false,
            touched: false,
            changed: false,
            shown: State::Disabled,
            since: now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::run::Run;
    use crate::unit::generation::Unit;

    #[test]
    fn what_is_kept_of_each_unit_stays_small() {
        let sizes = [size_of::<Unit>(), size_of::<Cell>(), size_of::<Run>()];
        let most = [224, 176, 168];
        assert!(sizes.iter().zip(most).all(|(size, most)| *size <= most), "{sizes:?}");
    }
}
