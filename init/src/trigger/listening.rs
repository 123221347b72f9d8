//! Sockets that listen: polled while what they activate is down, handed to it when it is
//! started, kept while it restarts.

use super::connection::Counts;
use super::{Subject, open};
use crate::base::Level;
use crate::base::limit;
use crate::base::token;
use crate::event_loop::Init;
use crate::fd::Foreign;
use crate::state::carried;
use crate::sys::no_linger::impatiently;
use crate::sys::{Pid, process, wait};
use groundstate_units::limit as core_limit;
use groundstate_units::machine::event::{Event, ExecFailure, RunId, Stage};
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::trigger::Socket;
use groundstate_units::trigger::flood::Flood;
use mio::unix::SourceFd;
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// One unit's sockets.
#[derive(Serialize, Deserialize)]
pub(super) struct Listening {
    pub(super) unit: Name,
    run: RunId,
    pub(super) socket: Socket,
    pub(super) fds: Vec<Foreign>,
    /// Their tokens, while they are polled.
    tokens: Vec<usize>,
    pub(super) flood: Flood,
    /// No descriptor was left for a connection.
    pub(super) rests_until: Option<Time>,
    pub(super) counts: Counts,
    /// A service has had them since they were last polled.
    handed: bool,
    /// The child that throws away what the service has left in them: they are polled after it.
    #[serde(with = "carried::maybe_pid")]
    pub(super) flushing: Option<Pid>,
}

impl Listening {
    pub(super) fn new(unit: Name, run: RunId, socket: Socket, fds: Vec<Foreign>) -> Listening {
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
    pub(super) fn is_polled(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Until when it rests after too many firings, or without a descriptor for a connection.
    pub(super) fn rests(&self, now: Time) -> Option<Time> {
        self.flood.rests_until(now).max(self.rests_until.filter(|until| now < *until))
    }

    /// The one polled by this token.
    pub(super) fn polled(&self, token: usize) -> Option<BorrowedFd<'_>> {
        let at = self.tokens.iter().position(|polled| *polled == token)?;
        self.fds.get(at).map(|fd| fd.as_fd())
    }

    /// What it does, in words.
    pub(super) fn words(&self, now: Time, wall: impl Fn(Time) -> String) -> String {
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
    pub(super) fn len(&self) -> usize {
        self.fds.len()
    }
}

impl Init {
    /// Polls the sockets that are to be polled, and no others.
    pub(crate) fn attend(&mut self) {
        if !self.triggers.unsettled {
            return;
        }
        self.triggers.unsettled = false;
        let now = self.now;
        let runs: Vec<RunId> = self.triggers.listening.keys().copied().collect();
        for run in runs {
            let Some(mut listening) = self.triggers.listening.remove(&run) else { continue };
            let unit = self.machine.generation().find_unit(listening.unit.as_str());
            let awaited = unit.is_some_and(|unit| self.machine.awaits(unit));
            let rests_until = listening.rests(now).filter(|_| awaited);
            if let Some(until) = rests_until {
                self.triggers.rests_until(until);
            }
            if !awaited || rests_until.is_some() || listening.flushing.is_some() {
                self.unwatch(&mut listening);
            } else if let Err(failure) = self.watch(&mut listening) {
                if !failure.is_transient() {
                    // The run is over with that: whoever opens them anew finds nobody there.
                    self.facts.push_back(Event::StartFailed(run, failure));
                    self.close_sockets(listening);
                    continue;
                }
                let until = now.after(limit::ACCEPT_REST);
                listening.rests_until = Some(until);
                self.triggers.rests_until(until);
            }
            self.triggers.listening.insert(run, listening);
        }
        self.forget_connections();
        self.attend_paths();
    }

    /// An error: none of them is polled.
    fn watch(&mut self, listening: &mut Listening) -> Result<(), ExecFailure> {
        if !listening.tokens.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut listening.handed) && listening.socket.flush {
            listening.flushing = self.flush(listening);
            if listening.flushing.is_some() {
                return Ok(());
            }
        }
        for index in 0..listening.fds.len() {
            let Some(fd) = listening.fds.get(index) else { continue };
            let token = self.tokens.next().0;
            let registry = self.poll.registry();
            let watched = token::watch(registry, fd, token);
            if let Err(error) = watched {
                let what = listening.socket.listen.get(index).map(ToString::to_string);
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                self.unwatch(listening);
                let path = what.unwrap_or_default();
                return Err(ExecFailure { stage: Stage::Listen, errno, path });
            }
            listening.tokens.push(token);
            self.triggers.by_token.insert(token, Subject::Listening(listening.run));
        }
        Ok(())
    }

    /// A child of its own: what is read may be a device, or a file on a dead disk. None: there
    /// is none, and what was left fires.
    fn flush(&mut self, listening: &Listening) -> Option<Pid> {
        let kept: Vec<_> = listening.fds.iter().map(|fd| fd.as_fd()).collect();
        let errand = process::fork(&kept, || {
            let _ = process::die_with_parent(9);
            for (one, fd) in listening.socket.listen.iter().zip(&listening.fds) {
                open::flush(one, fd.as_fd());
            }
            0
        });
        match errand {
            Ok(pid) => Some(pid),
            Err(error) => {
                let unit = &listening.unit;
                let text = "what its service left in its sockets stays there";
                self.say(Level::Warning, format_args!("{unit}: {text}: {error}"));
                None
            }
        }
    }

    /// A child was reaped. False: it flushed nothing.
    pub(super) fn flush_ended(&mut self, pid: Pid) -> bool {
        let mut all = self.triggers.listening.values_mut();
        let Some(listening) = all.find(|one| one.flushing == Some(pid)) else { return false };
        listening.flushing = None;
        self.triggers.unsettled = true;
        true
    }

    fn unwatch(&mut self, listening: &mut Listening) {
        for (token, fd) in std::mem::take(&mut listening.tokens).into_iter().zip(&listening.fds) {
            self.triggers.by_token.remove(&token);
            // Closed by nobody but PID 1: it is registered.
            let _ = self.poll.registry().deregister(&mut SourceFd(&fd.as_fd().as_raw_fd()));
        }
    }

    /// Somebody has connected, or sent something.
    pub(super) fn socket_fired(&mut self, run: RunId) {
        let Some(mut listening) = self.triggers.listening.remove(&run) else { return };
        self.unwatch(&mut listening);
        self.triggers.unsettled = true;
        if listening.socket.accept {
            self.accept_connections(&mut listening);
            self.triggers.listening.insert(run, listening);
            return;
        }
        let unit = listening.unit.clone();
        if listening.flood.fired(self.now) {
            let rest = listening.flood.rest().as_secs();
            self.say(
                Level::Warning,
                format_args!("{unit}: fires too often: what it activates leaves connections or data waiting; it rests for {rest} s"),
            );
        }
        self.triggers.listening.insert(run, listening);
        self.facts.push_back(Event::Fire(unit));
    }

    /// What a unit is handed when it is started, in order of the socket units' names.
    pub(crate) fn sockets_of(&mut self, name: &Name) -> Vec<(String, Rc<OwnedFd>)> {
        if let Some(connection) = self.connection_of(name) {
            return vec![connection];
        }
        let machine = &self.machine;
        let generation = machine.generation();
        let Some(unit) = generation.find_unit(name.as_str()) else { return Vec::new() };
        let mut all: Vec<&mut Listening> = self
            .triggers
            .listening
            .values_mut()
            .filter(|one| {
                let trigger = generation.find_unit(one.unit.as_str());
                trigger.and_then(|trigger| machine.activates(trigger)) == Some(unit)
            })
            .collect();
        all.sort_by(|a, b| a.unit.cmp(&b.unit));
        let mut handed = Vec::new();
        for one in all {
            one.handed = true;
            let name = one.socket.fd_name.clone().unwrap_or_else(|| one.unit.to_string());
            handed.extend(one.fds.iter().map(|fd| (name.clone(), fd.share())));
        }
        handed
    }

    pub(super) fn close_sockets(&mut self, mut listening: Listening) {
        self.unwatch(&mut listening);
        let Listening { run, socket, fds, unit, flushing, .. } = listening;
        if let Some(pid) = flushing {
            // It has ended already, or its end is about to be reaped.
            let _ = wait::kill_made(pid, 9);
        }
        // Closed first: whoever is to bind the same path finds nobody there.
        impatiently(|| drop(fds));
        if socket.remove {
            self.remove_paths(&unit, run, socket);
        }
    }
}
