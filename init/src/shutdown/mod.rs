//! The end of init, once all units are down or the deadline has passed.
//!
//! On a machine, init kills the remaining processes. A child with a deadline syncs and unmounts the
//! file systems ([`crate::shutdown::unmount`]). Then init calls reboot(2) or executes the
//! initramfs's shutdown program ([`crate::shutdown::final_exec`]). Elsewhere init removes its files
//! and exits. The state machine decides the order in which units stop.

pub(crate) mod emergency_shell;
pub(crate) mod final_exec;
pub(crate) mod unmount;
pub(crate) mod watchdog;

use crate::base::Level;
use crate::base::Mode;
#[cfg(debug_assertions)]
use crate::base::crash_test;
use crate::base::{clock, limit, procfs};
use crate::output::console_log;
use crate::output::console_log::ConsoleLog;
use crate::output::parent_notify::Outer;
use crate::shutdown::watchdog::Watchdog;
use crate::sys::{Pid, process, signal, wait};
use groundstate_units::machine::event::Shutdown;
use groundstate_units::spec::Exit;
use groundstate_units::text::fields::is_default;
use groundstate_units::text::time::Time;
use nix::sys::reboot::{RebootMode, reboot};
use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::convert::Infallible;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// The progress of a shutdown, and the time of the next progress message of a boot or a shutdown.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Ending {
    /// The requested kind.
    pub(crate) asked: Option<Shutdown>,
    /// The deadline of the logger, once all units are down.
    pub(crate) logger_until: Option<Time>,
    /// The kind with which init ends now.
    pub(crate) reached: Option<Shutdown>,
    /// The time of the first request.
    pub(crate) asked_at: Option<Time>,
    /// The time of the next progress message.
    pub(crate) tell_at: Option<Time>,
    /// The last step of haste, and its time.
    haste: Option<(Haste, Time)>,
}

/// The waits that a shutdown in progress skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Haste {
    /// Skips the waits for units: their processes are killed. Disks are synced and unmounted.
    Kill,
    /// Skips all waits: the kernel reboots at once, and unwritten data is lost.
    AtOnce,
}

impl Ending {
    /// The present haste.
    pub(crate) fn haste(&self) -> Option<Haste> {
        self.haste.map(|(haste, _)| haste)
    }

    /// Returns true if a shutdown was requested.
    pub(crate) fn is_under_way(&self) -> bool {
        self.asked.is_some()
    }

    /// The deadline of the logger, or the time of the next progress message.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.logger_until.or(self.tell_at)
    }

    /// Starts a shutdown, or changes its kind.
    pub(crate) fn begin(&mut self, how: Shutdown, now: Time) {
        self.asked = Some(how);
        if self.asked_at.is_none() {
            self.tell_at = Some(now.after(limit::BLOCKERS));
        }
        self.asked_at.get_or_insert(now);
    }

    /// Hastens the shutdown by this step. Returns `None` if no shutdown is in progress, and false
    /// if the step was taken before.
    pub(crate) fn hasten(&mut self, haste: Haste, now: Time) -> Option<bool> {
        self.asked?;
        if self.haste.is_some_and(|(before, _)| before >= haste) {
            return Some(false);
        }
        self.haste = Some((haste, now));
        Some(true)
    }

    /// Ends the wait: init ends now.
    pub(crate) fn end_wait(&mut self) {
        self.reached = self.asked;
    }

    /// Schedules the next progress message after a pause, unless no unit is waited for any more.
    pub(crate) fn schedule_progress_message(&mut self, waits: bool, pause: Duration, now: Time) {
        let waits = waits && self.haste.is_none();
        self.tell_at = waits.then(|| now.after(pause));
    }

    /// The time before which another request counts as the same one.
    pub(crate) fn same_request_until(&self) -> Option<Time> {
        let last = self.haste.map(|(_, at)| at).or(self.asked_at)?;
        Some(last.after(limit::ASKED_AGAIN))
    }
}

const KILL: u8 = 9;

/// The final steps after the loop.
pub(crate) struct End {
    /// The kind of end.
    pub(crate) how: Shutdown,
    pub(crate) mode: Mode,
    /// The outer manager to report to.
    pub(crate) outer: Outer,
    /// Waits that the final step skips.
    haste: Option<Haste>,
    /// The hardware watchdog, which must be fed.
    pub(crate) watchdog: Option<Watchdog>,
    /// Number of images that have crashed in the final steps.
    pub(crate) crashes: u32,
}

impl End {
    /// Prepares the final steps. From here on, a crash continues them in the next image, which
    /// knows no units.
    pub(crate) fn new(
        how: Shutdown,
        mode: Mode,
        outer: Outer,
        haste: Option<Haste>,
        watchdog: Option<Watchdog>,
    ) -> End {
        let end = End { how, mode, outer, haste, watchdog, crashes: 0 };
        final_exec::arm(&end);
        end
    }

    /// Carries out the final steps. Returns the exit status unless init is a machine's.
    pub(crate) fn carry_out(&mut self) -> u8 {
        #[cfg(debug_assertions)]
        crash_test::strike_in("end", self.crashes == 0);
        #[cfg(debug_assertions)]
        crash_test::strike_in("each end", self.haste < Some(Haste::AtOnce));
        let code = match self.how {
            Shutdown::Exit(code) => code,
            Shutdown::Poweroff | Shutdown::Reboot | Shutdown::Halt => 0,
        };
        self.outer.say(&format!("EXIT_STATUS={code}\nSTATUS=stopped\n"));
        self.outer.finish();
        console_log::finish();
        let patience = match self.haste {
            Some(_) => Duration::ZERO,
            None if self.mode == Mode::Container => Duration::from_millis(200),
            None => Duration::from_secs(2),
        };
        if self.mode != Mode::Machine {
            if self.mode == Mode::Container && self.haste < Some(Haste::AtOnce) {
                // The remaining processes die with PID 1 anyway; they get a chance to exit first.
                self.kill_rest(patience);
            }
            return code;
        }
        if self.haste < Some(Haste::AtOnce) {
            self.kill_rest(patience);
            if final_exec::image_is_deleted() {
                // A deleted file in use keeps its file system writable.
                final_exec::execute_from_memory(self);
            }
            self.unmount();
        }
        self.tell_the_kernel()
    }

    /// Terminates all remaining processes, in a child. If the child blocks, all processes are
    /// signalled, without exceptions.
    fn kill_rest(&mut self, patience: Duration) {
        let (mode, watchdog) = (self.mode, &mut self.watchdog);
        let work = || u8::from(!end(patience, mode));
        let _ = reaped().count();
        let asked = signal::kill_everybody(0);
        if asked.is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH)) {
            // No process is left.
            return;
        }
        let Ok(child) = process::fork(&[], work) else { return end_all(patience, watchdog) };
        let most = patience.saturating_add(limit::KILL_REST);
        let ended = feed_until(most, watchdog, || reaped().find(|ended| ended.pid == child));
        match ended.map(|ended| ended.exit) {
            Some(Exit::Code(0)) => {}
            Some(Exit::Code(_) | Exit::Signal { .. }) => end_all(patience, watchdog),
            None => kill_all(watchdog),
        }
    }

    /// Unmounts the file systems, which are no longer needed.
    fn unmount(&mut self) {
        console("unmounting file systems");
        unmount::with_deadline(&mut self.watchdog);
        final_exec::to_initramfs(self.how);
    }

    /// Ends the machine. Never returns.
    fn tell_the_kernel(&mut self) -> ! {
        let (mode, key) = match self.how {
            Shutdown::Reboot => (RebootMode::RB_AUTOBOOT, "b"),
            Shutdown::Halt => (RebootMode::RB_HALT_SYSTEM, ""),
            Shutdown::Poweroff | Shutdown::Exit(_) => (RebootMode::RB_POWER_OFF, "o"),
        };
        let Err(error): nix::Result<Infallible> = reboot(mode);
        console(&format!("reboot(2) failed: {error}"));
        if !key.is_empty() {
            // Another way to the same action: see sysrq.rst of the kernel.
            let _ = std::fs::write("/proc/sysrq-trigger", key);
        }
        console("the system is stopped; it is safe to switch off the power");
        park()
    }
}

/// Terminates all processes without exceptions, because they cannot be told apart.
fn end_all(patience: Duration, watchdog: &mut Option<Watchdog>) {
    for number in [TERM, CONT] {
        // This fails if no process is left.
        let _ = signal::kill_everybody(number);
    }
    reap_for(patience, watchdog);
    kill_all(watchdog);
}

fn kill_all(watchdog: &mut Option<Watchdog>) {
    // This fails if no process is left.
    if signal::kill_everybody(KILL).is_ok() {
        reap_for(Duration::from_millis(500), watchdog);
    }
}

/// Reaps children that have exited, at most as many as in a turn. Orphans may exit as fast as they
/// are reaped, and the deadline and the watchdog must not wait for the last one.
fn reaped() -> impl Iterator<Item = wait::Ended> {
    std::iter::from_fn(|| wait::reap_any().ok()?).take(limit::REAPS_A_TURN)
}

fn reap_for(patience: Duration, watchdog: &mut Option<Watchdog>) {
    feed_until(patience, watchdog, || {
        let _ = reaped().count();
        signal::kill_everybody(0).err()
    });
}

/// The exit of a child of the final steps. Returns `None` if it does not come in time.
fn exit_of(child: Pid, most: Duration, watchdog: &mut Option<Watchdog>) -> Option<Exit> {
    let ended = feed_until(most, watchdog, || wait::reap(child).transpose());
    Some(ended?.ok()?.exit)
}

/// Repeats `step` until it has an outcome or the time is up, and feeds the watchdog meanwhile.
fn feed_until<T>(
    most: Duration,
    watchdog: &mut Option<Watchdog>,
    mut step: impl FnMut() -> Option<T>,
) -> Option<T> {
    let until = clock::now().after(most);
    while clock::now() < until {
        watchdog.iter_mut().for_each(|watchdog| watchdog.feed(clock::now()));
        let outcome = step();
        if outcome.is_some() {
            return outcome;
        }
        clock::pause(PAUSE);
    }
    None
}

pub(crate) fn console(text: &str) {
    ConsoleLog::console().say(clock::now(), Level::Info, format_args!("{text}"));
}

/// Waits for ever: if PID 1 of a machine exited, the kernel would panic.
pub(crate) fn park() -> ! {
    loop {
        reap_for(Duration::from_secs(1), &mut None);
        clock::pause(Duration::from_secs(1));
    }
}

// Terminates the processes that remain when all units are down: SIGTERM, then SIGKILL. It spares
// processes of root whose first argument starts with `@`. Services of the root file system (mdmon,
// iscsid, a FUSE server) mark themselves in this way.
//
// It runs in a child, because reading another process's command line may block for ever.

pub(crate) const TERM: u8 = 15;

/// SIGCONT: a stopped process cannot exit.
pub(crate) const CONT: u8 = 18;

/// Pause between two checks.
const PAUSE: Duration = Duration::from_millis(5);

/// Time for killed processes to exit.
const LAST: Duration = Duration::from_millis(500);

/// Terminates all processes; `patience` is the time between SIGTERM and SIGKILL. Returns false
/// without doing anything if there is no /proc. Only PID 1 may signal all processes.
pub(crate) fn end(patience: Duration, mode: Mode) -> bool {
    let own = nix::unistd::getpid();
    if procfs::snapshot().is_empty() {
        return false;
    }
    for signal in [TERM, CONT] {
        signal_rest(own, signal);
    }
    if !wait_for(own, patience, None) && !wait_for(own, LAST, Some(KILL)) {
        report_survivors(own, mode);
    }
    true
}

/// Reports processes that survive SIGKILL.
fn report_survivors(own: Pid, mode: Mode) {
    // This child may block on the log's reader.
    let mut voice = ConsoleLog::of(mode, None);
    for pid in left(own).into_iter().take(limit::BLOCKERS_NAMED) {
        if let Some((command, state)) = procfs::shown(pid) {
            let text = format_args!("pid {pid} ({command}) does not exit after SIGKILL: {state}");
            voice.say(clock::now(), Level::Warning, text);
        }
    }
}

/// Waits until no process is left, and returns true if so. A signal is sent repeatedly, so that
/// processes forked meanwhile get it too.
fn wait_for(own: Pid, patience: Duration, again: Option<u8>) -> bool {
    let until = clock::now().after(patience);
    loop {
        if left(own).is_empty() {
            return true;
        }
        if until <= clock::now() {
            return false;
        }
        if let Some(signal) = again {
            signal_rest(own, signal);
        }
        clock::pause(PAUSE);
    }
}

/// Signals all processes that are left.
fn signal_rest(own: Pid, number: u8) {
    for pid in left(own) {
        // An error means that the process has exited.
        let _ = signal::kill(pid, number);
    }
}

pub(crate) fn left(own: Pid) -> Vec<Pid> {
    let all = procfs::snapshot();
    let alive = all.values().filter(|found| !found.ended && !found.is_kernel_thread);
    alive
        .map(|found| Pid::from_raw(found.pid))
        .filter(|pid| pid.as_raw() != 1 && *pid != own)
        .filter(|pid| !is_spared(*pid))
        .collect()
}

fn is_spared(pid: Pid) -> bool {
    let of_root = std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|data| data.uid() == 0);
    let mut first = [0u8; 1];
    let read = || File::open(format!("/proc/{pid}/cmdline"))?.read(&mut first);
    of_root && { read }().is_ok_and(|length| length == 1) && first == *b"@"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;
    use nix::sys::wait::{Id, WaitPidFlag, waitid};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    /// A process with that name, until the end of the test.
    struct Sleeper(Child);

    impl Sleeper {
        fn named(name: &str) -> Sleeper {
            let mut command = Command::new("sleep");
            command.arg0(name).arg("1000").stdout(Stdio::null()).stderr(Stdio::null());
            let sleeper = Sleeper(command.spawn().unwrap());
            let file = format!("/proc/{}/cmdline", sleeper.0.id());
            let start = Instant::now();
            // execve(2) wakes the parent a moment before the new name is visible.
            while std::fs::read(&file).unwrap().is_empty() {
                assert!(start.elapsed() < Duration::from_secs(10), "{name} has no name");
                std::thread::yield_now();
            }
            sleeper
        }

        fn pid(&self) -> Pid {
            Pid::from_raw(self.0.id().try_into().unwrap())
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn reaping_in_one_step_of_the_shutdown_is_bounded() {
        // In a child, whose children no other test reaps.
        let child = sys::process::fork(&[], || {
            let more = limit::REAPS_A_TURN + 1;
            let children: Vec<Pid> =
                (0..more).map(|_| sys::process::fork(&[], || 0).unwrap()).collect();
            for child in children {
                waitid(Id::Pid(child), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).unwrap();
            }
            u8::from(reaped().count() != limit::REAPS_A_TURN)
        });
        assert_eq!(sys::wait::await_end(child.unwrap()).unwrap(), Exit::Code(0));
    }

    #[test]
    fn processes_of_root_with_an_at_sign_are_not_killed_at_shutdown() {
        if !nix::unistd::geteuid().is_root() {
            return crate::not_run!("it takes root");
        }
        let (kept, other) = (Sleeper::named("@storage"), Sleeper::named("storage@"));
        assert!(is_spared(kept.pid()) && !is_spared(other.pid()));
        let left = left(nix::unistd::getpid());
        assert!(left.contains(&other.pid()) && !left.contains(&kept.pid()));
    }

    #[test]
    fn process_without_its_first_thread_is_killed_at_shutdown() {
        let child = sys::process::tests::without_first_thread();
        let found = left(nix::unistd::getpid()).contains(&child);
        signal::kill(child, KILL).unwrap();
        sys::wait::await_end(child).unwrap();
        assert!(found);
    }
}
