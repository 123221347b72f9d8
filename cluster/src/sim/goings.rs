//! Machines that come and go in the simulation, and what the engine that leads can know of it.

use crate::machine::MachineId;
use crate::sim::executor::TaskId;
use crate::sim::invariant::is_fenced;
use crate::sim::world::World;
use crate::store::driven::Call;
use std::collections::BTreeMap;
use std::time::Duration;

/// A machine was there, and went.
#[derive(Clone, Copy, Debug)]
pub struct Going {
    /// The revision at which it had come.
    pub came: i64,
    /// That at which it went.
    pub went: i64,
    /// When that was.
    pub at: Duration,
}

/// See the head of the module.
#[derive(Default)]
pub struct Goings {
    /// The revision at which a machine came (back).
    came: BTreeMap<MachineId, i64>,
    /// Each time it went.
    went: BTreeMap<MachineId, Vec<Going>>,
    /// The revision up to which a task was told all by its watch, or began to watch.
    pub heard: BTreeMap<TaskId, i64>,
    /// What it saw the outcome of only, for its watch had ended: after one revision, up to the other,
    /// that of the reading it made anew.
    unheard: BTreeMap<TaskId, Vec<(i64, i64)>>,
    /// The task of a machine that last wrote as the one that leads.
    leads: BTreeMap<usize, TaskId>,
}

impl Goings {
    /// A machine is there.
    pub fn has_come(&mut self, id: &MachineId, revision: i64) {
        self.came.entry(id.clone()).or_insert(revision);
    }

    /// It is not there any more.
    pub fn has_gone(&mut self, id: &MachineId, went: i64, at: Duration) {
        let came = self.came.remove(id).unwrap_or(went);
        self.went.entry(id.clone()).or_default().push(Going { came, went, at });
    }

    /// A task watches from what it has read: of what came before, and no other watch told it, it saw
    /// the outcome only.
    pub fn read_anew(&mut self, task: TaskId, read: i64) {
        let heard = self.heard.insert(task, read);
        if let Some(heard) = heard.filter(|heard| *heard < read) {
            self.unheard.entry(task).or_default().push((heard, read));
        }
    }

    /// How long a machine that went just now keeps its units for having gone so often since then:
    /// half a minute for each, worn off by time, four minutes at most; two of them are free, and a
    /// third of the rest is waited for.
    pub fn unrest(&self, id: &MachineId, since: Duration) -> Duration {
        let minute = Duration::from_secs(60);
        let (mut height, mut last) = (Duration::ZERO, Duration::ZERO);
        let goings = self.went.get(id).into_iter().flatten().map(|going| going.at);
        for at in goings.filter(|at| *at > since) {
            let left = height.saturating_sub(at.saturating_sub(last));
            (height, last) = ((left + minute / 2).min(minute * 4), at);
        }
        height.saturating_sub(minute * 2) / 3
    }

    /// Since when a machine that is gone is gone for all that the engine on `leader` can know: of one
    /// that came and went between what its watch told last and its next reading, that shows nothing.
    pub fn gone_as_seen_by(&self, leader: usize, id: &MachineId) -> Option<Duration> {
        let unheard = self.leads.get(&leader).and_then(|task| self.unheard.get(task));
        let unheard = unheard.map_or(&[][..], Vec::as_slice);
        let missed = |going: &&Going| {
            unheard.iter().any(|(after, to)| *after < going.came && going.went <= *to)
        };
        let mut goings = self.went.get(id)?.iter().rev();
        goings.find(|going| !missed(going)).map(|going| going.at)
    }
}

impl World {
    /// Which task of a machine asks for something as the one that leads.
    pub fn remember_leader(&mut self, machine: usize, call: &Call) {
        if matches!(call, Call::Commit(transaction) if is_fenced(transaction, self)) {
            self.book.goings.leads.insert(machine, self.task);
        }
    }
}
