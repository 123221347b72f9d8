//! strace(1) on a running process: shows its system calls, and makes some of them fail. Detaches
//! when dropped.

use crate::deadline::until;
use crate::process::Process;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// An attached strace.
#[derive(Debug)]
pub struct Tracer {
    child: Child,
    output: PathBuf,
}

impl Tracer {
    /// Attaches to this process alone; `output` gets a line for each call. `arguments` select the
    /// calls that are shown and that fail: `-e trace=…`, `-e inject=…`.
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

    /// Detaches and returns all lines.
    pub fn detach(mut self) -> Vec<String> {
        self.end();
        self.lines()
    }

    fn end(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a pid"));
        // SIGKILL would leave the traced process stopped.
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

/// The number of these calls that strace made fail.
pub fn injected(lines: &[String]) -> usize {
    lines.iter().filter(|line| line.contains("INJECTED")).count()
}
