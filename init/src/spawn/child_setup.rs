//! The rarely used settings of a unit that its forked child applies as root before expanding the
//! command line: conditions, directories, files and terminals, scheduling, the login record. Later
//! settings (chroot, capabilities) are in the child's [`crate::sys::child_setup::Orders`].

use super::condition;
use super::descriptor;
use super::directory::{self, Owner};
use crate::base::clock;
use crate::sys::child_setup::Step;
use crate::sys::{login, schedule};
use groundstate_units::spec::{Particular, Stdio};
use std::io;

/// A failure of a start: the step, the errno, and the index within the step.
pub(super) type SetupError = (Step, i32, u32);

/// Pause between two checks for an awaited file.
const FILE_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// These settings.
#[derive(Debug)]
pub(super) struct ChildSetup {
    pub(super) particular: Particular,
    /// True for the unit's first process, which checks the conditions.
    pub(super) asks: bool,
    /// The unit's user and group, also if this command runs as another user.
    pub(super) owner: Owner,
}

impl ChildSetup {
    /// Applies these settings in the child.
    pub(super) fn wear(&self) -> Result<(), SetupError> {
        if self.asks {
            self.await_files();
        }
        if self.asks
            && let Some(index) = condition::unmet(&self.particular.conditions)
        {
            let condition = self.particular.conditions.get(index);
            let assert = condition.is_some_and(|condition| condition.assert);
            let step = if assert { Step::Assert } else { Step::Condition };
            return Err((step, libc::ECANCELED, u32::try_from(index).unwrap_or(u32::MAX)));
        }
        self.make_directories()?;
        descriptor::arrange(&self.particular.stdio, self.owner)
            .map_err(|(stream, error)| broken(Step::Stdio, &error, stream as u32))?;
        self.schedule().map_err(|(error, index)| broken(Step::Schedule, &error, index))?;
        if self.particular.ignore_sigpipe {
            schedule::ignore_sigpipe();
        }
        record_login(&self.particular.stdio, true, nix::unistd::getpid().as_raw());
        Ok(())
    }

    /// Waits for the files; the start timeout of the run limits the wait.
    fn await_files(&self) {
        for path in &self.particular.wait_file {
            while !std::path::Path::new(path).exists() {
                clock::pause(FILE_PAUSE);
            }
        }
    }

    fn make_directories(&self) -> Result<(), SetupError> {
        let mut index = 0;
        for directories in &self.particular.directories {
            for name in &directories.names {
                directory::make(directories.kind, name, directories.mode, self.owner)
                    .map_err(|error| broken(Step::Directory, &error, index))?;
                index += 1;
            }
        }
        Ok(())
    }

    fn schedule(&self) -> Result<(), (io::Error, u32)> {
        let schedule = &self.particular.schedule;
        if let Some(score) = schedule.oom_score_adjust {
            match std::fs::write("/proc/self/oom_score_adj", score.to_string()) {
                // A container without CAP_SYS_RESOURCE may not lower the score, which has no
                // security effect.
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
                written => written.map_err(|e| (e, 0))?,
            }
        }
        if let Some(nice) = schedule.nice {
            schedule::set_nice(nice).map_err(|e| (e, 1))?;
        }
        if let Some(priority) = schedule.io_priority {
            schedule::set_io_priority(priority).map_err(|e| (e, 2))?;
        }
        if let Some((policy, priority)) = schedule.cpu_policy {
            schedule::set_policy(policy, priority).map_err(|e| (e, 3))?;
        }
        if !schedule.cpu_affinity.is_empty() {
            schedule::set_affinity(&schedule.cpu_affinity).map_err(|e| (e, 4))?;
        }
        Ok(())
    }
}

/// The keys of the scheduling steps, in their order.
pub(super) const SCHEDULING: [&str; 5] =
    ["oom-score-adjust", "nice", "io-priority", "cpu-policy", "cpu-affinity"];

fn broken(step: Step, error: &io::Error, index: u32) -> SetupError {
    (step, error.raw_os_error().unwrap_or(libc::EIO), index)
}

/// Writes the utmp record of a terminal at the start or the end of a login.
fn record_login(stdio: &Stdio, begins: bool, pid: i32) {
    if !stdio.utmp_id.is_empty() {
        let line = stdio.tty.path.strip_prefix("/dev/").unwrap_or(&stdio.utmp_id);
        login::record(&stdio.utmp_id, line, pid, begins);
    }
}

/// Removes the files of a run after its end, in a child. Returns the number of failures.
pub(crate) fn put_off(particular: &Particular, main: i32) -> u8 {
    record_login(&particular.stdio, false, main);
    let runtime = particular.directories.iter();
    let runtime = runtime.filter(|d| d.kind == groundstate_units::spec::DirectoryKind::Runtime);
    let names = runtime.flat_map(|d| d.names.iter().map(|name| (d.kind, name)));
    let failed = names.filter(|(kind, name)| directory::remove(*kind, name).is_err()).count();
    u8::try_from(failed).unwrap_or(u8::MAX)
}
