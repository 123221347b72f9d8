//! The end: what happens once every unit is down, or the deadline has passed.
//!
//! On a machine the rest is killed, disks are synced and unmounted by a child with a
//! deadline, and the kernel is told. Elsewhere init removes what it made and ends
//! with a status. The order in which units stop is the machine's.

use crate::boot::Mode;
use crate::clock;
use crate::event_loop::Init;
use crate::journal::notes::{Kind, Wished};
use crate::limit;
use crate::outer::Outer;
use crate::rest;
use crate::sys::{notes, process, signal, wait};
use crate::voice::Level;
use groundstate_units::generation::Generation;
use groundstate_units::machine::event::{Event, Shutdown};
use groundstate_units::time::Time;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::signal::{SigSet, Signal};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::time::Duration;

/// How far the end is.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ending {
    /// Asked for.
    asked: Option<Shutdown>,
    /// All units are down; the logger has until then to finish.
    logger_until: Option<Time>,
    /// Now.
    reached: Option<Shutdown>,
}

impl Ending {
    /// init ends, this way.
    pub(crate) fn reached(&self) -> Option<Shutdown> {
        self.reached
    }

    /// It has been asked for.
    pub(crate) fn is_under_way(&self) -> bool {
        self.asked.is_some()
    }

    /// When the wait for the logger is over.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.logger_until
    }
}

const KILL: u8 = 9;

impl Init {
    /// Init whose end is to be that of nobody's target goes on for ever: that is said.
    pub(crate) fn mind_exit_with(&mut self, generation: &Generation) {
        let Some(name) = &generation.settings.exit_with else { return };
        let target = generation.find_target(name.as_str()).and_then(|id| generation.target(id));
        let provided = target.is_some_and(|target| !target.candidates.is_empty());
        if !provided && generation.find_unit(name.as_str()).is_none() {
            let what = "nobody provides it, so nothing ends init by itself";
            self.say(Level::Warning, format_args!("exit-with {name}: {what}"));
        }
    }

    /// Begins, or changes its mind about how: a reboot may become a poweroff.
    pub(crate) fn shut_down(&mut self, how: Shutdown) {
        self.settle();
        if let Ok(text) = postcard::to_allocvec(&Wished::End(how)) {
            notes::put_text(Kind::Wished, &text);
        }
        self.ending.asked = Some(how);
        self.outer.say("STOPPING=1\nSTATUS=stopping\n");
        self.say(Level::Info, format_args!("{}", name(how, self.mode)));
        self.facts.push_back(Event::Shutdown(how));
        self.settle();
    }

    /// The machine has nothing left to do. The logger writes what it has, then it is over.
    pub(crate) fn finish(&mut self, how: Shutdown) {
        // The machine knows how the end began; who asked last says how it ends.
        let how = *self.ending.asked.get_or_insert(how);
        let now = self.now;
        self.say(Level::Info, format_args!("every unit is down"));
        if self.logger.as_mut().is_some_and(|logger| logger.finish(now)) {
            self.ending.logger_until = Some(now.after(limit::LOGGER_FINISH));
        } else {
            self.ending.reached = Some(how);
        }
    }

    /// At the end of each turn.
    pub(crate) fn look_at_ending(&mut self) {
        let Some(until) = self.ending.logger_until else { return };
        let logger_is_gone = self.logger.as_ref().is_none_or(|logger| logger.pid().is_none());
        if (self.log_is_finished && logger_is_gone) || until <= self.now {
            self.ending.reached = self.ending.asked;
        }
    }
}

fn name(how: Shutdown, mode: Mode) -> &'static str {
    match how {
        _ if mode != Mode::Machine => "stopping everything",
        Shutdown::Poweroff => "powering off",
        Shutdown::Reboot => "rebooting",
        Shutdown::Halt => "halting",
        Shutdown::Exit(_) => "ending",
    }
}

/// What is left to do when the loop is over.
pub(crate) struct End {
    /// How.
    pub(crate) how: Shutdown,
    /// What init is.
    pub(crate) mode: Mode,
    /// Who wants to know.
    pub(crate) outer: Outer,
}

impl End {
    /// Does it; comes back with the exit status where init is not a machine's.
    pub(crate) fn carry_out(&mut self) -> u8 {
        let code = match self.how {
            Shutdown::Exit(code) => code,
            Shutdown::Poweroff | Shutdown::Reboot | Shutdown::Halt => 0,
        };
        self.outer.say(&format!("EXIT_STATUS={code}\nSTATUS=stopped\n"));
        self.outer.finish();
        if self.mode != Mode::Machine {
            if self.mode == Mode::Container {
                // What no unit knows of ends with PID 1 in any case: it is asked first.
                kill_rest(Duration::from_millis(200));
            }
            return code;
        }
        kill_rest(Duration::from_secs(2));
        console("unmounting file systems");
        unmount_with_deadline();
        let mode = match self.how {
            Shutdown::Reboot => RebootMode::RB_AUTOBOOT,
            Shutdown::Halt => RebootMode::RB_HALT_SYSTEM,
            Shutdown::Poweroff | Shutdown::Exit(_) => RebootMode::RB_POWER_OFF,
        };
        let Err(error): nix::Result<Infallible> = reboot(mode);
        console(&format!("the kernel refuses: {error}"));
        park()
    }
}

/// Asks every process there is to end, then makes it. A child does it; where that one is held
/// up itself, nobody is asked and nobody spared any more.
fn kill_rest(patience: Duration) {
    let work = || {
        rest::end(patience);
        0
    };
    for _ in 0..limit::REAPS_A_TURN {
        if !matches!(wait::reap_any(), Ok(Some(_))) {
            break;
        }
    }
    let asked = signal::kill_everybody(0);
    if asked.is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH)) {
        // Nobody is left.
        return;
    }
    let Ok(child) = process::fork(&[], work) else { return kill_all() };
    let until = clock::now().after(patience.saturating_add(limit::KILL_REST));
    while clock::now() < until {
        match wait::reap_any() {
            Ok(Some(ended)) if ended.pid == child => return,
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
    kill_all();
}

fn kill_all() {
    // Refused: there is nobody left.
    if signal::kill_everybody(KILL).is_ok() {
        reap_for(Duration::from_millis(500));
    }
}

/// Reaps until no child is left, or the time is over.
fn reap_for(patience: Duration) {
    let until = clock::now().after(patience);
    while clock::now() < until {
        match wait::reap_any() {
            Ok(Some(_)) => {}
            Ok(None) if signal::kill_everybody(0).is_err() => return,
            Ok(None) | Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Sync and unmount in a child: a dead disk holds the child, not the end.
fn unmount_with_deadline() {
    let Ok(child) = process::fork(&[], || {
        nix::unistd::sync();
        unmount_all();
        nix::unistd::sync();
        0
    }) else {
        return;
    };
    let until = clock::now().after(limit::FINAL_SYNC);
    while clock::now() < until {
        match wait::reap(child) {
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Ok(Some(_)) | Err(_) => return,
        }
    }
    console("not all file systems could be synced in time");
}

/// From the last mounted to the first; what is busy is made read-only.
fn unmount_all() {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points: Vec<&str> = table.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    for point in points.iter().rev() {
        let api = ["/proc", "/sys", "/dev", "/run"];
        if api.iter().any(|kept| point == kept || point.starts_with(&format!("{kept}/"))) {
            continue;
        }
        let point = unescape(point);
        if point == "/" || umount2(point.as_str(), MntFlags::empty()).is_err() {
            let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
            // Busy for writing: the sync has been done.
            let _ = mount(None::<&str>, point.as_str(), None::<&str>, flags, None::<&str>);
        }
    }
}

/// `\040` and the like of /proc/self/mounts, see proc_pid_mounts(5).
fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
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
    String::from_utf8_lossy(&bytes).into_owned()
}

fn console(text: &str) {
    crate::voice::Voice::console().say(clock::now(), Level::Info, format_args!("{text}"));
}

/// PID 1 of a machine never ends: the kernel would panic.
pub(crate) fn park() -> ! {
    loop {
        reap_for(Duration::from_secs(1));
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Reaps, and does nothing else, until a signal asks for the end. Signals are blocked when this is
/// called: those of PID 1 that are not, and that nobody handles, the kernel throws away.
pub(crate) fn reap_until_asked() -> Shutdown {
    let mut awaited = SigSet::empty();
    let all = [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGPWR];
    all.into_iter().for_each(|signal| awaited.add(signal));
    // Blocked already after a crash.
    let _ = awaited.thread_block();
    loop {
        while matches!(wait::reap_any(), Ok(Some(_))) {}
        match awaited.wait() {
            Ok(Signal::SIGTERM) => return Shutdown::Halt,
            Ok(Signal::SIGINT) => return Shutdown::Reboot,
            Ok(Signal::SIGPWR) => return Shutdown::Poweroff,
            Ok(_) => {}
            // Not to spin.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_with_a_space_is_read_as_it_is() {
        assert_eq!(unescape(r"/mnt/a\040b\134c"), r"/mnt/a b\c");
        assert_eq!(unescape(r"/plain\"), r"/plain\");
    }
}
