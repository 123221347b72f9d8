//! Departures of machines in the simulation, and which of them the leading engine can know.

use crate::machine::MachineId;
use crate::sim::executor::TaskId;
use crate::sim::invariant::is_fenced;
use crate::sim::world::World;
use crate::store::driven::Call;
use std::collections::BTreeMap;
use std::time::Duration;

/// A departure of a registered machine.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// The revision of its registration.
    pub came: i64,
    /// The revision of its departure.
    pub went: i64,
    /// The time of its departure.
    pub at: Duration,
}

/// All departures.
#[derive(Default)]
pub struct Departures {
    /// The revision at which a machine last registered.
    came: BTreeMap<MachineId, i64>,
    /// The departures of each machine.
    went: BTreeMap<MachineId, Vec<Departure>>,
    /// The revision up to which a task has received everything, by its watch or a reading.
    heard: BTreeMap<TaskId, i64>,
    /// Ranges of revisions of which a task saw only the final state: from the end of its watch to
    /// its next reading.
    unheard: BTreeMap<TaskId, Vec<(i64, i64)>>,
    /// The task that last wrote as leader on a machine, and what it had received by then.
    leads: BTreeMap<usize, (TaskId, i64)>,
}

impl Departures {
    /// Records a registration.
    pub fn has_come(&mut self, id: &MachineId, revision: i64) {
        self.came.entry(id.clone()).or_insert(revision);
    }

    /// Records a departure.
    pub fn has_gone(&mut self, id: &MachineId, went: i64, at: Duration) {
        let came = self.came.remove(id).unwrap_or(went);
        self.went.entry(id.clone()).or_default().push(Departure { came, went, at });
    }

    /// Records a reading by a task. The reading shows only the final state after the changes since
    /// the task's last event, even if a watch reports them later.
    pub fn read_again(&mut self, task: TaskId, read: i64) {
        let heard = self.heard.get(&task).copied();
        self.has_heard(task, read);
        if let Some(heard) = heard.filter(|heard| *heard < read) {
            self.unheard.entry(task).or_default().push((heard, read));
        }
    }

    /// Records that a watch has delivered everything up to a revision.
    pub fn has_heard(&mut self, task: TaskId, revision: i64) {
        let heard = self.heard.entry(task).or_insert(revision);
        *heard = revision.max(*heard);
    }

    /// Returns all departures of a machine, in order.
    pub fn of(&self, id: &MachineId) -> Vec<Departure> {
        self.went.get(id).cloned().unwrap_or_default()
    }

    /// Returns the departures that the engine on `leader` can know. In a gap between its watch and
    /// its next reading it sees neither short visits nor short absences. With `late`, a departure
    /// counts only if the leader, when it last wrote, had received the registration before it.
    pub fn seen_by(&self, leader: usize, id: &MachineId, late: bool) -> Vec<Departure> {
        let leads = self.leads.get(&leader);
        let unheard = leads.and_then(|(task, _)| self.unheard.get(task));
        let unheard = unheard.map_or(&[][..], Vec::as_slice);
        let between =
            |first: i64, last: i64| unheard.iter().any(|(after, to)| *after < first && last <= *to);
        let all = self.of(id);
        let back = all.iter().skip(1).map(|next| Some(next.came));
        let back: Vec<Option<i64>> = back.chain([self.came.get(id).copied()]).collect();
        let seen = |(departure, back): (Departure, Option<i64>)| {
            let later = late && leads.is_some_and(|(_, heard)| *heard < departure.came);
            let unseen = between(departure.came, departure.went)
                || back.is_some_and(|back| between(departure.went, back));
            (!later && !unseen).then_some(departure)
        };
        all.into_iter().zip(back).filter_map(seen).collect()
    }
}

/// Returns how long flap damping lets a machine keep its units: 30 s for each departure, worn off
/// by time, up to four minutes. Two minutes are free, and a third of the rest is waited for.
pub fn flap_damping(departures: &[Departure], since: Duration) -> Duration {
    let minute = Duration::from_secs(60);
    let (mut height, mut last) = (Duration::ZERO, Duration::ZERO);
    for at in departures.iter().map(|departure| departure.at).filter(|at| *at > since) {
        let left = height.saturating_sub(at.saturating_sub(last));
        (height, last) = ((left + minute / 2).min(minute * 4), at);
    }
    height.saturating_sub(minute * 2) / 3
}

impl World {
    /// Records which task of a machine writes as leader.
    pub fn remember_leader(&mut self, machine: usize, call: &Call) {
        if matches!(call, Call::Commit(transaction) if is_fenced(transaction, self)) {
            let departures = &mut self.book.departures;
            let heard = departures.heard.get(&self.task).copied().unwrap_or(i64::MAX);
            departures.leads.insert(machine, (self.task, heard));
        }
    }
}
