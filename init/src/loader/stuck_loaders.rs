//! Loaders that not even KILL has ended: they wait in the kernel for a file system that does not
//! answer, and end when it does. Nobody waits for them; there are so many and no more, for
//! each is a process.

use crate::base::limit;
use crate::base::log_level::Level;
use crate::event_loop::Init;
use crate::sys::{Pid, wait};
use groundstate_units::spec::Exit;
use std::collections::BTreeSet;

/// Those of this image; one that goes on after it reaps them as anybody's.
#[derive(Default)]
pub(super) struct Stragglers(BTreeSet<Pid>);

impl Stragglers {
    /// Another one would be one too many.
    pub(super) fn are_many(&self) -> bool {
        self.0.len() >= limit::LOADERS_LEFT
    }

    /// A child was reaped. True: it was one of these.
    pub(super) fn ended(&mut self, pid: Pid) -> bool {
        self.0.remove(&pid)
    }
}

impl Init {
    /// The deadline has come: it is killed, and where that does not end it, left behind; at boot
    /// the machine goes on without it.
    pub(crate) fn loader_due(&mut self) {
        let now = self.now;
        if !self.loader.is_at_work() {
            return;
        }
        let Some(working) = &mut self.loader.working else { return };
        working.parcel.read_some();
        if working.deadline > now {
            return;
        }
        if !working.killed {
            (working.killed, working.deadline) = (true, now.after(limit::LOADER_DYING));
            let _ = wait::kill_made(working.pid, 9);
            return;
        }
        let Some(working) = self.loader.working.take() else { return };
        self.loader.stragglers.0.insert(working.pid);
        let pid = working.pid;
        self.say(
            Level::Error,
            format_args!("not even a kill has ended the loader (process {pid})"),
        );
        self.loader_failed(working, Exit::Signal { signal: 9, core: false });
        self.next_load();
    }
}
