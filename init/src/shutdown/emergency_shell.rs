//! A shell on the console of a machine whose goal and emergency target both fail, and of an init that cannot
//! restore its state ([`Shell`]).
//!
//! sulogin(8) asks for root's password. Without sulogin there is no shell, unless the kernel's command line has
//! `groundstate.shell=open`: a user at the console is not root.

use crate::base::kernel_cmdline::KernelLine;
use crate::base::limit;
use crate::shutdown;
use crate::sys::wait::Ended;
use crate::sys::{Pid, process, terminal};
use groundstate_units::spec::Exit;
use groundstate_units::text::time::Time;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::poll::{PollTimeout, poll};
use nix::sys::stat::Mode as FileMode;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// They ask for root's password first.
const LOGINS: [&str; 2] = ["/sbin/sulogin", "/usr/sbin/sulogin"];

/// They ask nobody.
const SHELLS: [&str; 3] = ["/bin/sh", "/bin/bash", "/bin/busybox"];

const CONSOLE: &str = "/dev/console";

/// The status of a child that has found no program to become: another will find none either.
const NO_PROGRAM: u8 = 127;

/// What is to be run on the console, the first that is there.
fn programs(is_open: bool) -> Vec<&'static str> {
    let open: &[&'static str] = if is_open { &SHELLS } else { &[] };
    LOGINS.iter().chain(open).copied().collect()
}

/// Why there is none.
fn why_none(is_open: bool) -> &'static str {
    if is_open {
        "there is none"
    } else {
        "there is no sulogin; groundstate.shell=open on the kernel's command line asks for no password"
    }
}

/// Never waits: a serial line that nobody is at is opened all the same.
fn console(path: &str) -> io::Result<OwnedFd> {
    let how = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let console = open(path, how, FileMode::empty())?;
    let flags = OFlag::from_bits_truncate(fcntl(&console, FcntlArg::F_GETFL)?);
    fcntl(&console, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
    Ok(console)
}

/// A child that becomes the shell. Whatever may wait (a console that hangs, a root file system that
/// is dead), the child does.
fn begin(programs: &[&str], console: &str, pause: Duration) -> io::Result<Pid> {
    process::fork(&[], || {
        rest(pause);
        become_shell(programs, console)
    })
}

/// The emergency shell of the event loop.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EmergencyShell {
    pid: Option<Pid>,
    /// When it comes back; [`Time::NEVER`]: as soon as it has ended. None: it does not come back.
    again: Option<Time>,
}

impl EmergencyShell {
    /// The shell that an earlier image has started.
    pub(crate) fn of(pid: Option<i32>, again: Option<Time>) -> EmergencyShell {
        EmergencyShell { pid: pid.map(Pid::from_raw), again }
    }

    /// What the next image needs to know of it.
    pub(crate) fn parts(&self) -> (Option<i32>, Option<Time>) {
        (self.pid.map(Pid::as_raw), self.again)
    }

    /// From now on the shell comes back when it ends.
    pub(crate) fn keep(&mut self) {
        self.again = Some(Time::NEVER);
    }

    /// Another goal was set: the shell does not come back.
    pub(crate) fn let_go(&mut self) {
        self.again = None;
    }

    /// When the shell is to be started again.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.again.filter(|at| *at < Time::NEVER)
    }

    /// The shell is to be started again now.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        self.again.take_if(|at| *at <= now).is_some()
    }

    /// Starts it. An error: it is tried again after a pause.
    pub(crate) fn start(&mut self, now: Time) -> io::Result<()> {
        let programs = programs(KernelLine::read().has_open_shell);
        match begin(&programs, CONSOLE, Duration::ZERO) {
            Ok(pid) => self.pid = Some(pid),
            Err(error) => {
                self.pause(now);
                return Err(error);
            }
        }
        Ok(())
    }

    /// A child was reaped. None: it was not the shell. An error: there is no program for a shell.
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
        // None: another goal was set meanwhile.
        self.again = self.again.map(|_| now.after(limit::SHELL_PAUSE));
    }
}

/// The shell of an init that has nothing left but its children. It comes back when it ends.
pub(crate) struct Shell {
    programs: Vec<&'static str>,
    console: &'static str,
    /// The next one waits so long.
    pause: Duration,
    pid: Option<Pid>,
    /// None can be had.
    is_given_up: bool,
}

impl Shell {
    /// On the machine's console, once [`Shell::turn`] is called.
    pub(crate) fn of_the_machine() -> Shell {
        Shell::on(CONSOLE, programs(KernelLine::read().has_open_shell))
    }

    fn on(console: &'static str, programs: Vec<&'static str>) -> Shell {
        Shell { programs, console, pause: Duration::ZERO, pid: None, is_given_up: false }
    }

    /// Begins it where there is none. False: it could not be begun, and is to be tried again.
    pub(crate) fn turn(&mut self) -> bool {
        if self.pid.is_none() && !self.is_given_up {
            self.pid = begin(&self.programs, self.console, self.pause).ok();
        }
        self.pid.is_some() || self.is_given_up
    }

    /// A child was reaped.
    pub(crate) fn reaped(&mut self, ended: Ended) {
        if self.pid.take_if(|of| *of == ended.pid).is_some() {
            self.pause = limit::SHELL_PAUSE;
            if ended.exit == Exit::Code(NO_PROGRAM) {
                self.is_given_up = true;
                let why = why_none(self.programs.len() > LOGINS.len());
                shutdown::console(&format!("no shell on the console: {why}"));
            }
        }
    }
}

/// In the child: who reaps has no clock.
fn rest(pause: Duration) {
    let pause = PollTimeout::try_from(pause).unwrap_or(PollTimeout::ZERO);
    // Ended early by a signal: then it comes sooner.
    let _ = poll(&mut [], pause);
}

/// The status to end with where it has not: errno, or [`NO_PROGRAM`].
fn become_shell(programs: &[&str], path: &str) -> u8 {
    let _ = nix::unistd::setsid();
    let stdio = console(path).and_then(|console| {
        terminal::make_plain(console.as_fd());
        // A serial line that has no session of its own takes one; what is no terminal has none.
        let _ = terminal::take(console.as_fd(), true);
        Ok([console.try_clone()?, console.try_clone()?, console])
    });
    let status = |error: &io::Error| {
        let errno = error.raw_os_error().and_then(|errno| u8::try_from(errno).ok());
        errno.filter(|errno| *errno < NO_PROGRAM).unwrap_or(NO_PROGRAM - 1)
    };
    let [input, output, errors] = match stdio {
        Ok(stdio) => stdio,
        Err(error) => return status(&error),
    };
    for program in programs {
        let copies = || Ok([input.try_clone()?, output.try_clone()?, errors.try_clone()?]);
        let [input, output, errors] = match copies() {
            Ok(copies) => copies,
            Err(error) => return status(&error),
        };
        let mut command = Command::new(program);
        command.args(program.ends_with("busybox").then_some("sh"));
        command.env_clear().envs([("HOME", "/root"), ("PATH", PATH), ("TERM", "linux")]);
        let error = command.current_dir("/").stdin(input).stdout(output).stderr(errors).exec();
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
    fn nobody_is_root_for_sitting_at_the_console() {
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
    fn a_shell_of_last_resort_has_the_console_and_comes_back_when_it_ends() {
        let pty = openpty(None, None).unwrap();
        let path = ttyname(&pty.slave).unwrap().to_string_lossy().into_owned();
        let (mut terminal, console) = (File::from(pty.master), String::leak(path));
        // What is not there is passed over.
        let mut shell = Shell::on(console, vec!["/none/such", "/bin/sh"]);
        assert!(shell.turn());
        let first = shell.pid.unwrap();
        // It reads, writes, and is the terminal's session: /dev/tty is there.
        terminal.write_all(b"echo $((40 + 2))-$HOME >/dev/tty; exit 3\n").unwrap();
        read_until(&mut terminal, "42-/root");
        let exit = wait::await_end(first).unwrap();
        assert_eq!(exit, Exit::Code(3));
        shell.reaped(Ended { pid: Pid::from_raw(first.as_raw() + 1), exit });
        assert!(shell.turn());
        assert_eq!(shell.pid, Some(first), "it was another's end");
        shell.reaped(Ended { pid: first, exit });
        assert!(shell.turn());
        let second = shell.pid.filter(|pid| *pid != first).unwrap();
        terminal.write_all(b"echo again-$((6 * 7)); exit\n").unwrap();
        read_until(&mut terminal, "again-42");
        wait::await_end(second).unwrap();
    }

    #[test]
    fn no_console_and_no_shell_end_the_child_alone() {
        let none_is_there = Exit::Code(NO_PROGRAM);
        for (program, console, expected) in
            [("/bin/sh", "/none/such", Exit::Code(2)), ("/none/such", "/dev/null", none_is_there)]
        {
            let mut shell = Shell::on(console, vec![program]);
            assert!(shell.turn());
            let pid = shell.pid.unwrap();
            let exit = wait::await_end(pid).unwrap();
            assert_eq!(exit, expected);
            shell.reaped(Ended { pid, exit });
            // A console may come; a program that is not there is asked for once.
            assert!(shell.turn());
            assert_eq!(shell.pid.is_none(), expected == none_is_there);
            shell.pid.map(wait::await_end);
        }
    }
}
