//! Facts of the kernel about processes, read from /proc (proc(5)) of the test's own pid namespace,
//! independent of init's reports.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// A process, by its pid as the test sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process(pub i32);

impl Process {
    /// Every process.
    pub fn all() -> Vec<Process> {
        let entries = fs::read_dir("/proc").expect("/proc");
        let pid = |e: std::io::Result<fs::DirEntry>| e.ok()?.file_name().to_str()?.parse().ok();
        entries.filter_map(pid).map(Process).collect()
    }

    /// Processes in the pid namespace of `self`.
    pub fn neighbours(self) -> Vec<Process> {
        let Some(own) = self.link("ns/pid") else { return Vec::new() };
        Process::all().into_iter().filter(|p| p.link("ns/pid").as_ref() == Some(&own)).collect()
    }

    /// The process with this pid in the namespace of `self`.
    pub fn neighbour(self, pid: i32) -> Option<Process> {
        self.neighbours().into_iter().find(|p| p.inner_pid() == Some(pid))
    }

    /// Its children, zombies included.
    pub fn children(self) -> Vec<Process> {
        Process::all().into_iter().filter(|p| p.stat_field(1) == Some(self.0)).collect()
    }

    /// The pid it has in its own namespace.
    pub fn inner_pid(self) -> Option<i32> {
        self.status("NSpid")?.split_whitespace().last()?.parse().ok()
    }

    /// A line of /proc/PID/status.
    pub fn status(self, key: &str) -> Option<String> {
        let text = self.read("status")?;
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        Some(line.trim().to_owned())
    }

    /// Its private memory without pages of its binary, in KiB; 0 when it has exited.
    pub fn memory(self) -> u64 {
        let line = self.status("RssAnon").unwrap_or_default();
        line.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0)
    }

    /// The state letter: R, S, D, T, Z …. Returns `None` when it has exited.
    pub fn state(self) -> Option<char> {
        self.status("State")?.chars().next()
    }

    /// Returns true if it exists and is not a zombie.
    pub fn is_alive(self) -> bool {
        !matches!(self.state(), None | Some('Z' | 'X'))
    }

    /// A number of /proc/PID/stat after the command's name: 0 is the state letter,
    /// 1 the parent, 2 the process group, 3 the session, 4 the terminal.
    pub fn stat_field(self, index: usize) -> Option<i32> {
        let text = self.read("stat")?;
        text.rsplit_once(')')?.1.split_whitespace().nth(index)?.parse().ok()
    }

    /// The processor time of its first thread.
    pub fn processor_time(self) -> Duration {
        self.schedule(0).expect("the kernel counts it")
    }

    /// The time its first thread has waited for a processor. Returns `None` when it has exited.
    pub fn waited_for_a_processor(self) -> Option<Duration> {
        self.schedule(1)
    }

    /// A number of /proc/PID/schedstat: nanoseconds on a processor, nanoseconds waiting for one.
    fn schedule(self, index: usize) -> Option<Duration> {
        let text = self.read("schedstat")?;
        text.split(' ').nth(index)?.parse().ok().map(Duration::from_nanos)
    }

    /// Its environment.
    pub fn environment(self) -> BTreeMap<String, String> {
        let text = self.read("environ").unwrap_or_default();
        let pair = |word: &str| word.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()));
        text.split('\0').filter_map(pair).collect()
    }

    /// Its open files: number and target.
    pub fn files(self) -> BTreeMap<i32, String> {
        let Ok(entries) = fs::read_dir(self.path("fd")) else { return BTreeMap::new() };
        let entry = |e: fs::DirEntry| {
            let target = fs::read_link(e.path()).ok()?;
            Some((e.file_name().to_str()?.parse().ok()?, target.to_string_lossy().into_owned()))
        };
        entries.filter_map(|e| entry(e.ok()?)).collect()
    }

    /// A line of /proc/PID/limits: soft and hard.
    pub fn limit(self, name: &str) -> Option<(String, String)> {
        let text = self.read("limits")?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let mut words = line.split_whitespace().map(str::to_owned);
        Some((words.next()?, words.next()?))
    }

    /// A link of /proc/PID: `cwd`, `exe`, `root`, `ns/…`.
    pub fn link(self, name: &str) -> Option<PathBuf> {
        fs::read_link(self.path(name)).ok()
    }

    /// A file of /proc/PID.
    pub fn read(self, name: &str) -> Option<String> {
        let bytes = fs::read(self.path(name)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Sends a signal, from outside the namespace.
    pub fn signal(self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.0);
        nix::sys::signal::kill(pid, signal).expect("the process exists");
    }

    /// Kills it, if it still exists.
    pub fn end(self) {
        let pid = nix::unistd::Pid::from_raw(self.0);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
    }

    fn path(self, name: &str) -> String {
        format!("/proc/{}/{name}", self.0)
    }
}
