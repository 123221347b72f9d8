//! Sockets that listen: polled while what they activate is down, handed to it when it is
//! started, kept while it restarts.

use super::{Subject, open};
use crate::event_loop::Init;
use crate::sys::process;
use crate::voice::Level;
use groundstate_units::machine::event::{Event, RunId, Stage};
use groundstate_units::name::Name;
use groundstate_units::trigger::Socket;
use groundstate_units::trigger::flood::Flood;
use mio::unix::SourceFd;
use mio::{Interest, Token};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

/// One unit's sockets.
pub(super) struct Listening {
    unit: Name,
    run: RunId,
    socket: Socket,
    fds: Vec<Rc<OwnedFd>>,
    /// Their tokens, while they are polled.
    tokens: Vec<usize>,
    flood: Flood,
    /// A service has had them since they were last polled.
    handed: bool,
}

impl Listening {
    pub(super) fn new(unit: Name, run: RunId, socket: Socket, fds: Vec<Rc<OwnedFd>>) -> Listening {
        let (tokens, flood) = (Vec::new(), Flood::default());
        Listening { unit, run, socket, fds, tokens, flood, handed: false }
    }

    /// Somebody who connects now fires it.
    pub(super) fn is_polled(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// What it does, in words.
    pub(super) fn words(&self) -> String {
        let all: Vec<String> = self.socket.listen.iter().map(ToString::to_string).collect();
        let verb = if self.is_polled() { "waits for a connection on" } else { "listens on" };
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
        if !std::mem::take(&mut self.triggers.unsettled) {
            return;
        }
        let now = self.now;
        let runs: Vec<RunId> = self.triggers.listening.keys().copied().collect();
        for run in runs {
            let Some(mut listening) = self.triggers.listening.remove(&run) else { continue };
            let unit = self.machine.generation().find_unit(listening.unit.as_str());
            let awaited = unit.is_some_and(|unit| self.machine.awaits(unit));
            let rests_until = listening.flood.rests_until(now).filter(|_| awaited);
            if let Some(until) = rests_until {
                self.triggers.rests_until(until);
            }
            if awaited && rests_until.is_none() {
                self.watch(&mut listening);
            } else {
                self.unwatch(&mut listening);
            }
            self.triggers.listening.insert(run, listening);
        }
        self.attend_paths();
    }

    fn watch(&mut self, listening: &mut Listening) {
        if !listening.tokens.is_empty() {
            return;
        }
        if std::mem::take(&mut listening.handed) && listening.socket.flush {
            for (one, fd) in listening.socket.listen.iter().zip(&listening.fds) {
                open::flush(one, fd);
            }
        }
        for index in 0..listening.fds.len() {
            let Some(fd) = listening.fds.get(index).map(|fd| fd.as_raw_fd()) else { continue };
            let token = self.tokens.next().0;
            let registry = self.poll.registry();
            let watched = registry.register(&mut SourceFd(&fd), Token(token), Interest::READABLE);
            if let Err(error) = watched {
                let what = listening.socket.listen.get(index).map(ToString::to_string);
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                self.unwatch(listening);
                let path = what.unwrap_or_default();
                return self.trigger_failed(listening.run, Stage::Listen, errno, path);
            }
            listening.tokens.push(token);
            self.triggers.by_token.insert(token, Subject::Listening(listening.run));
        }
    }

    fn unwatch(&mut self, listening: &mut Listening) {
        for (token, fd) in std::mem::take(&mut listening.tokens).into_iter().zip(&listening.fds) {
            self.triggers.by_token.remove(&token);
            // Closed by nobody but PID 1: it is registered.
            let _ = self.poll.registry().deregister(&mut SourceFd(&fd.as_raw_fd()));
        }
    }

    /// Somebody has connected, or sent something.
    pub(super) fn socket_fired(&mut self, run: RunId) {
        let Some(mut listening) = self.triggers.listening.remove(&run) else { return };
        self.unwatch(&mut listening);
        self.triggers.unsettled = true;
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
            handed.extend(one.fds.iter().map(|fd| (name.clone(), Rc::clone(fd))));
        }
        handed
    }

    pub(super) fn close_sockets(&mut self, mut listening: Listening) {
        self.unwatch(&mut listening);
        let Listening { socket, fds, unit, .. } = listening;
        // Closed first: whoever is to bind the same path finds nobody there.
        drop(fds);
        if !socket.remove {
            return;
        }
        let errand = process::fork(&[], || {
            let _ = process::die_with_parent(9);
            open::remove(&socket);
            0
        });
        if let Err(error) = errand {
            self.say(
                Level::Warning,
                format_args!("{unit}: the paths of its sockets are not removed: {error}"),
            );
        }
    }
}
