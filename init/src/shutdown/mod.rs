//! The end: what happens once every unit is down, or the deadline has passed.
//!
//! On a machine the rest is killed, disks are synced and unmounted by a child with a
//! deadline ([`crate::shutdown::unmount`]), and the kernel is told, or the initramfs that is to
//! ([`crate::shutdown::final_exec`]). Elsewhere init removes what it made and ends with a status. The
//! order in which units stop is the machine's; what is waited for is told by [`crate::shutdown`].

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
use std::convert::Infallible;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// How far the end is.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Ending {
    /// Asked for.
    #[serde(default, skip_serializing_if = "is_default")]
    asked: Option<Shutdown>,
    /// All units are down; the logger has until then to finish.
    #[serde(default, skip_serializing_if = "is_default")]
    logger_until: Option<Time>,
    /// Now.
    #[serde(default, skip_serializing_if = "is_default")]
    reached: Option<Shutdown>,
    /// When it was asked for first.
    #[serde(default, skip_serializing_if = "is_default")]
    begun: Option<Time>,
    /// What is waited for is told then.
    #[serde(default, skip_serializing_if = "is_default")]
    tell_at: Option<Time>,
    /// The last step of haste, and when it was taken.
    #[serde(default, skip_serializing_if = "is_default")]
    haste: Option<(Haste, Time)>,
}

/// How little an end that is under way is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Haste {
    /// No unit is waited for any more: what is left is killed. Disks are written and unmounted.
    Kill,
    /// Nothing is: the kernel ends everything as it is, unwritten or not.
    AtOnce,
}

impl Ending {
    /// init ends, this way.
    pub(crate) fn reached(&self) -> Option<Shutdown> {
        self.reached
    }

    /// How little is waited for.
    pub(crate) fn haste(&self) -> Option<Haste> {
        self.haste.map(|(haste, _)| haste)
    }

    /// It has been asked for.
    pub(crate) fn is_under_way(&self) -> bool {
        self.asked.is_some()
    }

    /// When the wait for the logger is over, or what is waited for is to be told.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.logger_until.or(self.tell_at)
    }

    /// The end is asked for: each time that counts for how init ends.
    pub(crate) fn begin(&mut self, how: Shutdown, now: Time) {
        self.asked = Some(how);
        self.begun.get_or_insert(now);
        self.tell_at.get_or_insert(now.after(limit::BLOCKERS));
    }

    /// The wait for units ends with this step. None: no end is under way. False: the step was taken before.
    pub(crate) fn hasten(&mut self, haste: Haste, now: Time) -> Option<bool> {
        self.asked?;
        if self.haste.is_some_and(|(before, _)| before >= haste) {
            return Some(false);
        }
        self.haste = Some((haste, now));
        Some(true)
    }

    /// Everything that was waited for is over.
    pub(crate) fn reach(&mut self) {
        self.reached = self.asked;
    }

    /// All units are down, and nobody has asked for the end since: then it is this one.
    pub(crate) fn asked_or(&mut self, how: Shutdown) {
        self.asked.get_or_insert(how);
    }

    /// The logger is to finish until then.
    pub(crate) fn await_logger(&mut self, now: Time) {
        self.logger_until = Some(now.after(limit::LOGGER_FINISH));
    }

    /// The time until which the logger may finish, once the units are down.
    pub(crate) fn logger_until(&self) -> Option<Time> {
        self.logger_until
    }

    /// It is time to tell what the end waits for.
    pub(crate) fn is_to_tell(&self, now: Time) -> bool {
        self.tell_at.is_some_and(|at| at <= now)
    }

    /// Sets when to tell again. Gives how long the end has waited; None: it waits for no unit any more.
    pub(crate) fn wait_to_tell(&mut self, waits: bool, now: Time) -> Option<Duration> {
        let at = self.tell_at.filter(|at| *at <= now)?;
        if self.haste.is_some() || !waits {
            self.tell_at = None;
            return None;
        }
        self.tell_at = Some(at.max(now).after(limit::BLOCKERS));
        Some(self.begun.map_or(Duration::ZERO, |begun| now.since(begun)))
    }

    /// The step after the one taken last.
    pub(crate) fn next_haste(&self) -> Haste {
        if self.haste.is_some() { Haste::AtOnce } else { Haste::Kill }
    }

    /// No further request counts before then: one that comes with the first is the same one.
    pub(crate) fn heeds_from(&self) -> Option<Time> {
        let last = self.haste.map(|(_, at)| at).or(self.begun)?;
        Some(last.after(limit::ASKED_AGAIN))
    }
}

const KILL: u8 = 9;

/// What is left to do when the loop is over.
pub(crate) struct End {
    /// How.
    pub(crate) how: Shutdown,
    /// What init is.
    pub(crate) mode: Mode,
    /// Who wants to know.
    pub(crate) outer: Outer,
    /// How little is waited for.
    haste: Option<Haste>,
    /// The machine would start anew if nobody fed it.
    pub(crate) watchdog: Option<Watchdog>,
    /// Images that have crashed at it.
    pub(crate) crashes: u32,
}

impl End {
    /// From now on a crash is one of the end: the next image ends as well, and knows of no unit.
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

    /// Does it; comes back with the exit status where init is not a machine's.
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
                // What no unit knows of ends with PID 1 in any case: it is asked first.
                self.kill_rest(patience);
            }
            return code;
        }
        if self.haste < Some(Haste::AtOnce) {
            self.kill_rest(patience);
            if final_exec::image_is_deleted() {
                // A file that is gone and in use keeps its file system writable.
                final_exec::go_on_in_memory(self);
            }
            self.unmount();
        }
        self.tell_the_kernel()
    }

    /// Asks every process there is to end, then makes it. A child does it; where that one is held
    /// up itself, nobody is asked and nobody spared any more.
    fn kill_rest(&mut self, patience: Duration) {
        let (mode, watchdog) = (self.mode, &mut self.watchdog);
        let work = || u8::from(!end(patience, mode));
        for _ in 0..limit::REAPS_A_TURN {
            if !matches!(wait::reap_any(), Ok(Some(_))) {
                break;
            }
        }
        let asked = signal::kill_everybody(0);
        if asked.is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH)) {
            // Nobody is left.
            return;
        }
        let Ok(child) = process::fork(&[], work) else { return end_all(patience, watchdog) };
        let until = clock::now().after(patience.saturating_add(limit::KILL_REST));
        while clock::now() < until {
            watchdog.iter_mut().for_each(|watchdog| watchdog.feed(clock::now()));
            match wait::reap_any() {
                Ok(Some(ended)) if ended.pid == child => match ended.exit {
                    Exit::Code(0) => return,
                    Exit::Code(_) | Exit::Signal { .. } => return end_all(patience, watchdog),
                },
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => clock::pause(Duration::from_millis(2)),
            }
        }
        kill_all(watchdog);
    }

    /// From here on nothing of the file systems is needed.
    fn unmount(&mut self) {
        console("unmounting file systems");
        unmount::with_deadline(self.watchdog.as_mut());
        final_exec::to_initramfs(self.how);
    }

    /// Does not come back.
    fn tell_the_kernel(&mut self) -> ! {
        let (mode, key) = match self.how {
            Shutdown::Reboot => (RebootMode::RB_AUTOBOOT, "b"),
            Shutdown::Halt => (RebootMode::RB_HALT_SYSTEM, ""),
            Shutdown::Poweroff | Shutdown::Exit(_) => (RebootMode::RB_POWER_OFF, "o"),
        };
        let Err(error): nix::Result<Infallible> = reboot(mode);
        console(&format!("the kernel refuses: {error}"));
        if !key.is_empty() {
            // Another door to the same: see sysrq.rst of the kernel.
            let _ = std::fs::write("/proc/sysrq-trigger", key);
        }
        console("nothing is left to do: the power may be switched off");
        park()
    }
}

/// The same where nobody can be told apart: nobody is spared.
fn end_all(patience: Duration, watchdog: &mut Option<Watchdog>) {
    for number in [TERM, CONT] {
        // Refused: there is nobody left.
        let _ = signal::kill_everybody(number);
    }
    reap_for(patience, watchdog);
    kill_all(watchdog);
}

fn kill_all(watchdog: &mut Option<Watchdog>) {
    // As above.
    if signal::kill_everybody(KILL).is_ok() {
        reap_for(Duration::from_millis(500), watchdog);
    }
}

fn reap_for(patience: Duration, watchdog: &mut Option<Watchdog>) {
    let until = clock::now().after(patience);
    while clock::now() < until {
        watchdog.iter_mut().for_each(|watchdog| watchdog.feed(clock::now()));
        match wait::reap_any() {
            Ok(Some(_)) => {}
            Ok(None) if signal::kill_everybody(0).is_err() => return,
            Ok(None) | Err(_) => clock::pause(Duration::from_millis(5)),
        }
    }
}

pub(crate) fn console(text: &str) {
    crate::output::console_log::ConsoleLog::console().say(
        clock::now(),
        Level::Info,
        format_args!("{text}"),
    );
}

/// PID 1 of a machine never ends: the kernel would panic.
pub(crate) fn park() -> ! {
    loop {
        reap_for(Duration::from_secs(1), &mut None);
        clock::pause(Duration::from_secs(1));
    }
}

// Who is left when every unit is down: processes that no unit knows of. They are asked to
// end, then made to. Spared are those of root whose first word begins with `@`: what the
// root file system itself stands on (mdmon, iscsid, a FUSE server) says so that way.
//
// In a child alone: another process's command line can be waited for without end.

/// SIGTERM.
pub(crate) const TERM: u8 = 15;

/// SIGCONT: what is stopped can not end itself.
pub(crate) const CONT: u8 = 18;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// How long the killed may take to go.
const LAST: Duration = Duration::from_millis(500);

/// Ends them all; `patience` is between the question and the kill. False: without a /proc it sees
/// nobody, and has done nothing. It is PID 1's alone to signal all that there are.
pub(crate) fn end(patience: Duration, mode: Mode) -> bool {
    let own = nix::unistd::getpid();
    if procfs::snapshot().is_empty() {
        return false;
    }
    for signal in [TERM, CONT] {
        tell(own, signal);
    }
    if !wait_for(own, patience, None) && !wait_for(own, LAST, Some(KILL)) {
        tell_of_the_left(own, mode);
    }
    true
}

/// Who can not even be killed.
fn tell_of_the_left(own: Pid, mode: Mode) {
    // A child may wait for who reads it.
    let mut voice = ConsoleLog::of(mode, None);
    for pid in left(own).into_iter().take(limit::BLOCKERS_NAMED) {
        if let Some((command, state)) = procfs::shown(pid) {
            let text = format_args!("pid {pid} ({command}) can not be killed: {state}");
            voice.say(clock::now(), Level::Warning, text);
        }
    }
}

/// True: nobody is left. With a signal, it is said again and again: who forks meanwhile does
/// not get away.
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
            tell(own, signal);
        }
        clock::pause(PAUSE);
    }
}

fn tell(own: Pid, number: u8) {
    for pid in left(own) {
        // Gone meanwhile: as it should be.
        let _ = signal::kill(pid, number);
    }
}

pub(crate) fn left(own: Pid) -> Vec<Pid> {
    let all = procfs::snapshot();
    let alive = all.values().filter(|found| !found.ended && !found.is_of_the_kernel);
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
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    /// A process of that name, until the test is over.
    struct Sleeper(Child);

    impl Sleeper {
        fn named(name: &str) -> Sleeper {
            let mut command = Command::new("sleep");
            command.arg0(name).arg("1000").stdout(Stdio::null()).stderr(Stdio::null());
            let sleeper = Sleeper(command.spawn().unwrap());
            let file = format!("/proc/{}/cmdline", sleeper.0.id());
            let begun = Instant::now();
            // execve(2) has let go of the parent a moment before the new name is there.
            while std::fs::read(&file).unwrap().is_empty() {
                assert!(begun.elapsed() < Duration::from_secs(10), "{name} has no name");
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
    fn root_s_processes_whose_name_begins_with_an_at_sign_are_spared() {
        if !nix::unistd::geteuid().is_root() {
            return crate::not_run!("it takes root");
        }
        let (kept, other) = (Sleeper::named("@storage"), Sleeper::named("storage@"));
        assert!(is_spared(kept.pid()) && !is_spared(other.pid()));
        let left = left(nix::unistd::getpid());
        assert!(left.contains(&other.pid()) && !left.contains(&kept.pid()));
    }

    #[test]
    fn who_lives_on_without_its_first_thread_is_ended_too() {
        let child = sys::process::tests::without_first_thread();
        let found = left(nix::unistd::getpid()).contains(&child);
        signal::kill(child, KILL).unwrap();
        sys::wait::await_end(child).unwrap();
        assert!(found);
    }
}
