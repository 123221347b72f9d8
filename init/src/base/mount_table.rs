//! The mount table, and the server of each mount: the kernel, a process (fuse(4)) or another
//! machine (a network file system). PID 1 accesses no mount of the last two, because they may never
//! answer. The table is /proc/self/mountinfo, proc_pid_mountinfo(5); reading it contacts no file
//! system.
//!
//! Mounting is in [`crate::boot`], unmounting at the end in [`crate::shutdown`].

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2, readlink};
use nix::sys::stat::Mode;
use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// File systems whose type starts with one of these are served by another process or machine.
const SERVED_ELSEWHERE: [&str; 11] =
    ["fuse", "nfs", "cifs", "smb", "9p", "ceph", "afs", "lustre", "virtiofs", "orangefs", "autofs"];
/// File systems with data on disks although their device number has major 0.
const DISKS_WITH_MAJOR_ZERO: [&str; 5] = ["btrfs", "zfs", "bcachefs", "ubifs", "overlay"];
/// File systems with their files in memory only.
const MEMORY_TYPES: [&str; 2] = ["tmpfs", "ramfs"];
/// Control file systems: they hold no files of their own.
const CONTROL_TYPES: [&str; 3] = ["fusectl", "nfsd", "autofs"];
/// Bytes of the table that are read.
const TABLE: u64 = 4 * 1024 * 1024;

/// The current mount table of this process, as bytes because mount points may have any name.
/// `NotFound` means that /proc is missing.
pub(crate) fn table() -> io::Result<Vec<u8>> {
    let mut table = Vec::new();
    File::open("/proc/self/mountinfo")?.take(TABLE).read_to_end(&mut table)?;
    Ok(table)
}

/// A line of the table.
pub(crate) struct Mount<'t> {
    /// The mount's id.
    pub(crate) id: &'t str,
    /// The id of the parent mount.
    pub(crate) parent: &'t str,
    device: &'t str,
    /// The mount point.
    pub(crate) at: OsString,
    kind: &'t str,
    /// True if its file system is read-only, at this and all other mounts of it.
    pub(crate) is_read_only: bool,
}

/// All mounts, in the order of the table.
pub(crate) fn mounts(table: &[u8]) -> impl Iterator<Item = Mount<'_>> {
    table.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let (id, parent, device) = (fields.next()?, fields.next()?, fields.next()?);
        let at = fields.nth(1)?;
        let mut of_its_own = fields.skip_while(|field| *field != b"-").skip(1);
        let (kind, options) = (of_its_own.next()?, of_its_own.nth(1));
        let text = |field| std::str::from_utf8(field).ok();
        Some(Mount {
            id: text(id)?,
            parent: text(parent)?,
            device: text(device)?,
            at: unescape(at),
            kind: text(kind)?,
            is_read_only: options.is_some_and(|it| it == b"ro" || it.starts_with(b"ro,")),
        })
    })
}

/// Decodes `\040` and the like, see proc_pid_mountinfo(5).
pub(crate) fn unescape(text: &[u8]) -> OsString {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes)
}

impl Mount<'_> {
    /// The root of a chroot(2) that is no mount point: the table has no line for it.
    fn unlisted_root() -> Mount<'static> {
        let at = OsString::from("/");
        Mount { id: "", parent: "", device: "0:0", at, kind: "", is_read_only: false }
    }

    /// Returns true if the kernel itself serves the mount.
    pub(crate) fn is_local(&self) -> bool {
        !SERVED_ELSEWHERE.iter().any(|elsewhere| self.kind.starts_with(elsewhere))
    }

    /// Returns true if PID 1 may access the mount: the kernel serves it, or it is the root, without
    /// which nothing works anyway.
    fn may_access(&self) -> bool {
        self.is_local() || self.at == "/"
    }

    /// Returns true if its files are in memory, so that no disk can block an access.
    pub(crate) fn is_memory(&self) -> bool {
        MEMORY_TYPES.contains(&self.kind)
    }

    /// Returns true if data may be lost unless it is unmounted: it is on a disk or served by
    /// another process.
    pub(crate) fn holds_data(&self) -> bool {
        self.is_on_disk() || (!self.is_local() && !CONTROL_TYPES.contains(&self.kind))
    }

    /// Returns true if its data is on a disk of this machine.
    pub(crate) fn is_disk(&self) -> bool {
        self.is_local() && self.is_on_disk()
    }

    fn is_on_disk(&self) -> bool {
        // Major 0 means no single device.
        !self.device.starts_with("0:") || DISKS_WITH_MAJOR_ZERO.contains(&self.kind)
    }

    /// Returns true if the path is the mount point or below it.
    fn is_on_the_way_to(&self, path: &str) -> bool {
        self.below(path).is_some() || self.at == path
    }

    /// The rest of the path below the mount point.
    fn below<'p>(&self, path: &'p str) -> Option<&'p str> {
        let at = self.at.to_str()?;
        path.strip_prefix(at.trim_end_matches('/'))?.strip_prefix('/')
    }
}

/// Returns true if the root is an initramfs.
pub(crate) fn is_initramfs(table: &[u8]) -> bool {
    mounts(table).any(|mount| mount.at == "/" && mount.kind == "rootfs")
}

/// Returns true if there is an overlay mount.
pub(crate) fn has_overlay(table: &[u8]) -> bool {
    mounts(table).any(|mount| mount.kind == "overlay")
}

/// The kind of file system that serves the file of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FsKind {
    /// The kernel alone: a pipe, a socket, `anon_inode:[eventfd]`, `net:[4026531840]` and the like,
    /// or a file in memory.
    Memory,
    /// A file system of this machine and the disk below it.
    Here,
    /// Another process or machine.
    Elsewhere,
}

/// The kind of file system of a descriptor, by /proc alone. Returns `None` if that is unknown; the
/// mount may belong to another namespace.
pub(crate) fn fs_kind_of(fd: BorrowedFd<'_>) -> Option<FsKind> {
    let number = fd.as_raw_fd();
    let name = readlink(format!("/proc/self/fd/{number}").as_str()).ok()?;
    if !name.as_bytes().starts_with(b"/") {
        return Some(FsKind::Memory);
    }
    fs_kind(&table().ok()?, &mount_under(fd)?)
}

/// The kind of the mount with this id. Returns `None` if it is not in the table.
fn fs_kind(table: &[u8], id: &str) -> Option<FsKind> {
    mounts(table).find(|mount| mount.id == id).map(|mount| match () {
        () if mount.is_memory() => FsKind::Memory,
        () if mount.is_local() => FsKind::Here,
        () => FsKind::Elsewhere,
    })
}

/// Returns true if another process serves a mount at or below this path, other than the root.
pub(crate) fn has_remote_mount_below(table: &[u8], path: &str) -> bool {
    mounts(table)
        .any(|mount| !mount.may_access() && std::path::Path::new(&mount.at).starts_with(path))
}

/// Opens a path on a mount that passes `is_fit`, without crossing into another mount. Fails with
/// EXDEV if the mount is not fit or the path leads elsewhere. `/var/run` counts as `/run`.
pub(crate) fn open_on(
    path: &str,
    flags: OFlag,
    is_fit: impl Fn(&Mount<'_>) -> bool,
) -> Result<OwnedFd, Errno> {
    let path = &*without_link(path);
    let flags = flags | OFlag::O_CLOEXEC;
    let table = match table() {
        Ok(table) => table,
        // Without /proc the mounts are unknown, so the path is opened as it is.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return open(path, flags, Mode::empty());
        }
        Err(error) => return Err(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))),
    };
    open_in(&table, path, flags, is_fit)
}

/// Opens an absolute path if, by this table, all mounts on its way are local or the root. Fails
/// with EXDEV otherwise.
pub(crate) fn open_accessible(table: &[u8], path: &str, flags: OFlag) -> Result<OwnedFd, Errno> {
    let Some(rest) = path.strip_prefix('/') else { return Err(Errno::EXDEV) };
    let top = open("/", OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    let rest = if rest.is_empty() { "." } else { rest };
    let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_NO_XDEV);
    match openat2(&top, rest, how) {
        // The path crosses into another mount, which the table describes.
        Err(Errno::EXDEV) => {}
        opened => return opened,
    }
    open_in(table, &without_link(path), flags | OFlag::O_CLOEXEC, |mount| mount.may_access())
}

fn open_in(
    table: &[u8],
    path: &str,
    flags: OFlag,
    is_fit: impl Fn(&Mount<'_>) -> bool,
) -> Result<OwnedFd, Errno> {
    // A mount below an unresponsive one cannot be reached without accessing that one.
    let mut way = mounts(table).filter(|mount| mount.is_on_the_way_to(path));
    if !way.all(|mount| mount.may_access() || is_fit(&mount)) {
        return Err(Errno::EXDEV);
    }
    let listed = mount_of(table, path);
    let is_listed = listed.is_some();
    let mount = match listed {
        Some(mount) => mount,
        None => Mount::unlisted_root(),
    };
    if !is_fit(&mount) {
        return Err(Errno::EXDEV);
    }
    let how = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let anchor = open(mount.at.as_os_str(), how, Mode::empty())?;
    // Another file system may have been mounted there meanwhile.
    if is_listed && mount_under(anchor.as_fd()).as_deref() != Some(mount.id) {
        return Err(Errno::EXDEV);
    }
    let below = mount.below(path).filter(|rest| !rest.is_empty()).unwrap_or(".");
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_NO_XDEV);
    openat2(&anchor, below, how)
}

/// Returns true if the path can be accessed without blocking: its files are in memory. Returns
/// false if /proc is missing.
pub(crate) fn is_in_memory(path: &str) -> bool {
    is_in_memory_by(&table().unwrap_or_default(), &without_link(path))
}

fn is_in_memory_by(table: &[u8], path: &str) -> bool {
    let mut way = mounts(table).filter(|mount| mount.is_on_the_way_to(path));
    way.all(|mount| mount.may_access()) && mount_of(table, path).is_some_and(|top| top.is_memory())
}

/// The innermost mount of the path. Of several at one place, the last is on top.
fn mount_of<'t>(table: &'t [u8], path: &str) -> Option<Mount<'t>> {
    let above = mounts(table).filter_map(|mount| Some((mount.below(path)?.len(), mount)));
    above.reduce(|best, next| if next.0 <= best.0 { next } else { best }).map(|(_, mount)| mount)
}

fn without_link(path: &str) -> Cow<'_, str> {
    match path.strip_prefix("/var/run/") {
        Some(rest) => format!("/run/{rest}").into(),
        None => path.into(),
    }
}

/// The id of a descriptor's mount. It is read from /proc, because fstat(2) would access the file
/// system.
fn mount_under(fd: BorrowedFd<'_>) -> Option<String> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).ok()?;
    Some(info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{process, wait};
    use groundstate_units::spec::Exit;
    use nix::mount::mount;
    use nix::sched::{CloneFlags, unshare};

    const TABLE: &[u8] = b"22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
        23 22 0:21 / /proc rw - proc proc rw\n\
        30 22 0:40 / /srv/far rw - nfs4 server:/x rw\n\
        31 22 0:41 / /srv/farther rw - tmpfs tmpfs rw\n\
        32 22 0:42 / /home/ann/x rw,nosuid - fuse.sshfs y rw,user_id=1000\n\
        33 22 8:2 /\xfe /srv/a\\040\xff rw master:1 - ext4 /dev/\xff ro,seclabel\n";

    #[test]
    fn server_of_a_mount_follows_from_its_type() {
        assert_eq!(fs_kind(TABLE, "22"), Some(FsKind::Here));
        assert_eq!(fs_kind(TABLE, "30"), Some(FsKind::Elsewhere));
        assert_eq!(fs_kind(TABLE, "31"), Some(FsKind::Memory));
        assert_eq!(fs_kind(TABLE, "32"), Some(FsKind::Elsewhere));
        assert_eq!(fs_kind(TABLE, "99"), None);
        let held: Vec<bool> = mounts(TABLE).map(|mount| mount.holds_data()).collect();
        assert_eq!(held, [true, false, true, false, true, true]);
        assert_eq!(mounts(TABLE).last().unwrap().at.as_bytes(), b"/srv/a \xff");
        assert!(mounts(TABLE).last().unwrap().is_read_only);
        assert_eq!(mounts(TABLE).filter(|mount| mount.is_read_only).count(), 1);
        let below = |path: &str| -> Vec<String> {
            let all = mounts(TABLE).filter(|mount| mount.below(path).is_some());
            all.map(|mount| mount.at.into_string().unwrap()).collect()
        };
        assert_eq!(below("/srv/farther/x.pid"), ["/", "/srv/farther"]);
        assert_eq!(below("/srv/far/x.pid"), ["/", "/srv/far"]);
        assert_eq!(below("relative"), Vec::<String>::new());
    }

    #[test]
    fn kind_of_a_descriptor_is_that_of_the_file_system_of_its_file() {
        let (read, _write) = std::io::pipe().unwrap();
        assert_eq!(fs_kind_of(read.as_fd()), Some(FsKind::Memory));
        let file = File::open("/proc/self/stat").unwrap();
        assert_eq!(fs_kind_of(file.as_fd()), Some(FsKind::Here));
    }

    #[test]
    fn escaped_mount_points_are_decoded() {
        assert_eq!(unescape(br"/mnt/a\040b\134c").as_bytes(), br"/mnt/a b\c");
        assert_eq!(unescape(br"/plain\").as_bytes(), br"/plain\");
    }

    #[test]
    fn mount_point_that_is_not_utf8_hides_no_other_mount() {
        let dir = std::env::temp_dir().join(format!("gs-mounts-{}", std::process::id()));
        let place = dir.join(std::ffi::OsStr::from_bytes(b"\xff \xfe"));
        std::fs::create_dir_all(&place).unwrap();
        let look = || {
            let own = unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS);
            let (kind, none) = (Some("tmpfs"), None::<&str>);
            let mounted =
                own.and_then(|()| mount(kind, &place, kind, nix::mount::MsFlags::empty(), none));
            if mounted.is_err() {
                return 2;
            }
            let table = table().unwrap();
            u8::from(!mounts(&table).any(|mount| mount.at == place.as_os_str()))
        };
        let child = process::fork(&[], look).unwrap();
        let exit = wait::await_end(child).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        // 2: the test may not mount here.
        assert!(matches!(exit, Exit::Code(0 | 2)), "{exit:?}");
    }

    #[test]
    fn path_is_opened_only_if_it_stays_on_a_fitting_mount() {
        let dir = std::env::temp_dir().join(format!("gs-mounted-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("file"), "x").unwrap();
        std::os::unix::fs::symlink("/proc/self/stat", dir.join("link")).unwrap();
        let at = |name: &str| dir.join(name).to_str().unwrap().to_string();
        let opened = |path: &str| open_on(path, OFlag::O_RDONLY, |_| true).map(drop);
        assert_eq!(opened(&at("file")), Ok(()));
        assert_eq!(opened(&at("none")), Err(Errno::ENOENT));
        assert_eq!(opened(&at("link")), Err(Errno::EXDEV));
        assert_eq!(opened("/proc/self/stat"), Ok(()));
        let unfit = open_on(&at("file"), OFlag::O_RDONLY, |_| false);
        assert_eq!(unfit.unwrap_err(), Errno::EXDEV);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn only_local_file_systems_and_the_root_are_opened() {
        let mine = table().unwrap();
        let asked =
            |table: &[u8], path: &str| open_accessible(table, path, OFlag::O_PATH).map(drop);
        assert_eq!(asked(&mine, "/"), Ok(()));
        assert_eq!(asked(&mine, "/proc/self/stat"), Ok(()));
        assert_eq!(asked(&mine, "/proc/none"), Err(Errno::ENOENT));
        assert_eq!(asked(&mine, "relative"), Err(Errno::EXDEV));
        let text = String::from_utf8_lossy(&mine).replace(" - proc ", " - nfs4 ");
        assert!(has_remote_mount_below(text.as_bytes(), "/"));
        assert_eq!(asked(text.as_bytes(), "/proc/self/stat"), Err(Errno::EXDEV));
        assert_eq!(asked(text.as_bytes(), "/"), Ok(()));
        // The root of a chroot is no mount point.
        let unlisted = b"22 1 0:1 / /proc rw - proc x rw\n";
        assert_eq!(open_in(unlisted, "/etc", OFlag::O_PATH, |it| it.is_local()).map(drop), Ok(()));
        let in_memory = open_in(unlisted, "/etc", OFlag::O_PATH, |it| it.is_memory());
        assert_eq!(in_memory.map(drop), Err(Errno::EXDEV));
        assert!(!has_remote_mount_below(b"22 1 0:1 / / rw - virtiofs x rw\n", "/"));
        assert!(has_remote_mount_below(b"22 1 0:1 / /net rw - autofs x rw\n", "/"));
    }

    #[test]
    fn path_below_a_remote_mount_is_not_in_memory() {
        let memory = |path| is_in_memory_by(TABLE, path);
        assert!(memory("/srv/farther/x.pid"));
        let below = [TABLE, b"34 30 0:43 / /srv/far/below rw - tmpfs tmpfs rw\n"].concat();
        assert!(mount_of(&below, "/srv/far/below/x.pid").is_some_and(|top| top.is_memory()));
        assert!(
            !is_in_memory_by(&below, "/srv/far/below/x.pid"),
            "its path leads through a remote mount"
        );
        assert!(!memory("/srv/far/x.pid") && !memory("/var/x.pid") && !memory("relative"));
    }
}
