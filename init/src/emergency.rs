//! When neither the goal nor the emergency target can be had: a shell on the console of
//! a machine; elsewhere there is nobody to type, and init ends with 70. The same shell when init
//! has crashed and can not go on ([`Shell`], which needs no [`Init`]).
//!
//! sulogin(8) asks for root's password. Without it there is no shell, unless the kernel's command line
//! has `groundstate.shell=open`: whoever sits at the console is not root for sitting there.

use crate::boot::Mode;
use crate::boot::kernel_line::KernelLine;
use crate::event_loop::Init;
use crate::limit;
use crate::spawn::{Prepared, Request};
use crate::sys::{Pid, process, terminal};
use crate::voice::Level;
use groundstate_units::machine::event::Shutdown;
use groundstate_units::spec::{ExecLine, Kind, Log, Piece, Run};
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::poll::{PollTimeout, poll};
use nix::sys::stat::Mode as FileMode;
use nix::unistd::{AccessFlags, access};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

/// EX_SOFTWARE of sysexits(3): init can not do what it is for.
const STATUS: u8 = 70;

/// They ask for root's password first.
const LOGINS: [&str; 2] = ["/sbin/sulogin", "/usr/sbin/sulogin"];
/// They ask nobody.
const SHELLS: [&str; 3] = ["/bin/sh", "/bin/bash", "/bin/busybox"];
const CONSOLE: &str = "/dev/console";

/// What is to be run on the console. The error is for people.
fn program(is_open: bool, is_there: impl Fn(&str) -> bool) -> Result<&'static str, &'static str> {
    let open: &[&'static str] = if is_open { &SHELLS } else { &[] };
    let found = LOGINS.iter().chain(open).find(|path| is_there(path));
    found.copied().ok_or(if is_open {
        "there is none"
    } else {
        "there is no sulogin; groundstate.shell=open on the kernel's command line asks for no password"
    })
}

fn is_executable(path: &str) -> bool {
    access(path, AccessFlags::X_OK).is_ok()
}

impl Init {
    /// Neither target can be had.
    pub(crate) fn emergency(&mut self) {
        let names: Vec<&str> = self.machine.wish().goal.iter().map(|name| name.as_str()).collect();
        let emergency = &self.machine.generation().settings.emergency_target;
        let text = format!(
            "neither the goal ({}) nor the emergency target ({emergency}) can be had",
            names.join(", ")
        );
        if self.mode != Mode::Machine {
            self.say(Level::Error, format_args!("{text}"));
            return self.shut_down(Shutdown::Exit(STATUS));
        }
        self.say(Level::Error, format_args!("{text}: a shell on the console"));
        self.emergency_shell();
    }

    /// Starts the shell; it comes back when it ends, until another goal is set.
    pub(crate) fn emergency_shell(&mut self) {
        let found = program(KernelLine::read().has_open_shell, is_executable);
        let begun = found.map_err(str::to_string).and_then(|program| self.try_shell(program));
        match begun {
            Ok(pid) => self.shell = Some(pid),
            Err(why) => self.say(Level::Error, format_args!("no shell on the console: {why}")),
        }
        // Want of memory passes, and a console may come.
        if self.shell.is_none() && found.is_ok() {
            self.pause_shell();
        }
    }

    fn pause_shell(&mut self) {
        // Another goal was set meanwhile: then it has done what it was for.
        let again = self.now.after(limit::SHELL_PAUSE);
        self.shell_again = self.shell_again.map(|_| again);
    }

    fn try_shell(&mut self, program: &str) -> Result<Pid, String> {
        let console = Rc::new(console(CONSOLE).map_err(|error| format!("{CONSOLE}: {error}"))?);
        let word = |text: &str| vec![Piece::Literal(text.to_string())];
        let mut words = vec![word(program)];
        if program.ends_with("busybox") {
            words.push(word("sh"));
        }
        let line = ExecLine { words, ..ExecLine::default() };
        let run = shell(&line);
        let prepared = Prepared::new(Request {
            unit: "emergency-shell",
            run: &run,
            line: &line,
            main_pid: None,
            base: &self.base,
            notify_socket: None,
            extra: &[],
            stdio: [console.clone(), console.clone(), console],
            listen: Vec::new(),
            ready: None,
            first: true,
            place: None,
            take_terminal: true,
            is_awaited: false,
            begun: None,
        })
        .map_err(|failure| format!("{}: {}", failure.path, failure.errno))?;
        let child = self.spawner.spawn(prepared);
        child.map(|child| child.pid).map_err(|failure| format!("errno {}", failure.errno))
    }

    /// A child was reaped: true if it was the shell, which then comes back.
    pub(crate) fn shell_ended(&mut self, pid: Pid) -> bool {
        if self.shell != Some(pid) {
            return false;
        }
        self.shell = None;
        self.pause_shell();
        true
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

/// The shell of an init that has nothing left but its children. It comes back when it ends.
pub(crate) struct Shell {
    program: &'static str,
    console: &'static str,
    /// The next one waits so long.
    pause: Duration,
    pid: Option<Pid>,
}

impl Shell {
    /// On the machine's console, once [`Shell::turn`] is called. The error is for people.
    pub(crate) fn find() -> Result<Shell, &'static str> {
        let program = program(KernelLine::read().has_open_shell, is_executable)?;
        Ok(Shell { program, console: CONSOLE, pause: Duration::ZERO, pid: None })
    }

    /// Begins it where there is none. False: it could not be begun, and is to be tried again.
    pub(crate) fn turn(&mut self) -> bool {
        self.pid.is_some() || self.start().is_ok()
    }

    /// Whatever may wait, the child does.
    fn start(&mut self) -> io::Result<()> {
        let (program, path, pause) = (self.program, self.console, self.pause);
        self.pid = Some(process::fork(&[], || {
            rest(pause);
            let told = become_shell(program, path);
            told.raw_os_error().and_then(|errno| u8::try_from(errno).ok()).unwrap_or(u8::MAX)
        })?);
        Ok(())
    }

    /// A child was reaped.
    pub(crate) fn reaped(&mut self, pid: Pid) {
        if self.pid.take_if(|of| *of == pid).is_some() {
            self.pause = limit::SHELL_PAUSE;
        }
    }
}

/// In the child: who reaps has no clock.
fn rest(pause: Duration) {
    let pause = PollTimeout::try_from(pause).unwrap_or(PollTimeout::ZERO);
    // Ended early by a signal: then it comes sooner.
    let _ = poll(&mut [], pause);
}

/// Why it has not.
fn become_shell(program: &str, path: &str) -> io::Error {
    let _ = nix::unistd::setsid();
    let stdio = console(path).and_then(|console| {
        terminal::make_plain(console.as_fd());
        // A serial line that has no session of its own takes one; what is no terminal has none.
        let _ = terminal::take(console.as_fd(), true);
        Ok([console.try_clone()?, console.try_clone()?, console])
    });
    let [input, output, errors] = match stdio {
        Ok(stdio) => stdio,
        Err(error) => return error,
    };
    let mut command = Command::new(program);
    command.args(program.ends_with("busybox").then_some("sh"));
    command.env_clear().envs([("HOME", "/root"), ("PATH", PATH), ("TERM", "linux")]);
    command.current_dir("/").stdin(input).stdout(output).stderr(errors).exec()
}

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

fn shell(line: &ExecLine) -> Run {
    Run {
        exec_start: vec![line.clone()],
        log: Log::Inherit,
        env: vec![("HOME".to_string(), "/root".to_string())],
        ..Run::of(Kind::ForegroundSupervised)
    }
}

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
        let only = |there: &'static str| move |path: &str| path == there;
        assert_eq!(program(false, |_| true), Ok("/sbin/sulogin"));
        assert_eq!(program(true, |_| true), Ok("/sbin/sulogin"), "the safe way where there is one");
        assert_eq!(program(false, only("/usr/sbin/sulogin")), Ok("/usr/sbin/sulogin"));
        for shell in SHELLS {
            assert!(program(false, only(shell)).is_err_and(|why| why.contains("open")));
            assert_eq!(program(true, only(shell)), Ok(shell), "so configured");
        }
        assert_eq!(program(true, |_| false), Err("there is none"));
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
        let mut shell = Shell { program: "/bin/sh", console, pause: Duration::ZERO, pid: None };
        assert!(shell.turn());
        let first = shell.pid.unwrap();
        // It reads, writes, and is the terminal's session: /dev/tty is there.
        terminal.write_all(b"echo $((40 + 2))-$HOME >/dev/tty; exit 3\n").unwrap();
        read_until(&mut terminal, "42-/root");
        assert_eq!(wait::await_end(first).unwrap(), groundstate_units::spec::Exit::Code(3));
        shell.reaped(Pid::from_raw(first.as_raw() + 1));
        assert!(shell.turn());
        assert_eq!(shell.pid, Some(first), "it was another's end");
        shell.reaped(first);
        assert!(shell.turn());
        let second = shell.pid.filter(|pid| *pid != first).unwrap();
        terminal.write_all(b"echo again-$((6 * 7)); exit\n").unwrap();
        read_until(&mut terminal, "again-42");
        wait::await_end(second).unwrap();
    }

    #[test]
    fn no_console_and_no_shell_end_the_child_alone() {
        for (program, console) in [("/bin/sh", "/none/such"), ("/none/such", "/dev/null")] {
            let mut shell = Shell { program, console, pause: Duration::ZERO, pid: None };
            assert!(shell.turn());
            let ended = wait::await_end(shell.pid.unwrap()).unwrap();
            assert_eq!(ended, groundstate_units::spec::Exit::Code(2), "ENOENT");
        }
    }
}
