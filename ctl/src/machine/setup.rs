//! The first steps of the boot of a machine, as one program: udev waits for them, and each needs only a
//! few system calls.

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of an earlier directory hides the files of its name in later ones (tmpfiles.d(5)).
const TMPFILES: [&str; 3] = ["/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/lib/tmpfiles.d"];

/// udev's rules set the same permissions by `static_node=`.
const OF_UDEV: &str = "/usr/lib/tmpfiles.d/static-nodes-permissions.conf";

/// Makes mounts propagate, device nodes of modules, and the directory by which scripts of packages
/// know that `systemctl` works. Mounts the file systems of the kernel's subsystems, because the units
/// of file systems and of AppArmor may need them.
///
/// # Errors
///
/// All errors in one. No error prevents the later steps.
pub(crate) fn prepare() -> io::Result<()> {
    let mut errors = Errors::default();
    let none: Option<&str> = None;
    errors.note("/", mount(none, "/", none, MsFlags::MS_SHARED | MsFlags::MS_REC, none));
    if Path::new("/bin/systemctl").exists() {
        errors.note("/run/systemd/system", fs::create_dir_all("/run/systemd/system"));
    }
    let nodes = modules_devname();
    let text = errors.note("modules.devname", nodes).unwrap_or_default();
    for node in text.lines().filter_map(Node::read) {
        errors.note(node.path, node.make());
    }
    if tmpfiles().lines().any(is_of_devices) {
        let words = ["--create", "--boot", "--prefix=/dev"];
        // It reports its errors itself. A system without systemd may lack it.
        let _ = Command::new("systemd-tmpfiles").args(words).status();
    }
    // A line of fstab cannot be mounted without its directory, which the module makes.
    if places(&fs::read_to_string("/etc/fstab").unwrap_or_default()).any(|it| it == CONFIGFS) {
        load_configfs();
    }
    mount_all(&mut errors);
    errors.result()
}

/// Errors of steps that do not depend on each other.
#[derive(Default)]
struct Errors(Vec<String>);

impl Errors {
    fn note<T, E: std::fmt::Display>(&mut self, of: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.0.push(format!("{of}: {error}"))).ok()
    }

    fn result(self) -> io::Result<()> {
        self.0.is_empty().then_some(()).ok_or_else(|| io::Error::other(self.0.join("; ")))
    }
}

/// The text of modules.devname of the running kernel. A kernel without modules has no such file.
fn modules_devname() -> io::Result<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let path = PathBuf::from(format!("/lib/modules/{}/modules.devname", release.trim()));
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        other => other,
    }
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
            Err(Errno::EEXIST) => Ok(()),
            other => other.map_err(io::Error::from),
        }
    }
}

/// All lines of tmpfiles.d that are in effect, except those that repeat udev's rules.
fn tmpfiles() -> String {
    let (mut seen, mut text) = (Vec::new(), String::new());
    for directory in TMPFILES {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_used = name.as_encoded_bytes().ends_with(b".conf") && !seen.contains(&name);
            if is_used && entry.path() != Path::new(OF_UDEV) {
                text.push_str(&fs::read_to_string(entry.path()).unwrap_or_default());
                text.push('\n');
                seen.push(name);
            }
        }
    }
    text
}

/// A line of tmpfiles.d for a path in /dev.
fn is_of_devices(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_comment = words.next().is_some_and(|word| word.starts_with('#'));
    let path = words.next().unwrap_or_default().trim_matches(['"', '\'']);
    !is_comment && (path == "/dev" || path.starts_with("/dev/"))
}

/// File systems of the kernel's subsystems, with further options.
const KERNEL: [(&str, &str, Option<&str>); 10] = [
    ("mqueue", "/dev/mqueue", None),
    ("hugetlbfs", "/dev/hugepages", None),
    ("securityfs", "/sys/kernel/security", None),
    ("debugfs", "/sys/kernel/debug", None),
    ("tracefs", "/sys/kernel/tracing", None),
    ("configfs", CONFIGFS, None),
    ("fusectl", "/sys/fs/fuse/connections", None),
    ("bpf", "/sys/fs/bpf", Some("mode=700")),
    ("pstore", "/sys/fs/pstore", None),
    ("efivarfs", "/sys/firmware/efi/efivars", None),
];

const CONFIGFS: &str = "/sys/kernel/config";

/// Mounts the file systems of the kernel's subsystems that `prepare` found no directory for, because
/// their modules were not loaded.
///
/// # Errors
///
/// All errors in one. The other file systems are mounted nevertheless.
pub(crate) fn mount_kernel_filesystems() -> io::Result<()> {
    let mut errors = Errors::default();
    // udev loads configfs late or not at all.
    load_configfs();
    mount_all(&mut errors);
    errors.result()
}

fn load_configfs() {
    if !Path::new(CONFIGFS).exists() {
        // A kernel without configfs has no directory, so nothing is mounted.
        let _ = Command::new("modprobe").args(["-q", "configfs"]).status();
    }
}

/// Mounts each of [`KERNEL`] whose directory exists, unless it is mounted or has a line in /etc/fstab.
fn mount_all(errors: &mut Errors) {
    errors.note("/dev/mqueue", fs::create_dir_all("/dev/mqueue"));
    if Path::new("/sys/kernel/mm/hugepages").exists() {
        errors.note("/dev/hugepages", fs::create_dir_all("/dev/hugepages"));
    }
    let mounted = fs::read_to_string("/proc/self/mounts");
    // Without the list, a second mount would hide the first one.
    let Some(mounted) = errors.note("/proc/self/mounts", mounted) else { return };
    let fstab = fs::read_to_string("/etc/fstab").unwrap_or_default();
    let taken: Vec<&str> = places(&mounted).chain(places(&fstab)).collect();
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    for (kind, place, options) in KERNEL {
        if !taken.contains(&place) && Path::new(place).is_dir() {
            match mount(Some(kind), place, Some(kind), flags, options) {
                // The kernel or the firmware does not have it.
                Err(Errno::ENODEV | Errno::EOPNOTSUPP) => {}
                done => {
                    errors.note(place, done);
                }
            }
        }
    }
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
    fn lines_of_tmpfiles_for_paths_in_dev_need_systemd_tmpfiles() {
        for line in ["c /dev/x 0600 - - - 1:2", " z! \"/dev/kvm\" 0660 - kvm -", "d /dev 0755"] {
            assert!(is_of_devices(line), "{line}");
        }
        for line in ["# z /dev/x", "#z /dev/x", "d /run/lock 1777", "L /run/x - - - - /dev/x", ""] {
            assert!(!is_of_devices(line), "{line}");
        }
    }

    #[test]
    fn errors_of_all_steps_are_reported() {
        let mut errors = Errors::default();
        assert_eq!(errors.note("a", Ok::<_, Errno>(1)), Some(1));
        errors.note("b", Err::<(), _>(Errno::EPERM));
        errors.note("c", Err::<(), _>(Errno::ENOENT));
        let text = errors.result().unwrap_err().to_string();
        assert!(text.starts_with("b: EPERM") && text.contains("; c: ENOENT"), "{text}");
        assert!(Errors::default().result().is_ok());
    }

    #[test]
    fn comments_of_fstab_are_no_mount_points() {
        let fstab =
            "# a /sys/fs/bpf\nUUID=1 / ext4 defaults 0 1\n\ndebugfs /sys/kernel/debug debugfs";
        assert_eq!(places(fstab).collect::<Vec<_>>(), ["/", "/sys/kernel/debug"]);
    }
}
