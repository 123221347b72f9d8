//! `initctl switch-root`: init continues in another root. It is an upgrade ([`crate::upgrade`]) to
//! the init of that root, which then loads the unit files there as at a boot. Unchanged running
//! units continue, missing ones are stopped, and none is started twice. The memory of an initramfs
//! is freed.
//!
//! The trial child rehearses the switch in its own mount namespace: if the root cannot be entered,
//! the request is refused and nothing has changed.

use crate::base::{limit, mount_table};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{FileStat, Mode as FileMode, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, chdir, chroot, fchdir, unlinkat};
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Mounts that move to the new root. /proc is last, because the switch reads it.
const CARRIED: [&str; 4] = ["/run", "/sys", "/dev", "/proc"];

fn folder(path: &str) -> Result<OwnedFd, String> {
    let how = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    open(path, how, FileMode::empty()).map_err(|error| format!("{path}: {error}"))
}

fn go_to(root: BorrowedFd<'_>) -> nix::Result<()> {
    fchdir(root)?;
    chroot(".")
}

/// Runs in a child: opens the new root, and the program by its path in that root.
pub(crate) fn find(root: &str, program: &str) -> Result<(OwnedFd, OwnedFd), String> {
    let (new, old) = (folder(root)?, folder("/")?);
    if root == "/" {
        return Err("it is already the root".to_string());
    }
    let there = |path: &str| format!("{path} in {root}");
    go_to(new.as_fd()).map_err(|error| format!("{root}: {error}"))?;
    let how = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let binary = open(program, how, FileMode::empty());
    go_to(old.as_fd()).map_err(|error| format!("/: {error}"))?;
    let binary = binary.map_err(|error| format!("{}: {error}", there(program)))?;
    Ok((new, binary))
}

/// Runs in a child: the whole switch, in its own mount namespace.
pub(crate) fn rehearse(root: BorrowedFd<'_>) -> Result<(), String> {
    let own = fchdir(root).and_then(|()| unshare(CloneFlags::CLONE_NEWNS));
    own.map_err(|error| format!("cannot try it: {error}"))?;
    enter_here()
}

/// Makes the directory the root. On a failure nothing has changed.
pub(crate) fn enter(root: BorrowedFd<'_>) -> Result<(), String> {
    fchdir(root).map_err(|error| format!("cannot enter it: {error}"))?;
    let entered = enter_here();
    if entered.is_err() {
        let _ = chdir("/");
    }
    entered
}

/// Makes the working directory the root. It only changes mounts, so it does not block.
fn enter_here() -> Result<(), String> {
    let none = None::<&str>;
    let go = |from: &str, to: &str| mount(Some(from), to, none, MsFlags::MS_MOVE, none);
    let private = mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none);
    private.map_err(|error| format!("cannot move mounts here: {error}"))?;
    let table = mount_table::table().map_err(|error| format!("/proc: {error}"))?;
    let is_mounted = |at: &&&str| mount_table::mounts(&table).any(|mount| mount.at == **at);
    let mut moved: Vec<&str> = Vec::new();
    let mut failed = None;
    for at in CARRIED.iter().filter(is_mounted) {
        match go(at, at.trim_start_matches('/')) {
            Ok(()) => moved.push(at),
            Err(error) => {
                failed = Some(format!("cannot move {at} into it: {error}"));
                break;
            }
        }
    }
    let root = || match go(".", "/") {
        Ok(()) => Ok(()),
        // Only a mount can be moved; binding the directory to itself would make it one.
        Err(Errno::EINVAL) => Err("it is not a mount point".to_string()),
        Err(error) => Err(format!("cannot make it the root: {error}")),
    };
    if let Err(why) = failed.map_or_else(root, Err) {
        for at in moved.iter().rev() {
            let _ = go(at.trim_start_matches('/'), at);
        }
        return Err(why);
    }
    chroot(".").and_then(|()| chdir("/")).map_err(|error| format!("chroot: {error}"))
}

/// The present root, if it is an initramfs that is unused once `new` is the root.
pub(crate) fn memory_of_old(new: BorrowedFd<'_>) -> Option<OwnedFd> {
    let table = mount_table::table().ok()?;
    let old = folder("/").ok().filter(|_| mount_table::is_initramfs(&table))?;
    // A new root may be a directory of the initramfs itself (a bind mount).
    (fstat(&old).ok()?.st_dev != fstat(new).ok()?.st_dev).then_some(old)
}

/// A directory that is being emptied.
struct Emptied {
    own: OwnedFd,
    /// Its name in the parent.
    name: CString,
    left: Vec<CString>,
}

impl Emptied {
    /// Returns `None` if it is not a directory or is a mount point.
    fn open(above: BorrowedFd<'_>, name: &CStr, device: u64) -> Option<Emptied> {
        let how = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let is_of_it = |found: FileStat| found.st_dev == device;
        // Checked before opening it, because a mount there may belong to any file system.
        let flags = AtFlags::AT_SYMLINK_NOFOLLOW | AtFlags::AT_NO_AUTOMOUNT;
        fstatat(above, name, flags).ok().filter(|found| is_of_it(*found))?;
        let own = openat(above, name, how, FileMode::empty()).ok()?;
        fstat(&own).ok().filter(|found| is_of_it(*found))?;
        let copy = own.try_clone().ok()?;
        let names = Dir::from_fd(copy).ok()?.into_iter().flatten();
        let names = names.map(|entry| entry.file_name().to_owned());
        let left = names.filter(|name| ![c".", c".."].contains(&name.as_c_str())).collect();
        Some(Emptied { own, name: name.to_owned(), left })
    }
}

/// Runs in a child: removes everything in this directory on its file system.
pub(crate) fn empty(root: BorrowedFd<'_>) {
    let Ok(found) = fstat(root) else { return };
    let mut folders: Vec<Emptied> = Emptied::open(root, c".", found.st_dev).into_iter().collect();
    while let Some(last) = folders.last_mut() {
        let Some(name) = last.left.pop() else {
            let done = folders.pop();
            if let (Some(done), Some(above)) = (done, folders.last()) {
                // This fails if the directory still contains a mount point.
                let _ = unlinkat(&above.own, done.name.as_c_str(), UnlinkatFlags::RemoveDir);
            }
            continue;
        };
        let taken = unlinkat(&last.own, name.as_c_str(), UnlinkatFlags::NoRemoveDir);
        if matches!(taken, Err(Errno::EISDIR | Errno::EPERM)) {
            let below = Emptied::open(last.own.as_fd(), &name, found.st_dev);
            if folders.len() < limit::DEPTH_OF_OLD_ROOT {
                folders.extend(below);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::process;
    use crate::sys::wait;
    use groundstate_units::spec::Exit;
    use std::fs;
    use std::path::Path;

    #[test]
    fn emptying_of_an_old_root_stops_at_mount_points() {
        let top = std::env::temp_dir().join(format!("gs-empty-{}", std::process::id()));
        let far = top.join("a/b/far");
        fs::create_dir_all(&far).unwrap();
        fs::create_dir_all(top.join("a/c/d")).unwrap();
        for file in ["file", "a/file", "a/c/d/file"] {
            fs::write(top.join(file), "x").unwrap();
        }
        let elsewhere = top.with_extension("elsewhere");
        fs::create_dir_all(&elsewhere).unwrap();
        fs::write(elsewhere.join("kept"), "x").unwrap();
        std::os::unix::fs::symlink(&elsewhere, top.join("a/link")).unwrap();
        let work = || {
            let (kind, none) = (Some("tmpfs"), None::<&str>);
            let alone = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            let own =
                unshare(CloneFlags::CLONE_NEWNS).and_then(|()| mount(none, "/", none, alone, none));
            let mounted = own.and_then(|()| mount(kind, &far, kind, MsFlags::empty(), none));
            if mounted.is_err() {
                return 2;
            }
            fs::write(far.join("kept"), "x").unwrap();
            let root = folder(top.to_str().unwrap()).unwrap();
            empty(root.as_fd());
            let names = |path: &Path| -> Vec<_> {
                fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect()
            };
            let is_so = names(&top) == ["a"] && names(&top.join("a")) == ["b"];
            u8::from(!(is_so && far.join("kept").exists() && elsewhere.join("kept").exists()))
        };
        let exit = wait::await_end(process::fork(&[], work).unwrap()).unwrap();
        fs::remove_dir_all(&top).unwrap();
        fs::remove_dir_all(&elsewhere).unwrap();
        // 2: the test may not mount here.
        assert!(matches!(exit, Exit::Code(0 | 2)), "{exit:?}");
    }
}
