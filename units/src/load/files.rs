//! The file system as the loader sees it: a trait that `init` and `initctl` implement over std::fs,
//! and tests over a map. [`crate::load`] has all rules about accepted files. An implementation only
//! asks the kernel and must never block: it opens paths with O_NONBLOCK, O_NOCTTY and O_CLOEXEC,
//! and reads only regular files.

use crate::unit::generation::Stamp;

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A FIFO, socket or device.
    Special,
}

/// The result of stat(2), with links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The type.
    pub kind: FileKind,
    /// The lower 12 bits of st_mode.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The stamp, which changes when the file does.
    pub stamp: Stamp,
}

/// The reason why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// ENOENT or ENOTDIR; a dangling link looks the same.
    Missing,
    /// The path is no regular file or, for a listing, no directory.
    Kind(FileKind),
    /// The file is larger than the limit.
    TooLarge,
    /// Any other error, in the kernel's words.
    Other(String),
}

impl Problem {
    /// Returns the message for a path.
    pub(crate) fn words(&self) -> String {
        match self {
            Problem::Missing => "it does not exist, or is a link to nowhere".to_string(),
            Problem::Kind(FileKind::Directory) => "it is a directory".to_string(),
            Problem::Kind(FileKind::Special) => "it is a FIFO, socket or device".to_string(),
            Problem::Kind(FileKind::Regular) => "it is not a directory".to_string(),
            Problem::TooLarge => "it is too large".to_string(),
            Problem::Other(words) => words.clone(),
        }
    }
}

/// The operations of the loader, called from several threads at once.
pub trait Files: Sync {
    /// Returns the names in a directory, in any order, without `.` and `..`, at most `limit`
    /// ([`Problem::TooLarge`] beyond it). Names that are not UTF-8 are converted lossily.
    fn list(&self, directory: &str, limit: usize) -> Result<Vec<String>, Problem>;

    /// stat(2).
    fn stat(&self, path: &str) -> Result<Stat, Problem>;

    /// Like [`Files::stat`], for a path that the loader does not read because a unit only names it.
    /// Returns `None` without a call if the file system of the path may never answer.
    fn stat_outside(&self, path: &str) -> Option<Result<Stat, Problem>> {
        Some(self.stat(path))
    }

    /// Calls readlink(2). Returns `None` if the path is no link, or this file system has none.
    fn link(&self, _path: &str) -> Option<String> {
        None
    }

    /// Calls `work` for each number below `count`, in any order, perhaps in several threads.
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        (0..count).for_each(work);
    }

    /// Calls `work`, which reads and interprets the unit file `what`. An implementation may leave
    /// out a file at which an earlier load stopped. It then returns the reason without a call.
    fn work_on(&self, _what: &str, work: &mut dyn FnMut()) -> Option<String> {
        work();
        None
    }

    /// Returns the bytes of a regular file of at most `limit` bytes, with the fstat(2) result of
    /// the descriptor, taken before the first byte is read.
    fn read(&self, path: &str, limit: usize) -> Result<(Vec<u8>, Stat), Problem>;
}
