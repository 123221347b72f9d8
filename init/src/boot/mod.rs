//! What init does once, before the loop: find out what it is (a machine's PID 1, a
//! container's, a supervisor), and on a machine what nobody else can have done yet.
//!
//! Nothing here is fatal. What fails is said and gone on without. Files of the root
//! file system are read by a child ([`crate::loader::identity`]), never by PID 1.

use crate::base::Level;
use crate::base::Mode;
use crate::base::clock;
use crate::output::console_log;
use crate::output::console_log::ConsoleLog;
use crate::shutdown;
use crate::sys::{fault, process, terminal};
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

/// By pid, `--container`, and the pid namespace. Mounts /proc where there is none:
/// without it the two PID 1s can not be told apart.
pub(crate) fn find_mode(container: bool) -> Mode {
    if std::process::id() != 1 {
        return Mode::Supervisor;
    }
    if container {
        return Mode::Container;
    }
    let pids = || std::fs::read_link("/proc/self/ns/pid").ok();
    let found = pids().or_else(|| {
        proc();
        pids()
    });
    match found {
        Some(pids) if pids.as_os_str() == INITIAL_PIDS => Mode::Machine,
        Some(_) => Mode::Container,
        None if std::env::var_os("container").is_some() => Mode::Container,
        // Not even /proc can be had: only a container is that poor.
        None => Mode::Container,
    }
}

/// Without memory or descriptors there is no init. PID 1 of a machine stays all the same:
/// the kernel would panic without a word.
pub(crate) fn impossible(mode: Mode, error: &std::io::Error) -> std::process::ExitCode {
    let mut voice =
        if mode == Mode::Machine { ConsoleLog::console() } else { ConsoleLog::stderr() };
    voice.say(clock::now(), Level::Error, format_args!("cannot begin: {error}"));
    voice.flush();
    if mode == Mode::Machine {
        shutdown::park();
    }
    console_log::finish();
    std::process::ExitCode::from(70)
}

/// A panic is one line, and never waits for whoever reads it: no backtrace, whatever the
/// environment (on a machine: the kernel command line) says. Then the next image goes on, where
/// one is armed: here, for what it is handed is closed by the unwinding that would follow.
pub(crate) fn hush_panics(mode: Mode) {
    std::panic::set_hook(Box::new(move |panic| {
        last_word(mode, format_args!("{panic}"));
        fault::by_panic();
        // Nobody goes on.
        console_log::finish();
    }));
}

/// An image that can not go on says why: nobody else will know.
pub(crate) fn last_word(mode: Mode, text: fmt::Arguments<'_>) {
    let mut voice =
        if mode == Mode::Machine { ConsoleLog::console() } else { ConsoleLog::stderr() };
    voice.say(clock::now(), Level::Error, text);
    voice.flush();
}

/// The first duties. What could not be done comes back, a sentence each.
pub(crate) fn duties(mode: Mode) -> Vec<String> {
    let mut wrong = match mode {
        Mode::Machine => machine(),
        Mode::Container => Vec::new(),
        Mode::Supervisor => process::become_subreaper()
            .err()
            .map(|error| format!("orphans of units will not come here: {error}"))
            .into_iter()
            .collect(),
    };
    if crate::base::procfs::is_proc_of_others() {
        let what = "the /proc here is of another pid namespace: it is not looked at";
        wrong.push(what.to_string());
    }
    wrong
}

fn machine() -> Vec<String> {
    let mut wrong = all();
    let mut note = |what: &str, done: std::io::Result<()>| {
        if let Err(error) = done {
            wrong.push(format!("{what}: {error}"));
        }
    };
    note("cannot bring the loopback device up", terminal::loopback_up());
    note("Ctrl-Alt-Del stays with the kernel", set_cad_enabled(false).map_err(Into::into));
    // Senders of READY=1 wait when more than this are unread; the kernel's default is 10.
    let queue = std::fs::write("/proc/sys/net/unix/max_dgram_qlen", "512");
    note("net.unix.max_dgram_qlen stays as it is", queue);
    let how = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    // Machines without a virtual console have no such key.
    if let Ok(console) = open("/dev/tty0", how, FileMode::empty()) {
        let signal = u8::try_from(libc::SIGWINCH).unwrap_or(28);
        note(
            "Alt-Up is not listened to",
            terminal::accept_keyboard_request(console.as_fd(), signal),
        );
    }
    wrong
}

// The file systems of a machine that no unit can mount: without them there is
// nothing to run a unit with. Each only where nothing is mounted yet.

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
fn all() -> Vec<String> {
    ALL.iter().filter_map(|wanted| wanted.mount().err()).collect()
}

/// /proc alone, where it can be had.
fn proc() {
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
