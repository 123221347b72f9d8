//! A child that opens the sockets of a socket unit, and its answer.

use super::Triggers;
use crate::fd::Foreign;
use crate::state::carried::{self, KeptFd};
use crate::sys::{Pid, socket as raw, wait};
use groundstate_units::machine::event::RunId;
use groundstate_units::text::name::Name;
use groundstate_units::trigger::Socket;
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The child's answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The sockets are open and passed with the message.
    Opened,
    /// The socket that failed, and the errno.
    Broken(String, i32),
}

/// A child that works on a unit's sockets. It has the only copy of the other end of `answers`: if
/// that is closed, the child has exited or has no sockets open.
#[derive(Serialize, Deserialize)]
pub(crate) struct Opening {
    pub(crate) unit: Name,
    pub(crate) socket: Socket,
    #[serde(with = "carried::pid")]
    pub(crate) pid: Pid,
    pub(crate) answers: KeptFd<OwnedFd>,
    pub(crate) token: usize,
    /// True if no further answer comes and only the exit is awaited.
    pub(crate) answered: bool,
    /// True if the machine has stopped the run: `Gone` follows when the child has exited.
    pub(crate) given_up: bool,
    /// True if the answer was read and stays in the socket until the next commit.
    pub(crate) has_answer: bool,
}

impl Opening {
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.answers.as_fd()
    }

    pub(crate) fn give_up(&mut self) {
        self.given_up = true;
        // A failed kill means that the child has exited already.
        let _ = wait::kill_made(self.pid, 9);
    }

    /// The answer, if it has arrived; the inner `None` means that it is unreadable. It stays in the
    /// socket until the next commit, so that a new image finds it after a crash.
    pub(crate) fn hear(&self) -> Option<(Option<Answer>, Vec<Foreign>)> {
        let mut buffer = [0; 8192];
        let got = raw::look(self.answers.as_fd(), &mut buffer).ok()?;
        let fds = Foreign::all(got.fds).into_iter().map(Foreign::kept).collect();
        let bytes = buffer.get(..got.length).filter(|bytes| !bytes.is_empty())?;
        Some((postcard::from_bytes(bytes).ok(), fds))
    }
}

impl Triggers {
    /// Returns true if a handled answer still lies in a socket.
    pub(crate) fn has_answers(&self) -> bool {
        self.opening.values().any(|opening| opening.has_answer)
    }

    /// Returns true while a child opens the sockets of this run.
    pub(crate) fn is_opening(&self, run: RunId) -> bool {
        self.opening.get(&run).is_some_and(|opening| !opening.answered)
    }

    /// After a commit, removes the handled answers from their sockets, because they hold the passed
    /// descriptors open.
    pub(crate) fn forget_answers(&mut self) {
        for opening in self.opening.values_mut() {
            if std::mem::take(&mut opening.has_answer) {
                let _ = raw::receive_some(opening.answers.as_fd(), &mut [0], 0);
            }
        }
    }

    /// The child that is opening the sockets of this run.
    pub(crate) fn opener(&mut self, run: RunId) -> Option<&mut Opening> {
        self.opening.get_mut(&run).filter(|opening| !opening.answered)
    }
}
