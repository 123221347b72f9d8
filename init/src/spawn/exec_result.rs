//! Whether a cloned child became its program. How far it came stands in its slot of the board.
//! That it has left our memory, by exec or by its end, the kernel writes there too; a child with
//! a copy of it, or one whose exec somebody waits for, holds the write end of a pipe that exec
//! closes.

use super::request::Said;
use crate::base::procfs;
use crate::state::carried::{self, KeptFd};
use crate::sys::child_setup::Step;
use crate::sys::launch::{self, Shared};
use crate::sys::spawn_slots::{Progress, SlotId, SpawnSlots, Stack};
use crate::sys::{Pid, signal};
use groundstate_units::machine::event::ExecFailure;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

/// The memory shared with children.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(super) board: SpawnSlots,
    pub(super) stacks: Vec<Stack>,
    /// Those whose report was dropped while the child could still use them.
    pub(super) orphans: Vec<(SlotId, Pid, Option<Shared>)>,
}

/// Stacks kept for the next children.
const STACKS: usize = 64;

impl Ground {
    pub(super) fn has_left(&self, slot: SlotId) -> bool {
        self.board.has_left(slot)
    }

    pub(super) fn progress(&self, slot: SlotId) -> Progress {
        self.board.progress(slot)
    }

    /// A report is dropped.
    pub(super) fn close(&mut self, slot: SlotId, pid: Pid, memory: Option<Shared>, decided: bool) {
        if decided && memory.as_ref().is_none_or(Shared::is_over) {
            self.give_back(slot, memory);
        } else {
            self.orphans.push((slot, pid, memory));
        }
    }

    fn give_back(&mut self, slot: SlotId, memory: Option<Shared>) {
        // The stack first: whether its child has left stands in the slot.
        let stack = memory.and_then(Shared::into_stack);
        self.board.give_back(slot);
        self.stacks.extend(stack.filter(|_| self.stacks.len() < STACKS));
    }

    /// A clean slot; looks after the orphans first.
    pub(super) fn take(&mut self, serial: u64) -> Option<SlotId> {
        for (slot, pid, memory) in std::mem::take(&mut self.orphans) {
            let over = match &memory {
                Some(memory) => memory.is_over(),
                None => signal::kill(pid, 0).is_err_and(|e| e.raw_os_error() == Some(libc::ESRCH)),
            };
            if over {
                self.give_back(slot, memory);
            } else {
                self.orphans.push((slot, pid, memory));
            }
        }
        self.board.take(serial)
    }
}

/// What is known about a start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ExecResult {
    /// Nothing yet.
    Pending,
    /// The program runs (or ran).
    Executed,
    /// It never ran. The child has ended, or is about to, with a status that means nothing.
    Failed(ExecFailure),
}

/// The report of one child. Poll its pipe; when it is readable ask [`Report::verdict`]; without
/// one ask now and then. When the child's end comes first ask [`Report::at_exit`]. Then drop it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// None: of an earlier image of init, and not yet attached.
    #[serde(skip)]
    pub(super) ground: Option<Rc<RefCell<Ground>>>,
    pub(super) slot: SlotId,
    #[serde(with = "carried::pid")]
    pub(super) pid: Pid,
    #[serde(skip)]
    pub(super) memory: Option<Shared>,
    pub(super) pipe: Option<KeptFd<File>>,
    #[serde(default)]
    pub(super) said: Said,
    #[serde(default)]
    pub(super) decided: bool,
    /// It was cloned into a cgroup without a bound of memory.
    #[serde(skip)]
    pub(super) joins: bool,
}

impl Report {
    /// Where its child writes.
    pub(crate) fn slot(&self) -> SlotId {
        self.slot
    }

    /// The child of an earlier image uses the same memory.
    pub(super) fn attach(&mut self, ground: &Rc<RefCell<Ground>>) {
        self.ground = Some(ground.clone());
    }

    /// For the poll.
    pub(crate) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Never waits. Anything but `Pending` is final.
    pub(crate) fn verdict(&mut self) -> ExecResult {
        let has_left = match (&self.pipe, &self.ground) {
            (Some(pipe), _) => matches!((&**pipe).read(&mut [0; 1]), Ok(0)),
            (None, Some(ground)) => ground.borrow().has_left(self.slot),
            (None, None) => false,
        };
        let decided = has_left || (self.pipe.is_none() && self.has_left_another());
        if decided { self.at_exit() } else { ExecResult::Pending }
    }

    /// It has left the memory of an image before this one. The kernel writes that down only where somebody else
    /// is in that memory still (mm_release in kernel/fork.c), and that image was alone there with it.
    fn has_left_another(&self) -> bool {
        self.memory.is_none() && procfs::has_executed(self.pid)
    }

    /// The child has ended (waitid said so): never `Pending`.
    pub(crate) fn at_exit(&mut self) -> ExecResult {
        self.decided = true;
        let Some(ground) = &self.ground else { return ExecResult::Executed };
        let progress = ground.borrow().progress(self.slot);
        match (progress.errno, progress.step) {
            (Some(errno), step) => {
                ExecResult::Failed(self.said.failure((step, errno, progress.detail)))
            }
            (None, Step::Execve) => ExecResult::Executed,
            // Killed on its way.
            (None, step) => {
                // Where there is a bound of memory, that may have been its end.
                if step == Step::Begin && self.joins {
                    launch::died_at_birth();
                }
                ExecResult::Failed(self.said.failure((step, libc::EINTR, progress.detail)))
            }
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let memory = self.memory.take();
        if let Some(ground) = &self.ground {
            ground.borrow_mut().close(self.slot, self.pid, memory, self.decided);
        }
    }
}
