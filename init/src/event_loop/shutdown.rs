//! The end of init: who asks for it, what it waits for, the emergency shell and the hardware watchdog.
//! The end itself is [`crate::shutdown`].

use crate::base::kernel_cmdline::KernelLine;
use crate::base::{Level, Mode, limit, procfs};
use crate::event_loop::Init;
use crate::output::parent_notify::Outer;
use crate::service::run_table::{Main, Running};
pub(crate) use crate::shutdown::End;
use crate::shutdown::Haste;
use crate::shutdown::emergency_shell::{CONSOLE, NO_PROGRAM, begin, programs, why_none};
use crate::shutdown::watchdog::{DEVICE, Watch, Watchdog, again};
use crate::sys::Pid;
use crate::sys::no_linger::close_without_linger;
use groundstate_units::control::place;
use groundstate_units::machine::event::{Event, RunId, Shutdown};
use groundstate_units::spec::Exit;
use groundstate_units::unit::reaction::Reaction;
use std::fs;
use std::time::Duration;

impl Init {
    /// Begins, or changes its mind about how: a reboot may become a poweroff.
    pub(crate) fn shut_down(&mut self, how: Shutdown) {
        self.settle();
        self.ending.asked = Some(how);
        self.ending.begun.get_or_insert(self.now);
        self.ending.tell_at.get_or_insert(self.now.after(limit::BLOCKERS));
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
        let Some(how) = self.ending.asked else { return false };
        if self.ending.haste.is_some_and(|(before, _)| before >= haste) {
            return true;
        }
        self.ending.haste = Some((haste, self.now));
        if self.mode == Mode::Supervisor {
            // No namespace ends with init, and no kill(2) of everybody is its to send.
            let runs: Vec<RunId> = self.runs.iter().map(|(run, _)| run).collect();
            runs.into_iter().for_each(|run| self.tracker.kill(run));
        }
        match haste {
            Haste::Kill => {
                self.say(Level::Warning, format_args!("nothing is waited for any more"));
                self.finish(how);
            }
            Haste::AtOnce => {
                let text = "at once: what is not written yet is lost";
                self.say(Level::Warning, format_args!("{text}"));
                self.ending.reached = Some(how);
            }
        }
        true
    }

    /// The machine has nothing left to do. The logger writes what it has, then it is over.
    pub(crate) fn finish(&mut self, how: Shutdown) {
        // The machine knows how the end began; who asked last says how it ends.
        let how = *self.ending.asked.get_or_insert(how);
        let now = self.now;
        if self.ending.haste.is_none() {
            self.say(Level::Info, format_args!("every unit is down"));
        }
        if self.ending.logger_until.is_some() || self.ending.reached.is_some() {
            return;
        }
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

// What an end waits for, told every few seconds: unit, process, its state, since when, and which
// key ends the wait.

impl Init {
    /// When it is time, as long as units are waited for.
    pub(crate) fn name_blockers(&mut self) {
        let Some(at) = self.ending.tell_at.filter(|at| *at <= self.now) else { return };
        if self.ending.haste().is_some() || self.runs.len() == 0 {
            self.ending.tell_at = None;
            return;
        }
        self.ending.tell_at = Some(at.max(self.now).after(limit::BLOCKERS));
        let waited = self.ending.begun.map_or(0, |begun| self.now.since(begun).as_secs());
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
        let programs = programs(KernelLine::read().has_open_shell);
        match begin(&programs, CONSOLE, Duration::ZERO) {
            Ok(pid) => self.shell = Some(pid),
            // Want of memory passes.
            Err(error) => {
                self.say(Level::Error, format_args!("no shell on the console: {error}"));
                self.pause_shell();
            }
        }
    }

    fn pause_shell(&mut self) {
        // Another goal was set meanwhile: then it has done what it was for.
        let again = self.now.after(limit::SHELL_PAUSE);
        self.shell_again = self.shell_again.map(|_| again);
    }

    /// A child was reaped: true if it was the shell, which then comes back.
    pub(crate) fn shell_ended(&mut self, pid: Pid, exit: Exit) -> bool {
        if self.shell != Some(pid) {
            return false;
        }
        self.shell = None;
        if exit == Exit::Code(NO_PROGRAM) {
            let why = why_none(KernelLine::read().has_open_shell);
            self.say(Level::Error, format_args!("no shell on the console: {why}"));
        } else {
            self.pause_shell();
        }
        true
    }
}

impl Init {
    /// As the settings have it. A device that is open stays open: it can not be stopped.
    pub(crate) fn settle_watchdog(&mut self) {
        let Some(asked) = self.machine.generation().settings.watchdog else { return };
        let is_so = self.watchdog.open.as_ref().is_some_and(|open| open.asked == asked);
        if self.mode != Mode::Machine || is_so {
            return;
        }
        // A second open is refused while the first one lives.
        self.watchdog = Watch::default();
        match Watchdog::open(asked, self.now) {
            Ok(watchdog) => {
                let seconds = watchdog.patience.as_secs();
                let text = "the machine starts anew when init is stuck for";
                self.say(Level::Info, format_args!("{DEVICE}: {text} {seconds} s"));
                self.watchdog.open = Some(watchdog);
            }
            Err(error) => {
                let level = if self.said.is_none() { Level::Warning } else { Level::Debug };
                self.say(level, format_args!("{DEVICE}: {error}"));
                self.watchdog.again = again(&error, asked, self.now);
            }
        }
    }

    /// A device that was refused may be had by now: after a crash it counts down all the while.
    pub(crate) fn watchdog_due(&mut self) {
        if self.watchdog.again.take_if(|at| *at <= self.now).is_some() {
            self.settle_watchdog();
        }
    }
}
