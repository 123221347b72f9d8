//! Resolves a path on which a file is to be created, and creates missing directories. It opens each
//! directory in turn and follows a symbolic link only if it belongs to root or to init's own user,
//! so that no other user can redirect the creation. Runs in children of PID 1, because these calls
//! may wait for a disk.

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat};
use nix::sys::stat::{Mode, SFlag, fstatat, mkdirat, umask};
use nix::unistd::geteuid;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Links on one path; the kernel's own limit (path_resolution(7)).
const LINKS: usize = 40;
/// Components of one path, including those of links.
const PARTS: usize = 4_096;

/// Opens the directory that contains a path and returns it with the last component. With `make`,
/// missing directories are created with those permission bits.
pub(super) fn parent(path: &str, make: Option<u32>) -> io::Result<(OwnedFd, String)> {
    let trimmed = path.trim_end_matches('/');
    let (dirs, last) = trimmed.rsplit_once('/').ok_or(Errno::EINVAL)?;
    if last.is_empty() || last == "." || last == ".." {
        return Err(Errno::EINVAL.into());
    }
    Ok((directory(dirs, make)?, last.to_string()))
}

/// Opens the directory `path`; with `make`, missing directories are created.
pub(super) fn directory(path: &str, make: Option<u32>) -> io::Result<OwnedFd> {
    let mut left: VecDeque<OsString> = parts(path.as_bytes());
    let mut way = vec![root()?];
    let (mut links, mut steps) = (0, 0);
    while let Some(part) = left.pop_front() {
        steps += 1;
        if steps > PARTS {
            return Err(Errno::ENAMETOOLONG.into());
        }
        if part.as_bytes() == b".." {
            if way.len() > 1 {
                way.pop();
            }
            continue;
        }
        let Some(here) = way.last() else { return Err(Errno::ENOENT.into()) };
        let step = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let found = match openat(here, part.as_os_str(), step, Mode::empty()) {
            Err(Errno::ENOENT) if make.is_some() => {
                let mode = Mode::from_bits_truncate(make.unwrap_or(0o755));
                // The umask is for the socket itself, not for its directories.
                let before = umask(Mode::empty());
                let made = mkdirat(here, part.as_os_str(), mode);
                umask(before);
                match made {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                openat(here, part.as_os_str(), step, Mode::empty())?
            }
            found => found?,
        };
        let stat = nix::sys::stat::fstat(&found)?;
        match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFDIR => way.push(found),
            SFlag::S_IFLNK => {
                links += 1;
                if links > LINKS {
                    return Err(Errno::ELOOP.into());
                }
                if stat.st_uid != 0 && stat.st_uid != geteuid().as_raw() {
                    return Err(Errno::EACCES.into());
                }
                let target = readlinkat(&found, "")?.into_vec();
                if target.starts_with(b"/") {
                    way = vec![root()?];
                }
                for part in parts(&target).into_iter().rev() {
                    left.push_front(part);
                }
            }
            _ => return Err(Errno::ENOTDIR.into()),
        }
    }
    way.pop().ok_or_else(|| Errno::ENOENT.into())
}

fn root() -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(nix::fcntl::open("/", flags, Mode::empty())?)
}

fn parts(path: &[u8]) -> VecDeque<OsString> {
    let parts = path.split(|byte| *byte == b'/').filter(|part| !matches!(part, [] | [b'.']));
    parts.map(|part| OsString::from_vec(part.to_vec())).collect()
}

/// The file type of the entry with that name, without following links.
pub(super) fn kind(parent: &OwnedFd, name: &str) -> io::Result<SFlag> {
    let stat = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    Ok(SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_made_and_own_links_followed() {
        let dir = std::env::temp_dir().join(format!("gs-way-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::os::unix::fs::symlink("real", dir.join("link")).unwrap();
        std::fs::create_dir(dir.join("real")).unwrap();
        let path = format!("{}/link/a/../b/x.sock", dir.display());
        let (parent, last) = parent(&path, Some(0o755)).unwrap();
        assert_eq!(last, "x.sock");
        assert!(dir.join("real/b").is_dir());
        assert!(kind(&parent, "x.sock").is_err());
        assert!(super::parent(&format!("{}/none/x", dir.display()), None).is_err());
        std::os::unix::fs::symlink("loop", dir.join("loop")).unwrap();
        let looped = super::parent(&format!("{}/loop/x", dir.display()), None).unwrap_err();
        assert_eq!(looped.raw_os_error(), Some(libc::ELOOP));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
