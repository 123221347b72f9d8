//! The machine's data about one unit: stored fields, and fields derived from these and from the
//! unit's neighbours. [`super::recompute`] computes the derived fields from scratch;
//! [`super::propagation`] updates them event by event.

use super::phase::Phase;
use crate::machine::reason::{Reason, State};
use crate::text::time::Time;
use crate::unit::generation::TargetId;
use std::collections::VecDeque;

/// One unit, or one removed unit whose run is not over.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    // --- stored ---
    pub(super) phase: Phase,
    /// Consecutive failures.
    pub(super) failures: u32,
    /// Times of the last failures, for a `restart-limit` with a time span.
    pub(super) recent: VecDeque<Time>,
    /// The unit counts as failed for its dependents until it is active again.
    pub(super) verdict: bool,
    /// Reason of the last failure.
    pub(super) last: Option<Box<Reason>>,
    /// The last failure was that of a run for one connection. It is shown until the next connection
    /// comes, and never counted.
    pub(super) connection_lost: bool,
    /// End of the last failed run.
    pub(super) ended: Time,
    /// Since the unit became needed, it has neither been active nor failed by itself.
    pub(super) untried: bool,
    /// The unit is a trigger that has fired and whose activation has not ended, or it has a
    /// connection.
    pub(super) triggered: bool,
    /// The unit is needed only because another unit failed or exited, see
    /// [`super::needed_set::NeededSet::is_brought`].
    pub(super) brought: bool,

    // --- derived: by one search per change of goal or generation ---
    /// The unit is in the needed set N.
    pub(super) needed: bool,
    /// The unit lost a conflict against the provider of this target.
    pub(super) conflict: Option<TargetId>,
    /// The unit's file is unusable.
    pub(super) broken: bool,
    /// Length of the longest chain of needed units that waits for this unit.
    pub(super) rank: u32,

    // --- derived: kept up event by event ---
    /// The unit is up and has to stop.
    pub(super) must_stop: bool,
    /// Number of dependencies that keep the unit from starting.
    pub(super) closed_gates: u32,
    /// Number of hard dependencies that are failed or have no provider.
    pub(super) failed_deps: u32,
    /// Number of units that must be down before this one may be told to stop.
    pub(super) dependents_up: u32,
    /// The facets its neighbours have last seen.
    pub(super) facets: u16,

    // --- lists that have the unit ---
    /// The unit is in the worklist.
    pub(super) queued: bool,
    /// The unit is in the list of units whose shown state may have changed.
    pub(super) touched: bool,
    /// The unit is in the list of units whose record may have changed.
    pub(super) changed: bool,

    // --- stored: the last note ---
    /// The last shown state.
    pub(super) shown: State,
    /// Start of the last shown state.
    pub(super) since: Time,
}

impl Cell {
    /// The cell that belongs to no unit.
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
    fn memory_of_a_unit_its_cell_and_its_run_is_bounded() {
        let sizes = [size_of::<Unit>(), size_of::<Cell>(), size_of::<Run>()];
        let most = [224, 176, 168];
        assert!(sizes.iter().zip(most).all(|(size, most)| *size <= most), "{sizes:?}");
    }
}
