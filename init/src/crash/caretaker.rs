//! The caretaker: what init becomes when it has crashed and its state cannot be restored. Services keep
//! running. The caretaker reaps children, and a child of its own reads pipes that no logger reads
//! ([`crate::crash::pipe_drain`]). A machine's console gets the emergency shell. A signal that asks for an end still
//! stops all processes and ends the machine.
//!
//! The caretaker knows no units and guesses none: it starts, stops and restarts nothing. It does not feed
//! the hardware watchdog, so that a machine with a watchdog reboots.

use crate::base::clock;
use crate::base::limit;
use crate::base::log_level::Level;
use crate::base::mode::Mode;
use crate::base::paths::Paths;
use crate::base::signals;
use crate::crash::pipe_drain::Drain;
use crate::options::Options;
use crate::output::console_log::Voice;
use crate::output::parent_notify::Outer;
use crate::shutdown::End;
use crate::shutdown::emergency_shell::Shell;
use crate::sys::inherit;
use crate::sys::no_linger::impatiently;
use crate::sys::signal;
use crate::sys::socket::unix_name;
use crate::sys::wait;
use groundstate_units::control::place;
use groundstate_units::machine::event::Shutdown;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// Takes care of what runs until a signal asks for the end. `why`: there is no state to restore.
pub(crate) fn take_care(options: &Options, mode: Mode, why: &io::Error) -> End {
    let mut voice = Voice::of(mode, None);
    let text = "init has crashed and cannot restore its state: services keep running, \
                but init does not supervise them any more";
    let way = match mode {
        Mode::Machine | Mode::Container => "SIGTERM, SIGINT and SIGPWR end everything",
        Mode::Supervisor => "SIGTERM ends init alone",
    };
    voice.say(clock::now(), Level::Error, format_args!("{text} ({way}): {why}"));
    let mut shell = (mode == Mode::Machine).then(Shell::of_the_machine);
    voice.flush();
    let mut drain = Drain::of_the_rest(refuse_requests(options));
    let how = reap_until_asked(mode, &mut shell, &mut drain);
    End::new(how, mode, Outer::at(None), None, None)
}

/// Closes the control socket and its connections: clients fail at once instead of waiting for an answer.
/// Gives the notify socket, which must be read: a service waits in sendmsg(2) while its queue is full.
fn refuse_requests(options: &Options) -> Option<OwnedFd> {
    let (paths, _) = Paths::find(&options.paths);
    let dir = paths.runtime_dir?;
    let control = place::control_socket(&dir);
    let is_control = |socket: BorrowedFd<'_>| {
        unix_name(socket).is_some_and(|name| name.path() == Some(Path::new(&control)))
    };
    let closed = inherit::take_sockets(usize::MAX, is_control);
    impatiently(|| drop(closed));
    inherit::take_socket_at(&format!("{dir}/notify.sock"))
}

/// Signals are blocked first: those that PID 1 neither blocks nor handles, the kernel discards.
fn reap_until_asked(mode: Mode, shell: &mut Option<Shell>, drain: &mut Drain) -> Shutdown {
    let awaited = signal::Awaited::block(signals::of_an_end().chain([libc::SIGCHLD]));
    loop {
        while let Ok(Some(ended)) = wait::reap_any() {
            shell.iter_mut().for_each(|shell| shell.reaped(ended));
            drain.reaped(ended);
        }
        let is_settled = drain.turn() & shell.as_mut().is_none_or(Shell::turn);
        let until = if is_settled { Duration::MAX } else { limit::SHELL_PAUSE };
        match awaited.next(until) {
            Ok(signal) => {
                if let Some(how) = signals::end_by(signal, mode) {
                    return how;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Not to spin.
            Err(_) => clock::pause(Duration::from_millis(100)),
        }
    }
}
