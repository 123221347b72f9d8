//! Listening sockets of socket units: which ones init polls, and which units their activity starts.

use crate::base::{Level, clock, limit, token};
use crate::event_loop::Init;
use crate::fd::Foreign;
use crate::sys::no_linger::close_without_linger;
use crate::sys::{Pid, process, socket as raw, wait};
use crate::trigger::socket::{Answer, Connection, Listening, Opening, Peer};
use crate::trigger::{Subject, open};
use groundstate_units::control::answer::BrokenOff;
use groundstate_units::machine::action::Note;
use groundstate_units::machine::event::{Event, ExecFailure, RunId, Stage};
use groundstate_units::machine::reason::State;
use groundstate_units::spec::Ids;
use groundstate_units::text::fields;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::trigger::Socket;
use mio::unix::SourceFd;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

impl Init {
    /// Polls the sockets and watches the paths whose activity would start a unit, and no others.
    /// Also closes connections that no unit serves any more.
    pub(crate) fn watch_awaited_triggers(&mut self) {
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
            let rests_until = listening.paused_until(now).filter(|_| awaited);
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
                    // The error is permanent, so the run fails. Its next run opens new sockets, and
                    // the data that waits in these is lost.
                    self.pending.facts.push_back(Event::StartFailed(run, failure));
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
        self.update_path_watches();
    }

    /// Schedules the end of a trigger's pause.
    pub(crate) fn triggers_rest(&mut self, until: Time) {
        if self.triggers.rested_at.is_none_or(|at| until < at) {
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
            let _ = process::die_with_parent();
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
            // Closing alone would leave it registered while another process holds it open.
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
            let why = "fires too often: the activated service leaves connections or data waiting";
            self.say_flooded(&unit, &format!("{why}; pausing"), listening.flood.rest());
        }
        self.triggers.listening.insert(run, listening);
        self.pending.facts.push_back(Event::Fire(unit));
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

// Connections of socket units with `accept`: each starts an instance.

impl Init {
    /// Accepts pending connections, up to the share of one turn.
    pub(crate) fn accept_connections(&mut self, listening: &mut Listening) {
        for fd in listening.fds.iter().map(Foreign::share).collect::<Vec<_>>() {
            for _ in 0..limit::ACCEPTS_A_TURN {
                match raw::accept(fd.as_fd()) {
                    Ok(connection) => {
                        listening.counts.accepted = listening.counts.accepted.saturating_add(1);
                        let admitted = close_without_linger(|| self.admit(listening, connection));
                        if let Err(why) = admitted {
                            listening.counts.refused = listening.counts.refused.saturating_add(1);
                            let unit = &listening.unit;
                            self.say(Level::Warning, format_args!("{unit}: {why}"));
                        }
                        if listening.flood.fired(self.now) {
                            let (why, rest) =
                                ("too many connections; pausing accept", listening.flood.rest());
                            self.say_flooded(&listening.unit, why, rest);
                            return;
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // The connection was closed before it was accepted, or a signal arrived: try
                    // the next one.
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::ConnectionAborted | ErrorKind::Interrupted
                        ) => {}
                    Err(error) => {
                        let unit = &listening.unit;
                        self.say(Level::Warning, format_args!("{unit}: cannot accept: {error}"));
                        listening.rests_until = Some(self.now.after(limit::ACCEPT_REST));
                        return;
                    }
                }
            }
        }
    }

    pub(crate) fn say_flooded(&mut self, unit: &Name, why: &str, rest: Duration) {
        let rest = rest.as_secs();
        self.say(Level::Warning, format_args!("{unit}: {why} for {rest} s"));
    }

    /// Assigns an instance to a connection, or returns the reason for rejecting it.
    fn admit(&mut self, listening: &Listening, connection: OwnedFd) -> Result<(), String> {
        let peer = Peer::of(&connection);
        let of_it = |one: &&Connection| one.socket == listening.unit;
        let of_peer = |one: &&Connection| of_it(one) && one.peer.is_of_one_source(peer);
        let all = &self.triggers.connections;
        let most = usize::try_from(listening.socket.max_per_source).unwrap_or(usize::MAX);
        if most > 0 && all.values().filter(of_peer).count() >= most {
            return Err(format!("rejected {peer}: it has {most} open connections"));
        }
        let held = all.values().filter(|one| one.fd.is_some()).count();
        if held >= limit::CONNECTIONS_HELD {
            return Err(format!("rejected {peer}: too many connections wait for a start"));
        }
        let generation = self.machine.generation();
        let place = generation.find_unit(listening.unit.as_str()).and_then(|socket| {
            let names = self.machine.free_places(socket);
            let mut names = names.filter_map(|unit| Some(&generation.unit(unit)?.name));
            names.find(|name| !all.contains_key(*name)).cloned()
        });
        let Some(place) = place else {
            let open = all.values().filter(of_it).count();
            return Err(format!("rejected {peer}: {open} connections are open"));
        };
        let fd_name = listening.socket.fd_name.clone();
        let one = Connection {
            socket: listening.unit.clone(),
            peer,
            fd_name: fd_name.unwrap_or_else(|| "connection".to_string()),
            fd: Some(Rc::new(connection).into()),
        };
        self.triggers.connections.insert(place.clone(), one);
        self.pending.facts.push_back(Event::Fire(place));
        Ok(())
    }

    /// Closes connections whose unit does not run for them any more, or never will.
    pub(crate) fn forget_connections(&mut self) {
        let (machine, generation) = (&self.machine, self.machine.generation());
        let stays = |place: &Name| {
            generation.find_unit(place.as_str()).is_some_and(|unit| machine.has_connection(unit))
        };
        if !self.triggers.connections.keys().all(stays) {
            let connections = &mut self.triggers.connections;
            close_without_linger(|| connections.retain(|place, _| stays(place)));
        }
    }

    /// Counts a connection as broken off if its run failed.
    pub(crate) fn connections_noted(&mut self, note: &Note) {
        let (State::Disabled, Some(reason)) = (note.to, &note.reason) else { return };
        let Some(one) = self.triggers.connections.get(&note.unit) else { return };
        let broken = BrokenOff {
            unit: note.unit.to_string(),
            peer: one.peer.to_string(),
            time: self.view_facts().wall_of(self.now),
            reason: reason.to_string(),
        };
        let socket = one.socket.clone();
        let all = self.triggers.listening.values_mut();
        for listening in all.filter(|listening| listening.unit == socket) {
            listening.counts.failed = listening.counts.failed.saturating_add(1);
            listening.counts.last_failure = Some(broken.clone());
        }
    }

    /// Returns true if the unit exists only to serve a connection.
    pub(crate) fn serves_one_connection(&self, unit: &Name) -> bool {
        let unit = self.machine.generation().find_unit(unit.as_str());
        unit.is_some_and(|unit| self.machine.is_place(unit))
    }
}

// Opens the sockets of socket units in child processes and handles the results.

impl Init {
    pub(crate) fn open_sockets(&mut self, unit: &Name, run: RunId, socket: Socket) {
        let ids = match socket.owner.as_ref().map(|owner| &owner.ids) {
            Some(Err(unresolved)) => {
                let stage = if unresolved.what == "group" { Stage::Group } else { Stage::User };
                return self.start_failed(run, stage, libc::ENOENT, unresolved.name.clone());
            }
            Some(Ok(ids)) => Some(ids.clone()),
            None => None,
        };
        let helper = self.fork_socket_helper(unit, socket, |theirs, socket| {
            open_in_child(theirs, socket, ids.as_ref())
        });
        let opening = match helper {
            Ok(opening) => opening,
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                return self.start_failed(run, Stage::Fork, errno, unit.to_string());
            }
        };
        let registry = self.poll.registry();
        // Without a watch, init reads the answer when the child exits.
        let _ = token::watch(registry, &*opening.answers, opening.token);
        self.triggers.by_token.insert(opening.token, Subject::Opening(run));
        self.triggers.opening.insert(run, opening);
    }

    /// Removes the paths of a socket unit (`socket-remove`). The child dies with init: after a
    /// crash the next run does not wait for it and may have created new paths.
    pub(crate) fn remove_paths(&mut self, unit: &Name, run: RunId, socket: Socket) {
        let helper = self.fork_socket_helper(unit, socket, |_, socket| {
            open::remove(socket);
            0
        });
        match helper {
            Ok(mut remover) => {
                remover.answered = true;
                // The opener may still be running. The remover waits for it, so init need not.
                if let Some(opener) = self.triggers.opening.insert(run, remover) {
                    self.triggers.by_token.remove(&opener.token);
                }
            }
            Err(error) => self.say(
                Level::Warning,
                format_args!("{unit}: cannot remove the paths of its sockets: {error}"),
            ),
        }
    }

    /// Forks a child that does `work` once earlier children for the same paths have exited.
    fn fork_socket_helper(
        &mut self,
        unit: &Name,
        socket: Socket,
        work: impl FnOnce(&OwnedFd, &Socket) -> u8,
    ) -> io::Result<Opening> {
        let (answers, theirs) = raw::pair()?;
        let others = self.triggers.opening.values();
        let before: Vec<_> = others
            .filter(|other| {
                other.answered && (other.unit == *unit || share_an_address(&other.socket, &socket))
            })
            .map(Opening::descriptor)
            .collect();
        let kept: Vec<_> = before.iter().copied().chain([theirs.as_fd()]).collect();
        let pid = process::fork(&kept, || {
            // The work is useless once PID 1 is gone.
            let _ = process::die_with_parent();
            await_ends(&before);
            work(&theirs, &socket)
        })?;
        let (unit, token) = (unit.clone(), self.tokens.next().0);
        let answers = answers.into();
        let (answered, given_up, has_answer) = (false, false, false);
        Ok(Opening { unit, socket, pid, answers, token, answered, given_up, has_answer })
    }

    /// Handles the answer of the child, or the end of its stream.
    pub(crate) fn sockets_opened(&mut self, run: RunId) {
        if !self.triggers.is_opening(run) {
            return;
        }
        let opening = self.triggers.opener(run).filter(|opening| !opening.given_up);
        let Some(opening) = opening else { return };
        let Some((answer, fds)) = opening.hear() else { return };
        (opening.answered, opening.has_answer) = (true, true);
        let (unit, socket) = (opening.unit.clone(), opening.socket.clone());
        let opened = match answer {
            Some(Answer::Opened) => self.listen_at(&unit, run, socket, fds),
            Some(Answer::Broken(what, errno)) => {
                return self.start_failed(run, Stage::Listen, errno, what);
            }
            None => Err(libc::EIO),
        };
        if let Err(errno) = opened {
            self.start_failed(run, Stage::Listen, errno, unit.to_string());
        }
    }

    /// Uses the opened sockets, or says why not by an errno.
    fn listen_at(
        &mut self,
        unit: &Name,
        run: RunId,
        socket: Socket,
        fds: Vec<Foreign>,
    ) -> Result<(), i32> {
        let held: usize = self.triggers.listening.values().map(Listening::len).sum();
        if held.saturating_add(fds.len()) > limit::SOCKETS {
            return Err(libc::EMFILE);
        }
        if fds.len() != socket.listen.len() || (socket.accept && !fds.iter().all(make_nonblocking))
        {
            return Err(libc::EIO);
        }
        let listening = Listening::new(unit.clone(), run, socket, fds);
        self.triggers.listening.insert(run, listening);
        self.triggers.unsettled = true;
        self.pending.facts.push_back(Event::Ready(run));
        Ok(())
    }

    pub(crate) fn opener_ended(&mut self, run: RunId) {
        self.sockets_opened(run);
        let Some(opening) = self.triggers.opening.remove(&run) else { return };
        self.triggers.by_token.remove(&opening.token);
        if opening.given_up {
            let was_opened = matches!(opening.hear(), Some((Some(Answer::Opened), _)));
            if was_opened && opening.socket.remove {
                self.remove_paths(&opening.unit, run, opening.socket);
            }
            self.pending.facts.push_back(Event::Gone(run));
        } else if !opening.answered {
            self.start_failed(run, Stage::Listen, libc::EIO, opening.unit.to_string());
        }
        self.closing.push(opening.answers.into_inner());
    }
}

/// Makes a listening socket non-blocking: PID 1 accepts on it and must not wait for a connection
/// that was closed meanwhile.
fn make_nonblocking(fd: &Foreign) -> bool {
    let flags = fcntl(fd, FcntlArg::F_GETFL).map(OFlag::from_bits_truncate);
    flags.is_ok_and(|flags| fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).is_ok())
}

/// Returns true if both units use a common address or link.
fn share_an_address(one: &Socket, other: &Socket) -> bool {
    one.listen.iter().any(|it| other.listen.contains(it))
        || one.symlinks.iter().any(|link| other.symlinks.contains(link))
}

/// Waits until these children have exited, up to a limit: one of them may be blocked on an
/// unrelated dead disk.
fn await_ends(before: &[BorrowedFd<'_>]) {
    let until = clock::now().after(limit::OPENER_PATIENCE);
    for fd in before {
        loop {
            let left = until.since(clock::now()).as_millis();
            let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            // poll(2) always reports that the other end was closed.
            let polled = poll(&mut [PollFd::new(*fd, PollFlags::empty())], left);
            if polled != Err(Errno::EINTR) {
                break;
            }
        }
    }
}

/// Runs in the child that opens the sockets.
fn open_in_child(answers: &OwnedFd, socket: &Socket, ids: Option<&Ids>) -> u8 {
    let (answer, opened) = match open::all(socket, ids) {
        Ok(opened) => (Answer::Opened, opened),
        Err(broken) => (broken, Vec::new()),
    };
    let Ok(bytes) = fields::encode(&answer) else { return 1 };
    let fds: Vec<_> = opened.iter().map(AsFd::as_fd).collect();
    let sent = raw::send(answers.as_fd(), &bytes, &fds);
    // Closed before `answers`: when the reader sees the end of the stream, these copies are closed
    // too.
    drop(opened);
    u8::from(sent.is_err())
}
