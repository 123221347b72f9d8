//! Clones children, and keeps what they may still look at.

use super::prepared::{Prepared, Said, Work};
use super::report::Report;
use crate::sys::board::{Board, Progress, SlotId};
use crate::sys::child::{Frame, Step};
use crate::sys::{Pid, launch, process, signal};
use groundstate_units::machine::event::ExecFailure;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;

/// A child that was cloned. It is reaped by whoever runs the loop.
#[derive(Debug)]
pub(crate) struct Child {
    /// Its pid: not to be used by anybody else before it is reaped.
    pub pid: Pid,
    /// Whether it became its program.
    pub report: Report,
}

/// The memory shared with children.
#[derive(Debug)]
pub(crate) struct Ground {
    board: Board,
    /// Slots whose report was dropped while the child could still write there.
    orphans: Vec<(SlotId, Pid)>,
}

impl Ground {
    pub(super) fn progress(&self, slot: SlotId) -> Progress {
        self.board.progress(slot)
    }

    /// A report is dropped.
    pub(super) fn close(&mut self, slot: SlotId, pid: Pid, decided: bool) {
        if decided {
            self.board.give_back(slot);
        } else {
            self.orphans.push((slot, pid));
        }
    }

    /// A clean slot; looks after the orphans first.
    fn take(&mut self) -> Option<SlotId> {
        let gone = |pid| signal::kill(pid, 0).is_err_and(|e| e.raw_os_error() == Some(libc::ESRCH));
        let (over, left) = std::mem::take(&mut self.orphans).into_iter().partition(|o| gone(o.1));
        self.orphans = left;
        let over: Vec<(SlotId, Pid)> = over;
        for (slot, _) in over {
            self.board.give_back(slot);
        }
        self.board.take()
    }
}

/// Starts processes. One in PID 1.
#[derive(Debug)]
pub(crate) struct Spawner {
    ground: Rc<RefCell<Ground>>,
}

impl Spawner {
    /// Maps the shared memory. ENOMEM.
    pub(crate) fn new() -> io::Result<Spawner> {
        let ground = Ground { board: Board::new()?, orphans: Vec::new() };
        Ok(Spawner { ground: Rc::new(RefCell::new(ground)) })
    }

    /// Clones the child and returns at once. A failure here means that there is no child: a want
    /// of processes, memory or descriptors (stage `fork`), or the cgroup refuses it (stage
    /// `cgroup`). All else is in the report.
    pub(crate) fn spawn(&mut self, prepared: Prepared) -> Result<Child, ExecFailure> {
        let said = prepared.said.clone();
        let failed = |step, error: &io::Error| {
            said.failure((step, error.raw_os_error().unwrap_or(libc::EIO), 0))
        };
        let begin = |error: io::Error| failed(Step::Begin, &error);
        let (pipe, write) = io::pipe().map_err(begin)?;
        let no_wait = FcntlArg::F_SETFL(OFlag::O_NONBLOCK);
        fcntl(&pipe, no_wait).map_err(|e| begin(e.into()))?;
        let descriptors = Descriptors::new(&prepared, write.into()).map_err(begin)?;
        let Some(slot) = self.ground.borrow_mut().take() else {
            return Err(begin(io::Error::from_raw_os_error(libc::EAGAIN)));
        };
        match self.clone_child(slot, &descriptors.frame, prepared.work) {
            Ok(pid) => {
                let ground = self.ground.clone();
                let report = Report { ground, slot, pid, pipe, said, decided: false };
                Ok(Child { pid, report })
            }
            Err(error) => {
                self.ground.borrow_mut().board.give_back(slot);
                let placed = descriptors.frame.cgroup.is_some();
                let step =
                    if placed && is_about_cgroup(&error) { Step::Cgroup } else { Step::Begin };
                Err(failed(step, &error))
            }
        }
    }

    fn clone_child(&self, slot: SlotId, frame: &Frame, work: Work) -> io::Result<Pid> {
        let ground = self.ground.borrow();
        let board = &ground.board;
        match work {
            Work::Settled(orders) => launch::copied(board, slot, frame, &orders),
            Work::EnvFiles(draft) => launch::thinking(board, slot, frame, || draft.finish()),
        }
    }
}

/// What clone3 says about a cgroup (clone(2), CLONE_INTO_CGROUP).
fn is_about_cgroup(error: &io::Error) -> bool {
    let about = [libc::EBUSY, libc::EOPNOTSUPP, libc::EACCES, libc::ENODEV, libc::EBADF];
    error.raw_os_error().is_some_and(|errno| about.contains(&errno))
}

/// The numbers of a [`Frame`], and what keeps them open until the clone.
struct Descriptors {
    frame: Frame,
    _lifted: Vec<OwnedFd>,
    _report: OwnedFd,
}

impl Descriptors {
    /// Lifts what is in the way of the targets: the child can then put each in place in turn.
    fn new(prepared: &Prepared, report: OwnedFd) -> io::Result<Descriptors> {
        let mut lifted = Vec::new();
        let floor = Frame::floor(prepared.listen.len());
        let mut lift = |fd: &OwnedFd| -> io::Result<RawFd> {
            if fd.as_raw_fd() >= floor {
                return Ok(fd.as_raw_fd());
            }
            lifted.push(process::duplicate(fd.as_fd(), floor)?);
            Ok(lifted.last().map_or(-1, |fd: &OwnedFd| fd.as_raw_fd()))
        };
        let [input, output, error] = &prepared.stdio;
        let frame = Frame {
            cgroup: prepared.place.as_ref().map(|place| place.directory.as_raw_fd()),
            stdio: [lift(input)?, lift(output)?, lift(error)?],
            passed: prepared.listen.iter().map(|fd| lift(fd)).collect::<io::Result<_>>()?,
            report: lift(&report)?,
            take_terminal: prepared.take_terminal,
        };
        Ok(Descriptors { frame, _lifted: lifted, _report: report })
    }
}
