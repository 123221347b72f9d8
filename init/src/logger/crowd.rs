//! Pipes of runs that are over and that somebody still has open: a process that was left, or one that was
//! handed the pipe by a unit. Each takes descriptors of the logger; so a unit has so many, and
//! those of its oldest runs are closed.

use super::handle::Handle;
use super::limit;
use super::message::{Order, Report};
use groundstate_units::machine::event::RunId;
use groundstate_units::name::Name;
use std::collections::BTreeMap;

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
        for (unit, runs) in self.surplus() {
            for run in runs {
                self.order(&Order::Close(run));
            }
            self.crowd.said.push(Report::Crowded(unit));
        }
    }

    /// Of each unit that has too many, the oldest.
    pub(super) fn surplus(&self) -> Vec<(Name, Vec<RunId>)> {
        // Lines outside of a start have numbers of their own, which are counted down.
        let is_outside = |run: RunId| run.0 > u64::MAX / 2;
        let mut of_unit: BTreeMap<(&Name, bool), Vec<RunId>> = BTreeMap::new();
        for log in self.runs.values() {
            of_unit.entry((&log.unit, is_outside(log.run))).or_default().push(log.run);
        }
        let too_many = |((unit, outside), mut runs): ((&Name, bool), Vec<RunId>)| {
            if outside {
                runs.reverse();
            }
            runs.truncate(runs.len().saturating_sub(limit::PIPES_OF_A_UNIT));
            (!runs.is_empty()).then(|| (unit.clone(), runs))
        };
        of_unit.into_iter().filter_map(too_many).collect()
    }
}
