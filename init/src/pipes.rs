//! The pipes services write into, found again by an init whose state is lost: a read end of each, so
//! that nobody is left without a reader when the logger of before ends.

use crate::process;
use crate::sys::Pid;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, fstat};
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};

/// What the kernel calls the logger ([`crate::logger`]).
const LOGGER: &str = "groundstate-log";

/// What stands behind a descriptor in /proc, where that is a pipe.
fn pipe_at(path: &str) -> Option<String> {
    let link = fs::read_link(path).ok()?.to_str()?.to_string();
    link.starts_with("pipe:").then_some(link)
}

/// All pipes a process has.
fn pipes_of(pid: i32) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return BTreeSet::new() };
    entries.flatten().filter_map(|entry| pipe_at(entry.path().to_str()?)).collect()
}

/// Of a pipe and of nothing else: what stands there may be another by now, and opening that may wait.
fn read_end(path: &str) -> Option<OwnedFd> {
    let it = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).ok()?;
    let kind = fstat(&it).ok()?.st_mode & libc::S_IFMT;
    let path = format!("/proc/self/fd/{}", it.as_raw_fd());
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    (kind == libc::S_IFIFO).then(|| open(path.as_str(), flags, Mode::empty()).ok())?
}

/// A read end of what each child of init writes to a logger, by pid. Called before the logger's
/// socket is closed, for then it ends. Nothing of a pipe between two of a service's own processes.
pub(crate) fn of_services() -> Vec<(i32, OwnedFd)> {
    let children = process::children();
    let is_logger =
        |pid: &&i32| process::shown(Pid::from_raw(**pid)).is_some_and(|(name, _)| name == LOGGER);
    let read: BTreeSet<String> =
        children.iter().filter(is_logger).flat_map(|pid| pipes_of(*pid)).collect();
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for pid in children {
        for number in [1, 2] {
            let path = format!("/proc/{pid}/fd/{number}");
            let Some(pipe) = pipe_at(&path).filter(|pipe| read.contains(pipe)) else { continue };
            if seen.insert(pipe)
                && let Some(end) = read_end(&path)
            {
                found.push((pid, end));
            }
        }
    }
    found
}
