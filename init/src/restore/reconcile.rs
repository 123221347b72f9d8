//! After a crash: what the committed state does not say. Helpers that were forked after the commit are killed,
//! and the logger and the control socket go on from what they are.

use crate::base::procfs;
use crate::control::client::Client;
use crate::event_loop::Init;
use crate::logger::Handle;
use crate::restore::records::State;
use crate::state::store::Store;
use crate::sys::no_linger::impatiently;
use crate::sys::{Pid, signal, wait};
use std::collections::BTreeSet;

const KILL: u8 = 9;
/// Helpers that end by themselves, once they have said or done what is left.
const COME_TO_AN_END: [&str; 3] = [LOGGER, "groundstate-say", "init: frees"];
const LOGGER: &str = "groundstate-log";

/// The image before has forked it since then, and it has not become another program; its name.
fn helper(pid: Pid, since: u64) -> Option<String> {
    // What has executed it is another init, of a service.
    let is_fork = procfs::stat(pid).is_some_and(|stat| !stat.has_executed && stat.began >= since)
        && procfs::runs_this_program(pid);
    is_fork.then(|| procfs::shown(pid).map(|(name, _)| name).unwrap_or_default())
}

/// What was kept, without a logger of which it does not know.
pub(crate) fn state(store: &Store) -> Result<State, String> {
    let mut state = State::read(store)?;
    if let Some(logger) = &mut state.logger {
        end_unknown_logger(logger, state.head.kept);
    }
    Ok(state)
}

/// A logger that was begun since the state was kept, of which nobody knows. Once its end of the line is closed it would
/// take what is left in the pipes, and the next one has what was begun of that: killed it loses nothing
/// ([`crate::logger`]). It may be in the middle of a write, so the next one waits for its end.
fn end_unknown_logger(logger: &mut Handle, kept: u64) {
    for pid in procfs::children().into_iter().map(Pid::from_raw) {
        if !wait::is_made(pid) && helper(pid, kept).as_deref() == Some(LOGGER) {
            // It has ended already, or its end is about to be reaped.
            let _ = signal::kill(pid, KILL);
            wait::made_before([pid.as_raw()]);
            logger.wait_for(pid);
        }
    }
}

impl Init {
    /// Once, before the first turn.
    pub(crate) fn reconcile(&mut self) {
        if let Some(logger) = &mut self.logger {
            logger.reconcile();
        }
        if let Some(control) = &mut self.control {
            // What they had asked may be half done: nobody waits for an answer in vain.
            let waits = |client: &Client| client.follows.is_some() || !client.waits.is_empty();
            impatiently(|| control.clients.retain(|_, client| waits(client)));
        }
        self.tracker.look_again();
    }

    /// Kills helpers that the crashed image has forked and not committed: what they were to do is done again.
    /// `starting`: children that effects of the committed state start.
    pub(crate) fn end_helpers(&mut self, starting: &BTreeSet<i32>) {
        for pid in procfs::children().into_iter().map(Pid::from_raw) {
            let is_known = wait::is_made(pid) || starting.contains(&pid.as_raw());
            let ends = |name: String| COME_TO_AN_END.contains(&&*name);
            if !is_known && !helper(pid, self.lineage.kept).is_none_or(ends) {
                // It has ended already, or its end is about to be reaped.
                let _ = signal::kill(pid, KILL);
                // Until then it is no orphan of a run.
                wait::made_before([pid.as_raw()]);
            }
        }
    }
}
