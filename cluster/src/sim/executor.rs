//! Polls tasks one at a time, in an order that depends only on the schedule: of the woken tasks,
//! the one that was spawned first. Tasks of paused machines wait. It uses no threads and no clock.

use crate::fleetd::daemon::Task;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A unique task id.
pub type TaskId = u64;

/// Woken tasks.
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

/// The executor.
#[derive(Default)]
pub struct Executor {
    ready: Arc<Ready>,
    tasks: BTreeMap<TaskId, Entry>,
    next: TaskId,
    /// Number of polls.
    pub polls: u64,
}

impl Executor {
    /// Adds a task of a machine; it is polled at the next turn.
    pub fn spawn(&mut self, machine: usize, task: Task) {
        let id = self.next;
        self.next += 1;
        let waker = Waker::from(Arc::new(Alarm { task: id, ready: self.ready.clone() }));
        self.tasks.insert(id, Entry { machine, task, waker });
        self.ready.add(id);
    }

    /// Drops all tasks of a machine.
    pub fn end(&mut self, machine: usize) {
        self.tasks.retain(|_, entry| entry.machine != machine);
    }

    /// Wakes a task.
    pub fn wake(&self, task: TaskId) {
        self.ready.add(task);
    }

    /// Passes the id of a woken task of a running machine to `polling`, then polls the task.
    /// Returns false if there is none.
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
