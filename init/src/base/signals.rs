//! The meaning of signals to init. Handlers are installed with signal-hook's low-level
//! registration; they only write to the pipe of [`crate::sys::signal`].

use crate::base::retry::retry_now;
use crate::base::{Mode, token};
use crate::sys::signal::{self, FAULTS, LAST, SignalPipe};
use groundstate_units::machine::event::Shutdown;
use groundstate_units::unit::reaction::{Reaction, Reactions};
use mio::{Registry, Token};
use nix::sys::signal::Signal;
use std::io;

/// The first real-time signal of glibc; it reserves 32 and 33, see signal(7).
const RTMIN: i32 = 34;

/// A request made by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// SIGCHLD: a child has exited.
    Reap,
    /// SIGHUP.
    Reload,
    /// SIGUSR1.
    Sockets,
    /// RTMIN+3.
    Halt,
    /// SIGINT: Ctrl-Alt-Del, or Ctrl-C.
    Interrupt,
    /// SIGPWR: the power key, or the power supply.
    PowerKey,
    /// SIGWINCH: Alt-Up at a machine's console; elsewhere a resized terminal.
    KeyboardRequest,
    /// RTMIN+4.
    Poweroff,
    /// SIGTERM, RTMIN+5.
    Reboot,
    /// A signal without a meaning.
    Noted(i32),
    /// Any signal for the command of `init -- CMD`.
    Forward(i32),
}

impl Asked {
    /// The name and the configured reaction of a key of the machine, if this is one.
    pub(crate) fn key(self, reactions: &Reactions) -> Option<(&'static str, &Reaction)> {
        match self {
            Asked::Interrupt => Some(("Ctrl-Alt-Del", &reactions.ctrl_alt_del)),
            Asked::PowerKey => Some(("the power key", &reactions.power_key)),
            Asked::KeyboardRequest => Some(("Alt-Up", &reactions.keyboard_request)),
            Asked::Reap | Asked::Reload | Asked::Sockets | Asked::Noted(_) => None,
            Asked::Halt | Asked::Poweroff | Asked::Reboot | Asked::Forward(_) => None,
        }
    }

    /// The shutdown it requests by default, if any.
    pub(crate) fn end(self, mode: Mode) -> Option<Shutdown> {
        let how = match self {
            Asked::Reap | Asked::Reload | Asked::Sockets => return None,
            Asked::KeyboardRequest | Asked::Noted(_) | Asked::Forward(_) => return None,
            Asked::Halt => Shutdown::Halt,
            Asked::PowerKey | Asked::Poweroff => Shutdown::Poweroff,
            Asked::Interrupt | Asked::Reboot => Shutdown::Reboot,
        };
        Some(if mode == Mode::Machine { how } else { Shutdown::Exit(0) })
    }
}

/// The signals that request a shutdown.
pub(crate) fn shutdown_signals() -> impl Iterator<Item = i32> {
    let asks = |(_, asked): &(i32, Asked)| asked.end(Mode::Container).is_some();
    MEANINGS.into_iter().filter(asks).map(|(signal, _)| signal)
}

/// Raises the shutdown signals of this bit set again in this process. They are blocked and stay
/// pending.
pub(crate) fn raise_shutdown_signals(arrived: u64) {
    let own = nix::unistd::getpid();
    for signal in shutdown_signals().filter(|signal| arrived & signal::bit(*signal) != 0) {
        let _ = u8::try_from(signal).map(|signal| signal::kill(own, signal));
    }
}

/// The shutdown that this signal requests.
pub(crate) fn shutdown_by(signal: i32, mode: Mode) -> Option<Shutdown> {
    let (_, asked) = MEANINGS.into_iter().find(|(of, _)| *of == signal)?;
    asked.end(mode)
}

/// SIGPIPE is missing: it stays ignored, as the standard library sets it. A handler that writes to
/// a pipe without a reader would raise it again without end.
const MEANINGS: [(i32, Asked); 15] = [
    (libc::SIGCHLD, Asked::Reap),
    (libc::SIGHUP, Asked::Reload),
    (libc::SIGUSR1, Asked::Sockets),
    // busybox's reboot(8) sends it to PID 1.
    (libc::SIGTERM, Asked::Reboot),
    (RTMIN + 3, Asked::Halt),
    (libc::SIGINT, Asked::Interrupt),
    (libc::SIGPWR, Asked::PowerKey),
    (RTMIN + 4, Asked::Poweroff),
    (RTMIN + 5, Asked::Reboot),
    // busybox's poweroff(8) sends it to PID 1.
    (libc::SIGUSR2, Asked::Poweroff),
    (libc::SIGALRM, Asked::Noted(libc::SIGALRM)),
    (libc::SIGWINCH, Asked::KeyboardRequest),
    (libc::SIGQUIT, Asked::Noted(libc::SIGQUIT)),
    (libc::SIGTSTP, Asked::Noted(libc::SIGTSTP)),
    (libc::SIGVTALRM, Asked::Noted(libc::SIGVTALRM)),
];

/// Adds signals that have no meaning here but would kill a process without a handler: those of
/// limits, timers and descriptors, and all real-time ones. Also adds signals that a command may
/// get.
fn all_meanings() -> impl Iterator<Item = (i32, Asked)> {
    let deadly = [libc::SIGXCPU, libc::SIGPROF, libc::SIGIO, libc::SIGSTKFLT];
    // SIGURG is init's own (`sys/no_linger.rs`).
    let named = deadly.into_iter().chain([libc::SIGCONT]);
    let rest = named.chain(RTMIN..=i32::from(LAST));
    let has_meaning = |signal: &i32| MEANINGS.iter().any(|(of, _)| of == signal);
    let rest = rest.filter(move |signal| !has_meaning(signal));
    MEANINGS.into_iter().chain(rest.map(|signal| (signal, Asked::Noted(signal))))
}

/// The signal pipe, and whether the poll reported it.
pub(crate) struct Signals {
    pipe: SignalPipe,
    ready: bool,
}

impl Signals {
    /// Installs the handlers and leaves the signal mask as it is. Also returns the signals that
    /// failed, with the reason.
    pub(crate) fn listen(registry: &Registry) -> io::Result<(Signals, Vec<(i32, io::Error)>)> {
        let pipe = SignalPipe::create()?;
        token::watch(registry, pipe.descriptor(), token::SIGNALS)?;
        let deaf =
            |(number, _)| retry_now(|| pipe.listen(number)).err().map(|error| (number, error));
        // Without this, a file size limit imposed by another process would kill init with SIGXFSZ.
        let _ = signal::ignore(Signal::SIGXFSZ);
        let missing = all_meanings().filter_map(deaf).collect();
        Ok((Signals { pipe, ready: true }, missing))
    }

    /// Takes the signals that have arrived, as a bit set; they count as handled.
    pub(crate) fn take_arrived(&mut self) -> u64 {
        self.pipe.take()
    }

    /// Handles a readable token. Returns false if it is not the signal pipe's.
    pub(crate) fn readable(&mut self, token: Token) -> bool {
        let is_it = token == Token(token::SIGNALS);
        self.ready |= is_it;
        is_it
    }

    /// The requests since the last call, each once, however often the signal arrived. With
    /// `forwards` a command gets all signals but SIGCHLD.
    pub(crate) fn take(&mut self, forwards: bool) -> Vec<Asked> {
        if !std::mem::take(&mut self.ready) && !SignalPipe::has_arrived() {
            return Vec::new();
        }
        let arrived = self.pipe.take();
        let mut asked = Vec::new();
        for (signal, mut meaning) in all_meanings() {
            if forwards && meaning != Asked::Reap {
                meaning = Asked::Forward(signal);
            }
            if arrived & signal::bit(signal) != 0 && !asked.contains(&meaning) {
                asked.push(meaning);
            }
        }
        let faults = FAULTS.into_iter().map(|fault| fault as i32);
        let sent = faults.filter(|fault| arrived & signal::bit(*fault) != 0);
        asked.extend(sent.map(Asked::Noted));
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shutdown_signal_has_its_kind_of_shutdown() {
        let ends: Vec<(i32, Shutdown)> = shutdown_signals()
            .filter_map(|signal| Some((signal, shutdown_by(signal, Mode::Machine)?)))
            .collect();
        let (halt, off, reboot) = (Shutdown::Halt, Shutdown::Poweroff, Shutdown::Reboot);
        let all = [
            (libc::SIGTERM, reboot),
            (RTMIN + 3, halt),
            (libc::SIGINT, reboot),
            (libc::SIGPWR, off),
            (RTMIN + 4, off),
            (RTMIN + 5, reboot),
            (libc::SIGUSR2, off),
        ];
        assert_eq!(ends, all);
        assert_eq!(shutdown_by(RTMIN + 5, Mode::Container), Some(Shutdown::Exit(0)));
        assert_eq!(
            (shutdown_by(libc::SIGCHLD, Mode::Machine), shutdown_by(7, Mode::Machine)),
            (None, None)
        );
    }
}
