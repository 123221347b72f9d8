//! A shell on the console of a machine, if its goal and emergency target both fail or init cannot
//! restore its state ([`crate::crash`]).
//!
//! sulogin(8) asks for root's password, because a user at the console need not be root. Without
//! sulogin there is a shell only if the kernel command line has `groundstate.shell=open`.

use crate::base::kernel_cmdline::KernelLine;
use crate::base::limit;
use crate::state::carried;
use crate::sys::{Pid, device, process};
use groundstate_units::spec::Exit;
use groundstate_units::text::time::Time;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::stat::Mode as FileMode;
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Programs that ask for root's password.
const LOGINS: [&str; 2] = ["/sbin/sulogin", "/usr/sbin/sulogin"];

/// Programs that ask for no password.
const SHELLS: [&str; 3] = ["/bin/sh", "/bin/bash", "/bin/busybox"];

const CONSOLE: &str = "/dev/console";

/// Exit status of a child that has found no program; a retry would find none either.
const NO_PROGRAM: u8 = 127;

/// The candidate programs, in order.
fn programs(is_open: bool) -> Vec<&'static str> {
    let open: &[&'static str] = if is_open { &SHELLS } else { &[] };
    LOGINS.iter().chain(open).copied().collect()
}

/// The reason why no shell can be started.
fn why_none(is_open: bool) -> &'static str {
    if is_open {
        "no shell is installed"
    } else {
        "no sulogin is installed; boot with groundstate.shell=open for a shell without a password"
    }
}

/// Opens the console without waiting for the carrier of a serial line.
fn console(path: &str) -> io::Result<OwnedFd> {
    let how = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let console = open(path, how, FileMode::empty())?;
    let flags = OFlag::from_bits_truncate(fcntl(&console, FcntlArg::F_GETFL)?);
    fcntl(&console, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
    Ok(console)
}

/// The emergency shell of the event loop and of the caretaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EmergencyShell {
    #[serde(with = "carried::maybe_pid")]
    pid: Option<Pid>,
    /// The time of the restart. While the shell runs it is [`Time::NEVER`]; its exit sets the
    /// time. `None` if the shell is not restarted.
    again: Option<Time>,
}

impl EmergencyShell {
    /// Lets the shell be restarted whenever it exits.
    pub(crate) fn restart_on_exit(&mut self) {
        self.again = Some(Time::NEVER);
    }

    /// Starts the shell at this time.
    pub(crate) fn restart_at(&mut self, at: Time) {
        self.again = Some(at);
    }

    /// Ends the restarts, because another goal was set.
    pub(crate) fn stop_restarting(&mut self) {
        self.again = None;
    }

    /// The time of the next restart.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.again.filter(|at| *at < Time::NEVER)
    }

    /// Returns true if the shell is to be restarted now.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        self.again.take_if(|at| *at <= now).is_some()
    }

    /// Starts the shell. After an error it is retried after a pause.
    pub(crate) fn start(&mut self, now: Time) -> io::Result<()> {
        self.begin(programs(KernelLine::read().has_open_shell), CONSOLE, now)
    }

    /// Forks a child that becomes the shell. Only the child can block, on a hung console or a dead
    /// root file system.
    fn begin(&mut self, programs: Vec<&str>, console: &str, now: Time) -> io::Result<()> {
        let shell = process::fork(&[], || become_shell(&programs, console));
        match &shell {
            Ok(pid) => self.pid = Some(*pid),
            Err(_) => self.pause(now),
        }
        shell.map(drop)
    }

    /// Handles a reaped child. Returns `None` if it was not the shell, and an error if no program
    /// for a shell exists.
    pub(crate) fn ended(
        &mut self,
        pid: Pid,
        exit: Exit,
        now: Time,
    ) -> Option<Result<(), &'static str>> {
        self.pid.take_if(|of| *of == pid)?;
        if exit == Exit::Code(NO_PROGRAM) {
            return Some(Err(why_none(KernelLine::read().has_open_shell)));
        }
        self.pause(now);
        Some(Ok(()))
    }

    fn pause(&mut self, now: Time) {
        // `None` if another goal was set meanwhile.
        self.again = self.again.map(|_| now.after(limit::SHELL_PAUSE));
    }
}

/// Becomes the shell. Returns the exit status on a failure: an errno, or [`NO_PROGRAM`].
fn become_shell(programs: &[&str], path: &str) -> u8 {
    let _ = nix::unistd::setsid();
    let stdio = console(path).and_then(|console| {
        device::make_plain(console.as_fd());
        // This fails if the console is not a terminal.
        let _ = device::take(console.as_fd(), true);
        dup2_stdin(&console)?;
        dup2_stdout(&console)?;
        Ok(dup2_stderr(&console)?)
    });
    let status = |error: &io::Error| {
        let errno = error.raw_os_error().and_then(|errno| u8::try_from(errno).ok());
        errno.filter(|errno| *errno < NO_PROGRAM).unwrap_or(NO_PROGRAM - 1)
    };
    if let Err(error) = stdio {
        return status(&error);
    }
    for program in programs {
        let mut command = Command::new(program);
        command.args(program.ends_with("busybox").then_some("sh"));
        command.env_clear().envs([("HOME", "/root"), ("PATH", PATH), ("TERM", "linux")]);
        let error = command.current_dir("/").exec();
        let is_missing = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied];
        if !is_missing.contains(&error.kind()) {
            return status(&error);
        }
    }
    NO_PROGRAM
}

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::wait;
    use nix::pty::openpty;
    use nix::unistd::ttyname;
    use std::fs::File;
    use std::io::{Read, Write};

    #[test]
    fn console_gives_no_root_shell_without_a_password() {
        assert_eq!(programs(false), LOGINS);
        let open = programs(true);
        assert_eq!((&open[..LOGINS.len()], &open[LOGINS.len()..]), (&LOGINS[..], &SHELLS[..]));
        assert!(why_none(false).contains("open"));
    }

    fn read_until(terminal: &mut File, text: &str) -> String {
        let mut said = Vec::new();
        while !String::from_utf8_lossy(&said).contains(text) {
            let mut buffer = [0; 256];
            let length = terminal.read(&mut buffer).unwrap();
            said.extend_from_slice(&buffer[..length]);
        }
        String::from_utf8_lossy(&said).into_owned()
    }

    #[test]
    fn emergency_shell_controls_the_console_and_is_restarted_when_it_exits() {
        let pty = openpty(None, None).unwrap();
        let path = ttyname(&pty.slave).unwrap().to_string_lossy().into_owned();
        let (mut terminal, console) = (File::from(pty.master), String::leak(path));
        // A missing program is skipped.
        let begin = |shell: &mut EmergencyShell| {
            shell.begin(vec!["/none/such", "/bin/sh"], console, Time::ZERO).unwrap();
            shell.pid.unwrap()
        };
        let mut shell = EmergencyShell { pid: None, again: Some(Time::ZERO) };
        assert!(shell.is_due(Time::ZERO));
        shell.restart_on_exit();
        let first = begin(&mut shell);
        // The shell reads, writes, and leads the terminal's session: /dev/tty exists.
        terminal.write_all(b"echo $((40 + 2))-$HOME >/dev/tty; exit 3\n").unwrap();
        read_until(&mut terminal, "42-/root");
        let exit = wait::await_end(first).unwrap();
        assert_eq!(exit, Exit::Code(3));
        let other = Pid::from_raw(first.as_raw() + 1);
        assert_eq!(shell.ended(other, exit, Time::ZERO), None, "another child has exited");
        assert_eq!((shell.pid, shell.deadline()), (Some(first), None));
        assert_eq!(shell.ended(first, exit, Time::ZERO), Some(Ok(())));
        let due = Time::ZERO.after(limit::SHELL_PAUSE);
        assert_eq!(shell.deadline(), Some(due));
        assert!(!shell.is_due(Time::ZERO) && shell.is_due(due));
        let second = begin(&mut shell);
        terminal.write_all(b"echo again-$((6 * 7)); exit\n").unwrap();
        read_until(&mut terminal, "again-42");
        wait::await_end(second).unwrap();
    }

    #[test]
    fn missing_console_or_shell_ends_only_the_child() {
        let none_is_there = Exit::Code(NO_PROGRAM);
        for (program, console, expected) in
            [("/bin/sh", "/none/such", Exit::Code(2)), ("/none/such", "/dev/null", none_is_there)]
        {
            let mut shell = EmergencyShell { pid: None, again: Some(Time::ZERO) };
            shell.restart_on_exit();
            shell.begin(vec![program], console, Time::ZERO).unwrap();
            let pid = shell.pid.unwrap();
            let exit = wait::await_end(pid).unwrap();
            assert_eq!(exit, expected);
            let ended = shell.ended(pid, exit, Time::ZERO);
            // A console may appear later; a missing program is tried only once.
            assert_eq!(ended.unwrap().is_err(), expected == none_is_there);
            assert_eq!(shell.deadline().is_none(), expected == none_is_there);
        }
    }
}
