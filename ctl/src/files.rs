//! The loader's questions about the file system ([`Files`]), answered by std::fs for
//! `check` and `graph --units`. Nothing here blocks: what is no regular file is not opened
//! for reading, and what is opened is opened with O_NONBLOCK.

use groundstate_units::files::{FileKind, Files, Problem, Stat};
use groundstate_units::generation::Stamp;
use nix::fcntl::OFlag;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

/// The file system of this process.
pub(crate) struct Disk;

impl Files for Disk {
    fn list(&self, directory: &str, limit: usize) -> Result<Vec<String>, Problem> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(|error| problem(&error))? {
            let name = entry.map_err(|error| problem(&error))?.file_name();
            if names.len() >= limit {
                return Err(Problem::TooLarge);
            }
            names.push(name.to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn stat(&self, path: &str) -> Result<Stat, Problem> {
        std::fs::metadata(path).map(|found| stat(&found)).map_err(|error| problem(&error))
    }

    fn link(&self, path: &str) -> Option<String> {
        std::fs::read_link(path).ok().map(|target| target.to_string_lossy().into_owned())
    }

    fn read(&self, path: &str, limit: usize) -> Result<(Vec<u8>, Stat), Problem> {
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits())
            .open(path)
            .map_err(|error| problem(&error))?;
        let found = stat(&file.metadata().map_err(|error| problem(&error))?);
        if found.kind != FileKind::Regular {
            return Err(Problem::Kind(found.kind));
        }
        let bytes = bytes(file, limit).map_err(|error| problem(&error))?;
        if bytes.len() > limit {
            return Err(Problem::TooLarge);
        }
        Ok((bytes, found))
    }
}

/// At most one more than `limit`, so that a longer file is known as such.
fn bytes(file: File, limit: usize) -> Result<Vec<u8>, std::io::Error> {
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn stat(found: &Metadata) -> Stat {
    let kind = match found {
        found if found.is_file() => FileKind::Regular,
        found if found.is_dir() => FileKind::Directory,
        _ => FileKind::Special,
    };
    Stat {
        kind,
        mode: found.mode() & 0o7777,
        uid: found.uid(),
        gid: found.gid(),
        stamp: stamp(found),
    }
}

fn problem(error: &std::io::Error) -> Problem {
    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
        return Problem::Missing;
    }
    Problem::Other(error.to_string())
}

fn stamp(found: &Metadata) -> Stamp {
    let nanos =
        |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
    Stamp {
        device: found.dev(),
        inode: found.ino(),
        size: found.size(),
        modified: nanos(found.mtime(), found.mtime_nsec()),
        changed: nanos(found.ctime(), found.ctime_nsec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_regular_file_is_neither_read_nor_waited_for() {
        assert_eq!(Disk.read("/", 10), Err(Problem::Kind(FileKind::Directory)));
        assert_eq!(Disk.read("/dev/null", 10), Err(Problem::Kind(FileKind::Special)));
        assert_eq!(Disk.read("/nowhere/at-all", 10).err(), Some(Problem::Missing));
        assert_eq!(Disk.read("/proc/self/exe", 10).err(), Some(Problem::TooLarge));
    }
}
