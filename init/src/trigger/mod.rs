//! Triggers, as PID 1 sees them: what the machine orders of a `socket`, `timer` or `path`
//! unit, done; what comes of it, told. Whatever may wait for a disk, or opens a network
//! socket, is done by children: one that ends when the sockets of a unit are [`open`], and
//! one *lookout* that keeps clocks and watches paths for as long as there are any.
//!
//! PID 1 holds the listening sockets and polls them while what they activate is down. Which
//! unit a firing brings in, and when it may fire again, is the machine's
//! ([`Machine::awaits`](groundstate_units::machine::Machine::awaits)).

mod listening;
mod open;
mod opening;
mod option;
mod way;

use crate::event_loop::Init;
use crate::sys::Pid;
use groundstate_units::generation::Unit;
use groundstate_units::machine::event::{Event, ExecFailure, RunId, Stage};
use groundstate_units::spec::Kind;
use groundstate_units::time::Time;
use groundstate_units::trigger::Trigger;
use listening::Listening;
use opening::Opening;
use std::collections::BTreeMap;

/// What a token of the poll stands for.
#[derive(Clone, Copy, Debug)]
enum Subject {
    /// The answer of the child that opens a unit's sockets.
    Opening(RunId),
    /// A listening socket.
    Listening(RunId),
}

/// All of them.
#[derive(Default)]
pub(crate) struct Triggers {
    opening: BTreeMap<RunId, Opening>,
    listening: BTreeMap<RunId, Listening>,
    by_token: BTreeMap<usize, Subject>,
    /// Which sockets are to be polled may have changed.
    pub(crate) unsettled: bool,
    /// When the next trigger that fired too often has rested.
    rested_at: Option<Time>,
}

impl Triggers {
    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.rested_at
    }
}

impl Init {
    /// A trigger is to begin.
    pub(crate) fn start_trigger(&mut self, unit: &Unit, run: RunId) {
        match Trigger::decode(&unit.run) {
            Some(Trigger::Socket(socket)) => self.open_sockets(&unit.name, run, *socket),
            Some(Trigger::Timer(_) | Trigger::Path(_)) => {}
            // Of a set that was not made from unit files: there is nothing to wait for.
            None if unit.kind == Kind::Socket => self.facts.push_back(Event::Ready(run)),
            None => {}
        }
        self.triggers.unsettled = true;
    }

    /// A trigger is to end. False: this run is no trigger's.
    pub(crate) fn stop_trigger(&mut self, run: RunId, nothing_left: bool) -> bool {
        if let Some(opening) = self.triggers.opening.get_mut(&run) {
            opening.give_up();
            return true;
        }
        if let Some(listening) = self.triggers.listening.remove(&run) {
            self.close_sockets(listening);
            if !nothing_left {
                self.facts.push_back(Event::Gone(run));
            }
            return true;
        }
        false
    }

    /// KILL to what is still being opened.
    pub(crate) fn kill_trigger(&mut self, run: RunId) {
        if let Some(opening) = self.triggers.opening.get_mut(&run) {
            opening.give_up();
        }
    }

    /// The poll says that this token is ready.
    pub(crate) fn trigger_ready(&mut self, token: usize) {
        match self.triggers.by_token.get(&token).copied() {
            Some(Subject::Opening(run)) => self.sockets_opened(run),
            Some(Subject::Listening(run)) => self.socket_fired(run),
            None => {}
        }
    }

    /// A child was reaped. False: it was not one of the triggers'.
    pub(crate) fn trigger_child_ended(&mut self, pid: Pid) -> bool {
        let opening = self.triggers.opening.iter().find(|(_, opening)| opening.pid == pid);
        let Some(run) = opening.map(|(run, _)| *run) else { return false };
        self.opener_ended(run);
        true
    }

    /// What is due by now.
    pub(crate) fn triggers_due(&mut self) {
        let now = self.now;
        if self.triggers.rested_at.take_if(|at| *at <= now).is_some() {
            self.triggers.unsettled = true;
        }
    }

    fn trigger_failed(&mut self, run: RunId, stage: Stage, errno: i32, path: String) {
        let failure = ExecFailure { stage, errno, path };
        self.facts.push_back(Event::StartFailed(run, failure));
    }
}
