//! Whether a cloned child became its program. The child holds the write end of a pipe that
//! exec closes; how far it came stands in its slot of the board.

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

/// The report of one child. Poll its descriptor; when it is readable ask [`Report::verdict`];
/// when the child's end comes first ask [`Report::at_exit`]. Then drop it.
#[derive(Debug)]
pub(crate) struct Report {
    pub(super) ground: Rc<RefCell<Ground>>,
    pub(super) slot: SlotId,
    pub(super) pid: Pid,
    pub(super) memory: Option<Shared>,
    pub(super) pipe: File,
    pub(super) said: Said,
    pub(super) decided: bool,
}

impl AsFd for Report {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

impl Report {
    /// Never waits. Anything but `Pending` is final.
    pub(crate) fn verdict(&mut self) -> Verdict {
        match self.pipe.read(&mut [0; 1]) {
            Ok(0) => self.at_exit(),
            Ok(_) | Err(_) => Verdict::Pending,
        }
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
