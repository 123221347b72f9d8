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
pub struct Departure {
    /// The revision at which it had come.
    pub came: i64,
    /// That at which it went.
    pub went: i64,
    /// When that was.
    pub at: Duration,
}

/// See the head of the module.
#[derive(Default)]
pub struct Departures {
    /// The revision at which a machine came (back).
    came: BTreeMap<MachineId, i64>,
    /// Each time it went.
    went: BTreeMap<MachineId, Vec<Departure>>,
    /// The revision up to which a task was told all by its watch, or has read.
    heard: BTreeMap<TaskId, i64>,
    /// What it saw the outcome of only, for its watch had ended: after one revision, up to the other,
    /// that of the reading it made anew.
    unheard: BTreeMap<TaskId, Vec<(i64, i64)>>,
    /// The task of a machine that last wrote as the one that leads, and what it had heard by then.
    leads: BTreeMap<usize, (TaskId, i64)>,
}

impl Departures {
    /// A machine is there.
    pub fn has_come(&mut self, id: &MachineId, revision: i64) {
        self.came.entry(id.clone()).or_insert(revision);
    }

    /// It is not there any more.
    pub fn has_gone(&mut self, id: &MachineId, went: i64, at: Duration) {
        let came = self.came.remove(id).unwrap_or(went);
        self.went.entry(id.clone()).or_default().push(Departure { came, went, at });
    }

    /// A task has read all: of what came before, and no watch had told it, it saw the outcome only,
    /// though a watch may tell it yet.
    pub fn read_anew(&mut self, task: TaskId, read: i64) {
        let heard = self.heard.get(&task).copied();
        self.has_heard(task, read);
        if let Some(heard) = heard.filter(|heard| *heard < read) {
            self.unheard.entry(task).or_default().push((heard, read));
        }
    }

    /// A watch has told a task all up to a revision.
    pub fn has_heard(&mut self, task: TaskId, revision: i64) {
        let heard = self.heard.entry(task).or_insert(revision);
        *heard = revision.max(*heard);
    }

    /// All goings of a machine, in their order.
    pub fn of(&self, id: &MachineId) -> Vec<Departure> {
        self.went.get(id).cloned().unwrap_or_default()
    }

    /// Those that the engine on `leader` can know of. Between what its watch told last and its next
    /// reading it sees of one that came and went, or went and came back, neither. `late`: what it last
    /// asked for may have been asked before it could hear of all.
    pub fn seen_by(&self, leader: usize, id: &MachineId, late: bool) -> Vec<Departure> {
        let leads = self.leads.get(&leader);
        let unheard = leads.and_then(|(task, _)| self.unheard.get(task));
        let unheard = unheard.map_or(&[][..], Vec::as_slice);
        let between =
            |first: i64, last: i64| unheard.iter().any(|(after, to)| *after < first && last <= *to);
        let all = self.of(id);
        let back = all.iter().skip(1).map(|next| Some(next.came));
        let back: Vec<Option<i64>> = back.chain([self.came.get(id).copied()]).collect();
        let seen = |(going, back): (Departure, Option<i64>)| {
            let later = late && leads.is_some_and(|(_, heard)| *heard < going.came);
            let unseen = between(going.came, going.went)
                || back.is_some_and(|back| between(going.went, back));
            (!later && !unseen).then_some(going)
        };
        all.into_iter().zip(back).filter_map(seen).collect()
    }
}

/// How long a machine that went just now keeps its units for having gone so often since then: half a
/// minute for each, worn off by time, four minutes at most; two of them are free, and a third of the
/// rest is waited for.
pub fn flap_damping(departures: &[Departure], since: Duration) -> Duration {
    let minute = Duration::from_secs(60);
    let (mut height, mut last) = (Duration::ZERO, Duration::ZERO);
    for at in departures.iter().map(|going| going.at).filter(|at| *at > since) {
        let left = height.saturating_sub(at.saturating_sub(last));
        (height, last) = ((left + minute / 2).min(minute * 4), at);
    }
    height.saturating_sub(minute * 2) / 3
}

impl World {
    /// Which task of a machine asks for something as the one that leads.
    pub fn remember_leader(&mut self, machine: usize, call: &Call) {
        if matches!(call, Call::Commit(transaction) if is_fenced(transaction, self)) {
            let departures = &mut self.book.departures;
            let heard = departures.heard.get(&self.task).copied().unwrap_or(i64::MAX);
            departures.leads.insert(machine, (self.task, heard));
        }
    }
}
