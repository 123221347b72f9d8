//! Polls tasks one at a time, in an order that follows from the schedule alone: of those
//! that were woken the oldest first, those of machines that stand still later. No threads,
//! no time of its own.

use crate::fleetd::daemon::Task;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Counted up, never used twice.
pub type TaskId = u64;

/// Tasks that were woken.
#[derive(Default)]
struct Ready(Mutex<BTreeSet<TaskId>>);

impl Ready {
    fn add(&self, task: TaskId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(task);
    }
}

struct Alarm {
    task: TaskId,
    ready: Arc<Ready>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.ready.add(self.task);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.add(self.task);
    }
}

struct Entry {
    machine: usize,
    task: Task,
    waker: Waker,
}

/// See the head of the module.
#[derive(Default)]
pub struct Executor {
    ready: Arc<Ready>,
    tasks: BTreeMap<TaskId, Entry>,
    next: TaskId,
    /// Times a task was polled.
    pub polls: u64,
}

impl Executor {
    /// Takes a task of a machine; it is polled at the next turn.
    pub fn spawn(&mut self, machine: usize, task: Task) {
        let id = self.next;
        self.next += 1;
        let waker = Waker::from(Arc::new(Alarm { task: id, ready: self.ready.clone() }));
        self.tasks.insert(id, Entry { machine, task, waker });
        self.ready.add(id);
    }

    /// Ends all tasks of a machine where they stand.
    pub fn end(&mut self, machine: usize) {
        self.tasks.retain(|_, entry| entry.machine != machine);
    }

    /// It is to be polled.
    pub fn wake(&self, task: TaskId) {
        self.ready.add(task);
    }

    /// Polls one task whose machine runs; false: there is none. `polling` is told which.
    pub fn turn(&mut self, runs: impl Fn(usize) -> bool, polling: impl FnOnce(TaskId)) -> bool {
        let id = {
            let mut ready = self.ready.0.lock().unwrap_or_else(PoisonError::into_inner);
            let (mut ended, mut found) = (Vec::new(), None);
            for id in ready.iter().copied() {
                match self.tasks.get(&id) {
                    None => ended.push(id),
                    Some(one) if runs(one.machine) => {
                        found = Some(id);
                        break;
                    }
                    Some(_) => {}
                }
            }
            for id in ended.iter().chain(&found) {
                ready.remove(id);
            }
            let Some(id) = found else { return false };
            id
        };
        polling(id);
        self.polls += 1;
        if let Some(entry) = self.tasks.get_mut(&id) {
            let waker = entry.waker.clone();
            if let Poll::Ready(()) = entry.task.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.tasks.remove(&id);
            }
        }
        true
    }
}
