//! One cgroup directory, addressed from a descriptor of its parent: no path is walked, so each
//! call costs the 20 µs of the cgroup itself and nothing more.

use crate::base::procfs;
use crate::base::retry::retry_now;
use crate::sys::listing::Entry;
use crate::sys::{Pid, listing, signal};
use groundstate_units::machine::event::RunId;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes of cgroup.procs that are read at a time: some 100,000 processes.
const PROCS: u64 = 1024 * 1024;
/// Cgroups a service may have made below its own and that are looked after; no more may be made by a user
/// its own was given to.
pub(super) const NESTED: usize = 4096;
/// Bytes of a unit's name that its cgroup's name keeps; with the number of the run it stays below
/// the 255 of a file name.
const NAME: usize = 200;
/// systemd's name, which programs that delegate know.
const CONTROL: &str = ".control";
/// Rounds of killing where the kernel can not kill a cgroup at once.
const ROUNDS: usize = 8;

/// Makes it. An empty one of that name is removed first: an earlier init may have killed all
/// processes in it by cgroup.kill, and the kernel would kill a child that is cloned into it.
pub(super) fn make(parent: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    retry_now(|| match mkdirat(parent, name, Mode::from_bits_truncate(0o755)) {
        Err(Errno::EEXIST) => match lives(parent, name)? {
            Some(true) => Err(Errno::EEXIST.into()),
            Some(false) | None => {
                remove(parent, name).map_err(|_| io::Error::from(Errno::EEXIST))?;
                Ok(mkdirat(parent, name, Mode::from_bits_truncate(0o755))?)
            }
        },
        made => Ok(made?),
    })
}

/// What the name of a unit's cgroup keeps of its own.
pub(crate) fn short(unit: &str) -> String {
    unit.chars().take(NAME).collect()
}

/// Makes the cgroup of a run. An earlier init may have left one of that name, with something in
/// it that can not be killed: then another name.
pub(super) fn make_for(
    parent: BorrowedFd<'_>,
    slice: &str,
    unit: &str,
    run: RunId,
) -> io::Result<String> {
    const NAMES: u32 = 8;
    let unit = short(unit);
    let mut above = String::new();
    for name in slice.split('/').filter(|name| !name.is_empty()) {
        let path = format!("{above}{name}");
        match mkdirat(parent, path.as_str(), Mode::from_bits_truncate(0o755)) {
            Ok(()) | Err(Errno::EEXIST) => above = format!("{path}/"),
            Err(error) => return Err(error.into()),
        }
    }
    let mut last = io::Error::from_raw_os_error(libc::EEXIST);
    for number in 0..NAMES {
        let name = match number {
            0 => format!("{above}{unit}.{}", run.0),
            _ => format!("{above}{unit}.{}-{number}", run.0),
        };
        match make(parent, &name) {
            Ok(()) => return Ok(name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// The run that a cgroup of this name was made for.
pub(super) fn run_of(name: &str) -> Option<RunId> {
    let (_, end) = name.rsplit_once('.')?;
    end.split('-').next()?.parse().ok().map(RunId)
}

/// A descriptor of it that a process can be cloned into.
pub(super) fn open(parent: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_PATH | OFlag::O_CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

/// The cgroup below a delegated one where init runs its own commands for the unit, made where it is
/// missing: one that has cgroups with controllers below it takes no process itself.
pub(super) fn make_control(parent: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let name = format!("{name}/{CONTROL}");
    retry_now(|| match mkdirat(parent, name.as_str(), Mode::from_bits_truncate(0o755)) {
        Ok(()) | Err(Errno::EEXIST) => open(parent, &name),
        Err(error) => Err(error.into()),
    })
}

/// Something lives in it or below it. False when it is not there.
pub(super) fn is_populated(parent: BorrowedFd<'_>, name: &str) -> io::Result<bool> {
    Ok(lives(parent, name)?.unwrap_or(false))
}

/// The same; none when it is not there.
fn lives(parent: BorrowedFd<'_>, name: &str) -> io::Result<Option<bool>> {
    match read(parent, &format!("{name}/cgroup.events"), 4096) {
        Ok(text) => Ok(Some(!text.lines().any(|line| line == "populated 0"))),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        // Removed while we read.
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Processes in it and below it, as they are now.
pub(super) fn processes(parent: BorrowedFd<'_>, name: &str) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    for path in tree(parent, name) {
        // A threaded cgroup has no list (EOPNOTSUPP): its processes stand in the one above.
        let text = read(parent, &format!("{path}/cgroup.procs"), PROCS).unwrap_or_default();
        // 0: a process of another pid namespace.
        found.extend(text.lines().filter_map(|l| l.parse::<i32>().ok()).filter(|pid| *pid > 0));
    }
    found
}

/// Processes in it, not below it.
pub(super) fn own_processes(parent: BorrowedFd<'_>, name: &str) -> BTreeSet<i32> {
    let text = read(parent, &format!("{name}/cgroup.procs"), PROCS).unwrap_or_default();
    text.lines().filter_map(|l| l.parse::<i32>().ok()).filter(|pid| *pid > 0).collect()
}

/// Kills everything in it and below it. `shown`: the path of `parent` in /proc/PID/cgroup.
pub(super) fn kill(parent: BorrowedFd<'_>, shown: &str, name: &str) -> io::Result<()> {
    match write(parent, &format!("{name}/cgroup.kill"), "1") {
        Ok(()) => Ok(()),
        // Before Linux 5.14.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => kill_each(parent, shown, name),
        Err(error) => Err(error),
    }
}

/// Signals these, as far as they are in it or below it now.
fn signal_these(parent: BorrowedFd<'_>, shown: &str, name: &str, pids: &[i32], number: u8) {
    let mut unseen = Vec::new();
    for pid in pids {
        let held = Held::of(*pid);
        match is_in(shown, name, held.pid) {
            Some(true) => held.signal(number),
            Some(false) => {}
            None => unseen.push(*pid),
        }
    }
    for some in unseen.chunks(AT_A_TIME) {
        let mut held: Vec<Held> = some.iter().map(|pid| Held::of(*pid)).collect();
        let mut there = processes(parent, name);
        if there.is_empty() {
            // Perhaps for want of descriptors, which these have.
            held.iter_mut().for_each(Held::let_go);
            there = processes(parent, name);
        }
        held.iter()
            .filter(|one| there.contains(&one.pid.as_raw()))
            .for_each(|one| one.signal(number));
    }
}

/// It is in it or below it. None: it has ended, or /proc does not show it.
fn is_in(shown: &str, name: &str, pid: Pid) -> Option<bool> {
    let path = procfs::cgroup(pid)?;
    let below = path.strip_prefix(shown).and_then(|path| path.strip_prefix('/'));
    let rest = below.and_then(|below| below.strip_prefix(name));
    Some(rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// Signals everything in it and below it but `except`.
pub(super) fn signal(
    parent: BorrowedFd<'_>,
    shown: &str,
    name: &str,
    number: u8,
    except: Option<Pid>,
) {
    let except = except.map(Pid::as_raw);
    let all: Vec<i32> =
        processes(parent, name).into_iter().filter(|pid| Some(*pid) != except).collect();
    signal_these(parent, shown, name, &all, number);
}

/// Without cgroup.kill: freeze, so that nothing forks away from the killing, and kill in rounds.
/// SIGKILL reaches frozen processes.
fn kill_each(parent: BorrowedFd<'_>, shown: &str, name: &str) -> io::Result<()> {
    let freeze = format!("{name}/cgroup.freeze");
    let frozen = write(parent, &freeze, "1").is_ok();
    let mut killed = BTreeSet::new();
    for _ in 0..ROUNDS {
        let left: Vec<i32> = processes(parent, name).difference(&killed).copied().collect();
        if left.is_empty() {
            break;
        }
        signal_these(parent, shown, name, &left, 9);
        killed.extend(left);
    }
    if frozen { write(parent, &freeze, "0") } else { Ok(()) }
}

/// Removes it if nothing is in it, neither a process nor another cgroup. True too when it is not
/// there any more.
pub(super) fn remove_leaf(parent: BorrowedFd<'_>, name: &str) -> bool {
    let removed = unlinkat(parent, name, UnlinkatFlags::RemoveDir);
    matches!(removed, Ok(()) | Err(Errno::ENOENT))
}

/// Removes it and what a service made below it. EBUSY: something lives there still.
pub(super) fn remove(parent: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let rmdir = |path: &str| unlinkat(parent, path, UnlinkatFlags::RemoveDir);
    match rmdir(name) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(Errno::EBUSY | Errno::ENOTEMPTY) => {
            for path in tree(parent, name).iter().rev() {
                rmdir(path)?;
            }
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Removes all that is empty below `parent`: what an earlier init left.
pub(super) fn clear(parent: BorrowedFd<'_>) {
    for path in tree(parent, ".").iter().skip(1).rev() {
        let _ = unlinkat(parent, path.as_str(), UnlinkatFlags::RemoveDir);
    }
}

/// It and all cgroups below it, parents first, at most [`NESTED`].
fn tree(parent: BorrowedFd<'_>, name: &str) -> Vec<String> {
    let mut found = vec![name.to_string()];
    let mut next = 0;
    while let Some(path) = found.get(next).cloned() {
        next += 1;
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let Ok(directory) = openat(parent, path.as_str(), flags, Mode::empty()) else { continue };
        let see = |entry: Entry<'_>| {
            if let (true, Ok(name)) = (entry.is_directory, std::str::from_utf8(entry.name))
                && name != "."
                && name != ".."
                && found.len() < NESTED
            {
                found.push(format!("{path}/{name}"));
            }
        };
        // It is gone: so is what was below it.
        let _ = listing::list(directory.as_fd(), see);
    }
    found
}

pub(super) fn read(parent: BorrowedFd<'_>, path: &str, most: u64) -> io::Result<String> {
    let fd = openat(parent, path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    let mut text = String::new();
    File::from(fd).take(most).read_to_string(&mut text)?;
    Ok(text)
}

pub(super) fn write(parent: BorrowedFd<'_>, path: &str, text: &str) -> io::Result<()> {
    let fd = openat(parent.as_fd(), path, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    File::from(fd).write_all(text.as_bytes())
}

// A process that was found by its pid and is to be signalled. Between the look and the signal it may
// end, and its pid be another's: so it is held by a descriptor, looked for once more, and signalled by
// the descriptor. Whoever was found both times, and can be signalled then, was there all the time.

/// Processes that are held at a time, where they have to be looked for in a list.
pub(super) const AT_A_TIME: usize = 64;

/// One of them.
pub(super) struct Held {
    pub(super) pid: Pid,
    /// None: there is no descriptor to be had, or it has ended. If it is found again all the same, it is
    /// signalled by its pid.
    pidfd: Option<OwnedFd>,
}

impl Held {
    pub(super) fn of(pid: i32) -> Held {
        let pid = Pid::from_raw(pid);
        Held { pid, pidfd: signal::pidfd(pid).ok() }
    }

    /// Something else needs the descriptor.
    pub(super) fn let_go(&mut self) {
        self.pidfd = None;
    }

    /// To be asked only once it was found again.
    pub(super) fn signal(&self, number: u8) {
        let sent = self.pidfd.as_ref().map(|pidfd| signal::pidfd_kill(pidfd.as_fd(), number));
        let refused = |error: std::io::Error| error.raw_os_error() != Some(libc::ESRCH);
        // A sandbox that lets a process be held need not let it be signalled so.
        if sent.is_none_or(|sent| sent.is_err_and(refused)) {
            let _ = signal::kill(self.pid, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{process, wait};
    use groundstate_units::spec::Exit;

    #[test]
    fn who_ends_while_it_is_held_is_not_signalled_by_its_pid() {
        let pause = || {
            loop {
                nix::unistd::pause();
            }
        };
        let child = process::fork(&[], pause).unwrap();
        let held = Held::of(child.as_raw());
        held.signal(9);
        assert_eq!(wait::await_end(child).unwrap(), Exit::Signal { signal: 9, core: false });
        assert!(held.pidfd.is_some() && Held::of(child.as_raw()).pidfd.is_none());
        // Whoever has that pid now: it is nobody's business.
        let own = Held { pid: nix::unistd::getpid(), pidfd: held.pidfd };
        own.signal(9);
    }
}
