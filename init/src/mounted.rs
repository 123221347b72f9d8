//! What is mounted, and whether somebody else answers for it: by fuse(4), or over a network.
//! PID 1 asks such a file system nothing, for it may not answer. Read from
//! /proc/self/mountinfo, proc_pid_mountinfo(5), which asks nobody.
//!
//! Not here: mounting ([`crate::boot`]), and unmounting at the end ([`crate::shutdown`]).

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

/// Types that begin so are of somebody else.
const ELSEWHERES: [&str; 10] =
    ["fuse", "nfs", "cifs", "smb", "9p", "ceph", "afs", "lustre", "virtiofs", "orangefs"];
/// These keep data on disks, and have numbers as if they had none.
const DISKLESS: [&str; 5] = ["btrfs", "zfs", "bcachefs", "ubifs", "overlay"];
/// These only speak of file systems of others.
const CONTROLS: [&str; 2] = ["fusectl", "nfsd"];
/// Bytes of the table that are read.
const TABLE: u64 = 4 * 1024 * 1024;

/// The table of mounts of this process, as it is now. None: there is no /proc.
pub(crate) fn table() -> Option<String> {
    let mut table = String::new();
    File::open("/proc/self/mountinfo").ok()?.take(TABLE).read_to_string(&mut table).ok()?;
    Some(table)
}

/// One line of it.
struct Mount<'t> {
    id: &'t str,
    device: &'t str,
    at: &'t str,
    kind: &'t str,
}

fn mounts(table: &str) -> impl Iterator<Item = Mount<'_>> {
    table.lines().filter_map(|line| {
        let (start, end) = line.split_once(" - ")?;
        let mut start = start.split(' ');
        let (id, device, at) = (start.next()?, start.nth(1)?, start.nth(1)?);
        Some(Mount { id, device, at, kind: end.split(' ').next()? })
    })
}

/// Number and place of each mount, as they are written there; and whether something may be lost
/// when it is not taken away: it is of a disk, or of others.
pub(crate) fn places(table: &str) -> impl Iterator<Item = (&str, &str, bool)> {
    mounts(table).map(|mount| (mount.id, mount.at, mount.holds_data()))
}

impl Mount<'_> {
    fn is_of_here(&self) -> bool {
        !ELSEWHERES.iter().any(|elsewhere| self.kind.starts_with(elsewhere))
    }

    fn holds_data(&self) -> bool {
        // Major 0 has what is of no one device.
        let is_on_disk = !self.device.starts_with("0:") || DISKLESS.contains(&self.kind);
        is_on_disk || (!self.is_of_here() && !CONTROLS.contains(&self.kind))
    }

    /// What follows of the path below it.
    fn below<'p>(&self, path: &'p str) -> Option<&'p str> {
        let rest = path.strip_prefix(self.at.trim_end_matches('/'))?;
        rest.strip_prefix('/')
    }
}

/// The mount of that number is of a file system of this machine. None: it is not in the table.
pub(crate) fn is_of_here(table: &str, id: &str) -> Option<bool> {
    mounts(table).find(|mount| mount.id == id).map(|mount| mount.is_of_here())
}

/// Opens a path whose file system is of this machine, and that is not left on the way. EXDEV:
/// it is somebody else's, or leads through another one. `/var/run` is `/run`.
pub(crate) fn open_here(path: &str, flags: OFlag) -> Result<OwnedFd, Errno> {
    let run = path.strip_prefix("/var/run/").map(|rest| format!("/run/{rest}"));
    let path = run.as_deref().unwrap_or(path);
    let flags = flags | OFlag::O_CLOEXEC;
    // Without a table nothing can be told, and nothing else can be mounted by others.
    let Some(table) = table() else { return open(path, flags, Mode::empty()) };
    let above = mounts(&table).filter_map(|mount| Some((mount.below(path)?.len(), mount)));
    // Of several at one place the last is on top.
    let on = above.reduce(|best, next| if next.0 <= best.0 { next } else { best });
    let Some((_, mount)) = on.filter(|(_, mount)| mount.is_of_here()) else {
        return Err(Errno::EXDEV);
    };
    let how = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let anchor = open(mount.at, how, Mode::empty())?;
    let below = mount.below(path).filter(|rest| !rest.is_empty()).unwrap_or(".");
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_NO_XDEV);
    match openat2(&anchor, below, how) {
        // Before Linux 5.6.
        Err(Errno::ENOSYS) => open(path, flags, Mode::empty()),
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
        23 22 0:21 / /proc rw - proc proc rw\n\
        30 22 0:40 / /srv/far rw - nfs4 server:/x rw\n\
        31 22 0:41 / /srv/farther rw - tmpfs tmpfs rw\n\
        32 22 0:42 / /home/ann/x rw,nosuid - fuse.sshfs y rw,user_id=1000\n";

    #[test]
    fn who_answers_for_a_mount_is_told_by_its_type() {
        assert_eq!(is_of_here(TABLE, "22"), Some(true));
        assert_eq!(is_of_here(TABLE, "30"), Some(false));
        assert_eq!(is_of_here(TABLE, "32"), Some(false));
        assert_eq!(is_of_here(TABLE, "99"), None);
        let held: Vec<bool> = places(TABLE).map(|(.., holds_data)| holds_data).collect();
        assert_eq!(held, [true, false, true, false, true]);
        let below = |path: &str| -> Vec<String> {
            let all = mounts(TABLE).filter(|mount| mount.below(path).is_some());
            all.map(|mount| mount.at.to_string()).collect()
        };
        assert_eq!(below("/srv/farther/x.pid"), ["/", "/srv/farther"]);
        assert_eq!(below("/srv/far/x.pid"), ["/", "/srv/far"]);
        assert_eq!(below("relative"), Vec::<String>::new());
    }

    #[test]
    fn a_file_of_this_machine_is_opened_and_one_that_leads_elsewhere_is_not() {
        let dir = std::env::temp_dir().join(format!("gs-mounted-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("file"), "x").unwrap();
        std::os::unix::fs::symlink("/proc/self/stat", dir.join("link")).unwrap();
        let at = |name: &str| dir.join(name).to_str().unwrap().to_string();
        assert!(open_here(&at("file"), OFlag::O_RDONLY).is_ok());
        assert_eq!(open_here(&at("none"), OFlag::O_RDONLY).unwrap_err(), Errno::ENOENT);
        assert_eq!(open_here(&at("link"), OFlag::O_RDONLY).unwrap_err(), Errno::EXDEV);
        assert!(open_here("/proc/self/stat", OFlag::O_RDONLY).is_ok());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
