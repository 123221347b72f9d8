//! What runs wait for in time, and with each other: `ready-wait` before an exec-start-post,
//! the next ready-exec, run-timeout, a last signal's patience, start-idle. And the line a
//! program writes to its `ready-fd`.

use super::sequence::{Alarm, Procedure};
use crate::base::limit;
use crate::base::retry::ask_again;
use crate::event_loop::Init;
use crate::sys::inbox;
use groundstate_units::machine::event::RunId;
use mio::unix::SourceFd;
use mio::{Interest, Token};
use nix::errno::Errno;
use nix::fcntl::{OFlag, SpliceFFlags, tee};
use nix::unistd::pipe2;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// Bytes of a `ready-fd` that are read at a time.
const READ: usize = 1024;

impl Init {
    /// A crashed image had read the line by which the run is ready, and had not committed that.
    pub(crate) fn ready_before(&mut self, run: RunId) {
        let pipe = self.runs.get_mut(run).and_then(|running| running.ready_pipe.take());
        if let Some(pipe) = pipe {
            self.runs.unwatch(pipe.token);
        }
        self.ready(run);
    }

    pub(super) fn set_alarm(&mut self, run: RunId, alarm: Alarm, span: Duration) {
        let at = self.now.after(span);
        if alarm == Alarm::Idle {
            self.idle.insert(run);
        }
        if let Some(running) = self.runs.get_mut(run) {
            running.alarms.insert(alarm, at);
            self.runs.time(run);
        }
    }

    /// Those that have come, and those that let others start first where none does any more.
    pub(super) fn alarms_due(&mut self) {
        let now = self.now;
        let mut due = Vec::new();
        for run in self.runs.due(now) {
            let Some(running) = self.runs.get(run) else { continue };
            let come = running.alarms.iter().filter(|(_, at)| **at <= now);
            due.extend(come.map(|(alarm, _)| (run, *alarm)));
        }
        due.extend(self.idle_due());
        for (run, alarm) in due {
            if let Some(running) = self.runs.get_mut(run) {
                running.alarms.remove(&alarm);
            }
            if alarm == Alarm::Idle {
                self.idle.remove(&run);
            }
            self.course(run, |procedure| procedure.alarm(alarm));
            self.settle_if_full();
        }
    }

    /// Some run waits for others to start first, and none does any more.
    pub(super) fn nobody_is_before_the_idle(&self) -> bool {
        !self.idle_due().is_empty()
    }

    fn idle_due(&self) -> Vec<(RunId, Alarm)> {
        let idle = self
            .idle
            .iter()
            .filter(|run| self.runs.get(**run).is_some_and(|running| running.procedure.is_idle()));
        let idle: Vec<_> = idle.map(|run| (*run, Alarm::Idle)).collect();
        let busy = || self.runs.iter().any(|(_, running)| running.procedure.is_starting());
        if idle.is_empty() || busy() { Vec::new() } else { idle }
    }

    /// Something stands in the pipe of a ready-fd, or it was closed.
    pub(crate) fn ready_pipe(&mut self, token: usize) {
        let Some(run) = self.runs.watched(token) else { return };
        let Some(running) = self.runs.get_mut(run) else { return };
        let Some(ready) = running.ready_pipe.take_if(|ready| ready.token == token) else { return };
        // Before the line is gone from the pipe: the program writes it once.
        let is_stored = shows_line(&ready.pipe);
        if is_stored {
            inbox::ready(run);
        }
        match line_in(&ready.pipe) {
            Some(true) => {
                if !is_stored {
                    inbox::ready(run);
                }
                self.runs.unwatch(token);
                self.course(run, Procedure::ready);
            }
            // Closed without a line: it will never be ready by this, and its timeout tells.
            Some(false) => self.runs.unwatch(token),
            None => {
                // Told anew of what was left in it; of nothing, if there is nothing.
                let source = &mut SourceFd(&ready.pipe.as_raw_fd());
                let registry = self.poll.registry();
                let _ = ask_again(|| registry.reregister(source, Token(token), Interest::READABLE));
                running.ready_pipe = Some(ready);
            }
        }
    }
}

/// There is the end of a line in it, which nobody has read yet. False where that can not be told, too.
fn shows_line(pipe: &OwnedFd) -> bool {
    let Ok((copy, to)) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK) else { return false };
    let most = limit::READY_READS_A_TURN.saturating_mul(READ);
    let copied = tee(pipe, &to, most, SpliceFFlags::SPLICE_F_NONBLOCK);
    copied.is_ok() && line_in(&copy) == Some(true)
}

/// Whether there was the end of a line; None: not yet. The poll tells of each arrival once, so
/// that what is there is read to its end, but for a share of a turn.
fn line_in(pipe: &OwnedFd) -> Option<bool> {
    let mut bytes = [0u8; READ];
    for _ in 0..limit::READY_READS_A_TURN {
        match nix::unistd::read(pipe, &mut bytes) {
            Ok(0) => return Some(false),
            Ok(length) if bytes.get(..length).is_some_and(|read| read.contains(&b'\n')) => {
                return Some(true);
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_line_is_found_however_long_what_stands_before_it() {
        let (read, mut write) = std::io::pipe().unwrap();
        let read = OwnedFd::from(read);
        nix::fcntl::fcntl(&read, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK))
            .unwrap();
        assert_eq!(line_in(&read), None);
        write.write_all(&[b'x'; 3_000]).unwrap();
        write.write_all(b"\n").unwrap();
        assert_eq!(line_in(&read), Some(true));
        write.write_all(&[b'x'; 3_000]).unwrap();
        assert_eq!(line_in(&read), None);
        drop(write);
        assert_eq!(line_in(&read), Some(false));
    }
}
