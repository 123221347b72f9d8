//! Who is left when every unit is down: processes that no unit knows of. They are asked to
//! end, then made to. Spared are those of root whose first word begins with `@`: what the
//! root file system itself stands on (mdmon, iscsid, a FUSE server) says so that way.
//!
//! In a child alone: another process's command line can be waited for without end.

use crate::base::clock;
use crate::base::limit;
use crate::base::log_level::Level;
use crate::base::mode::Mode;
use crate::base::procfs;
use crate::output::console_log::Voice;
use crate::sys::{Pid, signal};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// SIGTERM.
pub(crate) const TERM: u8 = 15;
const KILL: u8 = 9;
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
    let mut voice = Voice::of(mode, None);
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

fn left(own: Pid) -> Vec<Pid> {
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
