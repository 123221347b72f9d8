//! Reports whether a cloned child executed its program. The child writes its progress to its spawn
//! slot. When it leaves PID 1's memory, by exec or exit, the kernel clears a word there. A child
//! with its own memory, or whose exec is awaited, also holds the write end of a pipe that the exec
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
    /// Slots of dropped reports that their child could still use.
    pub(super) orphans: Vec<(SlotId, Pid, Option<Shared>)>,
}

/// Stacks kept for later children.
const STACKS: usize = 64;

impl Ground {
    pub(super) fn has_left(&self, slot: SlotId) -> bool {
        self.board.has_left(slot)
    }

    pub(super) fn progress(&self, slot: SlotId) -> Progress {
        self.board.progress(slot)
    }

    /// Releases the slot of a dropped report.
    pub(super) fn close(&mut self, slot: SlotId, pid: Pid, memory: Option<Shared>, decided: bool) {
        if decided && memory.as_ref().is_none_or(Shared::is_over) {
            self.give_back(slot, memory);
        } else {
            self.orphans.push((slot, pid, memory));
        }
    }

    fn give_back(&mut self, slot: SlotId, memory: Option<Shared>) {
        // The stack first: the slot tells whether its child has left it.
        let stack = memory.and_then(Shared::into_stack);
        self.board.give_back(slot);
        self.stacks.extend(stack.filter(|_| self.stacks.len() < STACKS));
    }

    /// Takes a free slot, after releasing those whose child has exited.
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

/// The known result of a start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ExecResult {
    /// Not known yet.
    Pending,
    /// The program was executed.
    Executed,
    /// The program was never executed. The child has exited, or is about to, with a meaningless
    /// status.
    Failed(ExecFailure),
}

/// The exec report of one child. Poll its pipe and call [`Report::verdict`] when it is readable;
/// without a pipe, call it from time to time. If the child exits first, call [`Report::at_exit`].
/// Then drop the report.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// `None` in a report of an earlier image that is not attached yet.
    #[serde(skip)]
    pub(super) ground: Option<Rc<RefCell<Ground>>>,
    pub(super) slot: SlotId,
    #[serde(with = "carried::pid")]
    pub(super) pid: Pid,
    #[serde(skip)]
    pub(super) memory: Option<Shared>,
    pub(super) pipe: Option<KeptFd<File>>,
    pub(super) said: Said,
    pub(super) decided: bool,
    /// True if it was cloned into a cgroup without a memory limit.
    #[serde(skip)]
    pub(super) joins: bool,
}

impl Report {
    /// The slot that the child writes to.
    pub(crate) fn slot(&self) -> SlotId {
        self.slot
    }

    /// Attaches the report of an earlier image's child to the shared memory.
    pub(super) fn attach(&mut self, ground: &Rc<RefCell<Ground>>) {
        self.ground = Some(ground.clone());
    }

    /// The pipe for the poll.
    pub(crate) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// The result so far. Never blocks. Any value except `Pending` is final.
    pub(crate) fn verdict(&mut self) -> ExecResult {
        let has_left = match (&self.pipe, &self.ground) {
            (Some(pipe), _) => matches!((&**pipe).read(&mut [0; 1]), Ok(0)),
            (None, Some(ground)) => ground.borrow().has_left(self.slot),
            (None, None) => false,
        };
        let decided = has_left || (self.pipe.is_none() && self.has_left_another());
        if decided { self.at_exit() } else { ExecResult::Pending }
    }

    /// Returns true if a child of an earlier image has executed. For such a child the kernel does
    /// not clear the word: it does so only while another process uses the same memory (mm_release
    /// in kernel/fork.c), and that image is gone.
    fn has_left_another(&self) -> bool {
        self.memory.is_none() && procfs::has_executed(self.pid)
    }

    /// The result after the child's exit: never `Pending`.
    pub(crate) fn at_exit(&mut self) -> ExecResult {
        self.decided = true;
        let Some(ground) = &self.ground else { return ExecResult::Executed };
        let progress = ground.borrow().progress(self.slot);
        match (progress.errno, progress.step) {
            (Some(errno), step) => {
                ExecResult::Failed(self.said.failure((step, errno, progress.detail)))
            }
            (None, Step::Execve) => ExecResult::Executed,
            // Killed before its exec.
            (None, step) => {
                // If it shared a memory limit, the OOM killer may have killed it.
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
