//! A logger that is stopped, silent, or killed and does not end.
//!
//! One that waits for a disk does not end when it is killed. Its loop does, which is all that reads pipes
//! and has to do with the stage: its socket is closed by that, and another logger takes its place. That
//! one goes on with the stage, but its lane of files waits for the end of the one before
//! ([`super::held`]), which may be in the middle of a write: no file is ever written by two. So it is as if
//! the disk did not answer the living one. Of such there is one at a time.

use super::handle::Handle;
use super::limit;
use super::link::{Link, Ticked};
use crate::sys::{Pid, wait};
use groundstate_units::time::Time;

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
        link.kill(now);
        let pid = link.pid;
        if is_undying {
            (self.undying, self.link) = (Some(pid), None);
            // Failing, it is tried again.
            let _ = self.start(now);
            return Ticked::StartedBeside(pid);
        }
        if link.is_found_undying() { Ticked::DoesNotEnd(pid) } else { Ticked::Nothing }
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
