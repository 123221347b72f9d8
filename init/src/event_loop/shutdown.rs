//! The end of init: who asks for it, what it waits for, the emergency shell and the hardware watchdog.
//! The end itself is [`crate::shutdown`].

use crate::base::{Level, Mode, limit, procfs};
use crate::event_loop::Init;
use crate::output::parent_notify::Outer;
use crate::service::run_table::{Main, Running};
pub(crate) use crate::shutdown::End;
use crate::shutdown::Haste;
use crate::shutdown::watchdog::DEVICE;
use crate::sys::Pid;
use crate::sys::no_linger::close_without_linger;
use groundstate_units::control::place;
use groundstate_units::machine::event::{Event, RunId, Shutdown};
use groundstate_units::spec::Exit;
use groundstate_units::unit::reaction::Reaction;
use std::fs;

impl Init {
    /// Begins, or changes its mind about how: a reboot may become a poweroff.
    pub(crate) fn shut_down(&mut self, how: Shutdown) {
        self.settle();
        self.ending.begin(how, self.now);
        self.outer.say("STOPPING=1\nSTATUS=stopping\n");
        self.say(Level::Info, format_args!("{}", name(how, self.mode)));
        self.facts.push_back(Event::Shutdown(how));
        self.settle();
    }

    /// The keys at the keyboard, or SIGINT: the first time an end; each further time, a while after
    /// the one before, a step of haste.
    pub(crate) fn interrupted(&mut self, how: Shutdown) {
        match self.ending.heeds_from() {
            None => self.shut_down(how),
            Some(from) if from <= self.now => {
                let next = self.ending.next_haste();
                self.hasten(next);
            }
            Some(_) => {}
        }
    }

    /// An end under way is not waited for any more. False: there is none.
    pub(crate) fn hasten(&mut self, haste: Haste) -> bool {
        match self.ending.hasten(haste, self.now) {
            None => return false,
            Some(false) => return true,
            Some(true) => {}
        }
        if self.mode == Mode::Supervisor {
            // No namespace ends with init, and no kill(2) of everybody is its to send.
            let runs: Vec<RunId> = self.runs.iter().map(|(run, _)| run).collect();
            runs.into_iter().for_each(|run| self.tracker.kill(run));
        }
        match haste {
            Haste::Kill => {
                self.say(Level::Warning, format_args!("nothing is waited for any more"));
                self.units_are_down();
            }
            Haste::AtOnce => {
                let text = "at once: what is not written yet is lost";
                self.say(Level::Warning, format_args!("{text}"));
                self.ending.reach();
            }
        }
        true
    }

    /// The machine has nothing left to do. The logger writes what it has, then it is over.
    pub(crate) fn finish(&mut self, how: Shutdown) {
        // The machine knows how the end began; who asked last says how it ends.
        self.ending.asked_or(how);
        if self.ending.haste().is_none() {
            self.say(Level::Info, format_args!("every unit is down"));
        }
        self.units_are_down();
    }

    fn units_are_down(&mut self) {
        let now = self.now;
        if self.ending.logger_until().is_some() || self.ending.reached().is_some() {
            return;
        }
        if self.logger.as_mut().is_some_and(|logger| logger.finish(now)) {
            self.ending.await_logger(now);
        } else {
            self.ending.reach();
        }
    }

    /// At the end of each turn.
    pub(crate) fn look_at_ending(&mut self) {
        let Some(until) = self.ending.logger_until() else { return };
        let logger_is_gone = self.logger.as_ref().is_none_or(|logger| logger.pid().is_none());
        if (self.log_is_finished && logger_is_gone) || until <= self.now {
            self.ending.reach();
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

// What an end waits for, told every few seconds: unit, process, its state, since when, and which
// key ends the wait.

impl Init {
    /// When it is time, as long as units are waited for.
    pub(crate) fn name_blockers(&mut self) {
        if !self.ending.is_to_tell(self.now) {
            return;
        }
        let waited = self.ending.wait_to_tell(self.runs.len() > 0, self.now);
        let Some(waited) = waited.map(|waited| waited.as_secs()) else { return };
        let all: Vec<String> = self.runs.iter().map(|(_, running)| blocker(running)).collect();
        let reactions = &self.machine.generation().settings.reactions;
        let key = match (self.mode, &reactions.ctrl_alt_del) {
            (Mode::Machine, Reaction::Nothing) => "`initctl poweroff --force`",
            (Mode::Machine, Reaction::End(_) | Reaction::Goal(_)) => "Ctrl-Alt-Del",
            (Mode::Container | Mode::Supervisor, _) => "SIGINT",
        };
        for text in all.iter().take(limit::BLOCKERS_NAMED) {
            self.say(
                Level::Warning,
                format_args!("waiting for {waited} s for {text}; {key} ends the wait"),
            );
        }
        if let Some(more) = all.len().checked_sub(limit::BLOCKERS_NAMED).filter(|more| *more > 0) {
            self.say(Level::Warning, format_args!("… and for {more} more units"));
        }
    }
}

fn blocker(running: &Running) -> String {
    let name = &running.name;
    let pid = running.main.as_ref().map(Main::pid).or(running.current);
    let pid = pid.or_else(|| running.lines.first().map(|(pid, _)| *pid));
    let Some(pid) = pid.filter(|pid| *pid > 0) else { return name.to_string() };
    match procfs::shown(Pid::from_raw(pid)) {
        Some((command, state)) => format!("{name}: pid {pid} ({command}), {state}"),
        None => format!("{name}: what pid {pid} left"),
    }
}

impl Init {
    /// All is let go of but what the rest of the end needs.
    pub(crate) fn end_with(mut self, how: Shutdown) -> End {
        // What init made in the file system goes with it.
        if let Some(dir) = &self.paths.runtime_dir {
            // Not there: there was no logger.
            let _ = fs::remove_file(place::log_socket(dir));
        }
        let (haste, mode) = (self.ending.haste(), self.mode);
        let outer = std::mem::replace(&mut self.outer, Outer::at(None));
        let watchdog = self.watchdog.take();
        // Where this can not be armed, a crash executes the binary that was kept so far.
        std::mem::forget((self.images.binary.take(), self.images.previous.take()));
        let end = End::new(how, mode, outer, haste, watchdog);
        close_without_linger(move || {
            let whole = self;
            // The handlers stay, and write into their pipe, which keeps its reader.
            std::mem::forget(whole.signals);
        });
        end
    }
}

/// EX_SOFTWARE of sysexits(3): init can not do what it is for.
const STATUS: u8 = 70;

impl Init {
    /// Neither target can be had.
    pub(crate) fn emergency(&mut self) {
        let goal = self.machine.wish().goal.iter();
        let goal: Vec<String> =
            goal.map(|name| format!("{name}: {}", self.why_not(name))).collect();
        let settings = &self.machine.generation().settings;
        let emergency = &settings.emergency_target;
        let text = format!(
            "neither the goal ({}) nor the emergency target ({emergency}: {}) can be had; unit \
             directories: {}",
            goal.join(", "),
            self.why_not(emergency),
            self.paths.unit_dirs(settings).join(", ")
        );
        if self.mode != Mode::Machine {
            self.say(Level::Error, format_args!("{text}"));
            return self.shut_down(Shutdown::Exit(STATUS));
        }
        self.say(Level::Error, format_args!("{text}: a shell on the console"));
        self.emergency_shell();
    }

    /// Starts the shell; it comes back when it ends, until another goal is set.
    pub(crate) fn emergency_shell(&mut self) {
        if let Err(error) = self.shell.start(self.now) {
            self.say(Level::Error, format_args!("no shell on the console: {error}"));
        }
    }

    /// A child was reaped: true if it was the shell.
    pub(crate) fn shell_ended(&mut self, pid: Pid, exit: Exit) -> bool {
        let ended = self.shell.ended(pid, exit, self.now);
        if let Some(Err(why)) = ended {
            self.say(Level::Error, format_args!("no shell on the console: {why}"));
        }
        ended.is_some()
    }
}

impl Init {
    /// Opens the hardware watchdog as the settings have it.
    pub(crate) fn settle_watchdog(&mut self) {
        let Some(asked) = self.machine.generation().settings.watchdog else { return };
        if self.mode != Mode::Machine {
            return;
        }
        match self.watchdog.settle(asked, self.now) {
            Some(Ok(seconds)) => {
                let text = "the machine starts anew when init is stuck for";
                self.say(Level::Info, format_args!("{DEVICE}: {text} {seconds} s"));
            }
            Some(Err(error)) => {
                let level = if self.said.is_none() { Level::Warning } else { Level::Debug };
                self.say(level, format_args!("{DEVICE}: {error}"));
            }
            None => {}
        }
    }

    /// After a crash a device that was refused may be free by now. It counts down all the while.
    pub(crate) fn watchdog_due(&mut self) {
        if self.watchdog.is_due(self.now) {
            self.settle_watchdog();
        }
    }
}
