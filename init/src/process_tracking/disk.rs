//! The disk that a path in /dev names, for limits of what is read and written there.

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2, readlinkat};
use nix::sys::stat::{Mode, SFlag, fstat};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// Links that are followed on the way, as the kernel has it.
const LINKS: usize = 40;

/// The numbers of a disk in /dev. The path is not followed out of that file system, which is
/// memory: PID 1 would wait for another one that is dead. EXDEV: it leads elsewhere.
pub(super) fn numbers(path: &str) -> io::Result<(u32, u32)> {
    let below = path.strip_prefix("/dev/").ok_or(Errno::EXDEV)?;
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let devices = open("/dev", flags | OFlag::O_DIRECTORY, Mode::empty())?;
    let within = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_XDEV;
    let found = match openat2(&devices, below, OpenHow::new().flags(flags).resolve(within)) {
        Err(Errno::ENOSYS) => open_step_by_step(devices, below)?,
        found => found?,
    };
    let about = fstat(&found)?;
    let kind = SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT;
    if kind != SFlag::S_IFBLK {
        return Err(Errno::ENOTBLK.into());
    }
    Ok((libc::major(about.st_rdev), libc::minor(about.st_rdev)))
}

/// The same before Linux 5.6: neither above the directory nor into another mount.
fn open_step_by_step(top: OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    let step = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mount = mount_of(&top);
    let mut ahead: VecDeque<OsString> = path.split('/').map(OsString::from).collect();
    let (mut above, mut here, mut links) = (Vec::new(), top, 0);
    while let Some(name) = ahead.pop_front() {
        match name.as_bytes() {
            b"" | b"." => continue,
            b".." => {
                here = above.pop().ok_or(Errno::EXDEV)?;
                continue;
            }
            _ => {}
        }
        let next = openat(&here, name.as_os_str(), step, Mode::empty())?;
        if mount_of(&next) != mount {
            return Err(Errno::EXDEV);
        }
        if kind(&next)? != SFlag::S_IFLNK {
            above.push(std::mem::replace(&mut here, next));
            continue;
        }
        links += 1;
        if links > LINKS {
            return Err(Errno::ELOOP);
        }
        let to = readlinkat(&here, name.as_os_str())?;
        if to.as_bytes().starts_with(b"/") {
            return Err(Errno::EXDEV);
        }
        let parts = to.as_bytes().split(|byte| *byte == b'/').rev();
        parts.for_each(|part| ahead.push_front(OsStr::from_bytes(part).to_owned()));
    }
    Ok(here)
}

fn kind(file: &OwnedFd) -> Result<SFlag, Errno> {
    Ok(SFlag::from_bits_truncate(fstat(file)?.st_mode) & SFlag::S_IFMT)
}

/// Which mount it is in, without a look at the file itself. None: there is no /proc.
fn mount_of(file: &OwnedFd) -> Option<String> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    info.lines().find_map(|line| line.strip_prefix("mnt_id:").map(str::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_looked_for_in_dev_and_nowhere_else() {
        let refused = |path: &str| numbers(path).unwrap_err().raw_os_error();
        assert_eq!(refused("/dev/null"), Some(libc::ENOTBLK));
        for elsewhere in ["/tmp/disk", "/dev/../tmp", "/dev/fd/0"] {
            assert_eq!(refused(elsewhere), Some(libc::EXDEV), "{elsewhere}");
        }
    }

    #[test]
    fn step_by_step_it_is_what_the_kernel_finds_at_once() {
        let top = std::env::temp_dir().join(format!("groundstate-disk.{}", std::process::id()));
        std::fs::create_dir_all(top.join("by/id")).unwrap();
        std::fs::write(top.join("disk"), "").unwrap();
        let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, top.join(at)).unwrap();
        link("../../disk", "by/id/name");
        link("by/../by/id", "short");
        link("/etc/passwd", "out");
        link("../..", "by/above");
        link("round", "round");
        link("/proc/self", "proc");
        let opened = |at: &std::path::Path| {
            open(at, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).unwrap()
        };
        let within = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_XDEV;
        let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(within);
        for path in [
            "disk",
            "by/id/name",
            "short/name",
            "short/./name",
            "out",
            "by/above",
            "round",
            "proc",
            "../x",
            "by/../..",
            "none",
            "disk/x",
            "by/id/../../disk",
        ] {
            let inode = |file: OwnedFd| fstat(&file).unwrap().st_ino;
            let at_once = openat2(opened(&top), path, how).map(inode);
            assert_eq!(open_step_by_step(opened(&top), path).map(inode), at_once, "{path}");
        }
        let other = open_step_by_step(opened(std::path::Path::new("/")), "proc/uptime");
        assert_eq!(other.err(), Some(Errno::EXDEV));
        std::fs::remove_dir_all(&top).unwrap();
    }
}
