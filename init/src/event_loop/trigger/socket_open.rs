//! Opens the sockets of socket units and answers for the children that do it.

use crate::base::{Level, clock, limit, token};
use crate::event_loop::Init;
use crate::fd::Foreign;
use crate::sys::{process, socket as raw};
use crate::trigger::Subject;
use crate::trigger::listening::Listening;
use crate::trigger::open::{self, Broken};
use crate::trigger::socket_open::{Answer, Opening};
use groundstate_units::machine::event::{Event, RunId, Stage};
use groundstate_units::spec::Ids;
use groundstate_units::text::fields;
use groundstate_units::text::name::Name;
use groundstate_units::trigger::Socket;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

impl Init {
    pub(crate) fn open_sockets(&mut self, unit: &Name, run: RunId, socket: Socket) {
        let ids = match socket.owner.as_ref().map(|owner| &owner.ids) {
            Some(Err(unresolved)) => {
                let stage = if unresolved.what == "group" { Stage::Group } else { Stage::User };
                return self.trigger_failed(run, stage, libc::ENOENT, unresolved.name.clone());
            }
            Some(Ok(ids)) => Some(ids.clone()),
            None => None,
        };
        let begun =
            self.send_out(unit, socket, |theirs, socket| work(theirs, socket, ids.as_ref()));
        let opening = match begun {
            Ok(opening) => opening,
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                return self.trigger_failed(run, Stage::Fork, errno, unit.to_string());
            }
        };
        let registry = self.poll.registry();
        // Unwatched, the answer is taken with the child's end.
        let _ = token::watch(registry, &*opening.answers, opening.token);
        self.triggers.by_token.insert(opening.token, Subject::Opening(run));
        self.triggers.opening.insert(run, opening);
    }

    /// `socket-remove`. After a crash in between nobody waits for who was at it, and it may remove what
    /// the next run has made.
    pub(crate) fn remove_paths(&mut self, unit: &Name, run: RunId, socket: Socket) {
        let begun = self.send_out(unit, socket, |_, socket| {
            open::remove(socket);
            0
        });
        match begun {
            Ok(mut remover) => {
                remover.answered = true;
                // Who opened them may be there still: the remover waits for it, and nobody else has to.
                if let Some(opener) = self.triggers.opening.insert(run, remover) {
                    self.triggers.by_token.remove(&opener.token);
                }
            }
            Err(error) => self.say(
                Level::Warning,
                format_args!("{unit}: the paths of its sockets are not removed: {error}"),
            ),
        }
    }

    /// A child that does this, once those before it have ended.
    fn send_out(
        &mut self,
        unit: &Name,
        socket: Socket,
        work: impl FnOnce(&OwnedFd, &Socket) -> u8,
    ) -> io::Result<Opening> {
        let (answers, theirs) = raw::pair()?;
        let others = self.triggers.opening.values();
        let before: Vec<_> = others
            .filter(|other| other.answered && (other.unit == *unit || meet(&other.socket, &socket)))
            .map(Opening::descriptor)
            .collect();
        let kept: Vec<_> = before.iter().copied().chain([theirs.as_fd()]).collect();
        let pid = process::fork(&kept, || {
            // Nobody has a use for what it does once its parent is gone.
            let _ = process::die_with_parent(9);
            await_ends(&before);
            work(&theirs, &socket)
        })?;
        let (unit, token) = (unit.clone(), self.tokens.next().0);
        let answers = answers.into();
        let (answered, given_up, has_answer) = (false, false, false);
        Ok(Opening { unit, socket, pid, answers, token, answered, given_up, has_answer })
    }

    /// The child has answered, or closed its end.
    pub(crate) fn sockets_opened(&mut self, run: RunId) {
        if !self.triggers.is_opening(run) {
            return;
        }
        let opening = self.triggers.opener(run).filter(|opening| !opening.given_up);
        let Some(opening) = opening else { return };
        let Some((answer, fds)) = opening.hear() else { return };
        (opening.answered, opening.has_answer) = (true, true);
        let (unit, socket) = (opening.unit.clone(), opening.socket.clone());
        match answer {
            Some(Answer::Opened) if fds.len() == socket.listen.len() => {
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
        self.facts.push_back(Event::Ready(run));
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
            self.facts.push_back(Event::Gone(run));
        } else if !opening.answered {
            self.trigger_failed(run, Stage::Listen, libc::EIO, opening.unit.to_string());
        }
        self.closing.push(opening.answers.into_inner());
    }
}

/// PID 1 accepts itself: it must never wait for a connection that is gone again.
fn never_waits(fd: &Foreign) -> bool {
    let flags = fcntl(fd, FcntlArg::F_GETFL).map(OFlag::from_bits_truncate);
    flags.is_ok_and(|flags| fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).is_ok())
}

/// Both have to do with the same.
fn meet(one: &Socket, other: &Socket) -> bool {
    one.listen.iter().any(|it| other.listen.contains(it))
        || one.symlinks.iter().any(|link| other.symlinks.contains(link))
}

/// Until these have ended, but not for ever: one may wait for a dead disk, with which this one has
/// nothing to do.
fn await_ends(before: &[BorrowedFd<'_>]) {
    let until = clock::now().after(limit::OPENER_PATIENCE);
    for fd in before {
        loop {
            let left = until.since(clock::now()).as_millis();
            let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            // That the other end is closed is always told.
            let polled = poll(&mut [PollFd::new(*fd, PollFlags::empty())], left);
            if polled != Err(Errno::EINTR) {
                break;
            }
        }
    }
}

/// What the child does that opens them.
fn work(answers: &OwnedFd, socket: &Socket, ids: Option<&Ids>) -> u8 {
    let (answer, opened) = match open::all(socket, ids) {
        Ok(opened) => (Answer::Opened, opened),
        Err(Broken { what, errno }) => (Answer::Broken(what, errno), Vec::new()),
    };
    let Ok(bytes) = fields::encode(&answer) else { return 1 };
    let fds: Vec<_> = opened.iter().map(AsFd::as_fd).collect();
    let sent = raw::send(answers.as_fd(), &bytes, &fds);
    // Before its end of the answers is: whoever has waited for that finds them closed.
    drop(opened);
    u8::from(sent.is_err())
}
