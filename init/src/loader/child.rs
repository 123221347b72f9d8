//! The loader child: reads all unit files and writes the result. It may block, fail or be killed;
//! nothing here runs in PID 1.

use crate::base::paths::Paths;
use crate::base::{Mode, mount_table};
use crate::loader::failed_load::{LeftOut, Progress};
use crate::loader::transfer::{LoadResult, read_memory};
use crate::loader::{Purpose, identity};
use groundstate_units::control::answer::Failure;
use groundstate_units::control::place;
use groundstate_units::control::source_set::SourceSet;
use groundstate_units::load::command::Command;
use groundstate_units::load::delivered::{STATE, Source, state};
use groundstate_units::load::files::{FileKind, Files, Problem, Stat};
use groundstate_units::load::folder::Trust;
use groundstate_units::load::{Loaded, Options};
use groundstate_units::machine::reason::Refusal;
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::{Generation, Stamp};
use groundstate_units::{limit, load};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode as FileMode, umask};
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{iter, thread};

/// The task of the child.
pub(crate) struct LoadRequest<'a> {
    /// The locations of the files.
    pub(crate) paths: Paths,
    /// The previous generation: unchanged files are not parsed again.
    pub(crate) previous: Option<Arc<Generation>>,
    /// True at a machine's boot, to set the host name and machine-id first.
    pub(crate) identity: bool,
    /// True to refuse files that other users own or can write. Not in a container, whose files
    /// often have other owners.
    pub(crate) strict: bool,
    /// Tells which part of the previous generation to load again.
    pub(crate) purpose: &'a Purpose,
    /// Names requested by the operator, which may be instances of templates.
    pub(crate) wanted: Vec<Name>,
    /// Files on which earlier loaders failed.
    pub(crate) left_out: LeftOut,
}

impl<'a> LoadRequest<'a> {
    /// A request for an init of this kind, without a previous generation.
    pub(crate) fn of(paths: &Paths, mode: Mode, purpose: &'a Purpose) -> LoadRequest<'a> {
        let strict = mode != Mode::Container;
        LoadRequest {
            paths: paths.clone(),
            previous: None,
            identity: mode == Mode::Machine && matches!(purpose, Purpose::Boot),
            strict,
            purpose,
            wanted: Vec::new(),
            left_out: LeftOut::default(),
        }
    }
}

/// Carries out the task.
pub(super) fn run(errand: &LoadRequest<'_>, progress: &Progress<'_>) -> LoadResult {
    let notes = if errand.identity { identity::establish() } else { Vec::new() };
    let paths = &errand.paths;
    let runtime = paths.runtime();
    let command = paths.command.clone();
    let options = Options {
        settings: Some(paths.config.0.clone()),
        settings_named: paths.config.1,
        // A command is the only unit, whatever the files of the image say.
        policy: command.is_none().then(|| paths.policy.clone()),
        runtime_policy: command.is_none().then(|| paths.runtime_policy()),
        only: command.is_some().then(Vec::new),
        command: command.map(|words| Command { words, umask: umask_of_init() }),
        units: paths.units.clone(),
        standard_units: paths.standard_units(),
        runtime_units: Some(place::runtime_units(runtime)),
        sources: paths.command.is_none().then(|| place::sources(runtime)),
        wanted: errand.wanted.clone(),
        trust: Trust { uid: nix::unistd::geteuid().as_raw(), strict: errand.strict },
        ..Options::system(nix::unistd::geteuid().as_raw())
    };
    let previous = errand.previous.as_deref().map(Generation::unpacked);
    let changed = match (errand.purpose, &previous) {
        (Purpose::Put { source, body, .. }, Some(previous)) => {
            let body = body.as_ref().map(AsFd::as_fd);
            Some(put_source(progress, &options, previous, source, body))
        }
        (Purpose::Instances { .. }, Some(previous)) => {
            let loaded = load::instances(&Disk::new(progress), &options, previous);
            Some(loaded.map(|loaded| loaded.generation))
        }
        (_, None) => None,
        (Purpose::Boot | Purpose::Reload { .. } | Purpose::Plan { .. }, _) => None,
    };
    match changed {
        Some(Ok(generation)) => return LoadResult { generation, ..LoadResult::default() },
        Some(Err(refusal)) => {
            return LoadResult { refusal: Some(refusal), ..LoadResult::default() };
        }
        None => {}
    }
    let disk = Disk::new(progress);
    let Loaded { refused, generation, .. } = load::load(&disk, &options, previous.as_ref());
    LoadResult { notes, refused, refusal: None, generation, memory: None }
}

/// Returns the umask. umask(2) returns it only while setting another one.
fn umask_of_init() -> u32 {
    let present = umask(FileMode::empty());
    umask(present);
    present.bits()
}

// File access of the loader child, which may block on a disk. `groundstate_units` decides which
// files are accepted.

/// File access by std::fs.
pub(crate) struct Disk<'a> {
    /// The mount table, if another process or machine serves a mount other than the root.
    mounts: Option<Vec<u8>>,
    progress: &'a Progress<'a>,
}

impl<'a> Disk<'a> {
    /// Uses the present mount table.
    pub(super) fn new(progress: &'a Progress<'a>) -> Disk<'a> {
        let mounts = mount_table::table().ok();
        let mounts = mounts.filter(|table| mount_table::has_remote_mount_below(table, "/"));
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
        let found = match mount_table::open_accessible(table, path, OFlag::O_PATH) {
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
        in_threads(self.progress.threads().min(count / FILES_OF_A_THREAD), count, work);
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
        let bytes = read_at_most(file, limit, found.stamp.size)?;
        Ok((bytes, found))
    }
}

/// The minimum number of files for another thread. It costs as much as reading about three files.
const FILES_OF_A_THREAD: usize = 32;
/// Bytes of a thread's stack. Nothing in a thread recurses.
const STACK: usize = 512 * 1024;

/// Calls `work` for each number below `count`, in this thread and in others, `threads` together.
/// It works with fewer threads if the kernel creates no more.
fn in_threads(threads: usize, count: usize, work: &(dyn Fn(usize) + Sync)) {
    let next = AtomicUsize::new(0);
    let serve = || {
        let numbers = iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        numbers.take_while(|number| *number < count).for_each(work);
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // The threads that exist do its work.
            let _ = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, serve);
        }
        serve();
    });
}

/// Reads a file of about `size` bytes.
fn read_at_most(file: File, limit: usize, size: u64) -> Result<Vec<u8>, Problem> {
    let one_more = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    // With room for one more byte, `read_to_end` finds the end without enlarging the buffer.
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0).min(limit) + 1);
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

// Handles `source-put` in the loader child: reads the controller's files from its memfd, validates
// them with the present generation, and stores them for a restart.

fn refusal(kind: &str, message: String, hint: &str) -> Refusal {
    Refusal { kind: kind.to_string(), message, hint: hint.to_string() }
}

/// The generation with the new content of the source; without a `body` the source becomes empty.
fn put_source(
    progress: &Progress<'_>,
    options: &Options,
    previous: &Generation,
    name: &Name,
    body: Option<BorrowedFd<'_>>,
) -> Result<Generation, Refusal> {
    let set = match body {
        Some(body) => read_source_set(body)?,
        None => SourceSet::default(),
    };
    let at = previous.revision(name);
    if let Some(expected) = set.expected.filter(|expected| *expected != at) {
        let message = format!("source {name} is at revision {at}, not {expected}");
        return Err(refusal(
            Failure::REVISION,
            message,
            "`initctl source list` shows what it holds",
        ));
    }
    let kept = |error: &io::Error| {
        let message = format!("cannot store source {name}: {error}");
        refusal("file", message, "free some space in the runtime directory")
    };
    let sources = options.sources.as_deref().unwrap_or_default();
    let store = Store::of(sources, name);
    // A loader that was killed may have stored a revision without returning it.
    let revision = at.max(store.latest()).saturating_add(1);
    store.write(revision, &set).map_err(|error| kept(&error))?;
    let source = Source::of(name.clone(), revision, set, sources, options.trust);
    let Loaded { generation, refused, .. } =
        load::put(&Disk::new(progress), options, previous, source);
    if refused {
        store.forget(revision);
        let message = format!("source {name} exceeds the limit of {} units", limit::UNITS);
        return Err(refusal("too-large", message, "nothing has changed"));
    }
    store.flip(revision).map_err(|error| kept(&error))?;
    Ok(generation)
}

fn read_source_set(body: BorrowedFd<'_>) -> Result<SourceSet, Refusal> {
    let unreadable =
        |error: io::Error| refusal("protocol", format!("cannot read the memfd: {error}"), "");
    let memory = File::from(body.try_clone_to_owned().map_err(unreadable)?);
    SourceSet::parse(&read_memory(&memory, limit::SOURCE_BYTES).map_err(unreadable)?)
}

// Storage of sources until the next boot: a directory for each revision, and a link to the present
// one that changes atomically. Only the loader child uses it. `groundstate_units::load::delivered`
// describes the format.

/// The directory of one source.
pub(super) struct Store(PathBuf);

impl Store {
    /// The store of a source below the directory of all sources. Creates nothing.
    pub(super) fn of(sources: &str, name: &Name) -> Store {
        Store(Path::new(sources).join(name.as_str()))
    }

    fn revision(&self, revision: u64) -> PathBuf {
        self.0.join(revision.to_string())
    }

    /// The highest stored revision, or 0.
    pub(super) fn latest(&self) -> u64 {
        self.revisions().into_iter().max().unwrap_or(0)
    }

    fn revisions(&self) -> Vec<u64> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    /// Writes all files of a revision, which becomes valid with [`Store::flip`]. Only init's user
    /// and root can read them, because units may contain secrets.
    pub(super) fn write(&self, revision: u64, set: &SourceSet) -> io::Result<()> {
        let directory = self.revision(revision);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let state = state(revision, &set.roots);
        let files = set.files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let written = files.chain([(STATE, state.as_str())]).try_for_each(|(name, text)| {
            let path = directory.join(name);
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(text.as_bytes())
        });
        if written.is_err() {
            self.forget(revision);
        }
        written
    }

    /// Makes this the present revision and removes the others.
    pub(super) fn flip(&self, revision: u64) -> io::Result<()> {
        let fresh = self.0.join("current.new");
        match std::fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        symlink(revision.to_string(), &fresh)?;
        std::fs::rename(&fresh, self.0.join("current"))?;
        self.revisions()
            .into_iter()
            .filter(|old| *old != revision)
            .for_each(|old| self.forget(old));
        Ok(())
    }

    /// Best effort: leftover revisions are never read.
    pub(super) fn forget(&self, revision: u64) {
        let _ = std::fs::remove_dir_all(self.revision(revision));
    }
}

#[cfg(test)]
mod source_put_tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn revision_becomes_valid_at_its_flip_and_a_failed_one_leaves_nothing() {
        let dir = std::env::temp_dir().join(format!("groundstate-store.{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let store = Store::of(dir.to_str().unwrap(), &Name::new("fleet").unwrap());
        let set = |text: &str| SourceSet {
            files: BTreeMap::from([("web.yaml".to_string(), text.to_string())]),
            ..SourceSet::default()
        };
        let present = || std::fs::read_to_string(store.0.join("current/web.yaml")).ok();
        assert_eq!(store.latest(), 0);
        store.write(1, &set("one")).unwrap();
        assert_eq!(present(), None);
        store.flip(1).unwrap();
        assert_eq!(present().as_deref(), Some("one"));
        store.write(2, &set("two")).unwrap();
        assert_eq!((present().as_deref(), store.latest()), (Some("one"), 2));
        store.flip(2).unwrap();
        assert_eq!((present().as_deref(), store.revisions()), (Some("two"), vec![2]));
        assert!(store.write(2, &set("three")).is_err(), "an existing revision is not overwritten");
        let _ = std::fs::remove_dir_all(&dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    #[test]
    fn work_is_done_once_for_each_number() {
        for (threads, count) in [(0, 10), (1, 0), (1, 100), (2, 1), (4, 63), (64, 1001)] {
            let done = Mutex::new(vec![0; count]);
            in_threads(threads, count, &|number| done.lock().unwrap()[number] += 1);
            assert_eq!(done.into_inner().unwrap(), vec![1; count]);
        }
    }

    #[test]
    fn two_threads_work_at_the_same_time() {
        let ((ready, other), (go, wait)) = (channel(), channel());
        let (other, wait) = (Mutex::new(other), Mutex::new(wait));
        in_threads(2, 2, &|number| match number {
            0 => {
                ready.send(()).unwrap();
                wait.lock().unwrap().recv().unwrap();
            }
            _ => {
                other.lock().unwrap().recv().unwrap();
                go.send(()).unwrap();
            }
        });
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn panic_of_a_thread_is_a_panic_of_the_loader() {
        let caller = thread::current().id();
        let (tell, told) = channel();
        let told = Mutex::new(told);
        in_threads(2, 2, &|_| {
            if thread::current().id() == caller {
                // The other thread has the other number.
                told.lock().unwrap().recv().unwrap();
            } else {
                tell.send(()).unwrap();
                panic!("on purpose");
            }
        });
    }
}
