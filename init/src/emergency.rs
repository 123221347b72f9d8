//! When neither the goal nor the emergency target can be had: a shell on the console of
//! a machine; elsewhere there is nobody to type, and init ends with 70.

use crate::boot::Mode;
use crate::event_loop::Init;
use crate::limit;
use crate::spawn::{Prepared, Request};
use crate::sys::Pid;
use crate::voice::Level;
use groundstate_units::machine::event::Shutdown;
use groundstate_units::spec::{ExecLine, Kind, Log, Piece, Run};
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode as FileMode;
use nix::unistd::{AccessFlags, access};
use std::rc::Rc;

/// EX_SOFTWARE of sysexits(3): init can not do what it is for.
const STATUS: u8 = 70;

/// sulogin asks for root's password first; a shell is better than nothing.
const SHELLS: [&str; 5] =
    ["/sbin/sulogin", "/usr/sbin/sulogin", "/bin/sh", "/bin/bash", "/bin/busybox"];

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
        match self.try_shell() {
            Ok(pid) => self.shell = Some(pid),
            Err(why) => self.say(Level::Error, format_args!("no shell on the console: {why}")),
        }
    }

    fn try_shell(&mut self) -> Result<Pid, String> {
        let found = SHELLS.iter().find(|path| access(**path, AccessFlags::X_OK).is_ok());
        let program = found.ok_or("there is none")?;
        let how = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let console = open("/dev/console", how, FileMode::empty())
            .map_err(|error| format!("/dev/console: {error}"))?;
        let console = Rc::new(console);
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
        self.shell_again = Some(self.now.after(limit::SHELL_PAUSE));
        true
    }
}

fn shell(line: &ExecLine) -> Run {
    Run {
        exec_start: vec![line.clone()],
        log: Log::Inherit,
        env: vec![("HOME".to_string(), "/root".to_string())],
        ..Run::of(Kind::ForegroundSupervised)
    }
}
