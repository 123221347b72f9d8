//! Listening sockets of socket units: which ones init polls, and which units their activity starts.

use crate::base::{Level, limit, token};
use crate::event_loop::Init;
use crate::sys::no_linger::close_without_linger;
use crate::sys::{Pid, process, wait};
use crate::trigger::listening::Listening;
use crate::trigger::{Subject, open};
use groundstate_units::machine::event::{Event, ExecFailure, RunId, Stage};
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use mio::unix::SourceFd;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;

impl Init {
    /// Polls the sockets whose activity would start a unit, and no others.
    pub(crate) fn attend(&mut self) {
        if !self.triggers.unsettled {
            return;
        }
        self.triggers.unmarked().unsettled = false;
        let now = self.now;
        let runs: Vec<RunId> = self.triggers.listening.keys().copied().collect();
        for run in runs {
            let Some(listening) = self.triggers.listening.get(&run) else { continue };
            let unit = self.machine.generation().find_unit(listening.unit.as_str());
            let awaited = unit.is_some_and(|unit| self.machine.awaits(unit));
            let rests_until = listening.rests(now).filter(|_| awaited);
            let is_wanted = awaited && rests_until.is_none() && listening.flushing.is_none();
            let is_watched = !listening.tokens.is_empty();
            if let Some(until) = rests_until {
                self.triggers_rest(until);
            }
            if is_wanted == is_watched {
                continue;
            }
            let Some(mut listening) = self.triggers.listening.remove(&run) else { continue };
            if !is_wanted {
                self.unwatch(&mut listening);
            } else if let Err(failure) = self.watch(&mut listening) {
                if !failure.is_transient() {
                    // This fails the run: a service that opened the sockets again would find no
                    // data.
                    self.facts.push_back(Event::StartFailed(run, failure));
                    self.close_sockets(listening);
                    continue;
                }
                let until = now.after(limit::ACCEPT_REST);
                listening.rests_until = Some(until);
                self.triggers_rest(until);
            }
            self.triggers.listening.insert(run, listening);
        }
        self.forget_connections();
        self.attend_paths();
    }

    /// Schedules the end of a trigger's pause after too many firings.
    pub(crate) fn triggers_rest(&mut self, until: Time) {
        if self.triggers.is_first_to_rest(until) {
            self.triggers.rested_at = Some(until);
        }
    }

    /// Registers all sockets with the poll. On an error, none is registered.
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

    /// Reads stale data in a child, because the read may block on a device or on a dead disk.
    /// Returns `None` if there is no child; then the stale data fires the trigger.
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
                let text = "cannot discard stale data in its sockets";
                self.say(Level::Warning, format_args!("{unit}: {text}: {error}"));
                None
            }
        }
    }

    fn unwatch(&mut self, listening: &mut Listening) {
        for (token, fd) in std::mem::take(&mut listening.tokens).into_iter().zip(&listening.fds) {
            self.triggers.by_token.remove(&token);
            // The descriptor stays registered in the poll while another process holds it open.
            let _ = self.poll.registry().deregister(&mut SourceFd(&fd.as_fd().as_raw_fd()));
        }
    }

    /// Handles a connection or data on a listening socket.
    pub(crate) fn socket_fired(&mut self, run: RunId) {
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
                format_args!("{unit}: fires too often: the activated service leaves connections or data waiting; pausing for {rest} s"),
            );
        }
        self.triggers.listening.insert(run, listening);
        self.facts.push_back(Event::Fire(unit));
    }

    /// The sockets passed to a unit at its start, in the order of the socket units' names.
    pub(crate) fn sockets_of(&mut self, name: &Name) -> Vec<(String, Rc<OwnedFd>)> {
        if let Some(connection) = self.triggers.connection_of(name) {
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

    pub(crate) fn close_sockets(&mut self, mut listening: Listening) {
        self.unwatch(&mut listening);
        let Listening { run, socket, fds, unit, flushing, .. } = listening;
        if let Some(pid) = flushing {
            // A failed kill means that the child has exited already.
            let _ = wait::kill_made(pid, 9);
        }
        // Closed before the paths are removed, so that the next run can bind the same path.
        close_without_linger(|| drop(fds));
        if socket.remove {
            self.remove_paths(&unit, run, socket);
        }
    }
}
