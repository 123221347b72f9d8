//! Implements [`Files`] with std::fs for `check` and `graph --units`. Nothing blocks: only regular
//! files are read, and files are opened with O_NONBLOCK.

use groundstate_units::load::files::{FileKind, Files, Problem, Stat};
use groundstate_units::unit::generation::Stamp;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

/// Prefixes of file system types that a network server or another program serves, as in init's
/// loader.
const SERVED: [&str; 11] =
    ["fuse", "nfs", "cifs", "smb", "9p", "ceph", "afs", "lustre", "virtiofs", "orangefs", "autofs"];

/// The file system of this process.
pub(crate) struct Disk;

/// Returns the mount points, and whether another program serves them. Reads /proc, which cannot
/// block.
fn mounts() -> Vec<(String, bool)> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount = |line: &str| {
        let mut fields = line.split(' ');
        let at = fields.nth(4)?.to_owned();
        let kind = fields.skip_while(|field| *field != "-").nth(1)?;
        Some((at, SERVED.iter().any(|elsewhere| kind.starts_with(elsewhere))))
    };
    table.lines().filter_map(mount).collect()
}

/// Returns the part of the path below a mount point.
fn below<'p>(path: &'p str, at: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(at.trim_end_matches('/'))?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// stat(2) without blocking on another program's file system. Returns `None` if the path may lead
/// to one.
fn ask(mounts: &[(String, bool)], path: &str) -> Option<std::io::Result<Metadata>> {
    if mounts.iter().all(|(at, is_elsewhere)| !is_elsewhere || at == "/") {
        return Some(std::fs::metadata(path));
    }
    let on_the_way = || mounts.iter().filter(|(at, _)| below(path, at).is_some());
    if on_the_way().any(|(at, is_elsewhere)| *is_elsewhere && at != "/") {
        return None;
    }
    let (at, _) = on_the_way().max_by_key(|(at, _)| at.len())?;
    let rest = below(path, at).filter(|rest| !rest.is_empty()).unwrap_or(".");
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_NO_XDEV);
    let found = open(at.as_str(), flags | OFlag::O_DIRECTORY, Mode::empty())
        .and_then(|anchor| openat2(&anchor, rest, how));
    match found {
        // A symbolic link may leave the file system; Linux before 5.6 cannot tell.
        Err(Errno::EXDEV | Errno::ENOSYS) => None,
        found => Some(found.map_err(std::io::Error::from).and_then(|fd| File::from(fd).metadata())),
    }
}

/// Limit of symbolic links on one path, as in Linux.
const LINKS: usize = 40;
/// A path that never exists.
const NOWHERE: &str = "/dev/null/nowhere";

/// The file system below another root. Symbolic links are followed within that root.
pub(crate) struct Rooted<'a>(pub(crate) &'a str);

impl Rooted<'_> {
    /// Returns the path for the kernel. A link to /dev/null masks a unit. The tree of an image may
    /// lack that device, so such a link leads to the /dev/null of the running system.
    pub(crate) fn at(&self, path: &str) -> String {
        let mut left: Vec<String> = parts_from_the_end(path);
        let (mut done, mut links): (Vec<String>, usize) = (Vec::new(), 0);
        while let Some(part) = left.pop() {
            if part == ".." {
                done.pop();
                continue;
            }
            done.push(part);
            let here = format!("{}/{}", self.0, done.join("/"));
            let Ok(target) = std::fs::read_link(&here) else { continue };
            links += 1;
            if links > LINKS {
                // The kernel would follow the rest out of this root.
                return NOWHERE.to_string();
            }
            let target = target.to_string_lossy();
            if target == "/dev/null" && left.is_empty() {
                return target.into_owned();
            }
            done.pop();
            if target.starts_with('/') {
                done.clear();
            }
            left.extend(parts_from_the_end(&target));
        }
        format!("{}/{}", self.0, done.join("/"))
    }
}

fn parts_from_the_end(path: &str) -> Vec<String> {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    parts.rev().map(str::to_string).collect()
}

impl Files for Rooted<'_> {
    fn list(&self, directory: &str, limit: usize) -> Result<Vec<String>, Problem> {
        Disk.list(&self.at(directory), limit)
    }

    fn stat(&self, path: &str) -> Result<Stat, Problem> {
        Disk.stat(&self.at(path))
    }

    fn stat_outside(&self, path: &str) -> Option<Result<Stat, Problem>> {
        Disk.stat_outside(&self.at(path))
    }

    fn link(&self, path: &str) -> Option<String> {
        let (directory, name) = path.rsplit_once('/')?;
        Disk.link(&format!("{}/{name}", self.at(directory)))
    }

    fn read(&self, path: &str, limit: usize) -> Result<(Vec<u8>, Stat), Problem> {
        Disk.read(&self.at(path), limit)
    }
}

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

    /// Asks no file system that a network server or another program serves. A process that waits
    /// for a dead server cannot be interrupted.
    fn stat_outside(&self, path: &str) -> Option<Result<Stat, Problem>> {
        let found = ask(&mounts(), path)?;
        Some(found.map(|found| stat(&found)).map_err(|error| problem(&error)))
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

/// Reads at most one byte more than `limit`, so that a longer file is recognized.
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
    fn stat_skips_paths_on_network_mounts() {
        let here = std::env::temp_dir().join(format!("groundstate-ask-{}", std::process::id()));
        std::fs::create_dir_all(here.join("far")).unwrap();
        std::os::unix::fs::symlink("/proc/self", here.join("link")).unwrap();
        let at = |name: &str| format!("{}/{name}", here.display());
        let mut all = mounts();
        all.push((at("far"), true));
        let asked = |path: &str| ask(&all, path).map(|found| found.is_ok());
        assert_eq!(asked(&at(".")), Some(true));
        assert_eq!(asked(&at("none")), Some(false));
        assert_eq!(asked(&at("far")), None);
        assert_eq!(asked(&at("far/x")), None);
        assert_eq!(asked(&at("farther")), Some(false));
        assert_eq!(asked(&at("link/stat")), None, "a link may lead anywhere");
        assert_eq!(ask(&mounts()[..1], &at("link/stat")).map(|found| found.is_ok()), Some(true));
        std::fs::remove_dir_all(here).unwrap();
    }

    #[test]
    fn links_of_another_root_are_followed_within_it() {
        use std::os::unix::fs::symlink;
        let here = std::env::temp_dir().join(format!("groundstate-root-{}", std::process::id()));
        std::fs::create_dir_all(here.join("usr/lib")).unwrap();
        std::fs::write(here.join("usr/lib/x"), "x").unwrap();
        symlink("usr/lib", here.join("lib")).unwrap();
        symlink("/lib/../../lib/x", here.join("absolute")).unwrap();
        symlink("/dev/null", here.join("mask")).unwrap();
        symlink("ring", here.join("ring")).unwrap();
        for number in 0..=LINKS {
            let to = if number == LINKS { "/dev/zero" } else { &format!("{}", number + 1) };
            symlink(to, here.join(number.to_string())).unwrap();
        }
        let root = here.to_string_lossy();
        let root = Rooted(&root);
        for path in ["/lib/x", "/absolute", "//usr/./lib/x"] {
            assert_eq!(root.read(path, 10).map(|(bytes, _)| bytes), Ok(b"x".to_vec()), "{path}");
        }
        assert_eq!(root.stat("/mask").map(|stat| stat.kind), Ok(FileKind::Special));
        assert!(root.stat("/ring").is_err() && root.stat("/lib/y") == Err(Problem::Missing));
        assert_eq!(root.stat("/0"), Err(Problem::Missing), "a long chain of links leads nowhere");
        assert_eq!(root.link("/absolute").as_deref(), Some("/lib/../../lib/x"));
        assert_eq!(root.link("/lib/x"), None);
        std::fs::remove_dir_all(here).unwrap();
    }

    #[test]
    fn irregular_file_is_refused_without_blocking() {
        assert_eq!(Disk.read("/", 10), Err(Problem::Kind(FileKind::Directory)));
        assert_eq!(Disk.read("/dev/null", 10), Err(Problem::Kind(FileKind::Special)));
        assert_eq!(Disk.read("/nowhere/at-all", 10).err(), Some(Problem::Missing));
        assert_eq!(Disk.read("/proc/self/exe", 10).err(), Some(Problem::TooLarge));
    }
}
