//! File access of the loader child, which may block on a disk. `groundstate_units` decides which
//! files are accepted.

use super::failed_load::Progress;
use crate::base::{limit, mount_table};
use groundstate_units::load::files::{FileKind, Files, Problem, Stat};
use groundstate_units::unit::generation::Stamp;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sched::{CpuSet, sched_getaffinity};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, scope};

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

    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        in_threads(self.progress.hands(threads()), count, work);
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

// The same work on many files, by several threads at once. In the loader's child alone: PID 1
// has one thread, and so has the core, which asks for this by
// [`groundstate_units::load::files::Files::each`].

/// Files a hand takes at a time.
const PORTION: usize = 16;
/// Files below which another hand is not worth its thread.
const WORTH: usize = 32;
/// Bytes of a thread's stack: nothing that is done so recurses.
const STACK: usize = 512 * 1024;

/// Does `work` for each number below `count`. A thread that can not be had is done without; a
/// panic in one goes on in the caller.
fn in_threads(hands: usize, count: usize, work: &(dyn Fn(usize) + Sync)) {
    let next = AtomicUsize::new(0);
    let serve = || {
        loop {
            let from = next.fetch_add(PORTION, Ordering::Relaxed);
            if from >= count {
                return;
            }
            (from..count.min(from + PORTION)).for_each(work);
        }
    };
    let hands = hands.min(count / WORTH);
    scope(|scope| {
        let begin = |_| Builder::new().stack_size(STACK).spawn_scoped(scope, serve).ok();
        let others: Vec<_> = (1..hands).filter_map(begin).collect();
        serve();
        for other in others {
            if let Err(panic) = other.join() {
                resume_unwind(panic);
            }
        }
    });
}

/// One for each processor this process may use, [`limit::LOADER_HANDS`] at most.
fn threads() -> usize {
    let set = sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap_or_default();
    let usable = (0..CpuSet::count()).filter(|at| set.is_set(*at) == Ok(true)).count();
    usable.min(limit::LOADER_HANDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::{Barrier, Mutex};

    #[test]
    fn each_is_done_once_whoever_does_it() {
        for (hands, count) in [(0, 10), (1, 0), (1, 100), (2, 1), (4, 63), (3, 1000), (64, 1001)] {
            let done = Mutex::new(vec![0; count]);
            in_threads(hands, count, &|at| done.lock().unwrap()[at] += 1);
            assert_eq!(done.into_inner().unwrap(), vec![1; count]);
        }
    }

    #[test]
    fn several_threads_work_and_a_few_files_are_worth_one_only() {
        let by = |count: usize| {
            let (seen, both) = (Mutex::new(BTreeSet::new()), Barrier::new(2));
            in_threads(2, count, &|_| {
                let name = format!("{:?}", std::thread::current().id());
                // Nobody goes on with its first before the other has begun.
                if seen.lock().unwrap().insert(name) && count >= 2 * WORTH {
                    both.wait();
                }
            });
            seen.into_inner().unwrap().len()
        };
        assert_eq!((by(2 * WORTH - 1), by(2 * WORTH)), (1, 2));
    }

    #[test]
    #[should_panic(expected = "on purpose")]
    fn a_panic_of_one_hand_is_the_caller_s() {
        in_threads(2, 1000, &|at| assert!(at < 999, "on purpose"));
    }
}
