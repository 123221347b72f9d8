//! Loaders that not even KILL has ended: they wait in the kernel for a file system that does not
//! answer, and end when it does. Nobody waits for them; there are so many and no more, for
//! each is a process.

use super::Working;
use crate::event_loop::Init;
use crate::limit;
use crate::sys::{Pid, wait};
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

/// What is said of a load that was given up.
pub(super) fn too_long() -> String {
    format!("loading took longer than {} s", limit::LOADER.as_secs())
}

impl Init {
    /// The deadline has come: it is killed, and where that does not end it, left behind; at boot
    /// the machine goes on without it.
    pub(crate) fn loader_due(&mut self) {
        self.first_load_due();
        let now = self.now;
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
        let Some(Working { pid, purpose, .. }) = self.loader.working.take() else { return };
        self.loader.stragglers.0.insert(pid);
        let why = format!("{}; not even a kill has ended it (process {pid})", too_long());
        self.loaded(purpose, Err(why));
        self.next_load();
    }
}
