//! What tells one state of a file from another, and whether it was brought about before or after some point of
//! time, as far as a file system tells.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// See the module.
#[derive(Clone, Copy, Debug, Eq)]
pub(super) struct Print {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// The directory it is in by itself, by no link. No part of its state.
    dir: Option<(u64, u64)>,
}

impl PartialEq for Print {
    fn eq(&self, other: &Print) -> bool {
        let of = |it: &Print| (it.device, it.inode, it.size, it.modified, it.changed);
        of(self) == of(other)
    }
}

/// A change, as seen from a point of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Before,
    /// Too near to be told: the clock by which file systems go is late.
    About,
    After,
}

impl Print {
    /// None: nothing is there.
    pub(super) fn of(path: &Path) -> Option<Print> {
        let found = fs::metadata(path).ok()?;
        Some(Print {
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

/// When a path came from one state to the other, seen from that point on the wall clock.
pub(super) fn when(path: &Path, from: Option<Print>, to: Option<Print>, since: Duration) -> When {
    let is_same =
        from.zip(to).is_some_and(|(from, to)| (from.device, from.inode) == (to.device, to.inode));
    let own = to.map(|to| to.changed);
    // One that was put in another's place is changed by that.
    let is_put_there = from
        .zip(to)
        .is_some_and(|(from, to)| from.dir.zip(to.dir).is_some_and(|(from, to)| from == to));
    // What else led to another one, or to none, is not told by the file that is there now.
    let way = if is_same || is_put_there { None } else { way_changed(path) };
    // Nothing tells: better once too often.
    own.max(way).map_or(When::About, |latest| compare(latest, since))
}

/// The latest change of the links on the way, and of the directory the path is in.
fn way_changed(path: &Path) -> Option<(i64, i64)> {
    let links = path.ancestors().filter_map(|part| fs::symlink_metadata(part).ok());
    let links = links.filter(Metadata::is_symlink).map(|link| changed(&link));
    let dir = path.ancestors().skip(1).find_map(|dir| fs::metadata(dir).ok());
    links.chain(dir.map(|dir| changed(&dir))).max()
}

/// File systems write down the tick of the clock in which a change was made, or the second, or two of them.
fn compare(changed: (i64, i64), since: Duration) -> When {
    /// A tick is of 10 ms at most, but comes late where the machine is busy, or is one in another.
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

    #[test]
    fn a_change_is_before_or_after_unless_it_is_too_near_to_be_told() {
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
    fn what_was_put_in_its_place_is_as_old_as_that_whatever_else_comes_into_the_directory() {
        let dir = std::env::temp_dir().join(format!("gs-busy-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("x");
        fs::write(&path, "").unwrap();
        let before = Print::of(&path);
        fs::write(dir.join("new"), "").unwrap();
        fs::rename(dir.join("new"), &path).unwrap();
        let now = Print::of(&path);
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
        // Links in it are told of by it alone.
        std::os::unix::fs::symlink("x", dir.join("link")).unwrap();
        let link = dir.join("link");
        assert_eq!(when(&link, before, Print::of(&link), since), When::After);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_was_put_in_its_place_or_taken_away_is_told_of_by_what_leads_there() {
        let dir = std::env::temp_dir().join(format!("gs-print-{}", std::process::id()));
        for place in ["old", "new"] {
            fs::create_dir_all(dir.join(place)).unwrap();
            fs::write(dir.join(place).join("x"), place).unwrap();
        }
        std::os::unix::fs::symlink("old", dir.join("now")).unwrap();
        let path = dir.join("now/x");
        let before = Print::of(&path);
        let of = |place: &str| changed(&fs::symlink_metadata(dir.join(place)).unwrap());
        fs::remove_file(dir.join("now")).unwrap();
        std::os::unix::fs::symlink("new", dir.join("now")).unwrap();
        assert_ne!(Print::of(&path), before);
        assert_eq!(way_changed(&path), Some(of("now").max(of("new"))));
        fs::remove_dir_all(dir.join("new")).unwrap();
        assert_eq!(way_changed(&path), Some(of("now").max(of(""))));
        fs::remove_dir_all(dir).unwrap();
    }
}
