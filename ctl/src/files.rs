//! Implements [`Files`] with std::fs for `check`, `graph --units` and `doctor`. Only regular files are
//! read, and files are opened with O_NONBLOCK. [`Local`] never waits for a server.

use groundstate_units::load::files::{FileKind, Files, Problem, Stat};
use groundstate_units::unit::generation::Stamp;
use nix::fcntl::OFlag;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

/// Prefixes of file system types that a network server or another program serves, as in init's
/// loader.
const SERVED: [&str; 11] =
    ["fuse", "nfs", "cifs", "smb", "9p", "ceph", "afs", "lustre", "virtiofs", "orangefs", "autofs"];

/// The file system of this process.
pub(crate) struct Disk;

/// Mount points that count as local. Neither init nor this program runs without them, so their
/// server answers.
const NEEDED: [&str; 2] = ["/", "/usr"];

/// Returns the mount points that a network server or another program serves, by the text of
/// /proc/self/mountinfo, proc_pid_mountinfo(5).
fn served_mounts(table: &str) -> Vec<String> {
    let mount = |line: &str| {
        let mut fields = line.split(' ');
        let at = fields.nth(4)?;
        let kind = fields.skip_while(|field| *field != "-").nth(1)?;
        let is_served = SERVED.iter().any(|prefix| kind.starts_with(prefix));
        (is_served && !NEEDED.contains(&at)).then(|| unescaped(at))
    };
    table.lines().filter_map(mount).collect()
}

/// Decodes the characters that the kernel escapes in a mount point.
fn unescaped(at: &str) -> String {
    let escaped = [(r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", r"\")];
    escaped.iter().fold(at.to_string(), |at, (code, character)| at.replace(code, character))
}

/// Reads the mount table, which cannot block.
fn read_served_mounts() -> Vec<String> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    served_mounts(&String::from_utf8_lossy(&table))
}

/// Returns true if the path is the mount point or below it.
fn is_below(path: &str, at: &str) -> bool {
    let rest = path.strip_prefix(at.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Follows the links of a path without access to these mounts. Returns `None` if the path leads to
/// one of them.
fn local_path(served: &[String], path: &str) -> Option<String> {
    if served.is_empty() {
        return Some(path.to_string());
    }
    // The mount of a relative path is not known here.
    path.strip_prefix('/')?;
    follow("", path, |here| is_outside(served, here))
}

/// Returns true if the path, which has no links on the way, is on none of these mounts.
fn is_outside(served: &[String], path: &str) -> bool {
    served.iter().all(|at| !is_below(path, at))
}

/// Limit of symbolic links on one path, as in Linux.
const LINKS: usize = 40;
/// A path that never exists.
const NOWHERE: &str = "/dev/null/nowhere";

/// Follows the links of a path as if `root` were the root. Returns `None` at the first part of the
/// path that may not be accessed.
fn follow(root: &str, path: &str, may_access: impl Fn(&str) -> bool) -> Option<String> {
    let mut left: Vec<String> = parts_from_the_end(path);
    let (mut done, mut links): (Vec<String>, usize) = (Vec::new(), 0);
    while let Some(part) = left.pop() {
        if part == ".." {
            done.pop();
            continue;
        }
        done.push(part);
        let here = format!("{root}/{}", done.join("/"));
        if !may_access(&here) {
            return None;
        }
        let Ok(target) = std::fs::read_link(&here) else { continue };
        links += 1;
        if links > LINKS {
            // The kernel would follow the rest out of this root.
            return Some(NOWHERE.to_string());
        }
        let target = target.to_string_lossy();
        if target == "/dev/null" && left.is_empty() {
            return Some(target.into_owned());
        }
        done.pop();
        if target.starts_with('/') {
            done.clear();
        }
        left.extend(parts_from_the_end(&target));
    }
    Some(format!("{root}/{}", done.join("/")))
}

fn parts_from_the_end(path: &str) -> Vec<String> {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    parts.rev().map(str::to_string).collect()
}

/// The file system below another root. Symbolic links are followed within that root.
pub(crate) struct Rooted<'a>(pub(crate) &'a str);

impl Rooted<'_> {
    /// Returns the path for the kernel. A link to /dev/null masks a unit. The tree of an image may
    /// lack that device, so such a link leads to the /dev/null of the running system.
    pub(crate) fn at(&self, path: &str) -> String {
        follow(self.0, path, |_| true).unwrap_or_else(|| NOWHERE.to_string())
    }
}

/// The file system of this process without the mounts that a network server or another program
/// serves. Files on them count as missing, because init loads its units at a boot before these
/// mounts exist. So no access waits for a dead server.
pub(crate) struct Local {
    served: Vec<String>,
}

impl Local {
    /// Uses the present mount table.
    pub(crate) fn new() -> Local {
        Local { served: read_served_mounts() }
    }

    fn at(&self, path: &str) -> Result<String, Problem> {
        local_path(&self.served, path).ok_or(Problem::Missing)
    }
}

impl Files for Local {
    fn list(&self, directory: &str, limit: usize) -> Result<Vec<String>, Problem> {
        Disk.list(&self.at(directory)?, limit)
    }

    fn stat(&self, path: &str) -> Result<Stat, Problem> {
        Disk.stat(&self.at(path)?)
    }

    fn stat_outside(&self, path: &str) -> Option<Result<Stat, Problem>> {
        local_path(&self.served, path).map(|path| Disk.stat(&path))
    }

    fn link(&self, path: &str) -> Option<String> {
        let (directory, name) = path.rsplit_once('/')?;
        let path = format!("{}/{name}", self.at(directory).ok()?);
        // The link itself is read, not its target.
        is_outside(&self.served, &path).then(|| Disk.link(&path))?
    }

    fn read(&self, path: &str, limit: usize) -> Result<(Vec<u8>, Stat), Problem> {
        Disk.read(&self.at(path)?, limit)
    }
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
        local_path(&read_served_mounts(), path).map(|path| self.stat(&path))
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
        let bytes = read_bytes(file, limit).map_err(|error| problem(&error))?;
        if bytes.len() > limit {
            return Err(Problem::TooLarge);
        }
        Ok((bytes, found))
    }
}

/// Reads at most one byte more than `limit`, so that a longer file is recognized.
fn read_bytes(file: File, limit: usize) -> Result<Vec<u8>, std::io::Error> {
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
    fn mounts_of_servers_follow_from_the_table_except_those_that_every_program_needs() {
        let table = "22 1 0:20 / / rw shared:1 - nfs4 server:/root rw\n\
            23 22 0:21 / /usr rw - 9p usr rw\n\
            24 22 0:22 / /proc rw - proc proc rw\n\
            30 23 0:40 / /usr/local rw shared:9 - nfs4 server:/x rw\n\
            31 22 0:41 / /srv/a\\040\\134b rw - fuse.sshfs y rw\n\
            32 22 8:2 / /home rw - ext4 /dev/sda2 rw\n\
            33 22 0:42 / /net rw - autofs x rw\n\n";
        let served = served_mounts(table);
        assert_eq!(served, ["/usr/local", "/srv/a \\b", "/net"]);
        let is_local = |path: &str| local_path(&served, path).is_some();
        assert!(is_local("/usr/bin/x") && is_local("/usr/locale") && is_local("/home/net"));
        for path in ["/usr/local", "/usr/local/bin/x", "//usr/./bin/../local", "/net/x"] {
            assert!(!is_local(path), "{path}");
        }
    }

    #[test]
    fn no_access_reaches_a_mount_of_a_server() {
        use std::os::unix::fs::symlink;
        let here = std::env::temp_dir().join(format!("groundstate-near-{}", std::process::id()));
        std::fs::create_dir_all(here.join("far/bin")).unwrap();
        std::fs::create_dir_all(here.join("bin")).unwrap();
        std::fs::write(here.join("far/bin/x"), "x").unwrap();
        std::fs::write(here.join("bin/x"), "x").unwrap();
        symlink("far", here.join("link")).unwrap();
        symlink(here.join("far/bin/x"), here.join("bin/far")).unwrap();
        symlink("/proc/self", here.join("own")).unwrap();
        let at = |name: &str| format!("{}/{name}", here.display());
        let local = Local { served: vec![at("far")] };
        assert_eq!(local.list(&at("bin"), 10).map(|names| names.len()), Ok(2));
        assert_eq!(local.read(&at("bin/x"), 10).map(|(bytes, _)| bytes), Ok(b"x".to_vec()));
        assert_eq!(local.link(&at("bin/far")), Some(at("far/bin/x")));
        assert!(local.stat(&at("own/stat")).is_ok() && local.stat(&at("farther")).is_err());
        for name in ["far", "far/bin/x", "link/bin/x", "bin/far", "bin/../link/bin"] {
            assert_eq!(local.stat(&at(name)), Err(Problem::Missing), "{name}");
            assert_eq!(local.list(&at(name), 10), Err(Problem::Missing), "{name}");
            assert_eq!(local.read(&at(name), 10), Err(Problem::Missing), "{name}");
            assert_eq!(local.stat_outside(&at(name)), None, "{name}");
        }
        assert_eq!(local.link(&at("far")), None);
        assert_eq!(local.link(&at("far/bin/x")), None);
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
