//! Duties before the loop: finds the mode of init (PID 1 of a machine, PID 1 of a container, or a
//! supervisor) and prepares a machine.
//!
//! No failure here is fatal: init reports it and continues. A child reads the files of the root
//! file system ([`crate::loader::identity`]), never PID 1.

use crate::base::{Level, Mode, clock};
use crate::output::console_log;
use crate::output::console_log::ConsoleLog;
use crate::shutdown;
use crate::sys::{device, fault, process};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::set_cad_enabled;
use nix::sys::stat::Mode as FileMode;
use std::fmt;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Inode of the initial pid namespace: PROC_PID_INIT_INO of the kernel's proc_ns.h.
const INITIAL_PIDS: &str = "pid:[4026531836]";

/// Finds the mode by the pid, `--container` and the pid namespace. Mounts /proc if it is missing,
/// because only /proc tells the two kinds of PID 1 apart.
pub(crate) fn find_mode(container: bool) -> Mode {
    if std::process::id() != 1 {
        return Mode::Supervisor;
    }
    if container {
        return Mode::Container;
    }
    let pids = || std::fs::read_link("/proc/self/ns/pid").ok();
    let found = pids().or_else(|| {
        // A failure shows when /proc is read.
        let _ = PROC.mount();
        pids()
    });
    match found {
        Some(pids) if pids.as_os_str() == INITIAL_PIDS => Mode::Machine,
        // Without /proc, init must be in a restricted container.
        Some(_) | None => Mode::Container,
    }
}

/// Ends a start that failed for lack of memory or descriptors. PID 1 of a machine must not exit,
/// because the kernel would panic.
pub(crate) fn end_failed_start(mode: Mode, error: &std::io::Error) -> std::process::ExitCode {
    log_fatal(mode, format_args!("cannot start: {error}"));
    if mode == Mode::Machine {
        shutdown::park();
    }
    console_log::finish();
    std::process::ExitCode::from(70)
}

/// Installs the panic hook. It logs one line without waiting for a reader and without a backtrace,
/// whatever RUST_BACKTRACE says. Then it executes the fallback image, if one is armed. It does so
/// in the hook, before unwinding closes inherited descriptors.
pub(crate) fn install_panic_hook(mode: Mode) {
    std::panic::set_hook(Box::new(move |panic| {
        log_fatal(mode, format_args!("{panic}"));
        fault::by_panic();
        // No fallback image is armed.
        console_log::finish();
    }));
}

/// Logs why an image cannot continue, synchronously.
pub(crate) fn log_fatal(mode: Mode, text: fmt::Arguments<'_>) {
    let mut voice =
        if mode == Mode::Machine { ConsoleLog::console() } else { ConsoleLog::stderr() };
    voice.say(clock::now(), Level::Error, text);
    voice.flush();
}

/// Performs the duties of the mode. Returns a message for each failure.
pub(crate) fn duties(mode: Mode) -> Vec<String> {
    let mut wrong = match mode {
        Mode::Machine => machine(),
        Mode::Container => Vec::new(),
        Mode::Supervisor => process::set_child_subreaper(true)
            .err()
            .map(|error| format!("cannot become the subreaper of orphans: {error}"))
            .into_iter()
            .collect(),
    };
    if crate::base::procfs::is_proc_of_others() {
        wrong.push("ignoring /proc: it belongs to another pid namespace".to_string());
    }
    wrong
}

fn machine() -> Vec<String> {
    let mut wrong: Vec<String> = ALL.iter().filter_map(|wanted| wanted.mount().err()).collect();
    let mut note = |what: &str, done: std::io::Result<()>| {
        if let Err(error) = done {
            wrong.push(format!("{what}: {error}"));
        }
    };
    note("cannot bring up the loopback device", device::loopback_up());
    note(
        "cannot take over Ctrl-Alt-Del from the kernel",
        set_cad_enabled(false).map_err(Into::into),
    );
    // Senders of READY=1 block when more messages than this are unread; the kernel's default is 10.
    let queue = std::fs::write("/proc/sys/net/unix/max_dgram_qlen", "512");
    note("cannot set net.unix.max_dgram_qlen", queue);
    let how = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    // A machine without a virtual console has no such key.
    if let Ok(console) = open("/dev/tty0", how, FileMode::empty()) {
        let signal = u8::try_from(libc::SIGWINCH).unwrap_or(28);
        note("cannot handle Alt-Up", device::accept_keyboard_request(console.as_fd(), signal));
    }
    wrong
}

// File systems that must be mounted before any unit can run. Each is mounted only if its path is
// not a mount point yet.

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
            Err(error) => return failed("create", &error),
        }
        let (kind, data) = (Some(self.kind), Some(self.data).filter(|data| !data.is_empty()));
        match mount(kind, self.at, kind, self.flags, data) {
            Ok(()) | Err(Errno::EBUSY) => Ok(()),
            Err(error) => failed("mount", &error),
        }
    }
}

/// Returns true if the path is on another device than its parent, as the root of each mounted file
/// system is.
fn is_mount_point(path: &Path) -> bool {
    let device = |path: &Path| std::fs::symlink_metadata(path).map(|data| data.dev()).ok();
    match (device(path), path.parent().and_then(device)) {
        (Some(own), Some(parent)) => own != parent,
        _ => false,
    }
}
