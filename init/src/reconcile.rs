//! After a crash: the state that was kept, compared with what there is. What was reaped since
//! has ended, how nobody knows; what was started since belongs to no run, and is killed, never
//! left beside the next one.

use crate::cgroup::Look;
use crate::control::client::Client;
use crate::event_loop::Init;
use crate::journal::state::State;
use crate::lineage::Lineage;
use crate::logger::Handle;
use crate::process;
use crate::run::procedure::{Part, UNKNOWN};
use crate::run::running::Main;
use crate::state::store::Store;
use crate::sys::impatience::impatiently;
use crate::sys::{Pid, signal, wait};
use crate::voice::Level;
use groundstate_units::machine::event::RunId;
use std::collections::BTreeSet;

const KILL: u8 = 9;
/// Helpers that end by themselves, once they have said or done what is left.
const COME_TO_AN_END: [&str; 3] = [LOGGER, "groundstate-say", "init: frees"];
const LOGGER: &str = "groundstate-log";

/// The image before has forked it since then, and it has not become another program; its name.
fn helper(pid: Pid, since: u64) -> Option<String> {
    // What has executed it is another init, of a service.
    let is_fork = process::stat(pid).is_some_and(|stat| !stat.has_executed && stat.began >= since)
        && process::runs_this_program(pid);
    is_fork.then(|| process::shown(pid).map(|(name, _)| name).unwrap_or_default())
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
    for pid in process::children().into_iter().map(Pid::from_raw) {
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
        self.kill_unknown_cgroups(&BTreeSet::new());
        if !self.tracker.has_cgroups() {
            self.kill_unknown_children();
        }
        let lines = self.runs.iter().flat_map(|(run, running)| {
            running.lines.iter().map(move |(pid, part)| (run, Pid::from_raw(*pid), *part))
        });
        let mains = self.runs.iter().filter_map(|(run, running)| match running.main {
            Some(Main::Child(pid)) if running.line(pid).is_none() => {
                Some((run, Pid::from_raw(pid), Part::Main))
            }
            _ => None,
        });
        let gone: Vec<(RunId, Pid, Part)> =
            lines.chain(mains).filter(|(_, pid, _)| !wait::is_child(*pid)).collect();
        for (run, pid, part) in gone {
            self.tracker.ended(pid);
            // Whose end nobody has noted is looked after in each replay.
            self.tracker.adopt_left(Look::Now);
            wait::reaped_before(pid);
            let name = self.runs.get(run).map(|running| running.name.to_string());
            let name = name.unwrap_or_default();
            self.say(Level::Warning, format_args!("{name}: how process {pid} ended is not known"));
            self.runs.disown(pid.as_raw());
            self.part_ended(run, pid.as_raw(), part, UNKNOWN);
        }
        self.tracker.forget_reaped();
        for pid in self.own_children() {
            if !wait::is_child(pid) {
                wait::reaped_before(pid);
                self.child_ended(pid, UNKNOWN);
            }
        }
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

    /// Cgroups of no run, but for these.
    pub(crate) fn kill_unknown_cgroups(&mut self, spared: &BTreeSet<String>) {
        let within = |name: &str, spared: &str| {
            spared == name
                || spared.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))
                || name.strip_prefix(spared).is_some_and(|rest| rest.starts_with('/'))
        };
        let mut cgroups = self.tracker.unknown_cgroups();
        cgroups.retain(|name| !spared.iter().any(|spared| within(name, spared)));
        if self.tracker.has_forgotten() && !cgroups.is_empty() {
            let text = "what lives in it may have been left on purpose: it is not killed";
            let (count, first) = (cgroups.len(), cgroups.first().map_or("", String::as_str));
            return self.say(Level::Warning, format_args!("{count} cgroups, {first}: {text}"));
        }
        for name in &cgroups {
            self.say(Level::Warning, format_args!("{name} was begun in the crash: it is killed"));
            self.tracker.kill_unknown(name);
        }
    }

    /// Children of init's own that no run has.
    fn own_children(&self) -> Vec<Pid> {
        let of_runs: BTreeSet<i32> = self
            .runs
            .iter()
            .flat_map(|(_, running)| running.lines.iter().map(|(pid, _)| *pid))
            .collect();
        let made = wait::all_made().into_iter();
        made.filter(|pid| !of_runs.contains(pid)).map(Pid::from_raw).collect()
    }

    /// Helpers of the image before, of which no state knows: what they were to do is done again, and they
    /// would do it under what is begun next. Some of them were to become a unit's program. Before anything
    /// is done: no way out of the kernel leads past a pending KILL. `begun`: what is looked at later.
    pub(crate) fn end_helpers(&mut self, begun: &BTreeSet<i32>) {
        for pid in process::children().into_iter().map(Pid::from_raw) {
            let is_known = wait::is_made(pid) || begun.contains(&pid.as_raw());
            let ends = |name: String| COME_TO_AN_END.contains(&&*name);
            if !is_known && !helper(pid, self.lineage.kept).is_none_or(ends) {
                // It has ended already, or its end is about to be reaped.
                let _ = signal::kill(pid, KILL);
                self.tracker.is_dying(pid);
                // Until then nobody else has left it.
                wait::made_before([pid.as_raw()]);
            }
        }
    }

    /// Without cgroups: children of init that are of no run. Those that began before the state was kept
    /// are what it had been left already: orphans, and what an end has spared. So are the later ones where
    /// all that was begun is noted: a service may leave one at any time. But for what may be of somebody that
    /// has just been killed.
    fn kill_unknown_children(&mut self) {
        let Lineage { kept, has_all_begun, killed_since, .. } = self.lineage;
        let since = if has_all_begun { killed_since.unwrap_or(u64::MAX) } else { kept };
        for pid in process::children().into_iter().map(Pid::from_raw) {
            let known = wait::is_made(pid) || self.tracker.whose(pid).is_some();
            let is_since = |then| process::stat(pid).is_none_or(|stat| stat.began >= then);
            if !known && is_since(since) {
                self.say(Level::Warning, format_args!("process {pid} is of no unit: it is killed"));
                self.tracker.kill_with_all_below(pid);
                self.tracker.is_dying(pid);
                // Until its end is reaped nobody else has left it.
                wait::made_before([pid.as_raw()]);
            }
        }
    }
}
