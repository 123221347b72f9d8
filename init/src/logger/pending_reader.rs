//! Reading what goes to log files, so that nothing of it is lost with the logger that reads: see
//! [`super::pending_buffer`]. All else is read by [`super::process`].

use super::message::{Report, send_reports};
use super::process::Logger;
use super::{files, limit};
use groundstate_units::control::log_line::Prefix;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::Mode;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

impl Logger {
    /// Reads a pipe: whole lines alone, of what it holds.
    /// None: it has to be read otherwise.
    pub(super) fn read_staged(&mut self, number: usize) -> Option<bool> {
        let (pipe, intake) = (self.pipes.get_mut(&number)?, self.intake.as_mut()?);
        let seen = match intake.look(&pipe.fd, &mut self.buffer) {
            Ok(0) => return None,
            Ok(seen) => seen,
            Err(Errno::EAGAIN) => {
                self.is_finished(number);
                return Some(false);
            }
            Err(_) => return None,
        };
        let bytes = self.buffer.get(..seen)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let last = whole == 0 && has_no_writer(&pipe.fd);
        if whole == 0 && !last {
            // The rest of the line comes, unless there is no room for it.
            if is_full(&pipe.fd, seen) {
                self.is_finished(number);
                return None;
            }
            self.look_again(number, seen);
            return Some(false);
        }
        let bytes = if last { bytes } else { bytes.get(..whole)? };
        let prefix = Prefix::new(files::now(), Some(pipe.run));
        self.lines.clear();
        let mut ready = pipe.stream.feed(bytes, &prefix, &mut self.lines);
        ready |= last && pipe.stream.end(&prefix, &mut self.lines);
        let count = bytes.len();
        let mut lines = self.units.push(pipe.unit, &self.lines)?;
        if ready {
            // While the line is in the pipe still: should this logger end now, the next one finds it.
            self.reports.push_back(Report::Ready(pipe.run));
            send_reports(&self.orders, &mut self.reports);
        }
        match intake.take(&pipe.fd, count, &lines) {
            Ok(mark) => lines.mark = Some(mark),
            Err(_) => drop(nix::unistd::read(&pipe.fd, self.buffer.get_mut(..count)?)),
        }
        let (unit, log) = (pipe.unit, pipe.log);
        self.is_finished(number);
        self.send(unit, log, lines);
        Some(true)
    }
}

/// Nobody will write into the pipe any more.
fn has_no_writer(pipe: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    let answered = poll(&mut asked, PollTimeout::ZERO);
    answered.is_ok()
        && asked.iter().filter_map(PollFd::revents).any(|is| is.contains(PollFlags::POLLHUP))
}

/// Whoever writes into the pipe has to wait, with so many bytes in it that were seen.
fn is_full(pipe: &OwnedFd, seen: usize) -> bool {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let Ok(write) = open(path.as_str(), flags, Mode::empty()) else {
        return seen >= limit::READ / 4;
    };
    let mut asked = [PollFd::new(write.as_fd(), PollFlags::POLLOUT)];
    seen >= limit::READ || matches!(poll(&mut asked, PollTimeout::ZERO), Ok(0))
}
