//! Signals to the main process of a run, and queries about it. Init never signals a pid that may
//! belong to another process: it holds an unreaped child or a pidfd.

use super::run_table::{Main, Runs};
use crate::sys::{Pid, signal, wait};
use groundstate_units::machine::event::RunId;
use std::os::fd::AsFd;

const KILL: u8 = 9;

impl Runs {
    /// Sends a signal to the main process, or to the process of the current command. Returns `None`
    /// if there is neither.
    pub(crate) fn signal_main(&self, run: RunId, number: u8) -> Option<std::io::Result<()>> {
        let running = self.get(run)?;
        let is_script = running.procedure.is_script();
        let named = running.main.as_ref().filter(|_| !is_script || running.current.is_none());
        Some(match named {
            Some(main) => main.signal(number),
            None => wait::kill_made(Pid::from_raw(running.current?), number),
        })
    }

    /// Kills the main process and the commands in progress. Their descendants keep running.
    pub(crate) fn kill_lines(&self, run: RunId) {
        let Some(running) = self.get(run) else { return };
        running.lines.iter().for_each(|(pid, _)| kill_line(*pid));
        if let Some(main) = running.main.as_ref().filter(|main| main.lives()) {
            let _ = main.signal(KILL);
        }
    }

    /// Returns true if the process belongs to another run. A pid that another run holds by a pidfd
    /// does not count once that process has exited.
    pub(crate) fn belongs_to_another_run(&self, run: RunId, pid: i32) -> bool {
        let Some(of) = self.run_of_process(pid).filter(|of| *of != run) else { return false };
        if self.run_of_child(pid) == Some(of) {
            return true;
        }
        !self.main(of).is_some_and(Main::is_gone)
    }

    /// Notes that the process behind a watched pidfd has exited.
    pub(crate) fn note_main_exit(&mut self, token: usize) {
        let main = self.watched(token).and_then(|run| self.main(run));
        if matches!(main, Some(Main::Other { token: at, .. }) if *at == token) {
            self.mains_ended.push(token);
        }
    }

    pub(crate) fn is_main(&self, run: RunId, pid: i32) -> bool {
        self.main(run).is_some_and(|main| main.pid() == pid)
    }

    pub(crate) fn is_told_to_stop(&self, run: RunId) -> bool {
        self.get(run).is_some_and(|running| running.procedure.is_told_to_stop())
    }
}

impl Main {
    /// Signals the process. Our own child keeps its pid until it is reaped.
    pub(crate) fn signal(&self, number: u8) -> std::io::Result<()> {
        match self {
            Main::Child(pid) => wait::kill_made(Pid::from_raw(*pid), number),
            Main::Other { pidfd, .. } => signal::pidfd_kill(pidfd.as_fd(), number),
        }
    }
}

/// Kills a command's process, if it is still an unreaped child: the table may hold its pid after
/// that.
fn kill_line(pid: i32) {
    let _ = wait::kill_made(Pid::from_raw(pid), KILL);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::process as maker;
    use groundstate_units::spec::Exit;
    use std::process::{Command, Stdio};

    #[test]
    fn pid_of_a_foreign_or_reaped_child_is_not_killed() {
        let mut other = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        kill_line(i32::try_from(other.id()).unwrap());
        drop(other.stdin.take());
        assert!(other.wait().unwrap().success());
        let made = maker::fork(&[], || {
            loop {
                nix::unistd::pause();
            }
        });
        kill_line(made.as_ref().copied().unwrap().as_raw());
        let ended = wait::await_end(made.unwrap()).unwrap();
        assert_eq!(ended, Exit::Signal { signal: KILL, core: false });
    }
}
