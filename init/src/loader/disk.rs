//! File access of the loader child, which may block on a disk. `groundstate_units` decides which
//! files are accepted.

use super::failed_load::Progress;
use crate::base::mount_table;
use groundstate_units::load::files::{FileKind, Files, Problem, Stat};
use groundstate_units::unit::generation::Stamp;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

/// File access by std::fs.
pub(crate) struct Disk<'a> {
    /// The mount table, if it has mounts that should not be accessed more than necessary.
    mounts: Option<Vec<u8>>,
    progress: &'a Progress<'a>,
}

impl<'a> Disk<'a> {
    /// Uses the present mount table.
    pub(super) fn new(progress: &'a Progress<'a>) -> Disk<'a> {
        let mounts = mount_table::table().ok().filter(|table| mount_table::has_elsewheres(table));
        Disk { mounts, progress }
    }
}

impl Files for Disk<'_> {
    fn list(&self, directory: &str, limit: usize) -> Result<Vec<String>, Problem> {
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(Problem::Kind(FileKind::Regular));
            }
            Err(error) => return Err(problem(&error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| problem(&error))?;
            if names.len() >= limit {
                return Err(Problem::TooLarge);
            }
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn stat(&self, path: &str) -> Result<Stat, Problem> {
        std::fs::metadata(path).map(|data| stat(&data)).map_err(|error| problem(&error))
    }

    /// A load does not wait for an unreachable server only because a unit names a path on it.
    fn stat_outside(&self, path: &str) -> Option<Result<Stat, Problem>> {
        let Some(table) = &self.mounts else { return Some(self.stat(path)) };
        let found = match mount_table::open_asked(table, path, OFlag::O_PATH) {
            Err(Errno::EXDEV) => return None,
            found => found.map_err(io::Error::from),
        };
        let found = found.and_then(|found| File::from(found).metadata());
        Some(found.map(|data| stat(&data)).map_err(|error| problem(&error)))
    }

    fn link(&self, path: &str) -> Option<String> {
        std::fs::read_link(path).ok().map(|target| target.to_string_lossy().into_owned())
    }

    fn work_on(&self, what: &str, work: &mut dyn FnMut()) -> Option<String> {
        self.progress.work_on(what, work)
    }

    fn read(&self, path: &str, limit: usize) -> Result<(Vec<u8>, Stat), Problem> {
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = file.map_err(|error| problem(&error))?;
        let found = stat(&file.metadata().map_err(|error| problem(&error))?);
        if found.kind != FileKind::Regular {
            return Err(Problem::Kind(found.kind));
        }
        let bytes = read_at_most(file, limit)?;
        Ok((bytes, found))
    }
}

fn read_at_most(file: File, limit: usize) -> Result<Vec<u8>, Problem> {
    let one_more = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    file.take(one_more).read_to_end(&mut bytes).map_err(|error| problem(&error))?;
    if bytes.len() > limit { Err(Problem::TooLarge) } else { Ok(bytes) }
}

fn stat(data: &Metadata) -> Stat {
    let kind = if data.is_file() {
        FileKind::Regular
    } else if data.is_dir() {
        FileKind::Directory
    } else {
        FileKind::Special
    };
    let nanos =
        |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    Stat {
        kind,
        mode: data.mode() & 0o7777,
        uid: data.uid(),
        gid: data.gid(),
        stamp: Stamp {
            device: data.dev(),
            inode: data.ino(),
            size: data.size(),
            modified: nanos(data.mtime(), data.mtime_nsec()),
            changed: nanos(data.ctime(), data.ctime_nsec()),
        },
    }
}

fn problem(error: &io::Error) -> Problem {
    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
        return Problem::Missing;
    }
    let text = error.to_string();
    Problem::Other(text.split(" (os error").next().unwrap_or(&text).to_string())
}
