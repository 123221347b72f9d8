//! What init does once, before the loop: find out what it is (a machine's PID 1, a
//! container's, a supervisor), and on a machine what nobody else can have done yet.
//!
//! Nothing here is fatal. What fails is said and gone on without. Files of the root
//! file system are read by a child ([`identity`]), never by PID 1.

mod mounts;
pub(crate) mod start;

use crate::base::clock;
use crate::base::log_level::Level;
use crate::base::mode::Mode;
use crate::output::console_log::Voice;
use crate::output::console_writer;
use crate::shutdown;
use crate::sys::{fault, process, terminal};
use nix::fcntl::{OFlag, open};
use nix::sys::reboot::set_cad_enabled;
use nix::sys::stat::Mode as FileMode;
use std::fmt;
use std::os::fd::AsFd;

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
        mounts::proc();
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
    let mut voice = if mode == Mode::Machine { Voice::console() } else { Voice::stderr() };
    voice.say(clock::now(), Level::Error, format_args!("cannot begin: {error}"));
    voice.flush();
    if mode == Mode::Machine {
        shutdown::park();
    }
    console_writer::finish();
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
        console_writer::finish();
    }));
}

/// An image that can not go on says why: nobody else will know.
pub(crate) fn last_word(mode: Mode, text: fmt::Arguments<'_>) {
    let mut voice = if mode == Mode::Machine { Voice::console() } else { Voice::stderr() };
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
    let mut wrong = mounts::all();
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
