//! Sockets on their way: the child that opens them, and what it answers.

use super::open::{self, Broken};
use super::{Subject, listening::Listening};
use crate::event_loop::Init;
use crate::foreign::Foreign;
use crate::insistence::ask_again;
use crate::journal::carried;
use crate::journal::notes::{self, Kind, Opened};
use crate::limit;
use crate::sys::{Pid, inherit, notes as writer, process, socket as raw, wait};
use groundstate_units::machine::event::{Event, RunId, Stage};
use groundstate_units::name::Name;
use groundstate_units::spec::Ids;
use groundstate_units::trigger::Socket;
use mio::unix::SourceFd;
use mio::{Interest, Token};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// What the child says.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    /// They are open, and come along.
    Opened,
    /// Which one is not, and why.
    Broken(String, i32),
}

/// One unit's sockets.
#[derive(Serialize, Deserialize)]
pub(super) struct Opening {
    unit: Name,
    socket: Socket,
    #[serde(with = "carried::pid")]
    pub(super) pid: Pid,
    #[serde(with = "carried")]
    answers: OwnedFd,
    token: usize,
    answered: bool,
    /// The machine does not want it any more: `Gone` follows when the child has ended.
    given_up: bool,
}

impl Opening {
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.answers.as_fd()
    }

    pub(super) fn give_up(&mut self) {
        self.given_up = true;
        // It has ended already, or its end is about to be reaped.
        let _ = wait::kill_made(self.pid, 9);
    }
}

impl Init {
    pub(super) fn open_sockets(&mut self, unit: &Name, run: RunId, socket: Socket) {
        if let Some(fds) = self.lineage.started.take_opened(run, unit.as_str()) {
            let fds = Foreign::all(fds).into_iter().map(Foreign::kept).collect();
            return self.listen_at(unit, run, socket, fds);
        }
        if let Some(fds) = self.lineage.found.door_of(unit, &socket) {
            let fds: Vec<_> = fds.into_iter().map(Foreign::kept).collect();
            note(unit, run, &fds);
            return self.listen_at(unit, run, socket, fds);
        }
        let ids = match socket.owner.as_ref().map(|owner| &owner.ids) {
            Some(Err(unresolved)) => {
                let stage = if unresolved.what == "group" { Stage::Group } else { Stage::User };
                return self.trigger_failed(run, stage, libc::ENOENT, unresolved.name.clone());
            }
            Some(Ok(ids)) => Some(ids.clone()),
            None => None,
        };
        let begun = raw::pair().and_then(|(answers, theirs)| {
            let pid = process::fork(&[theirs.as_fd()], || work(&theirs, &socket, ids.as_ref()))?;
            Ok((answers, pid))
        });
        let (answers, pid) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                return self.trigger_failed(run, Stage::Fork, errno, unit.to_string());
            }
        };
        let token = self.tokens.next().0;
        let registry = self.poll.registry();
        // Unwatched, the answer is taken with the child's end.
        let mut source = SourceFd(&answers.as_raw_fd());
        let _ = ask_again(|| registry.register(&mut source, Token(token), Interest::READABLE));
        self.triggers.by_token.insert(token, Subject::Opening(run));
        let (unit, answered) = (unit.clone(), false);
        let opening = Opening { unit, socket, pid, answers, token, answered, given_up: false };
        self.triggers.opening.insert(run, opening);
    }

    /// The child has answered, or closed its end.
    pub(super) fn sockets_opened(&mut self, run: RunId) {
        let Some(opening) = self.triggers.opening.get_mut(&run) else { return };
        if opening.answered || opening.given_up {
            return;
        }
        let mut buffer = [0; 8192];
        let Ok(got) = raw::receive(opening.answers.as_fd(), &mut buffer) else { return };
        let fds: Vec<_> = Foreign::all(got.fds).into_iter().map(Foreign::kept).collect();
        if got.length == 0 {
            return;
        }
        opening.answered = true;
        let answer = buffer.get(..got.length).and_then(|bytes| postcard::from_bytes(bytes).ok());
        let (unit, socket) = (opening.unit.clone(), opening.socket.clone());
        match answer {
            Some(Answer::Opened) if fds.len() == socket.listen.len() => {
                note(&unit, run, &fds);
                self.listen_at(&unit, run, socket, fds);
            }
            Some(Answer::Broken(what, errno)) => {
                self.trigger_failed(run, Stage::Listen, errno, what);
            }
            Some(Answer::Opened) | None => {
                self.trigger_failed(run, Stage::Listen, libc::EIO, unit.to_string());
            }
        }
    }

    fn listen_at(&mut self, unit: &Name, run: RunId, socket: Socket, fds: Vec<Foreign>) {
        let held: usize = self.triggers.listening.values().map(Listening::len).sum();
        if held.saturating_add(fds.len()) > limit::SOCKETS {
            return self.trigger_failed(run, Stage::Listen, libc::EMFILE, unit.to_string());
        }
        if socket.accept && !fds.iter().all(never_waits) {
            return self.trigger_failed(run, Stage::Listen, libc::EIO, unit.to_string());
        }
        let listening = Listening::new(unit.clone(), run, socket, fds);
        self.triggers.listening.insert(run, listening);
        self.triggers.unsettled = true;
        self.doors_change();
        self.facts.push_back(Event::Ready(run));
    }

    /// They had come to the image before this one, which has crashed; who opened them has nothing
    /// more to say.
    pub(crate) fn opened_before(&mut self, run: RunId) {
        let Some(opening) = self.triggers.opening.get_mut(&run) else { return };
        let (unit, socket) = (opening.unit.clone(), opening.socket.clone());
        let Some(fds) = self.lineage.started.take_opened(run, unit.as_str()) else { return };
        opening.answered = true;
        let fds = Foreign::all(fds).into_iter().map(Foreign::kept).collect();
        self.listen_at(&unit, run, socket, fds);
    }

    pub(super) fn opener_ended(&mut self, run: RunId) {
        self.sockets_opened(run);
        let Some(opening) = self.triggers.opening.remove(&run) else { return };
        self.triggers.by_token.remove(&opening.token);
        if opening.given_up {
            self.facts.push_back(Event::Gone(run));
        } else if !opening.answered {
            self.trigger_failed(run, Stage::Listen, libc::EIO, opening.unit.to_string());
        }
    }
}

/// A crash does not lose them: they are in no state that was kept before they came.
fn note(unit: &Name, run: RunId, fds: &[Foreign]) {
    let numbers = fds.iter().map(|fd| fd.as_fd().as_raw_fd());
    let descriptors = numbers.map(|number| (number, inherit::identity(number))).collect();
    let opened = Opened { run, unit: notes::unit(unit.as_str()), descriptors };
    if let Ok(text) = postcard::to_allocvec(&opened) {
        writer::put_text(Kind::Opened, &text);
    }
}

/// PID 1 accepts itself: it must never wait for a connection that is gone again.
fn never_waits(fd: &Foreign) -> bool {
    let flags = fcntl(fd, FcntlArg::F_GETFL).map(OFlag::from_bits_truncate);
    flags.is_ok_and(|flags| fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).is_ok())
}

/// The child's whole life.
fn work(answers: &OwnedFd, socket: &Socket, ids: Option<&Ids>) -> u8 {
    // Nobody reads the answer of one whose parent is gone.
    let _ = process::die_with_parent(9);
    let (answer, opened) = match open::all(socket, ids) {
        Ok(opened) => (Answer::Opened, opened),
        Err(Broken { what, errno }) => (Answer::Broken(what, errno), Vec::new()),
    };
    let Ok(bytes) = postcard::to_allocvec(&answer) else { return 1 };
    let fds: Vec<_> = opened.iter().map(AsFd::as_fd).collect();
    match raw::send(answers.as_fd(), &bytes, &fds) {
        Ok(_) => 0,
        Err(_) => 1,
    }
}
