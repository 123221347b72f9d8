//! The open sockets of one socket unit, whether init polls them, and what they have counted.

use super::Triggers;
use super::connection::Counts;
use crate::fd::Foreign;
use crate::state::carried;
use crate::sys::Pid;
use groundstate_units::limit as core_limit;
use groundstate_units::machine::event::RunId;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::trigger::Socket;
use groundstate_units::trigger::flood::Flood;
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, BorrowedFd};

/// One unit's sockets.
#[derive(Serialize, Deserialize)]
pub(crate) struct Listening {
    pub(crate) unit: Name,
    pub(crate) run: RunId,
    pub(crate) socket: Socket,
    pub(crate) fds: Vec<Foreign>,
    /// Their tokens, while they are polled.
    #[serde(default)]
    pub(crate) tokens: Vec<usize>,
    #[serde(default)]
    pub(crate) flood: Flood,
    /// No descriptor was left for a connection.
    pub(crate) rests_until: Option<Time>,
    #[serde(default)]
    pub(crate) counts: Counts,
    /// A service has had them since they were last polled.
    #[serde(default)]
    pub(crate) handed: bool,
    /// The child that throws away what the service has left in them: they are polled after it.
    #[serde(with = "carried::maybe_pid")]
    #[serde(default)]
    pub(crate) flushing: Option<Pid>,
}

impl Listening {
    pub(crate) fn new(unit: Name, run: RunId, socket: Socket, fds: Vec<Foreign>) -> Listening {
        let most = if socket.accept { core_limit::CONNECTIONS } else { core_limit::FIRINGS };
        Listening {
            unit,
            run,
            socket,
            fds,
            tokens: Vec::new(),
            flood: Flood::of(most),
            rests_until: None,
            counts: Counts::default(),
            handed: false,
            flushing: None,
        }
    }

    /// Somebody who connects now fires it.
    pub(crate) fn is_polled(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Until when it rests after too many firings, or without a descriptor for a connection.
    pub(crate) fn rests(&self, now: Time) -> Option<Time> {
        self.flood.rests_until(now).max(self.rests_until.filter(|until| now < *until))
    }

    /// The one polled by this token.
    pub(super) fn polled(&self, token: usize) -> Option<BorrowedFd<'_>> {
        let at = self.tokens.iter().position(|polled| *polled == token)?;
        self.fds.get(at).map(|fd| fd.as_fd())
    }

    /// What it does, in words.
    pub(crate) fn words(&self, now: Time, wall: impl Fn(Time) -> String) -> String {
        let all: Vec<String> = self.socket.listen.iter().map(ToString::to_string).collect();
        if let Some(until) = self.rests(now) {
            return format!("rests until {}, listens on {}", wall(until), all.join(", "));
        }
        let verb = if self.socket.accept {
            "accepts connections on"
        } else if self.is_polled() {
            "waits for a connection on"
        } else {
            "listens on"
        };
        format!("{verb} {}", all.join(", "))
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.fds.len()
    }
}

impl Triggers {
    /// A trigger that fired too often rests until then. False: another one has rested before.
    pub(crate) fn is_first_to_rest(&self, until: Time) -> bool {
        self.rested_at.is_none_or(|at| until < at)
    }

    /// The run whose sockets this child flushes.
    pub(crate) fn flushed_by(&self, pid: Pid) -> Option<RunId> {
        let mut all = self.listening.iter();
        all.find(|(_, one)| one.flushing == Some(pid)).map(|(run, _)| *run)
    }

    /// The sockets of this run were flushed.
    pub(crate) fn flush_ended(&mut self, run: RunId) {
        self.listening.get_mut(&run).into_iter().for_each(|one| one.flushing = None);
        self.unsettled = true;
    }
}
