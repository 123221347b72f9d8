//! Restores init from its records. [`records`] reads the state. This file opens the store and
//! checks the state for another image (`--check-resume`). After a crash it kills helper children of
//! the crashed image that the state lacks.

pub(crate) mod records;

use crate::base::reexec::{arguments, environment};
use crate::base::{limit, procfs};
use crate::restore::records::State;
use crate::state::store::Store;
use crate::sys::{Pid, inherit, process, signal, socket, wait};
use crate::upgrade::{Check, PASSED, Rescue, read_word, word};
use groundstate_units::spec::Exit;
use nix::unistd::alarm;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::process::ExitCode;

/// Takes over a descriptor of the previous image.
pub(crate) fn inherited(number: RawFd) -> Option<OwnedFd> {
    inherit::take(number).ok()
}

pub(crate) fn open_store(number: RawFd) -> Result<Store, String> {
    Store::open(inherited(number).ok_or("no saved state")?)
}

/// Checks whether this image can read the state (`--check-resume`), without side effects.
pub(crate) fn check(word: &str) -> ExitCode {
    let Check { store, said } = read_word(word).unwrap_or_default();
    let said = inherited(said);
    let read = open_store(store).and_then(|store| State::read(&store)).and_then(|state| {
        // After an upgrade, init decodes a definition only at the next command of its run.
        let unreadable = state.runs.iter().find(|(_, running)| running.spec().is_none());
        let unreadable =
            unreadable.map(|(_, running)| format!("the definition of {}", running.name));
        // The descriptors belong to the other image.
        std::mem::forget(state);
        unreadable.map_or(Ok(()), Err)
    });
    let text = match &read {
        Ok(()) => PASSED.to_string(),
        Err(why) => format!("it cannot read the state: {why}"),
    };
    // Without a socket it was called by hand.
    let told = said.is_some_and(|said| socket::send(said.as_fd(), text.as_bytes(), &[]).is_ok());
    if read.is_ok() && told { ExitCode::SUCCESS } else { ExitCode::from(65) }
}

/// Executes the newer binary that `--rescue` names, if this image cannot read the state. The newer
/// binary is then out of probation. Returns if this image is to continue.
pub(crate) fn execute_newer_image(rescue: &Rescue) {
    let Some(newer) = rescue.newer.and_then(inherited) else { return };
    // In a child, because a failed read closes descriptors of the state.
    let reader = process::fork_whole(|| {
        alarm::set(u32::try_from(limit::UPGRADE_TRIAL.as_secs()).unwrap_or(1));
        let store = open_store(rescue.store);
        u8::from(store.and_then(|store| State::read(&store)).map(std::mem::forget).is_err())
    });
    if reader.and_then(wait::await_end).is_ok_and(|exit| exit == Exit::Code(0)) {
        return;
    }
    inherit::keep_all();
    let words = arguments(word("--rescue", &Rescue { newer: None, ..rescue.clone() }));
    let _ = process::execute(newer.as_fd(), &words, &environment());
    inherit::keep_none();
}

// After a crash: kills helpers that were forked after the last commit.

const KILL: u8 = 9;

const LOGGER: &str = "groundstate-log";
/// Helpers that exit by themselves after their last work.
const SELF_ENDING: [&str; 3] = [LOGGER, "groundstate-say", "init: frees"];

/// A helper that the crashed image forked and did not commit: its pid and its name.
pub(crate) type Helper = (Pid, String);

/// The process with its name, if it is a helper that the previous image forked since this time.
fn helper(pid: Pid, since: u64) -> Option<Helper> {
    // A process that has executed this program is no helper, but an init that a service runs.
    let is_fork = procfs::stat(pid).is_some_and(|stat| !stat.has_executed && stat.began >= since)
        && procfs::runs_this_program(pid);
    is_fork.then(|| (pid, procfs::shown(pid).map(|(name, _)| name).unwrap_or_default()))
}

/// The committed state, and helpers that are not in it. Kills a logger among them: once its
/// connection is closed, it would read the rest of pipes that the next logger is reading. The kill
/// loses nothing ([`crate::logger`]). It may be in the middle of a write, so the next logger waits
/// for its exit.
pub(crate) fn state(store: &Store) -> Result<(State, Vec<Helper>), String> {
    let mut state = State::read(store)?;
    let kept = state.components.pending.kept;
    let unknown =
        procfs::children().into_iter().map(Pid::from_raw).filter(|pid| !wait::is_made(*pid));
    let helpers: Vec<Helper> = unknown.filter_map(|pid| helper(pid, kept)).collect();
    for (pid, _) in helpers.iter().filter(|(_, name)| name == LOGGER) {
        end(*pid);
        state.logger.wait_for(*pid);
    }
    Ok((state, helpers))
}

/// Kills a helper.
fn end(pid: Pid) {
    // A failed kill means that it has exited already.
    let _ = signal::kill(pid, KILL);
    // Until it is reaped, it does not count as an orphan of a run.
    wait::count_as_made([pid.as_raw()]);
}

/// Kills the other helpers, because their work will be repeated. `starting` are children that
/// effects of the committed state start.
pub(crate) fn end_helpers(helpers: &[Helper], starting: &BTreeSet<i32>) {
    let is_it = |(pid, name): &&Helper| {
        !starting.contains(&pid.as_raw()) && !SELF_ENDING.contains(&name.as_str())
    };
    helpers.iter().filter(is_it).for_each(|(pid, _)| end(*pid));
}
