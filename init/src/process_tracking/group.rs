//! A cgroup directory, addressed relative to a descriptor of its parent, which avoids resolving
//! long paths. A call costs about 20 µs.

use crate::base::procfs;
use crate::state::carried::KeptFd;
use crate::sys::listing::Entry;
use crate::sys::{Pid, launch, listing, signal};
use groundstate_units::machine::event::RunId;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, fstat, fstatat, mkdirat};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use nix::unistd::{UnlinkatFlags, dup3, unlinkat};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes of cgroup.procs that are read: about 100,000 processes.
const PROCS: u64 = 1024 * 1024;
/// Nested cgroups of a service that init handles; also the limit for a delegated cgroup's user.
pub(super) const NESTED: usize = 4096;
/// Bytes of a unit's name in its cgroup's name; with the run id it stays below the 255 of a file
/// name.
const NAME: usize = 200;
/// The cgroup of [`make_control`]. Programs with a delegated cgroup know this name from systemd.
const CONTROL: &str = ".control";

/// Creates a cgroup. An empty one of that name is removed first. If an earlier init killed all its
/// processes by cgroup.kill, the kernel would kill a child that is cloned into it.
pub(super) fn make(parent: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let make = || mkdirat(parent, name, Mode::from_bits_truncate(0o755));
    match make() {
        Err(Errno::EEXIST) if is_populated(parent, name)? => Err(Errno::EEXIST.into()),
        Err(Errno::EEXIST) => {
            remove(parent, name).map_err(|_| io::Error::from(Errno::EEXIST))?;
            Ok(make()?)
        }
        made => Ok(made?),
    }
}

/// The part of a unit's name that its cgroup's name contains.
pub(crate) fn short(unit: &str) -> String {
    unit.chars().take(NAME).collect()
}

/// Creates the cgroup of a run.
pub(super) fn make_for(
    parent: BorrowedFd<'_>,
    slice: &str,
    unit: &str,
    run: RunId,
) -> io::Result<String> {
    let mut above = String::new();
    for name in slice.split('/').filter(|name| !name.is_empty()) {
        let path = format!("{above}{name}");
        match mkdirat(parent, path.as_str(), Mode::from_bits_truncate(0o755)) {
            Ok(()) | Err(Errno::EEXIST) => above = format!("{path}/"),
            Err(error) => return Err(error.into()),
        }
    }
    let name = above + &name_of(unit, run);
    make(parent, &name)?;
    Ok(name)
}

/// The name of a run's cgroup, without slices.
pub(super) fn name_of(unit: &str, run: RunId) -> String {
    format!("{}.{}", short(unit), run.0)
}

/// The run that a cgroup of this name was made for.
pub(super) fn run_of(name: &str) -> Option<RunId> {
    let (_, run) = name.rsplit_once('.')?;
    run.parse().ok().map(RunId)
}

/// Opens a cgroup so that a process can be cloned into it.
pub(super) fn open(parent: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_PATH | OFlag::O_CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

/// Opens or creates the cgroup below a delegated one in which init runs its own commands for the
/// unit. The delegated cgroup may have controllers for its children, and then cannot contain
/// processes.
pub(super) fn make_control(parent: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let name = format!("{name}/{CONTROL}");
    match mkdirat(parent, name.as_str(), Mode::from_bits_truncate(0o755)) {
        Ok(()) | Err(Errno::EEXIST) => open(parent, &name),
        Err(error) => Err(error.into()),
    }
}

/// Returns true if the cgroup or one below it contains a process. Returns false if it does not
/// exist.
pub(super) fn is_populated(parent: BorrowedFd<'_>, name: &str) -> io::Result<bool> {
    match read(parent, &format!("{name}/cgroup.events"), 4096) {
        Ok(text) => Ok(!text.lines().any(|line| line == "populated 0")),
        // ENODEV: removed during the read.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The present processes of the cgroup and of all below it.
pub(super) fn processes(parent: BorrowedFd<'_>, name: &str) -> BTreeSet<i32> {
    tree(parent, name).iter().flat_map(|path| own_processes(parent, path)).collect()
}

/// The processes in the cgroup itself.
pub(super) fn own_processes(parent: BorrowedFd<'_>, name: &str) -> BTreeSet<i32> {
    // A threaded cgroup has no list (EOPNOTSUPP): the one above lists its processes.
    let text = read(parent, &format!("{name}/cgroup.procs"), PROCS).unwrap_or_default();
    // 0 stands for a process of another pid namespace.
    text.lines().filter_map(|l| l.parse::<i32>().ok()).filter(|pid| *pid > 0).collect()
}

/// Signals all processes in the cgroup and below it, except `except`. `shown` is the path of
/// `parent` in /proc/PID/cgroup.
pub(super) fn signal(
    parent: BorrowedFd<'_>,
    shown: &str,
    name: &str,
    number: u8,
    except: Option<Pid>,
) {
    let except = except.map(Pid::as_raw);
    let mut unseen = Vec::new();
    for pid in processes(parent, name).into_iter().filter(|pid| Some(*pid) != except) {
        let held = Held::of(pid);
        match is_in(shown, name, held.pid) {
            Some(true) => held.signal(number),
            Some(false) => {}
            None => unseen.push(pid),
        }
    }
    for some in unseen.chunks(AT_A_TIME) {
        let mut held: Vec<Held> = some.iter().map(|pid| Held::of(*pid)).collect();
        let mut there = processes(parent, name);
        if there.is_empty() {
            // Reading may have failed for lack of descriptors, which these occupy.
            held.iter_mut().for_each(Held::close_pidfd);
            there = processes(parent, name);
        }
        held.iter()
            .filter(|one| there.contains(&one.pid.as_raw()))
            .for_each(|one| one.signal(number));
    }
}

/// Returns true if the process is in the cgroup or below it. Returns `None` if it has exited or
/// /proc does not show it.
fn is_in(shown: &str, name: &str, pid: Pid) -> Option<bool> {
    let path = procfs::cgroup(pid)?;
    let below = path.strip_prefix(shown).and_then(|path| path.strip_prefix('/'));
    let rest = below.and_then(|below| below.strip_prefix(name));
    Some(rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// Removes a cgroup without processes and child cgroups. Returns true also if it does not exist.
pub(super) fn remove_leaf(parent: BorrowedFd<'_>, name: &str) -> bool {
    let removed = unlinkat(parent, name, UnlinkatFlags::RemoveDir);
    matches!(removed, Ok(()) | Err(Errno::ENOENT))
}

/// Removes a cgroup and those that a service created below it. Fails with EBUSY if a process is
/// left.
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

/// Removes all empty cgroups below `parent`, left by an earlier init.
pub(super) fn clear(parent: BorrowedFd<'_>) {
    for path in tree(parent, ".").iter().skip(1).rev() {
        let _ = unlinkat(parent, path.as_str(), UnlinkatFlags::RemoveDir);
    }
}

/// The cgroup and all below it, parents first, at most [`NESTED`].
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
        // On an error the directory is gone, with everything below it.
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

// Safe signals
//
// A process found by its pid may exit and its pid be reused before the signal is sent. So init
// opens a pidfd, looks for the process again, and signals the pidfd. A process seen before and
// after pidfd_open is the same process.

/// Processes held at a time while a list is searched.
const AT_A_TIME: usize = 64;

/// A process held by a pidfd.
pub(super) struct Held {
    pub(super) pid: Pid,
    /// `None` if no pidfd could be opened or the process has exited. If it is found again
    /// nevertheless, it is signalled by its pid.
    pidfd: Option<OwnedFd>,
}

impl Held {
    pub(super) fn of(pid: i32) -> Held {
        let pid = Pid::from_raw(pid);
        Held { pid, pidfd: signal::pidfd(pid).ok() }
    }

    /// Closes the pidfd, because the descriptor is needed elsewhere.
    pub(super) fn close_pidfd(&mut self) {
        self.pidfd = None;
    }

    /// Signals the process. The caller must have found it again first.
    pub(super) fn signal(&self, number: u8) {
        let sent = self.pidfd.as_ref().map(|pidfd| signal::pidfd_kill(pidfd.as_fd(), number));
        let refused = |error: std::io::Error| error.raw_os_error() != Some(libc::ESRCH);
        // A sandbox may allow pidfd_open(2) but not pidfd_send_signal(2).
        if sent.is_none_or(|sent| sent.is_err_and(refused)) {
            let _ = signal::kill(self.pid, number);
        }
    }
}

// The directory of the runs' cgroups in the v2 hierarchy, below the cgroup of this process.
// cgroups(7), Documentation/admin-guide/cgroup-v2.rst.

/// Mount points of a v2 hierarchy: alone, or beside v1 hierarchies.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Limit of inits below one cgroup.
const NEIGHBOURS: u32 = 64;

/// Init's cgroup directory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hierarchy {
    /// Locked while in use: another init below the same cgroup takes another name.
    directory: KeptFd<OwnedFd>,
    /// The parent cgroup: init's own.
    pub(super) base: KeptFd<OwnedFd>,
    /// Its name in the parent.
    pub(super) name: String,
    /// Its path in the file system.
    pub(super) path: String,
    /// Its path as shown by /proc/PID/cgroup, without a trailing slash.
    pub(super) shown: String,
    /// Dropping this value removes the directory. False for a value that was only read from another
    /// image's state.
    #[serde(skip)]
    pub(super) is_ours: bool,
}

impl Hierarchy {
    /// The part of a path of /proc/PID/cgroup below this directory. Returns `None` for a path that
    /// is not below it.
    pub(super) fn relative<'a>(&self, path: &'a str) -> Option<&'a str> {
        path.strip_prefix(&self.shown)?.strip_prefix('/')
    }
}

impl AsFd for Hierarchy {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl Drop for Hierarchy {
    /// Removes empty cgroups; a later init finds the others.
    fn drop(&mut self) {
        if !self.is_ours {
            return;
        }
        clear(self.directory.as_fd());
        let _ = std::fs::remove_dir(&self.path);
    }
}

impl Hierarchy {
    /// Finds or mounts the hierarchy and creates our directory. The error says why that is
    /// impossible.
    pub(super) fn find(may_mount: bool) -> Result<Hierarchy, String> {
        let mounted = || MOUNTS.into_iter().find(|path| is_v2(path));
        let root = match mounted() {
            Some(root) => root,
            None if may_mount => {
                let [first, _] = MOUNTS;
                let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
                mount(Some("cgroup2"), first, Some("cgroup2"), flags, None::<&str>)
                    .map_err(|error| format!("cannot mount cgroup2 on {first}: {error}"))?;
                first
            }
            None => return Err("no cgroup v2 hierarchy is mounted on /sys/fs/cgroup".to_string()),
        };
        let hierarchy = Hierarchy::below(root)?;
        hierarchy.probe()?;
        Ok(hierarchy)
    }

    /// Creates the directory in init's own cgroup, in the hierarchy mounted at `root`.
    fn below(root: &str) -> Result<Hierarchy, String> {
        let own = match procfs::own_cgroup() {
            Some(own) if own.split('/').any(|part| part == "..") => {
                return Err(format!("this process is in {own}, outside its cgroup namespace"));
            }
            Some(own) => own.trim_end_matches('/').to_string(),
            None => return Err("cannot read /proc/self/cgroup".to_string()),
        };
        let base = format!("{root}{own}");
        claim(&base, &own).map_err(|e| format!("cannot create a cgroup in {base}: {e}"))
    }

    /// Returns true if another program has removed the directory, which the kernel allows while no
    /// process is below it.
    pub(super) fn is_gone(&self) -> bool {
        let there = fstatat(&self.base, self.name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
        let ours = fstat(&self.directory);
        !matches!((there, ours), (Ok(there), Ok(ours)) if there.st_ino == ours.st_ino)
    }

    /// Creates the directory again. The descriptors keep their numbers, because the committed state
    /// names them.
    pub(super) fn make_again(&mut self) -> Result<(), String> {
        let mounted = MOUNTS.into_iter().find(|path| is_v2(path));
        let root = mounted.ok_or_else(|| "no cgroup v2 hierarchy is mounted".to_string())?;
        let mut fresh = Hierarchy::below(root)?;
        // `self` owns the new directory from here on.
        fresh.is_ours = false;
        let (directory, base) = (fresh.directory.as_fd(), fresh.base.as_fd());
        dup3(directory, &mut self.directory, OFlag::O_CLOEXEC)
            .and_then(|()| dup3(base, &mut self.base, OFlag::O_CLOEXEC))
            .map_err(|error| format!("cannot replace its descriptor: {error}"))?;
        self.name = std::mem::take(&mut fresh.name);
        self.path = std::mem::take(&mut fresh.path);
        self.shown = std::mem::take(&mut fresh.shown);
        Ok(())
    }

    /// Tests that a process can be put below it: the parent is not threaded, and init has the
    /// rights.
    fn probe(&self) -> Result<(), String> {
        let name = "probe";
        let outcome = make(self.as_fd(), name)
            .and_then(|()| open(self.as_fd(), name))
            .and_then(|directory| launch::probe(directory.as_fd()));
        let _ = remove(self.as_fd(), name);
        outcome.map_err(|error| format!("cannot put a process below {}: {error}", self.path))
    }
}

fn is_v2(path: &str) -> bool {
    statfs(path).is_ok_and(|found| found.filesystem_type() == CGROUP2_SUPER_MAGIC)
}

/// Creates `groundstate` below `base`, or the first free name after it. An existing one that is
/// empty and not locked belongs to an earlier init and is reused.
fn claim(base: &str, own: &str) -> io::Result<Hierarchy> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let base_fd = nix::fcntl::open(base, flags, Mode::empty())?;
    for number in 1..=NEIGHBOURS {
        let name = match number {
            1 => "groundstate".to_string(),
            _ => format!("groundstate-{number}"),
        };
        let made = match mkdirat(&base_fd, name.as_str(), Mode::from_bits_truncate(0o755)) {
            Ok(()) => true,
            Err(Errno::EEXIST) => false,
            Err(error) => return Err(error.into()),
        };
        let directory = openat(&base_fd, name.as_str(), flags, Mode::empty())?;
        let directory = File::from(directory);
        if directory.try_lock().is_err() {
            continue;
        }
        if made || !is_populated(directory.as_fd(), ".")? {
            clear(directory.as_fd());
            let path = format!("{base}/{name}");
            let shown = format!("{own}/{name}");
            let directory = OwnedFd::from(directory);
            let (directory, base) = (directory.into(), base_fd.into());
            return Ok(Hierarchy { directory, base, name, path, shown, is_ours: true });
        }
    }
    Err(io::Error::other("other inits use all names"))
}

// Cgroups of ended runs that still have processes are removed when they become empty.
// [`super::tracker`] knows the processes of a cgroup.

/// Limit of such cgroups that are remembered.
pub(super) const LEFTOVERS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{process, wait};
    use groundstate_units::spec::Exit;

    #[test]
    fn process_that_exits_while_held_is_not_signalled_by_its_pid() {
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
        // Whatever process has that pid now must not be signalled.
        let own = Held { pid: nix::unistd::getpid(), pidfd: held.pidfd };
        own.signal(9);
    }
}
