//! Signals as readable pipes, by signal-hook's low-level registration. Handlers only
//! write a byte; what a signal means is decided by who reads.

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::{pipe2, read};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// glibc's first real-time signal: the kernel's 32 and 33 are its own, see signal(7).
const RTMIN: i32 = 34;

/// What somebody asks of init by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// SIGCHLD: a child has ended.
    Reap,
    /// SIGHUP.
    Reload,
    /// SIGUSR1.
    Sockets,
    /// SIGTERM, RTMIN+3.
    Halt,
    /// SIGINT: Ctrl-Alt-Del, or Ctrl-C.
    Interrupt,
    /// SIGPWR, RTMIN+4.
    Poweroff,
    /// RTMIN+5.
    Reboot,
    /// A signal that means nothing here.
    Noted(i32),
}

/// SIGPIPE is not among them: it stays ignored, as the standard library leaves it. A handler
/// that writes to a pipe nobody reads would raise it again, for ever.
const MEANINGS: [(i32, Asked); 15] = [
    (libc::SIGCHLD, Asked::Reap),
    (libc::SIGHUP, Asked::Reload),
    (libc::SIGUSR1, Asked::Sockets),
    (libc::SIGTERM, Asked::Halt),
    (RTMIN + 3, Asked::Halt),
    (libc::SIGINT, Asked::Interrupt),
    (libc::SIGPWR, Asked::Poweroff),
    (RTMIN + 4, Asked::Poweroff),
    (RTMIN + 5, Asked::Reboot),
    (libc::SIGUSR2, Asked::Noted(libc::SIGUSR2)),
    (libc::SIGALRM, Asked::Noted(libc::SIGALRM)),
    (libc::SIGWINCH, Asked::Noted(libc::SIGWINCH)),
    (libc::SIGQUIT, Asked::Noted(libc::SIGQUIT)),
    (libc::SIGTSTP, Asked::Noted(libc::SIGTSTP)),
    (libc::SIGVTALRM, Asked::Noted(libc::SIGVTALRM)),
];

struct Listened {
    token: Token,
    pipe: OwnedFd,
    asked: Asked,
    ready: bool,
}

/// The pipes.
pub(crate) struct Signals {
    listened: Vec<Listened>,
}

impl Signals {
    /// Listens; tokens are taken from `first` on. A signal that can not be had is
    /// left out: returned with the reason.
    pub(crate) fn listen(registry: &Registry, first: usize) -> (Signals, Vec<(i32, io::Error)>) {
        let mut listened = Vec::new();
        let mut missing = Vec::new();
        for (at, (signal, asked)) in MEANINGS.into_iter().enumerate() {
            let token = Token(first.saturating_add(at));
            match Signals::one(registry, token, signal) {
                Ok(pipe) => listened.push(Listened { token, pipe, asked, ready: true }),
                Err(error) => missing.push((signal, error)),
            }
        }
        // Whoever started us may have had signals blocked, and blocking survives an exec.
        crate::sys::signal::unblock_all();
        (Signals { listened }, missing)
    }

    fn one(registry: &Registry, token: Token, signal: i32) -> io::Result<OwnedFd> {
        let (read_end, write_end) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        registry.register(&mut SourceFd(&read_end.as_raw_fd()), token, Interest::READABLE)?;
        signal_hook::low_level::pipe::register(signal, write_end)?;
        Ok(read_end)
    }

    /// The poll says this token is readable; false when it is none of ours.
    pub(crate) fn readable(&mut self, token: Token) -> bool {
        match self.listened.iter_mut().find(|one| one.token == token) {
            Some(one) => {
                one.ready = true;
                true
            }
            None => false,
        }
    }

    /// What was asked since the last call, each once however often the signal came.
    pub(crate) fn take(&mut self) -> Vec<Asked> {
        let mut asked = Vec::new();
        for one in &mut self.listened {
            if std::mem::take(&mut one.ready) && drain(&one.pipe) && !asked.contains(&one.asked) {
                asked.push(one.asked);
            }
        }
        asked
    }
}

/// Empties the pipe; true when there was something in it.
fn drain(pipe: &OwnedFd) -> bool {
    let mut some = false;
    let mut bytes = [0u8; 4096];
    // A pipe holds 64 KiB: it is empty after 16 reads, or the rest says the same again.
    for _ in 0..32 {
        match read(pipe, &mut bytes) {
            Ok(0) => break,
            Ok(_) => some = true,
            Err(Errno::EINTR) => {}
            Err(_) => break,
        }
    }
    some
}
