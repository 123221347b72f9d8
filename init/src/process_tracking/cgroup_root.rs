//! The directory of the runs' cgroups in the v2 hierarchy, below the cgroup of this process.
//! cgroups(7), Documentation/admin-guide/cgroup-v2.rst.

use super::group;
use crate::base::procfs;
use crate::state::carried::KeptFd;
use crate::sys::launch;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, fstat, fstatat, mkdirat};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use nix::unistd::dup3;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

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
        group::clear(self.directory.as_fd());
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
        let outcome = group::make(self.as_fd(), name)
            .and_then(|()| group::open(self.as_fd(), name))
            .and_then(|directory| launch::probe(directory.as_fd()));
        let _ = group::remove(self.as_fd(), name);
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
    let base_fd = open(base, flags, Mode::empty())?;
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
        if made || !group::is_populated(directory.as_fd(), ".")? {
            group::clear(directory.as_fd());
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
