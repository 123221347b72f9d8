//! The file system as the loader sees it: a trait that `init` and `initctl` each
//! implement over std::fs, and that tests implement over a map. All rules about
//! which files are let in are in [`crate::load`]; an implementation only asks the
//! kernel and must never block: a path is opened with O_NONBLOCK, O_NOCTTY and
//! O_CLOEXEC, and nothing is read from what is no regular file.

use crate::unit::generation::Stamp;

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A FIFO, socket or device.
    Special,
}

/// What stat(2) says, links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: FileKind,
    /// The lower 12 bits of st_mode.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// What changes when it does.
    pub stamp: Stamp,
}

/// Why a file can not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// ENOENT, ENOTDIR; a link to nowhere looks the same.
    Missing,
    /// It is no regular file, or (for a listing) no directory.
    Kind(FileKind),
    /// It is larger than asked for.
    TooLarge,
    /// Anything else, in the kernel's words.
    Other(String),
}

impl Problem {
    /// The words for what went wrong with a path.
    pub(crate) fn words(&self) -> String {
        match self {
            Problem::Missing => "it does not exist, or is a link to nowhere".to_string(),
            Problem::Kind(FileKind::Directory) => "it is a directory".to_string(),
            Problem::Kind(FileKind::Special) => "it is a FIFO, socket or device".to_string(),
            Problem::Kind(FileKind::Regular) => "it is no directory".to_string(),
            Problem::TooLarge => "it is too large".to_string(),
            Problem::Other(words) => words.clone(),
        }
    }
}

/// The questions the loader asks, from several threads at once.
pub trait Files: Sync {
    /// Names in a directory, in any order, without `.` and `..`, at most `limit`
    /// ([`Problem::TooLarge`] beyond). Names that are not UTF-8 are given lossily.
    fn list(&self, directory: &str, limit: usize) -> Result<Vec<String>, Problem>;

    /// stat(2).
    fn stat(&self, path: &str) -> Result<Stat, Problem>;

    /// The same of what is only named in a unit, and not read. None: whoever answers for it may
    /// never answer, and nobody asks.
    fn stat_outside(&self, path: &str) -> Option<Result<Stat, Problem>> {
        Some(self.stat(path))
    }

    /// readlink(2). None: it is no link, or this file system has none.
    fn link(&self, _path: &str) -> Option<String> {
        None
    }

    /// Does `work` for each number below `count`, in any order, perhaps several at once.
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        (0..count).for_each(work);
    }

    /// Does `work`, which reads and means the unit file `what`. Returns why it was not done: the
    /// caller leaves this file out, because an earlier load did not come past it.
    fn work_on(&self, _what: &str, work: &mut dyn FnMut()) -> Option<String> {
        work();
        None
    }

    /// The bytes of a regular file of at most `limit` bytes, with fstat(2) of the
    /// descriptor they were read from, taken before the first byte.
    fn read(&self, path: &str, limit: usize) -> Result<(Vec<u8>, Stat), Problem>;
}
