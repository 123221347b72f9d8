//! The first steps of the boot of a machine. Each is a few system calls, and udev waits for them, so
//! they are one program instead of several.

use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::{Gid, chown};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of an earlier directory hides the files of its name in later ones (tmpfiles.d(5)).
const TMPFILES: [&str; 3] = ["/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/lib/tmpfiles.d"];

/// Makes mounts propagate, device nodes of modules, and the directory by which scripts of packages
/// know that `systemctl` works.
///
/// # Errors
///
/// The first error. The later steps are done nevertheless.
pub(crate) fn prepare() -> io::Result<()> {
    let none: Option<&str> = None;
    let shared = mount(none, "/", none, MsFlags::MS_SHARED | MsFlags::MS_REC, none);
    let mark = match Path::new("/bin/systemctl").exists() {
        true => fs::create_dir_all("/run/systemd/system"),
        false => Ok(()),
    };
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let modules = PathBuf::from(format!("/lib/modules/{}/modules.devname", release.trim()));
    let (text, mut nodes) = match fs::read_to_string(&modules) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => (String::new(), Ok(())),
        Err(error) => (String::new(), Err(error)),
        Ok(text) => (text, Ok(())),
    };
    for node in text.lines().filter_map(Node::read) {
        nodes = nodes.and(node.make());
    }
    set_permissions();
    shared.map_err(io::Error::from).and(mark).and(nodes)
}

/// A device node whose module the kernel loads as soon as a program opens the node, such as /dev/fuse.
#[derive(Debug, PartialEq, Eq)]
struct Node<'a> {
    path: &'a str,
    kind: SFlag,
    major: u64,
    minor: u64,
}

impl<'a> Node<'a> {
    /// Reads a line of modules.devname: `MODULE PATH cMAJOR:MINOR`.
    fn read(line: &'a str) -> Option<Node<'a>> {
        let mut words = line.split_whitespace();
        let module = words.next()?;
        let path = words.next()?;
        let (kind, number) = words.next()?.split_at_checked(1)?;
        let (major, minor) = number.split_once(':')?;
        let kind = match kind {
            "c" => SFlag::S_IFCHR,
            "b" => SFlag::S_IFBLK,
            _ => return None,
        };
        let is_below = !path.starts_with('/') && path.split('/').all(|part| part != "..");
        (!module.starts_with('#') && is_below).then_some(())?;
        Some(Node { path, kind, major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// Makes the node for root only, as devtmpfs does. udev applies its rules to it.
    fn make(&self) -> io::Result<()> {
        let path = Path::new("/dev").join(self.path);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        match mknod(&path, self.kind, mode, makedev(self.major, self.minor)) {
            Err(nix::errno::Errno::EEXIST) => Ok(()),
            other => other.map_err(io::Error::from),
        }
    }
}

/// Applies the lines of tmpfiles.d about /dev. In most systems these only set permissions of nodes.
/// Any other line needs systemd-tmpfiles, which then applies all of them.
fn set_permissions() {
    let text = tmpfiles();
    let lines: Option<Vec<Line<'_>>> = of_devices(&text).map(Line::read).collect();
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let done = lines.is_some_and(|lines| lines.iter().all(|line| line.apply(&groups).is_ok()));
    if !done {
        let words = ["--create", "--boot", "--prefix=/dev"];
        // It reports its errors itself. A system without systemd may lack it.
        let _ = Command::new("systemd-tmpfiles").args(words).status();
    }
}

/// All lines of tmpfiles.d that are in effect.
fn tmpfiles() -> String {
    let (mut seen, mut text) = (Vec::new(), String::new());
    for directory in TMPFILES {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.as_encoded_bytes().ends_with(b".conf") && !seen.contains(&name) {
                text.push_str(&fs::read_to_string(entry.path()).unwrap_or_default());
                text.push('\n');
                seen.push(name);
            }
        }
    }
    text
}

/// The lines whose path is in /dev. A path with quotes or specifiers may be, too.
fn of_devices(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.starts_with('#')).filter(|line| {
        let path = line.split_whitespace().nth(1).unwrap_or_default();
        path == "/dev" || path.starts_with("/dev/") || path.starts_with(['"', '\'', '%'])
    })
}

/// A line that sets permissions: `z PATH MODE - GROUP -`.
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    path: &'a str,
    mode: Option<u32>,
    group: Option<&'a str>,
}

impl<'a> Line<'a> {
    /// Returns `None` for a line that needs systemd-tmpfiles.
    fn read(line: &'a str) -> Option<Line<'a>> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let word = |at: usize| words.get(at).copied().filter(|word| *word != "-");
        let path = word(1)?;
        let plain = !path.contains(['*', '?', '[', '%', '"', '\'', '\\']) && !path.contains("..");
        let known = word(0) == Some("z") && word(3).is_none() && word(5).is_none();
        let mode = word(2).map(|mode| u32::from_str_radix(mode, 8));
        (plain && known).then_some(Line { path, mode: mode.transpose().ok()?, group: word(4) })
    }

    /// Sets the permissions, if the node exists.
    fn apply(&self, groups: &str) -> io::Result<()> {
        match fs::symlink_metadata(self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
            Ok(data) if data.is_symlink() => return Err(io::ErrorKind::InvalidInput.into()),
            Ok(_) => {}
        }
        if let Some(group) = self.group {
            let number = number_of(group, groups).ok_or(io::ErrorKind::NotFound)?;
            chown(self.path, None, Some(Gid::from_raw(number)))?;
        }
        let mode = self.mode.map(Permissions::from_mode);
        mode.map_or(Ok(()), |mode| fs::set_permissions(self.path, mode))
    }
}

/// Looks a group up in the text of /etc/group.
fn number_of(group: &str, groups: &str) -> Option<u32> {
    let fields = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let mut found = fields.filter(|fields| fields.first() == Some(&group));
    found.next()?.get(2)?.parse().ok()
}

/// File systems of the kernel's subsystems, with further options.
const KERNEL: [(&str, &str, Option<&str>); 10] = [
    ("mqueue", "/dev/mqueue", None),
    ("hugetlbfs", "/dev/hugepages", None),
    ("securityfs", "/sys/kernel/security", None),
    ("debugfs", "/sys/kernel/debug", None),
    ("tracefs", "/sys/kernel/tracing", None),
    ("configfs", "/sys/kernel/config", None),
    ("fusectl", "/sys/fs/fuse/connections", None),
    ("bpf", "/sys/fs/bpf", Some("mode=700")),
    ("pstore", "/sys/fs/pstore", None),
    ("efivarfs", "/sys/firmware/efi/efivars", None),
];

/// Mounts the file systems of the kernel's subsystems, unless they are mounted or have a line in
/// /etc/fstab.
///
/// # Errors
///
/// The first file system that could not be mounted. The others are mounted nevertheless.
pub(crate) fn mount_kernel_filesystems() -> io::Result<()> {
    // udev loads configfs late or not at all.
    if !Path::new("/sys/kernel/config").exists() {
        // A kernel without configfs has no directory, so nothing is mounted.
        let _ = Command::new("modprobe").args(["-q", "configfs"]).status();
    }
    let mut directories = vec!["/dev/mqueue"];
    if Path::new("/sys/kernel/mm/hugepages").exists() {
        directories.push("/dev/hugepages");
    }
    for directory in directories {
        fs::create_dir_all(directory)?;
    }
    let mounted = fs::read_to_string("/proc/self/mounts")?;
    let fstab = fs::read_to_string("/etc/fstab").unwrap_or_default();
    let taken: Vec<&str> = places(&mounted).chain(places(&fstab)).collect();
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let mut result = Ok(());
    for (kind, place, options) in KERNEL {
        if taken.contains(&place) || !Path::new(place).is_dir() {
            continue;
        }
        let done = mount(Some(kind), place, Some(kind), flags, options);
        result = result.and(done.map_err(|error| io::Error::other(format!("{place}: {error}"))));
    }
    result
}

/// The mount points in the text of /proc/self/mounts or /etc/fstab.
fn places(table: &str) -> impl Iterator<Item = &str> {
    let lines = table.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().nth(1))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "these are tests")]
mod tests {
    use super::*;

    #[test]
    fn lines_of_modules_devname_are_nodes_below_dev() {
        let node = |path, kind, major, minor| Some(Node { path, kind, major, minor });
        assert_eq!(Node::read("fuse fuse c10:229"), node("fuse", SFlag::S_IFCHR, 10, 229));
        assert_eq!(Node::read("tun net/tun c10:200"), node("net/tun", SFlag::S_IFCHR, 10, 200));
        assert_eq!(Node::read("loop loop0 b7:0"), node("loop0", SFlag::S_IFBLK, 7, 0));
        for line in [
            "# Device nodes to trigger on-demand module loading.",
            "",
            "fuse fuse p10:229",
            "fuse fuse c10",
            "fuse ../fuse c10:229",
            "fuse /fuse c10:229",
        ] {
            assert_eq!(Node::read(line), None, "{line}");
        }
    }

    #[test]
    fn lines_of_tmpfiles_that_only_set_permissions_are_applied_without_systemd() {
        let text =
            "# z /dev/none\nz /dev/kvm 0660 - kvm -\nd /run/lock 1777\n z /dev/fuse 0666 - -\n";
        let lines: Option<Vec<Line<'_>>> = of_devices(text).map(Line::read).collect();
        let kvm = Line { path: "/dev/kvm", mode: Some(0o660), group: Some("kvm") };
        let fuse = Line { path: "/dev/fuse", mode: Some(0o666), group: None };
        assert_eq!(lines, Some(vec![kvm, fuse]));
        for line in [
            "c /dev/x 0600 - - - 1:2",
            "z /dev/snd/* 0660 - audio -",
            "z /dev/kvm 0660 root kvm -",
            "z /dev/kvm ~0660 - kvm -",
            "z! /dev/kvm 0660 - kvm -",
            "z \"/dev/kvm\" 0660",
        ] {
            assert_eq!(of_devices(line).map(Line::read).collect::<Vec<_>>(), [None], "{line}");
        }
    }

    #[test]
    fn group_is_looked_up_by_its_whole_name() {
        let groups = "root:x:0:\nkvm2:x:5:\nkvm:x:107:a,b\n";
        assert_eq!(number_of("kvm", groups), Some(107));
        assert_eq!(number_of("disk", groups), None);
    }

    #[test]
    fn comments_of_fstab_are_no_mount_points() {
        let fstab =
            "# a /sys/fs/bpf\nUUID=1 / ext4 defaults 0 1\n\ndebugfs /sys/kernel/debug debugfs";
        assert_eq!(places(fstab).collect::<Vec<_>>(), ["/", "/sys/kernel/debug"]);
    }
}
