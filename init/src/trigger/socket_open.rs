//! A child that opens the sockets of a socket unit, and its answer.

use super::Triggers;
use crate::fd::Foreign;
use crate::state::carried::{self, KeptFd};
use crate::sys::{Pid, socket as raw, wait};
use groundstate_units::machine::event::RunId;
use groundstate_units::text::fields;
use groundstate_units::text::name::Name;
use groundstate_units::trigger::Socket;
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What the child says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// They are open, and come along.
    Opened,
    /// Which one is not, and why.
    Broken(String, i32),
}

/// One child at a unit's sockets. The other end of `answers` is open in it alone: closed, the child has
/// ended, or has nothing open any more.
#[derive(Serialize, Deserialize)]
pub(crate) struct Opening {
    pub(crate) unit: Name,
    pub(crate) socket: Socket,
    #[serde(with = "carried::pid")]
    pub(crate) pid: Pid,
    pub(crate) answers: KeptFd<OwnedFd>,
    pub(crate) token: usize,
    /// It has nothing more to say, and only its end is waited for.
    #[serde(default)]
    pub(crate) answered: bool,
    /// The machine does not want it any more: `Gone` follows when the child has ended.
    #[serde(default)]
    pub(crate) given_up: bool,
    /// Its answer was looked at, and stays in the socket until the next commit.
    #[serde(default)]
    pub(crate) has_answer: bool,
}

impl Opening {
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.answers.as_fd()
    }

    pub(crate) fn give_up(&mut self) {
        self.given_up = true;
        // It has ended already, or its end is about to be reaped.
        let _ = wait::kill_made(self.pid, 9);
    }

    /// The answer, if it is there; within it None: it can not be read. It stays in the socket until the next
    /// commit: an image that goes on after a crash finds it there.
    pub(crate) fn hear(&self) -> Option<(Option<Answer>, Vec<Foreign>)> {
        let mut buffer = [0; 8192];
        let got = raw::look(self.answers.as_fd(), &mut buffer).ok()?;
        let fds = Foreign::all(got.fds).into_iter().map(Foreign::kept).collect();
        let bytes = buffer.get(..got.length).filter(|bytes| !bytes.is_empty())?;
        Some((fields::decode(bytes).ok(), fds))
    }
}

impl Triggers {
    /// An answer lies in a socket that the committed state knows.
    pub(crate) fn has_answers(&self) -> bool {
        self.opening.values().any(|opening| opening.has_answer)
    }

    /// A child still opens the sockets of this run.
    pub(crate) fn is_opening(&self, run: RunId) -> bool {
        self.opening.get(&run).is_some_and(|opening| !opening.answered)
    }

    /// After a commit: takes the answers that it knows out of their sockets. An answer holds the descriptors that
    /// came with it open.
    pub(crate) fn forget_answers(&mut self) {
        for opening in self.opening.values_mut() {
            if std::mem::take(&mut opening.has_answer) {
                let _ = raw::receive_some(opening.answers.as_fd(), &mut [0], 0);
            }
        }
    }

    /// The child that still opens the sockets of this run.
    pub(crate) fn opener(&mut self, run: RunId) -> Option<&mut Opening> {
        self.opening.get_mut(&run).filter(|opening| !opening.answered)
    }
}
