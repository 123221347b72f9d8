//! strace(1) on a process that runs: what it asks the kernel for, and system calls of it that
//! fail because we say so. Ends, and lets go, with the value.

use crate::deadline::until;
use crate::process::Process;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// One that is attached.
#[derive(Debug)]
pub struct Tracer {
    child: Child,
    output: PathBuf,
}

impl Tracer {
    /// Attaches to this process alone; `output` gets a line for each call. `arguments` say which
    /// calls are looked at, and which fail: `-e trace=…`, `-e inject=…`.
    pub fn attach(process: Process, output: &Path, arguments: &[&str]) -> Tracer {
        let child = Command::new("strace")
            .args(["-qq", "-p", &process.0.to_string(), "-o"])
            .arg(output)
            .args(arguments)
            .spawn()
            .expect("strace runs");
        until("strace is attached", || process.status("TracerPid").filter(|pid| pid != "0"));
        Tracer { child, output: output.to_owned() }
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.output).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Lets go; gives all lines.
    pub fn detach(mut self) -> Vec<String> {
        self.end();
        self.lines()
    }

    fn end(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a pid"));
        // Not by SIGKILL: it would leave the process stopped.
        let _ = kill(pid, Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

/// How many of these calls failed because we said so.
pub fn injected(lines: &[String]) -> usize {
    lines.iter().filter(|line| line.contains("INJECTED")).count()
}
