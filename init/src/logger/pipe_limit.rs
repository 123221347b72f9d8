//! Pipes of runs that are over and that somebody still has open: a process that was left, or one that was
//! handed the pipe by a unit. Each takes descriptors of the logger; so a unit has so many, and
//! those of its oldest runs are closed.

use super::limit;
use super::message::{Order, Report};
use super::supervisor::Handle;
use groundstate_units::machine::event::RunId;
use groundstate_units::text::name::Name;
use std::collections::BTreeMap;

/// Of the number of a pipe aside: unset, it is of a stream of a start.
const OF_A_START: u64 = 1 << 62;

/// The number of a pipe aside, from one that is counted down.
pub(crate) fn aside(number: u64, of_a_start: bool) -> RunId {
    RunId(if of_a_start { number & !OF_A_START } else { number })
}

/// What is known of it.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    /// Pipes made.
    made: usize,
    /// To be told with what the logger reports.
    pub(super) said: Vec<Report>,
}

impl Handle {
    /// One pipe more was made. From time to time all of them are looked at.
    pub(super) fn grew(&mut self) {
        self.crowd.made = self.crowd.made.wrapping_add(1);
        if !self.crowd.made.is_multiple_of(limit::PIPES_OF_A_UNIT) || self.link.is_none() {
            return;
        }
        let surplus = self.surplus();
        if surplus.is_empty() {
            return;
        }
        for (unit, runs) in surplus {
            for run in runs {
                self.close(run);
            }
            self.crowd.said.push(Report::Crowded(unit));
        }
        // Whoever writes there is to be told that nobody reads.
        self.repack();
    }

    /// What this holds is read, and then no more of it as this.
    pub(crate) fn close(&mut self, run: RunId) {
        self.order(&Order::Close(run));
        self.runs.remove(&run);
        self.untold.remove(&run);
    }

    /// Lets go of the read ends of runs that are not known any more.
    pub(super) fn repack(&mut self) {
        let runs = &self.runs;
        self.fresh.retain(|end| runs.contains_key(&end.run));
        self.stash.repack(|run| runs.contains_key(&run));
        self.dead = 0;
    }

    /// Of each unit that has too many, the oldest.
    pub(super) fn surplus(&self) -> Vec<(Name, Vec<RunId>)> {
        // What is not a run's own is counted down, and of two kinds: the streams of a main process
        // that lives are not the oldest of the lines beside it.
        let kind = |run: RunId| (run.0 > u64::MAX / 2, run.0 & OF_A_START);
        let mut of_unit: BTreeMap<(&Name, (bool, u64)), Vec<RunId>> = BTreeMap::new();
        for log in self.runs.values() {
            of_unit.entry((&log.unit, kind(log.run))).or_default().push(log.run);
        }
        let too_many = |((unit, (aside, _)), mut runs): ((&Name, (bool, u64)), Vec<RunId>)| {
            if aside {
                runs.reverse();
            }
            runs.truncate(runs.len().saturating_sub(limit::PIPES_OF_A_UNIT));
            (!runs.is_empty()).then(|| (unit.clone(), runs))
        };
        of_unit.into_iter().filter_map(too_many).collect()
    }
}
