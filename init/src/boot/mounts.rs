//! The file systems of a machine that no unit can mount: without them there is
//! nothing to run a unit with. Each only where nothing is mounted yet.

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

struct Wanted {
    at: &'static str,
    kind: &'static str,
    flags: MsFlags,
    data: &'static str,
}

const fn strict() -> MsFlags {
    MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV).union(MsFlags::MS_NOEXEC)
}

const PROC: Wanted = Wanted { at: "/proc", kind: "proc", flags: strict(), data: "" };

const ALL: [Wanted; 7] = [
    PROC,
    Wanted { at: "/sys", kind: "sysfs", flags: strict(), data: "" },
    Wanted { at: "/dev", kind: "devtmpfs", flags: MsFlags::MS_NOSUID, data: "mode=755" },
    Wanted {
        at: "/dev/pts",
        kind: "devpts",
        flags: MsFlags::MS_NOSUID.union(MsFlags::MS_NOEXEC),
        data: "mode=620,gid=5,ptmxmode=666",
    },
    Wanted {
        at: "/dev/shm",
        kind: "tmpfs",
        flags: MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV),
        data: "mode=1777",
    },
    Wanted {
        at: "/run",
        kind: "tmpfs",
        flags: MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV),
        data: "mode=755",
    },
    Wanted { at: "/sys/fs/cgroup", kind: "cgroup2", flags: strict(), data: "nsdelegate" },
];

/// All of them, in order. What failed comes back, a sentence each.
pub(super) fn all() -> Vec<String> {
    ALL.iter().filter_map(|wanted| wanted.mount().err()).collect()
}

/// /proc alone, where it can be had.
pub(super) fn proc() {
    // What can not be mounted is seen by who looks into it.
    let _ = PROC.mount();
}

impl Wanted {
    fn mount(&self) -> Result<(), String> {
        if is_mount_point(Path::new(self.at)) {
            return Ok(());
        }
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            Err(format!("cannot {what} {}: {error}", self.at))
        };
        match std::fs::create_dir(self.at) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return failed("make", &error),
        }
        let (kind, data) = (Some(self.kind), Some(self.data).filter(|data| !data.is_empty()));
        match mount(kind, self.at, kind, self.flags, data) {
            Ok(()) | Err(Errno::EBUSY) => Ok(()),
            // Older kernels do not know every option.
            Err(Errno::EINVAL) if data.is_some() => {
                match mount(kind, self.at, kind, self.flags, None::<&str>) {
                    Ok(()) => Ok(()),
                    Err(error) => failed("mount", &error),
                }
            }
            Err(error) => failed("mount", &error),
        }
    }
}

/// It is on another device than its parent, as the root of each mounted file system is.
fn is_mount_point(path: &Path) -> bool {
    let device = |path: &Path| std::fs::symlink_metadata(path).map(|data| data.dev()).ok();
    match (device(path), path.parent().and_then(device)) {
        (Some(own), Some(parent)) => own != parent,
        _ => false,
    }
}
