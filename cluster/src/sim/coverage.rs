//! Counts what happened in the schedules, by kind. A fault that never happened proves nothing, so
//! each kind has a minimum count.

use std::collections::BTreeMap;
use std::fmt;

/// Every kind of fault and deed in random schedules; a long run fails if one is too rare.
pub const KINDS: &[&str] = &[
    "answer lost, write done",
    "answer lost, write not done",
    "write arrived late",
    "call refused",
    "machine cut off",
    "cut off with one member",
    "requests lost, one way",
    "answers lost, one way",
    "machine paused",
    "machine paused beyond its lease",
    "leader paused beyond its lease",
    "fleetd crashed",
    "machine crashed",
    "machine left",
    "clone of a machine",
    "clone refused",
    "quorum lost",
    "watch broken",
    "watch silent",
    "watch repeated",
    "compacted",
    "init away",
    "init's answer lost",
    "lease revoked by operator",
    "another etcd answered",
    "incomplete readings",
    "units withheld",
    "unit signed",
    "unit wrongly signed",
    "lease expired",
    "leader changed",
    "write refused by a condition",
    "exclusive unit given up",
    "unit created",
    "unit replaced",
    "unit destroyed",
    "desired state changed",
    "metadata changed",
    "machine drained",
    "unit moved",
    "follower moved",
    "unit displaced",
    "unit unplaced",
    "template refused",
];

/// Counters of a run.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Schedules played.
    pub schedules: u64,
    /// Polls of tasks.
    pub polls: u64,
    /// Committed writes.
    pub writes: u64,
    counts: BTreeMap<&'static str, u64>,
}

impl Coverage {
    /// Counts one occurrence.
    pub fn count(&mut self, kind: &'static str) {
        *self.counts.entry(kind).or_default() += 1;
    }

    /// Adds another run's counters.
    pub fn add(&mut self, other: &Coverage) {
        self.schedules += other.schedules;
        self.polls += other.polls;
        self.writes += other.writes;
        for (kind, count) in &other.counts {
            *self.counts.entry(kind).or_default() += count;
        }
    }

    /// Returns the kinds that happened less often than `floor`.
    pub fn shortfalls(&self, floor: u64) -> Vec<String> {
        let count = |kind: &str| self.counts.get(kind).copied().unwrap_or_default();
        let short = KINDS.iter().filter(|kind| count(kind) < floor);
        short.map(|kind| format!("{kind}: {} of {floor}", count(kind))).collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for kind in KINDS {
            let count = self.counts.get(kind).copied().unwrap_or_default();
            writeln!(f, "{kind:34} {count:>10}")?;
        }
        Ok(())
    }
}
