//! A logger that is stopped, silent, or killed and does not end.
//!
//! One that waits for a disk does not end when it is killed. Its loop does, which is all that reads pipes
//! and has to do with the stage: its socket is closed by that, and another logger takes its place. That
//! one goes on with the stage, but its lane of files waits for the end of the one before
//! ([`super::held`]), which may be in the middle of a write: no file is ever written by two. So it is as if
//! the disk did not answer the living one. Of such there is one at a time, and none where nobody can wait for
//! an end (a kernel without pidfds): there the next one is begun once it has ended.

use super::handle::Handle;
use super::limit;
use super::link::{Link, Ticked};
use crate::sys::{Pid, signal, wait};
use groundstate_units::time::Time;
use std::io;
use std::os::fd::OwnedFd;

/// Tells its end. None: it is reaped, and nobody heard of that (in a crash): its pid may be another's.
fn end_of(pid: Pid) -> io::Result<Option<OwnedFd>> {
    match wait::is_made(pid).then(|| signal::pidfd(pid)) {
        None => Ok(None),
        Some(Err(error)) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Some(opened) => opened.map(Some),
    }
}

impl Handle {
    /// SIGCHLD came: a logger that was stopped by a signal is replaced at once, because nobody
    /// else notices before services wait for it.
    pub(crate) fn look(&mut self, now: Time) {
        if let Some(link) = &mut self.link
            && wait::is_stopped(link.pid)
        {
            link.kill(now);
        }
    }

    /// When [`Handle::tick`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let silent = self.link.as_ref().and_then(Link::silent_at);
        [silent, self.undying_at(), self.start_at].into_iter().flatten().min()
    }

    /// When the present one is taken for one that does not end, and may be replaced before it has.
    fn undying_at(&self) -> Option<Time> {
        let over = self.link.as_ref().and_then(|link| link.over)?;
        (self.undying.is_none() && !self.finishing).then(|| over.after(limit::DEATH))
    }

    /// Kills a silent logger; starts the next one when it is time.
    pub(crate) fn tick(&mut self, now: Time) -> Ticked {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return Ticked::Nothing;
        }
        let is_undying = self.undying_at().is_some_and(|at| at <= now);
        let Some(link) = &mut self.link else {
            return if self.start(now).is_ok() { Ticked::Started } else { Ticked::Nothing };
        };
        // It may be slow to end by itself: that it does not is known of one that was killed.
        let was_killed = link.kill(now);
        let pid = link.pid;
        if is_undying {
            match end_of(pid) {
                Ok(Some(_)) if was_killed => {
                    (self.undying, self.link) = (Some(pid), None);
                    // Failing, it is tried again.
                    let _ = self.start(now);
                    return Ticked::StartedBeside(pid);
                }
                Ok(None) => _ = self.ended(pid, now),
                Ok(Some(_)) | Err(_) => {}
            }
        }
        let is_found = self.link.as_ref().is_some_and(Link::is_found_undying);
        if is_found { Ticked::DoesNotEnd(pid) } else { Ticked::Nothing }
    }

    /// The end of the one that was killed and has not ended, for the next one to wait for.
    pub(super) fn before(&mut self) -> io::Result<Option<OwnedFd>> {
        let before = self.undying.map_or(Ok(None), end_of)?;
        self.undying.take_if(|_| before.is_none());
        Ok(before)
    }

    /// One that was killed and has not ended.
    pub(crate) fn undying(&self) -> Option<Pid> {
        self.undying
    }

    /// The same, as an image of init before this one knew it.
    pub(crate) fn know_undying(&mut self, pid: Option<Pid>) {
        self.undying = pid;
    }
}
