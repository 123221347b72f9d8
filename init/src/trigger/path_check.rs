//! One path of a path unit: what to watch for it, what an event means, and whether it is a reason
//! to fire. Runs in the lookout of paths.

use crate::base::clock;
use groundstate_units::text::glob::matches_file;
use groundstate_units::text::time::Time;
use groundstate_units::trigger::Look;
use nix::sys::inotify::AddWatchFlags;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Directories searched for one pattern.
const DIRECTORIES: usize = 1_024;

/// The purpose of an inotify watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A directory on the path: the entry of that name in it matters, and the directory itself.
    Way(OsString),
    /// The path itself.
    Own,
    /// A directory that a pattern leads into.
    Pattern,
}

/// The meaning of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The path has changed.
    Change,
    /// Something nearby has changed: the path must be checked.
    Perhaps,
}

/// One watched path.
#[derive(Debug)]
pub(super) struct Aimed {
    look: Look,
    path: PathBuf,
    /// Its last seen state; `None` if it did not exist.
    state: Option<FileState>,
    /// The time just before that state was read.
    state_read_at: Time,
    /// Its state from before the order to look, until it is compared with the present one.
    older: Option<Option<FileState>>,
    /// True if it last fired although the time of the change was uncertain.
    in_doubt: bool,
    /// The latest change that events reported: between these two times.
    changed: Option<(Time, Time)>,
    /// True if the state must be compared: events do not show whether this path has changed.
    compare: bool,
}

impl Aimed {
    pub(super) fn new(look: Look, path: String) -> Aimed {
        let path = PathBuf::from(path);
        let state_read_at = clock::now();
        let state = FileState::of(&path);
        let (older, in_doubt, changed, compare) = (None, false, None, false);
        Aimed { look, path, state, state_read_at, older, in_doubt, changed, compare }
    }

    /// The paths to watch now, with the inotify events for each.
    pub(super) fn watches(&self) -> Vec<(OsString, AddWatchFlags, Role)> {
        let around = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVED_FROM;
        let gone = AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF;
        let mut watches = Vec::new();
        let fixed = if self.look == Look::ExistsGlob { self.literal() } else { self.path.clone() };
        // Directories from the root to the last existing one. Those above the last are watched only
        // for their own removal; otherwise a busy one would wake the lookout all the time.
        let above: Vec<&Path> = fixed.ancestors().skip(1).collect();
        let there: Vec<&Path> = above.into_iter().rev().take_while(|dir| dir.is_dir()).collect();
        for (at, dir) in there.iter().enumerate() {
            let next = fixed.strip_prefix(dir).ok().and_then(|rest| rest.components().next());
            let Some(next) = next else { continue };
            let mask = if at + 1 == there.len() { around | gone } else { gone };
            let role = Role::Way(next.as_os_str().to_os_string());
            watches.push((dir.as_os_str().to_os_string(), mask, role));
        }
        let own = match self.look {
            Look::Exists => AddWatchFlags::empty(),
            Look::Changed => {
                around | gone | AddWatchFlags::IN_ATTRIB | AddWatchFlags::IN_CLOSE_WRITE
            }
            Look::Modified => {
                let writes = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MODIFY;
                around | gone | AddWatchFlags::IN_ATTRIB | writes
            }
            Look::DirectoryNotEmpty => around | gone,
            Look::ExistsGlob => {
                let pattern = |dir: PathBuf| (dir.into_os_string(), around | gone, Role::Pattern);
                watches.extend(self.search().1.into_iter().map(pattern));
                AddWatchFlags::empty()
            }
        };
        if !own.is_empty() && self.path.exists() {
            watches.push((self.path.as_os_str().to_os_string(), own, Role::Own));
        }
        watches
    }

    /// The meaning of an inotify event for this path.
    pub(super) fn means(
        &self,
        role: &Role,
        mask: AddWatchFlags,
        name: Option<&OsStr>,
    ) -> Option<Seen> {
        let gone =
            AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_IGNORED;
        match role {
            Role::Way(next) if name == Some(next) => {
                let is_it = self.path.file_name() == name;
                let edge = matches!(self.look, Look::Changed | Look::Modified);
                Some(if edge && is_it { Seen::Change } else { Seen::Perhaps })
            }
            Role::Way(_) => mask.intersects(gone).then_some(Seen::Perhaps),
            Role::Pattern => Some(Seen::Perhaps),
            Role::Own if mask.contains(AddWatchFlags::IN_IGNORED) => Some(Seen::Perhaps),
            Role::Own => match self.look {
                Look::Changed | Look::Modified => Some(Seen::Change),
                Look::Exists | Look::ExistsGlob | Look::DirectoryNotEmpty => Some(Seen::Perhaps),
            },
        }
    }

    /// Records an event that arrived between `after` and `now`.
    pub(super) fn note(&mut self, seen: Seen, after: Time, now: Time) {
        match seen {
            Seen::Change => self.changed = Some((after, now)),
            Seen::Perhaps => self.compare = true,
        }
    }

    /// Returns true if there is a reason to fire. A change counts once, and only after `since`.
    pub(super) fn has_reason(&mut self, since: Time) -> bool {
        match self.look {
            Look::Exists => self.path.exists(),
            Look::ExistsGlob => self.search().0,
            Look::DirectoryNotEmpty => {
                fs::read_dir(&self.path).is_ok_and(|mut entries| entries.next().is_some())
            }
            Look::Changed | Look::Modified => {
                let changed = self.changed.take().filter(|(_, by)| *by >= since);
                let is_late = changed.is_some_and(|(after, _)| after < since);
                // An event in a directory need not change the directory itself.
                if is_late && !self.path.is_dir() && self.has_changed_state() {
                    self.compare = true;
                    return self.differs(since);
                }
                let differs = self.differs(since);
                if changed.is_some() {
                    (self.older, self.in_doubt) = (None, false);
                }
                changed.is_some() || differs
            }
        }
    }

    /// Returns true if the state differs, so that its own time stamps tell when it was changed.
    fn has_changed_state(&self) -> bool {
        self.older.unwrap_or(self.state) != FileState::of(&self.path)
    }

    /// Returns true if the state differs and the change came after `since`.
    fn differs(&mut self, since: Time) -> bool {
        let at = clock::now();
        let now = FileState::of(&self.path);
        let before = std::mem::replace(&mut self.state, now);
        // If the last look was before `since`, the change may have come before `since` too.
        let is_first = std::mem::replace(&mut self.state_read_at, at) < since;
        if is_first {
            self.older.get_or_insert(before);
        }
        let appeared = now.is_some() != self.older.unwrap_or(before).is_some();
        if !std::mem::take(&mut self.compare) && !appeared {
            return false;
        }
        let older = self.older.take();
        if !is_first && now != before {
            return self.counts(When::After);
        }
        let older = older.filter(|older| *older != now);
        older.is_some_and(|older| {
            let changed = when(&self.path, older, now, clock::wall_at(since));
            self.counts(changed)
        })
    }

    /// Decides whether a change counts. Of changes at an uncertain time, every other one does. So
    /// none is lost, and a unit that changes its own trigger path at its end does not run for ever.
    fn counts(&mut self, changed: When) -> bool {
        self.in_doubt = changed == When::About && !self.in_doubt;
        changed == When::After || self.in_doubt
    }

    /// The part of a pattern before its first special character.
    fn literal(&self) -> PathBuf {
        let plain = |part: &std::path::Component<'_>| {
            !part.as_os_str().as_bytes().iter().any(|byte| b"*?[\\".contains(byte))
        };
        self.path.components().take_while(plain).collect()
    }

    /// Returns whether the pattern matches a path, and the directories that it leads into.
    fn search(&self) -> (bool, Vec<PathBuf>) {
        let start = self.literal();
        let rest: Vec<String> = self
            .path
            .strip_prefix(&start)
            .map(|rest| rest.components().map(|c| c.as_os_str().to_string_lossy().into_owned()))
            .map(Iterator::collect)
            .unwrap_or_default();
        if rest.is_empty() {
            return (self.path.exists(), Vec::new());
        }
        let mut dirs = Vec::new();
        let mut level = vec![start];
        for pattern in &rest {
            let mut next = Vec::new();
            for dir in level {
                if dirs.len() >= DIRECTORIES {
                    break;
                }
                let Ok(entries) = fs::read_dir(&dir) else { continue };
                for entry in entries.flatten().take(DIRECTORIES * 64) {
                    if matches_file(pattern, &entry.file_name().to_string_lossy()) {
                        next.push(entry.path());
                    }
                }
                dirs.push(dir);
            }
            level = next;
        }
        (!level.is_empty(), dirs)
    }
}

// File states
//
// A state identifies a version of a file, and tells whether a change came before or after a given
// time, as far as the file system tells.

/// The state of a file.
#[derive(Clone, Copy, Debug, Eq)]
pub(super) struct FileState {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// The directory that contains it directly, without a link. Not part of the comparison.
    dir: Option<(u64, u64)>,
}

impl PartialEq for FileState {
    fn eq(&self, other: &FileState) -> bool {
        let of = |it: &FileState| (it.device, it.inode, it.size, it.modified, it.changed);
        of(self) == of(other)
    }
}

/// The time of a change, relative to a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Before,
    /// Too close to decide: time stamps of file systems lag behind.
    About,
    After,
}

impl FileState {
    /// Returns `None` if the path does not exist.
    pub(super) fn of(path: &Path) -> Option<FileState> {
        let found = fs::metadata(path).ok()?;
        Some(FileState {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: changed(&found),
            dir: dir_of(path),
        })
    }
}

fn dir_of(path: &Path) -> Option<(u64, u64)> {
    let is_link = fs::symlink_metadata(path).ok()?.is_symlink();
    let dir = path.parent().filter(|_| !is_link).and_then(|dir| fs::metadata(dir).ok())?;
    Some((dir.dev(), dir.ino()))
}

fn changed(found: &Metadata) -> (i64, i64) {
    (found.ctime(), found.ctime_nsec())
}

/// When a path changed from one state to the other, relative to the time `since` of the wall clock.
pub(super) fn when(
    path: &Path,
    from: Option<FileState>,
    to: Option<FileState>,
    since: Duration,
) -> When {
    let is_same =
        from.zip(to).is_some_and(|(from, to)| (from.device, from.inode) == (to.device, to.inode));
    let own = to.map(|to| to.changed);
    // Renaming a file over another one changes its ctime.
    let is_put_there = from
        .zip(to)
        .is_some_and(|(from, to)| from.dir.zip(to.dir).is_some_and(|(from, to)| from == to));
    // Otherwise the time stamps of the present file do not show since when the path leads to it.
    let way = if is_same || is_put_there { None } else { way_changed(path) };
    // Without any time stamp it may fire once too often.
    own.max(way).map_or(When::About, |latest| compare(latest, since))
}

/// The latest change of the links on the path and of the directory that contains it.
fn way_changed(path: &Path) -> Option<(i64, i64)> {
    let links = path.ancestors().filter_map(|part| fs::symlink_metadata(part).ok());
    let links = links.filter(Metadata::is_symlink).map(|link| changed(&link));
    let dir = path.ancestors().skip(1).find_map(|dir| fs::metadata(dir).ok());
    links.chain(dir.map(|dir| changed(&dir))).max()
}

/// Compares a time stamp with `since`. File systems record the clock tick of a change, or the
/// second, or two seconds.
fn compare(changed: (i64, i64), since: Duration) -> When {
    /// A tick is at most 10 ms, but is late on a busy machine or in a virtual one.
    const LATE: Duration = Duration::from_millis(100);
    const WHOLE_SECONDS: Duration = Duration::from_secs(2);
    let (seconds, nanos) = changed;
    let late = if nanos == 0 { WHOLE_SECONDS } else { LATE };
    let at = Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
        .saturating_add(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)));
    if at >= since {
        When::After
    } else if at.saturating_add(late) > since {
        When::About
    } else {
        When::Before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn path_state_fires_as_long_as_it_holds_and_path_change_fires_once() {
        let dir = std::env::temp_dir().join(format!("gs-look-{}", std::process::id()));
        fs::create_dir_all(dir.join("in")).unwrap();
        let aim = |look, path: &str| Aimed::new(look, dir.join(path).display().to_string());
        let mut exists = aim(Look::Exists, "in/x.job");
        let mut pattern = aim(Look::ExistsGlob, "i?/*.job");
        let mut not_empty = aim(Look::DirectoryNotEmpty, "in");
        let mut changed = aim(Look::Changed, "in/x.job");
        let mut all = |expected: [bool; 4]| {
            let seen = [
                exists.has_reason(Time::ZERO),
                pattern.has_reason(Time::ZERO),
                not_empty.has_reason(Time::ZERO),
                changed.has_reason(Time::ZERO),
            ];
            assert_eq!(seen, expected);
        };
        all([false, false, false, false]);
        fs::write(dir.join("in/x.job"), "1").unwrap();
        all([true, true, true, true]);
        all([true, true, true, false]);
        fs::remove_file(dir.join("in/x.job")).unwrap();
        all([false, false, false, true]);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn path_change_counts_only_after_the_exit_of_the_activated_unit() {
        const LONG: Duration = Duration::from_secs(3_600);
        let dir = std::env::temp_dir().join(format!("gs-late-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("x");
        let write = || fs::write(&path, "changed").unwrap();
        let remove = || fs::remove_file(&path).unwrap();
        for (is_looked_at, change) in
            [(true, &write as &dyn Fn()), (false, &write), (true, &remove)]
        {
            for is_after in [true, false] {
                fs::write(&path, "").unwrap();
                let mut aimed = Aimed::new(Look::Changed, path.display().to_string());
                change();
                // As if the activated unit had exited long after the change or, with `is_after`,
                // long before it. The first look at the path was before the exit.
                let since = clock::now().after(LONG);
                let (mut late, mut later) = (since, since.after(LONG));
                if is_after {
                    aimed.state_read_at = Time::ZERO;
                    (late, later) = (Time::from_nanos(1), Time::from_nanos(1));
                }
                if is_looked_at {
                    aimed.note(Seen::Perhaps, Time::ZERO, clock::now());
                }
                let at_once = aimed.has_reason(late);
                aimed.note(Seen::Perhaps, Time::ZERO, clock::now());
                let afterwards = aimed.has_reason(later);
                let told = (is_after && is_looked_at, is_after && !is_looked_at);
                assert_eq!((at_once, afterwards), told);
            }
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn path_change_of_uncertain_time_counts_every_other_time() {
        let path = std::env::temp_dir().display().to_string();
        let mut aimed = Aimed::new(Look::Changed, path);
        let told = [When::About, When::About, When::About, When::After, When::About, When::Before];
        let counted = told.map(|changed| aimed.counts(changed));
        assert_eq!(counted, [true, false, true, true, true, false]);
    }

    #[test]
    fn only_the_last_existing_directory_is_watched_for_new_entries() {
        let aimed = Aimed::new(Look::Exists, "/usr/none/such/x".to_string());
        let watches = aimed.watches();
        let paths: Vec<_> = watches.iter().map(|(path, _, _)| path.to_str().unwrap()).collect();
        assert_eq!(paths, ["/", "/usr"]);
        assert!(!watches[0].1.contains(AddWatchFlags::IN_CREATE));
        assert_eq!(watches[1].2, Role::Way("none".into()));
        let here = Some(OsStr::new("none"));
        assert_eq!(aimed.means(&watches[1].2, AddWatchFlags::IN_CREATE, here), Some(Seen::Perhaps));
        let other = Some(OsStr::new("other"));
        assert_eq!(aimed.means(&watches[1].2, AddWatchFlags::IN_CREATE, other), None);
    }

    #[test]
    fn change_close_to_the_compared_time_is_undecided() {
        let since = Duration::from_millis(100_500);
        let at = |millis: i64| compare((millis / 1_000, millis % 1_000 * 1_000_000), since);
        assert_eq!(at(100_500), When::After);
        assert_eq!(at(100_499), When::About);
        assert_eq!(at(100_401), When::About);
        assert_eq!(at(100_400), When::Before);
        assert_eq!(at(100_000), When::About);
        assert_eq!(at(99_000), When::About);
        assert_eq!(at(98_000), When::Before);
        assert_eq!(at(102_000), When::After);
    }

    #[test]
    fn time_of_a_replaced_file_ignores_other_changes_in_its_directory() {
        let dir = std::env::temp_dir().join(format!("gs-busy-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("x");
        fs::write(&path, "").unwrap();
        let before = FileState::of(&path);
        fs::write(dir.join("new"), "").unwrap();
        fs::rename(dir.join("new"), &path).unwrap();
        let now = FileState::of(&path);
        let time = |(seconds, nanos): (i64, i64)| {
            Duration::new(seconds.unsigned_abs(), u32::try_from(nanos).unwrap())
        };
        let since = time(now.unwrap().changed) + Duration::from_millis(200);
        while time(changed(&fs::metadata(&dir).unwrap())) < since {
            fs::write(dir.join("another"), "").unwrap();
            fs::remove_file(dir.join("another")).unwrap();
            std::thread::yield_now();
        }
        assert_eq!(when(&path, before, now, since), When::Before);
        // Only the directory's time stamps show changes of links in it.
        std::os::unix::fs::symlink("x", dir.join("link")).unwrap();
        let link = dir.join("link");
        assert_eq!(when(&link, before, FileState::of(&link), since), When::After);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn replaced_or_removed_file_is_dated_by_the_links_and_directory_on_its_path() {
        let dir = std::env::temp_dir().join(format!("gs-state-{}", std::process::id()));
        for place in ["old", "new"] {
            fs::create_dir_all(dir.join(place)).unwrap();
            fs::write(dir.join(place).join("x"), place).unwrap();
        }
        std::os::unix::fs::symlink("old", dir.join("now")).unwrap();
        let path = dir.join("now/x");
        let before = FileState::of(&path);
        let of = |place: &str| changed(&fs::symlink_metadata(dir.join(place)).unwrap());
        fs::remove_file(dir.join("now")).unwrap();
        std::os::unix::fs::symlink("new", dir.join("now")).unwrap();
        assert_ne!(FileState::of(&path), before);
        assert_eq!(way_changed(&path), Some(of("now").max(of("new"))));
        fs::remove_dir_all(dir.join("new")).unwrap();
        assert_eq!(way_changed(&path), Some(of("now").max(of(""))));
        fs::remove_dir_all(dir).unwrap();
    }
}
