//! The settings of a run's cgroup: finds the needed controllers, enables them from our own cgroup
//! down, and writes the files. Documentation/admin-guide/cgroup-v2.rst.
//!
//! Except for the root, a cgroup whose children have controllers may not contain processes ("no
//! internal processes"). If that concerns init, it moves to a cgroup of its own beside those of the
//! runs.

use super::group;
use crate::sys::Pid;
use groundstate_units::spec::{Cgroup, OomPolicy, Particular};
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmodat, fstat};
use nix::unistd::{FchownatFlags, Gid, Uid, fchownat};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;

/// The cgroup to which init moves.
pub(super) const OWN: &str = "init";

/// The settings that a run requests for its cgroup.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wish<'a> {
    /// The unit's settings, if any.
    pub(crate) particular: Option<&'a Particular>,
    /// The user that gets a delegated cgroup.
    pub(crate) owner: (Option<u32>, Option<u32>),
    /// True for a command of init beside the unit's main process.
    pub(crate) helper: bool,
}

impl Wish<'_> {
    fn cgroup(&self) -> Option<&Cgroup> {
        self.particular.map(|particular| &particular.cgroup)
    }

    /// The cgroups between ours and the run's.
    pub(super) fn slice(&self) -> &str {
        self.cgroup().map_or("", |cgroup| cgroup.slice.as_str())
    }

    /// Returns true if a limit that cannot be set is only reported.
    pub(super) fn is_lenient(&self) -> bool {
        self.particular.is_some_and(|particular| particular.lenient)
    }

    /// The cgroup files and their values.
    pub(super) fn settings(&self) -> Vec<(String, String)> {
        let Some(particular) = self.particular else { return Vec::new() };
        let mut settings = particular.cgroup.settings.clone();
        if particular.ending.oom_policy == OomPolicy::Kill {
            settings.push(("memory.oom.group".to_string(), "1".to_string()));
        }
        settings
    }

    pub(super) fn delegates(&self) -> bool {
        self.cgroup().is_some_and(|cgroup| cgroup.delegate)
    }

    /// Returns true if the cgroup has memory settings, so that OOM kills are watched.
    pub(super) fn counts_memory(&self) -> bool {
        self.settings().iter().any(|(file, _)| file.starts_with("memory."))
    }
}

/// The controllers of these files.
pub(super) fn needed(settings: &[(String, String)]) -> BTreeSet<&str> {
    settings.iter().filter_map(|(file, _)| file.split('.').next()).collect()
}

/// The controllers that are available.
pub(super) fn available(base: BorrowedFd<'_>) -> BTreeSet<String> {
    let text = group::read(base, "cgroup.controllers", 4096).unwrap_or_default();
    text.split_whitespace().map(str::to_string).collect()
}

/// Enables a controller for the children of `base`, of `own` and of each cgroup of `slice`.
pub(super) fn enable(
    base: BorrowedFd<'_>,
    own: &str,
    slice: &str,
    controller: &str,
) -> io::Result<()> {
    let mut path = own.to_string();
    let mut paths = vec![".".to_string(), path.clone()];
    for name in slice.split('/').filter(|name| !name.is_empty()) {
        path = format!("{path}/{name}");
        paths.push(path.clone());
    }
    for path in paths {
        let file = format!("{path}/cgroup.subtree_control");
        let on = group::read(base, &file, 4096)?;
        if on.split_whitespace().any(|one| one == controller) {
            continue;
        }
        let text = format!("+{controller}");
        if path == "." {
            make_room(base, own)?;
        }
        group::write(base, &file, &text)?;
    }
    Ok(())
}

/// Ensures that `base` contains no processes. While it does, the kernel refuses some controllers only.
/// Others, such as `pids`, would make `base` the root of a threaded subtree, and no process could
/// enter its children.
fn make_room(base: BorrowedFd<'_>, own: &str) -> io::Result<()> {
    // The root cgroup has no `cgroup.type`, and it may contain processes.
    let is_root = group::read(base, "cgroup.type", 64).is_err();
    if is_root || group::own_processes(base, ".").is_empty() {
        return Ok(());
    }
    step_aside(base, own)?;
    match group::own_processes(base, ".").is_empty() {
        true => Ok(()),
        false => Err(Errno::EBUSY.into()),
    }
}

/// Moves init and its helpers out of `base`, so that its child cgroups may have controllers. PID 1
/// moves all processes in it, because all are its own.
fn step_aside(base: BorrowedFd<'_>, own: &str) -> io::Result<()> {
    let name = format!("{own}/{OWN}");
    if let Err(error) = group::make(base, &name)
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(error);
    }
    let init = nix::unistd::getpid();
    let is_ours = |pid: &i32| {
        let stat = crate::base::procfs::stat(Pid::from_raw(*pid));
        init.as_raw() == 1
            || *pid == init.as_raw()
            || stat.is_some_and(|stat| stat.parent == init.as_raw())
    };
    let procs = format!("{name}/cgroup.procs");
    for pid in group::own_processes(base, ".").iter().filter(|pid| is_ours(pid)) {
        match group::write(base, &procs, &pid.to_string()) {
            // The process has exited.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            written => written?,
        }
    }
    Ok(())
}

/// Writes one setting of the cgroup `name`.
pub(super) fn set(parent: BorrowedFd<'_>, name: &str, file: &str, text: &str) -> io::Result<()> {
    group::write(parent, &format!("{name}/{file}"), &resolved(file, text)?)
}

/// Converts percentages of the machine's resources and paths of disks to numbers.
fn resolved(file: &str, text: &str) -> io::Result<String> {
    if let Some(percentage) = text.strip_suffix('%') {
        let whole = if file.starts_with("memory.") { machine_memory()? } else { max_processes()? };
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        let hundredths = hundredths(percentage).ok_or_else(invalid)?;
        let part = u128::from(whole) * u128::from(hundredths) / 10_000;
        return Ok(part.to_string());
    }
    if let Some((path, rest)) = text.split_once(' ')
        && path.starts_with('/')
    {
        let (major, minor) = numbers(path)?;
        return Ok(format!("{major}:{minor} {rest}"));
    }
    Ok(text.to_string())
}

fn hundredths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let scale = if fraction.len() == 1 { 10 } else { 1 };
    whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(fraction.parse::<u64>().ok()? * scale)
}

fn first_number(text: &str) -> io::Result<u64> {
    let number = text.split_whitespace().find_map(|word| word.parse().ok());
    number.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODATA))
}

/// The machine's memory in bytes.
pub(crate) fn machine_memory() -> io::Result<u64> {
    Ok(first_number(&std::fs::read_to_string("/proc/meminfo")?)?.saturating_mul(1024))
}

/// The highest number of processes of the machine.
pub(super) fn max_processes() -> io::Result<u64> {
    first_number(&std::fs::read_to_string("/proc/sys/kernel/pid_max")?)
}

/// Lets the unit's user create cgroups below its own.
pub(super) fn hand_over(
    parent: BorrowedFd<'_>,
    name: &str,
    owner: (Option<u32>, Option<u32>),
) -> io::Result<()> {
    let (uid, gid) = (owner.0.map(Uid::from_raw), owner.1.map(Gid::from_raw));
    if uid.is_none() && gid.is_none() {
        return Ok(());
    }
    for file in ["", "/cgroup.procs", "/cgroup.threads", "/cgroup.subtree_control"] {
        let path = format!("{name}{file}");
        fchownat(parent, path.as_str(), uid, gid, FchownatFlags::AT_SYMLINK_NOFOLLOW)?;
    }
    // Init kills and removes them in one turn of the loop, so their number must be limited.
    group::write(parent, &format!("{name}/cgroup.max.descendants"), &group::NESTED.to_string())?;
    let directory = Mode::from_bits_truncate(0o755);
    fchmodat(parent, name, directory, FchmodatFlags::FollowSymlink)?;
    Ok(())
}

/// The number of OOM kills in the cgroup.
pub(super) fn oom_kills(parent: BorrowedFd<'_>, name: &str) -> u64 {
    let text = group::read(parent, &format!("{name}/memory.events"), 4096).unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}

// Disks: a path in /dev for I/O limits

/// The device numbers of a disk in /dev. The path may not leave that file system, which is in
/// memory: PID 1 would block on a dead one. EXDEV means that it leads elsewhere.
pub(super) fn numbers(path: &str) -> io::Result<(u32, u32)> {
    let below = path.strip_prefix("/dev/").ok_or(Errno::EXDEV)?;
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let devices = open("/dev", flags | OFlag::O_DIRECTORY, Mode::empty())?;
    let within = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_XDEV;
    let found = openat2(&devices, below, OpenHow::new().flags(flags).resolve(within))?;
    let about = fstat(&found)?;
    let kind = SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT;
    if kind != SFlag::S_IFBLK {
        return Err(Errno::ENOTBLK.into());
    }
    Ok((libc::major(about.st_rdev), libc::minor(about.st_rdev)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup_settings_name_their_controllers() {
        let setting = |file: &str| (file.to_string(), "1".to_string());
        let settings =
            ["memory.max", "memory.high", "pids.max", "cpu.idle", "cpuset.cpus"].map(setting);
        let needed: Vec<&str> = needed(&settings).into_iter().collect();
        assert_eq!(needed, ["cpu", "cpuset", "memory", "pids"]);
    }

    #[test]
    fn percentages_are_converted_by_the_resources_of_the_machine() {
        let whole = machine_memory().unwrap();
        let half: u64 = resolved("memory.max", "50%").unwrap().parse().unwrap();
        assert!(half.abs_diff(whole / 2) <= 1);
        let tenth: u64 = resolved("pids.max", "12.5%").unwrap().parse().unwrap();
        assert_eq!(tenth, max_processes().unwrap() / 8);
        assert_eq!(resolved("memory.max", "max").unwrap(), "max");
        assert_eq!(resolved("io.max", "8:0 wbps=1").unwrap(), "8:0 wbps=1");
    }

    #[test]
    fn disk_path_outside_dev_is_refused() {
        let refused = |path: &str| numbers(path).unwrap_err().raw_os_error();
        assert_eq!(refused("/dev/null"), Some(libc::ENOTBLK));
        for elsewhere in ["/tmp/disk", "/dev/../tmp", "/dev/fd/0"] {
            assert_eq!(refused(elsewhere), Some(libc::EXDEV), "{elsewhere}");
        }
    }
}
