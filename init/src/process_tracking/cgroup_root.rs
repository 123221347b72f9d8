//! Where the cgroups of runs are: a directory of our own in the v2 hierarchy, below the cgroup
//! this process is in. cgroups(7), Documentation/admin-guide/cgroup-v2.rst.

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

/// Where a v2 hierarchy is mounted: alone, or beside v1 ones.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Inits side by side below one cgroup.
const NEIGHBOURS: u32 = 64;

/// Our directory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hierarchy {
    /// Locked as long as we use it: another init below the same cgroup takes another name.
    directory: KeptFd<OwnedFd>,
    /// The cgroup it is made in: init's own.
    pub(super) base: KeptFd<OwnedFd>,
    /// Its name there.
    pub(super) name: String,
    /// Its path in the file system.
    pub(super) path: String,
    /// Its path as /proc/PID/cgroup shows it, without a slash at the end.
    pub(super) shown: String,
    /// It ends with this value. What was only read of another image's state ends nothing.
    #[serde(skip)]
    pub(super) is_ours: bool,
}

impl AsFd for Hierarchy {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl Drop for Hierarchy {
    /// What is empty goes; what is not is left for whoever comes next.
    fn drop(&mut self) {
        if !self.is_ours {
            return;
        }
        group::clear(self.directory.as_fd());
        let _ = std::fs::remove_dir(&self.path);
    }
}

impl Hierarchy {
    /// Finds or mounts the hierarchy and makes our directory. The error is for people: why there
    /// is none to be had here.
    pub(super) fn find(may_mount: bool) -> Result<Hierarchy, String> {
        let mounted = || MOUNTS.into_iter().find(|path| is_v2(path));
        let root = match mounted() {
            Some(root) => root,
            None if may_mount => {
                let [first, _] = MOUNTS;
                let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
                mount(Some("cgroup2"), first, Some("cgroup2"), flags, None::<&str>)
                    .map_err(|error| format!("cgroup2 can not be mounted on {first}: {error}"))?;
                first
            }
            None => return Err("no cgroup v2 hierarchy is mounted on /sys/fs/cgroup".to_string()),
        };
        let hierarchy = Hierarchy::below(root)?;
        hierarchy.probe()?;
        Ok(hierarchy)
    }

    /// Makes the directory in the cgroup that init is in, of the hierarchy mounted at `root`.
    fn below(root: &str) -> Result<Hierarchy, String> {
        let own = match procfs::own_cgroup() {
            Some(own) if own.split('/').any(|part| part == "..") => {
                return Err(format!("this process is in {own}, outside its cgroup namespace"));
            }
            Some(own) => own.trim_end_matches('/').to_string(),
            None => return Err("/proc/self/cgroup can not be read".to_string()),
        };
        let base = format!("{root}{own}");
        claim(&base, &own).map_err(|e| format!("nothing can be made in {base}: {e}"))
    }

    /// Another program has removed the directory. The kernel allows that while no process is below it.
    pub(super) fn is_gone(&self) -> bool {
        let there = fstatat(&self.base, self.name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
        let ours = fstat(&self.directory);
        !matches!((there, ours), (Ok(there), Ok(ours)) if there.st_ino == ours.st_ino)
    }

    /// Makes the directory again. The descriptors keep their numbers, by which the kept state knows
    /// them.
    pub(super) fn make_again(&mut self) -> Result<(), String> {
        let mounted = MOUNTS.into_iter().find(|path| is_v2(path));
        let root = mounted.ok_or_else(|| "no cgroup v2 hierarchy is mounted".to_string())?;
        let mut fresh = Hierarchy::below(root)?;
        // Its directory is this one's from here on.
        fresh.is_ours = false;
        let (directory, base) = (fresh.directory.as_fd(), fresh.base.as_fd());
        dup3(directory, &mut self.directory, OFlag::O_CLOEXEC)
            .and_then(|()| dup3(base, &mut self.base, OFlag::O_CLOEXEC))
            .map_err(|error| format!("its descriptor can not be replaced: {error}"))?;
        self.name = std::mem::take(&mut fresh.name);
        self.path = std::mem::take(&mut fresh.path);
        self.shown = std::mem::take(&mut fresh.shown);
        Ok(())
    }

    /// A process can really be put below it: no threaded parent, no missing right on the way.
    fn probe(&self) -> Result<(), String> {
        let name = "probe";
        let outcome = group::make(self.as_fd(), name)
            .and_then(|()| group::open(self.as_fd(), name))
            .and_then(|directory| launch::probe(directory.as_fd()));
        let _ = group::remove(self.as_fd(), name);
        outcome.map_err(|error| format!("no process can be put below {}: {error}", self.path))
    }
}

fn is_v2(path: &str) -> bool {
    statfs(path).is_ok_and(|found| found.filesystem_type() == CGROUP2_SUPER_MAGIC)
}

/// Makes `groundstate` below `base`, or the first free name after it. One that is there with
/// nothing in it and nobody's lock is an earlier init's: it is taken over.
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
    Err(io::Error::other("other inits hold every name"))
}

// Cgroups of runs that are over and in which something still lives: they are removed
// when they tell that they are empty. Who is in one is [`super::tracker`]'s.

/// Cgroups that could not be removed yet and are remembered.
pub(super) const LEFTOVERS: usize = 4096;
