//! Whether a cloned child became its program. How far it came stands in its slot of the board.
//! That it has left our memory, by exec or by its end, the kernel writes there too; a child with
//! a copy of it, or one whose exec somebody waits for, holds the write end of a pipe that exec
//! closes.

use super::prepared::Said;
use super::spawner::Ground;
use crate::sys::Pid;
use crate::sys::board::SlotId;
use crate::sys::child::Step;
use crate::sys::launch::Shared;
use groundstate_units::machine::event::ExecFailure;
use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

/// What is known about a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing yet.
    Pending,
    /// The program runs (or ran).
    Executed,
    /// It never ran. The child has ended, or is about to, with a status that means nothing.
    Failed(ExecFailure),
}

/// The report of one child. Poll its pipe; when it is readable ask [`Report::verdict`]; without
/// one ask now and then. When the child's end comes first ask [`Report::at_exit`]. Then drop it.
#[derive(Debug)]
pub(crate) struct Report {
    pub(super) ground: Rc<RefCell<Ground>>,
    pub(super) slot: SlotId,
    pub(super) pid: Pid,
    pub(super) memory: Option<Shared>,
    pub(super) pipe: Option<File>,
    pub(super) said: Said,
    pub(super) decided: bool,
}

impl Report {
    /// For the poll.
    pub(crate) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Never waits. Anything but `Pending` is final.
    pub(crate) fn verdict(&mut self) -> Verdict {
        let decided = match (&mut self.pipe, &self.memory) {
            (Some(pipe), _) => matches!(pipe.read(&mut [0; 1]), Ok(0)),
            (None, Some(memory)) => memory.is_over(),
            (None, None) => false,
        };
        if decided { self.at_exit() } else { Verdict::Pending }
    }

    /// The child has ended (waitid said so): never `Pending`.
    pub(crate) fn at_exit(&mut self) -> Verdict {
        self.decided = true;
        let progress = self.ground.borrow().progress(self.slot);
        match (progress.errno, progress.step) {
            (Some(errno), step) => {
                Verdict::Failed(self.said.failure((step, errno, progress.detail)))
            }
            (None, Step::Execve) => Verdict::Executed,
            // Killed on its way.
            (None, step) => {
                Verdict::Failed(self.said.failure((step, libc::EINTR, progress.detail)))
            }
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let memory = self.memory.take();
        self.ground.borrow_mut().close(self.slot, self.pid, memory, self.decided);
    }
}
