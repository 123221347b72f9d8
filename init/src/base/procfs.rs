//! Facts about other processes from /proc: parents, groups, cgroups. Reads no file that may wait
//! for the process, as cmdline, environ and maps may.
//!
//! Every answer is a snapshot: the pid may be reused before the answer is used. A caller that needs
//! certainty opens a pidfd first and asks again.

use crate::sys::Pid;
use crate::sys::listing::{self, Entry};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

/// Bytes of /proc/PID/stat that are read; the needed fields are in the first 400.
const STAT: usize = 1024;
/// Bytes of /proc/PID/limits that are read: 16 lines of 80 bytes.
const LIMITS: usize = 4096;
/// Bytes of /proc/PID/cgroup that are read.
const CGROUP: usize = 16 * 1024;
/// Bytes of the list of our children that are read: about 60,000 children.
const CHILDREN: u64 = 512 * 1024;
/// Processes in one snapshot.
const PROCESSES: usize = 65_536;
/// PF_KTHREAD of linux/sched.h, a process flag.
const KERNEL: u32 = 0x0020_0000;
/// PF_FORKNOEXEC of linux/sched.h: the process has not executed a program since it was forked.
const FORKED: u32 = 0x0000_0040;
/// Limit of the number of ancestors.
const ANCESTORS: usize = 256;

/// Some fields of proc_pid_stat(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub pid: i32,
    /// The parent, or 0 if it is outside this pid namespace.
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    /// True if the state is `Z` or `X` and no other thread is left: the process has exited.
    pub ended: bool,
    /// True for a kernel thread.
    pub is_kernel_thread: bool,
    /// True if it has executed a program since it was forked.
    pub has_executed: bool,
    /// Start time in ticks since boot: tells two processes with one pid apart.
    pub began: u64,
}

/// Returns true if /proc shows this pid namespace. A /proc of another namespace, mounted over ours,
/// has other pids and is not used.
pub(crate) fn is_proc_ours() -> bool {
    let shown = std::fs::read_link("/proc/self");
    shown.is_ok_and(|own| own.to_str().is_some_and(|own| own.parse() == Ok(std::process::id())))
}

/// Returns true if /proc exists and belongs to another pid namespace.
pub(crate) fn is_proc_of_others() -> bool {
    !is_proc_ours() && std::path::Path::new("/proc/filesystems").exists()
}

/// Returns `None` if the process does not exist or our /proc is missing.
pub(crate) fn stat(pid: Pid) -> Option<Stat> {
    is_proc_ours().then(|| shown_stat(pid))?
}

fn shown_stat(pid: Pid) -> Option<Stat> {
    let mut text = [0; STAT];
    let length = read(&format!("/proc/{pid}/stat"), &mut text).ok()?;
    parse_stat(text.get(..length)?)
}

/// The hard RLIMIT_LOCKS of a process, with which init marks the processes of runs. RLIM_INFINITY
/// means that the process has no mark. See proc_pid_limits(5). Returns `None` as in [`stat`].
pub(crate) fn most_locks(pid: Pid) -> Option<u64> {
    let mut text = [0; LIMITS];
    let length = is_proc_ours().then(|| read(&format!("/proc/{pid}/limits"), &mut text).ok())??;
    parse_locks(std::str::from_utf8(text.get(..length)?).ok()?)
}

fn parse_locks(text: &str) -> Option<u64> {
    let values = text.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
    match values.split_ascii_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        most => most.parse().ok(),
    }
}

/// The process's name, and its state as a word for users.
pub(crate) fn shown(pid: Pid) -> Option<(String, &'static str)> {
    let mut text = [0; STAT];
    let length = read(&format!("/proc/{pid}/stat"), &mut text).ok()?;
    let text = text.get(..length)?;
    let open = text.iter().position(|b| *b == b'(')?;
    let close = text.iter().rposition(|b| *b == b')')?;
    let state = match text.get(close + 2)? {
        b'D' => "in an uninterruptible wait",
        b'T' | b't' => "stopped",
        b'Z' | b'X' => "exited",
        b'R' => "running",
        _ => "waiting",
    };
    Some((String::from_utf8_lossy(text.get(open + 1..close)?).into_owned(), state))
}

fn parse_stat(text: &[u8]) -> Option<Stat> {
    // The name is in parentheses and may contain anything, parentheses too.
    let open = text.iter().position(|b| *b == b'(')?;
    let close = text.iter().rposition(|b| *b == b')')?;
    let pid = std::str::from_utf8(text.get(..open)?).ok()?.trim().parse().ok()?;
    let fields = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().take(20).collect();
    let number = |index: usize| fields.get(index)?.parse::<i32>().ok();
    let flags = fields.get(6)?.parse::<u32>().ok()?;
    Some(Stat {
        pid,
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        ended: matches!(fields.first(), Some(&("Z" | "X" | "x"))) && number(17)? <= 1,
        is_kernel_thread: flags & KERNEL != 0,
        has_executed: flags & FORKED == 0,
        began: fields.get(19)?.parse().ok()?,
    })
}

/// The cgroup of a process in the v2 hierarchy, as this process sees it. Returns `None` if the
/// process is gone, or there is no /proc of ours or no v2 hierarchy.
pub(crate) fn cgroup(pid: Pid) -> Option<String> {
    is_proc_ours().then(|| cgroup_at(&format!("/proc/{pid}/cgroup")))?
}

/// The cgroup of this process, by `/proc/self`, which also works in a /proc of another pid
/// namespace.
pub(crate) fn own_cgroup() -> Option<String> {
    cgroup_at("/proc/self/cgroup")
}

/// The line of the v2 hierarchy, cgroups(7).
fn cgroup_at(path: &str) -> Option<String> {
    // The buffer is on the stack, because stops and the shutdown must work without free memory.
    let mut text = [0; CGROUP];
    let length = read(path, &mut text).ok()?;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_string)
}

/// All current processes by pid.
pub(crate) fn snapshot() -> BTreeMap<i32, Stat> {
    if !is_proc_ours() {
        return BTreeMap::new();
    }
    let mut pids = Vec::new();
    let see = |entry: Entry<'_>| {
        let number = std::str::from_utf8(entry.name).ok().and_then(|name| name.parse::<i32>().ok());
        pids.extend(number.filter(|_| pids.len() < PROCESSES));
    };
    // Entries seen before a failure still count.
    let _ = File::open("/proc").and_then(|proc| listing::list(proc.as_fd(), see));
    pids.into_iter().filter_map(|pid| Some((pid, shown_stat(Pid::from_raw(pid))?))).collect()
}

/// The children of this process, including adopted orphans. Empty without /proc.
pub(crate) fn children() -> Vec<i32> {
    let own = std::process::id();
    if !is_proc_ours() {
        return Vec::new();
    }
    let mut text = String::new();
    let read = File::open(format!("/proc/self/task/{own}/children"))
        .and_then(|file| file.take(CHILDREN).read_to_string(&mut text));
    match read {
        Ok(_) => text.split_ascii_whitespace().flat_map(str::parse).collect(),
        // A kernel without CONFIG_PROC_CHILDREN.
        Err(_) => {
            let is_child = |stat: &&Stat| u32::try_from(stat.parent).is_ok_and(|p| p == own);
            snapshot().values().filter(is_child).map(|stat| stat.pid).collect()
        }
    }
}

/// Returns true if the process has executed a program since it was forked, false if not or if
/// unknown. Any user may read this flag of another user's process.
pub(crate) fn has_executed(pid: Pid) -> bool {
    stat(pid).is_some_and(|stat| stat.has_executed)
}

/// Returns true if the process runs the same program as this one, false if not or if unknown.
pub(crate) fn runs_this_program(pid: Pid) -> bool {
    let program = |process: &str| std::fs::read_link(format!("/proc/{process}/exe")).ok();
    let own = program("self");
    own.is_some() && program(&pid.to_string()) == own && is_proc_ours()
}

/// The ancestors of a process, parent first, within this pid namespace.
pub(crate) fn ancestors(pid: Pid) -> impl Iterator<Item = Pid> {
    let parent = |pid: Pid| stat(pid).map(|s| Pid::from_raw(s.parent)).filter(|p| p.as_raw() > 0);
    std::iter::successors(parent(pid), move |pid| parent(*pid)).take(ANCESTORS)
}

fn read(path: &str, to: &mut [u8]) -> io::Result<usize> {
    let mut file = File::open(path)?;
    let mut filled = 0;
    loop {
        match file.read(to.get_mut(filled..).unwrap_or_default()) {
            Ok(0) => return Ok(filled),
            Ok(length) => filled += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_name_with_any_characters_is_parsed() {
        let line = b"42 (a) b (c) S 1 42 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 998877 1 2";
        let stat = parse_stat(line).unwrap();
        assert_eq!((stat.pid, stat.parent, stat.group, stat.session), (42, 1, 42, 41));
        assert_eq!((stat.ended, stat.began), (false, 998_877));
        let threads = |count: u8| {
            let line = format!("42 (x) Z 1 42 41 0 -1 4 1 2 3 4 5 6 7 8 20 0 {count} 0 998877 1 2");
            parse_stat(line.as_bytes()).unwrap().ended
        };
        assert!(threads(0) && threads(1) && !threads(2), "its first thread alone has ended");
        for broken in [&b""[..], b"42", b"42 (x", b"42 (x)", b"42 (x) S 1", b"(x) S 1 2 3", b")("] {
            assert_eq!(parse_stat(broken), None);
        }
    }

    #[test]
    fn start_time_of_a_process_uses_the_clock_of_the_saved_state() {
        let before = crate::base::clock::ticks();
        assert!(stat(nix::unistd::getpid()).unwrap().began <= before);
        let child = crate::sys::process::fork(&[], || 0).unwrap();
        let began = stat(child).unwrap().began;
        assert!((before..=crate::base::clock::ticks()).contains(&began), "{began}, {before}");
        crate::sys::wait::await_end(child).unwrap();
    }

    #[test]
    fn own_process_is_found_and_its_parent_is_an_ancestor() {
        let own = nix::unistd::getpid();
        assert_eq!(stat(own).unwrap().parent, nix::unistd::getppid().as_raw());
        assert_eq!(ancestors(own).next(), Some(nix::unistd::getppid()));
        assert!(snapshot().contains_key(&own.as_raw()));
        assert_eq!(cgroup(own), own_cgroup());
    }
}
