//! Creates and removes the directories of units, in children of PID 1. The unit's user may write
//! below such a directory, so paths are never resolved as a whole. Each name is opened in its
//! parent, and a symbolic link on the way is an error (ELOOP).

use groundstate_units::spec::{Directories, DirectoryKind};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, fchownat, unlinkat};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Depth limit of removal.
const DEPTH: usize = 64;
/// Depth limit of a change of owner. Each level holds three descriptors.
const OWNED_DEPTH: usize = 128;

/// The owner of a unit's directories; `None` means init's own user or group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Owner {
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
}

/// The parent directory for this kind, for root or for a user (XDG base directories).
pub(super) fn base(kind: DirectoryKind) -> String {
    let fixed = match kind {
        DirectoryKind::Runtime => "/run",
        DirectoryKind::State => "/var/lib",
        DirectoryKind::Cache => "/var/cache",
        DirectoryKind::Log => "/var/log",
        DirectoryKind::Config => "/etc",
    };
    if Uid::effective().is_root() {
        return fixed.to_string();
    }
    let own = |name: &str| std::env::var(name).ok().filter(|path| path.starts_with('/'));
    let home = own("HOME").unwrap_or_else(|| "/".to_string());
    let state = || own("XDG_STATE_HOME").unwrap_or_else(|| format!("{home}/.local/state"));
    match kind {
        DirectoryKind::Runtime => own("XDG_RUNTIME_DIR").unwrap_or_else(|| fixed.to_string()),
        DirectoryKind::State => state(),
        DirectoryKind::Cache => own("XDG_CACHE_HOME").unwrap_or_else(|| format!("{home}/.cache")),
        DirectoryKind::Log => format!("{}/log", state()),
        DirectoryKind::Config => {
            own("XDG_CONFIG_HOME").unwrap_or_else(|| format!("{home}/.config"))
        }
    }
}

/// The paths of the directories, for the unit's variables.
pub(super) fn paths(directories: &Directories) -> impl Iterator<Item = String> {
    let base = base(directories.kind);
    directories.names.iter().map(move |name| format!("{base}/{name}"))
}

/// Creates the directory `name` of this kind, or reuses an existing one. If the owner of an
/// existing one is wrong, its whole content changes owner too.
pub(super) fn make(kind: DirectoryKind, name: &str, mode: u16, owner: Owner) -> io::Result<()> {
    let base = base(kind);
    std::fs::create_dir_all(&base)?;
    let mut parent = open(base.as_str(), DIRECTORY, Mode::empty())?;
    let mut names = name.split('/').peekable();
    while let Some(name) = names.next() {
        let last = names.peek().is_none();
        // The directory stays closed until its owner and mode are set.
        let at_first = if last { 0o700 } else { 0o755 };
        match mkdirat(&parent, name, Mode::from_bits_truncate(at_first)) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
        parent = enter(parent.as_fd(), name)?;
    }
    set_mode_and_owner(parent, mode, owner.ids(kind))
}

impl Owner {
    /// The owner that a directory is to have; `None` leaves it unchanged. Only root changes it.
    fn ids(self, kind: DirectoryKind) -> (Option<u32>, Option<u32>) {
        if kind == DirectoryKind::Config {
            return (None, None);
        }
        let (uid, gid) = (Uid::effective(), Gid::effective());
        let own = uid.is_root().then_some((uid.as_raw(), gid.as_raw())).unzip();
        (self.uid.or(own.0), self.gid.or(own.1))
    }
}

const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC).union(OFlag::O_NONBLOCK);

fn enter(parent: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    match openat(parent, name, DIRECTORY | OFlag::O_NOFOLLOW, Mode::empty()) {
        // A link is not a directory: report it as a link.
        Err(Errno::ENOTDIR) if is_link(parent, name) => Err(Errno::ELOOP.into()),
        opened => Ok(opened?),
    }
}

fn is_link(parent: BorrowedFd<'_>, name: &str) -> bool {
    nix::fcntl::readlinkat(parent, name).is_ok()
}

/// Sets owner and mode of the opened directory, which no user can replace any more.
fn set_mode_and_owner(
    directory: OwnedFd,
    mode: u16,
    owner: (Option<u32>, Option<u32>),
) -> io::Result<()> {
    let now: FileStat = fstat(&directory)?;
    let (uid, gid) = (owner.0.unwrap_or(now.st_uid), owner.1.unwrap_or(now.st_gid));
    let is_others = (uid, gid) != (now.st_uid, now.st_gid);
    if is_others {
        let new = NewOwner { before: now.st_uid, uid: Uid::from_raw(uid), gid: Gid::from_raw(gid) };
        // The directory comes last, so that the next start repeats a failed change.
        new.take_all_in(directory.try_clone()?, 0)?;
        fchown(&directory, Some(new.uid), Some(new.gid))?;
    }
    // After the owner, because a change of owner clears the set-id bits.
    if now.st_mode & 0o7777 != u32::from(mode) || is_others {
        fchmod(&directory, Mode::from_bits_truncate(u32::from(mode)))?;
    }
    Ok(())
}

/// A change of the owner of a whole tree.
struct NewOwner {
    /// The previous owner.
    before: u32,
    uid: Uid,
    gid: Gid,
}

impl NewOwner {
    /// Changes the owner of everything in a directory. Links change owner themselves, not their
    /// targets. Below [`OWNED_DEPTH`] it fails (ELOOP).
    fn take_all_in(&self, directory: OwnedFd, depth: usize) -> io::Result<()> {
        if depth > OWNED_DEPTH {
            return Err(Errno::ELOOP.into());
        }
        let parent = directory.try_clone()?;
        let mut entries = Dir::from_fd(directory)?;
        for entry in entries.iter() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let path = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let file = match openat(&parent, name, path, Mode::empty()) {
                Err(Errno::ENOENT) => continue,
                opened => opened?,
            };
            let now = fstat(&file)?;
            if SFlag::from_bits_truncate(now.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR {
                let below = openat(&file, c".", DIRECTORY | OFlag::O_NOFOLLOW, Mode::empty())?;
                self.take_all_in(below, depth + 1)?;
            } else if now.st_nlink > 1 && ![self.before, self.uid.as_raw()].contains(&now.st_uid) {
                // The previous owner may have hard-linked another user's file here.
                return Err(Errno::EMLINK.into());
            }
            fchownat(&file, c"", Some(self.uid), Some(self.gid), AtFlags::AT_EMPTY_PATH)?;
        }
        Ok(())
    }
}

/// Removes a directory with its content on the same file system. A missing directory is success.
pub(super) fn remove(kind: DirectoryKind, name: &str) -> io::Result<()> {
    let mut parent = open(base(kind).as_str(), DIRECTORY, Mode::empty())?;
    let (above, last) = name.rsplit_once('/').map_or(("", name), |(above, last)| (above, last));
    for name in above.split('/').filter(|name| !name.is_empty()) {
        parent = enter(parent.as_fd(), name)?;
    }
    match enter(parent.as_fd(), last) {
        Ok(directory) => {
            let device = fstat(&directory)?.st_dev;
            empty(directory, device, 0)?;
            Ok(unlinkat(&parent, last, UnlinkatFlags::RemoveDir)?)
        }
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Empties a directory. Fails below [`DEPTH`] and at other file systems (ELOOP, EXDEV).
fn empty(directory: OwnedFd, device: libc::dev_t, depth: usize) -> io::Result<()> {
    if depth > DEPTH {
        return Err(Errno::ELOOP.into());
    }
    if fstat(&directory)?.st_dev != device {
        return Err(Errno::EXDEV.into());
    }
    let parent = directory.try_clone()?;
    let mut entries = Dir::from_fd(directory)?;
    let mut failed = None;
    for entry in entries.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let removed = match entry.file_type() {
            Some(Type::Directory) => {
                openat(&parent, name, DIRECTORY | OFlag::O_NOFOLLOW, Mode::empty())
                    .map_err(io::Error::from)
                    .and_then(|below| empty(below, device, depth + 1))
                    .and_then(|()| Ok(unlinkat(&parent, name, UnlinkatFlags::RemoveDir)?))
            }
            _ => unlinkat(&parent, name, UnlinkatFlags::NoRemoveDir).map_err(io::Error::from),
        };
        failed = removed.err().or(failed);
    }
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::super::extent::turns;
    use super::*;
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::PathBuf;

    /// A directory for one test, through the user's variables or below /run.
    struct Scratch(PathBuf, String);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let name = format!("groundstate-directory-{name}-{}", std::process::id());
            let path = PathBuf::from(base(DirectoryKind::Runtime)).join(&name);
            std::fs::create_dir_all(&path).unwrap();
            Scratch(path, name)
        }

        fn make(&self, name: &str, mode: u16, owner: Owner) -> io::Result<()> {
            make(DirectoryKind::Runtime, &format!("{}/{name}", self.1), mode, owner)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn new_or_existing_directory_gets_its_mode_and_owner() {
        let scratch = Scratch::new("mode");
        let root = Uid::effective().is_root();
        let owner =
            if root { Owner { uid: Some(65534), gid: Some(65534) } } else { Owner::default() };
        for mode in [0o2750, 0o700] {
            scratch.make("a/b", mode, owner).unwrap();
            let there = std::fs::metadata(scratch.0.join("a/b")).unwrap();
            assert_eq!(there.permissions().mode() & 0o7777, u32::from(mode));
            assert!(!root || (there.uid(), there.gid()) == (65534, 65534));
        }
        let above = std::fs::metadata(scratch.0.join("a")).unwrap();
        assert_eq!(above.uid(), Uid::effective().as_raw());
    }

    #[test]
    fn owner_change_of_an_existing_directory_reaches_its_content_and_no_link_target() {
        if !Uid::effective().is_root() {
            return crate::not_run!("it takes root");
        }
        let scratch = Scratch::new("owner");
        let canary = scratch.0.join("canary");
        std::fs::write(&canary, "").unwrap();
        let owner = |name: &str| {
            let there = std::fs::symlink_metadata(scratch.0.join(name)).unwrap();
            (there.uid(), there.gid())
        };
        let new = Owner { uid: Some(1234), gid: Some(1235) };
        scratch.make("a", 0o700, new).unwrap();
        std::fs::create_dir_all(scratch.0.join("a/b/c")).unwrap();
        std::fs::write(scratch.0.join("a/b/file"), "").unwrap();
        symlink(&canary, scratch.0.join("a/b/link")).unwrap();
        symlink(&scratch.0, scratch.0.join("a/way")).unwrap();
        scratch.make("a", 0o750, new).unwrap();
        assert_eq!(owner("a/b"), (0, 0), "a directory with the right owner is left as it is");
        scratch.make("a", 0o750, Owner { uid: Some(1236), gid: Some(1235) }).unwrap();
        for name in ["a", "a/b", "a/b/c", "a/b/file", "a/b/link", "a/way"] {
            assert_eq!(owner(name), (1236, 1235), "{name}");
        }
        assert_eq!((owner("canary"), owner("")), ((0, 0), (0, 0)));
        scratch.make("a", 0o750, Owner::default()).unwrap();
        assert_eq!((owner("a"), owner("a/b/c")), ((0, 0), (0, 0)));
    }

    #[test]
    fn file_of_another_user_that_is_linked_into_a_directory_keeps_its_owner() {
        if !Uid::effective().is_root() {
            return crate::not_run!("it takes root");
        }
        let scratch = Scratch::new("hard");
        let canary = scratch.0.join("canary");
        std::fs::write(&canary, "").unwrap();
        scratch.make("a", 0o700, Owner { uid: Some(1234), gid: Some(1234) }).unwrap();
        std::fs::hard_link(&canary, scratch.0.join("a/link")).unwrap();
        let new = Owner { uid: Some(1235), gid: Some(1235) };
        let error = scratch.make("a", 0o700, new).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMLINK));
        assert_eq!(std::fs::metadata(&canary).unwrap().uid(), 0);
        assert_eq!(std::fs::metadata(scratch.0.join("a")).unwrap().uid(), 1234);
    }

    #[test]
    fn directory_path_with_a_link_is_refused_and_the_target_is_unchanged() {
        let scratch = Scratch::new("link");
        let canary = scratch.0.join("canary");
        std::fs::create_dir(&canary).unwrap();
        std::fs::set_permissions(&canary, PermissionsExt::from_mode(0o711)).unwrap();
        symlink(&canary, scratch.0.join("last")).unwrap();
        symlink(&scratch.0, scratch.0.join("way")).unwrap();
        std::fs::write(scratch.0.join("file"), "").unwrap();
        for (name, errno) in [
            ("last", libc::ELOOP),
            ("way/canary", libc::ELOOP),
            ("file", libc::ENOTDIR),
            ("file/x", libc::ENOTDIR),
        ] {
            let error = scratch.make(name, 0o700, Owner::default()).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(errno), "{name}");
            let gone = remove(DirectoryKind::Runtime, &format!("{}/{name}", scratch.1));
            assert!(gone.is_err(), "{name}");
        }
        let there = std::fs::metadata(&canary).unwrap();
        assert_eq!(there.permissions().mode() & 0o7777, 0o711);
    }

    #[test]
    fn directory_removal_does_not_follow_links() {
        let scratch = Scratch::new("remove");
        std::fs::create_dir_all(scratch.0.join("a/b/c")).unwrap();
        let canary = scratch.0.join("canary");
        std::fs::write(&canary, "sings").unwrap();
        symlink(&canary, scratch.0.join("a/link")).unwrap();
        symlink(&scratch.0, scratch.0.join("a/b/up")).unwrap();
        std::fs::write(scratch.0.join("a/b/c/file"), "").unwrap();
        let name = format!("{}/a", scratch.1);
        remove(DirectoryKind::Runtime, &name).unwrap();
        assert!(!scratch.0.join("a").exists());
        assert_eq!(std::fs::read_to_string(&canary).unwrap(), "sings");
        remove(DirectoryKind::Runtime, &name).unwrap();
    }

    #[test]
    fn directory_swapped_with_a_link_in_a_race_does_not_change_the_target() {
        let scratch = Scratch::new("race");
        let canary = scratch.0.join("canary");
        std::fs::create_dir(&canary).unwrap();
        std::fs::write(canary.join("song"), "sings").unwrap();
        std::fs::set_permissions(&canary, PermissionsExt::from_mode(0o711)).unwrap();
        let (place, aside) = (scratch.0.join("unit"), scratch.0.join("aside"));
        let done = std::sync::atomic::AtomicBool::new(false);
        let (mut made, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let link = scratch.0.join("link");
                while !done.load(std::sync::atomic::Ordering::SeqCst) {
                    let _ = symlink(&canary, &link);
                    for _ in 0..2 {
                        let _ = renameat2(
                            AT_FDCWD,
                            &place,
                            AT_FDCWD,
                            &link,
                            RenameFlags::RENAME_EXCHANGE,
                        );
                    }
                    let _ = std::fs::remove_dir_all(&link);
                    // Either of them may be missing.
                    let _ = std::fs::rename(&place, &aside);
                    let _ = symlink(&canary, &place);
                    let _ = std::fs::remove_file(&place);
                    let _ = std::fs::remove_dir_all(&aside);
                }
            });
            let mut turn = 0;
            // Each turn creates and removes.
            let turns = turns(3_000, 100_000);
            // Both results must occur, or the race was not tested.
            while turn < turns || made == 0 || refused == 0 {
                turn += 1;
                for name in ["unit", "unit/song"] {
                    match scratch.make(name, 0o700, Owner::default()) {
                        Ok(()) => made += 1,
                        Err(_) => refused += 1,
                    }
                }
                let _ = remove(DirectoryKind::Runtime, &format!("{}/unit", scratch.1));
            }
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        let there = std::fs::metadata(&canary).unwrap();
        assert_eq!(there.permissions().mode() & 0o7777, 0o711);
        assert_eq!(std::fs::read_to_string(canary.join("song")).unwrap(), "sings");
    }
}
