//! Shutdown of init: the requests for it, the progress messages, the emergency shell and the
//! hardware watchdog. The final steps are in [`crate::shutdown`].

use crate::base::{Level, Mode, limit, procfs, signals};
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
use groundstate_units::machine::reason::State;
use groundstate_units::spec::Exit;
use groundstate_units::text::time::Time;
use groundstate_units::unit::reaction::Reaction;
use std::fs;

impl Init {
    /// Starts a shutdown, or changes the kind of one in progress: a reboot may become a poweroff.
    pub(crate) fn shut_down(&mut self, how: Shutdown) {
        self.settle();
        self.ending.begin(how, self.now);
        self.outer.say("STOPPING=1\nSTATUS=stopping\n");
        self.say(Level::Info, format_args!("{}", name(how, self.mode)));
        self.pending.facts.push_back(Event::Shutdown(how));
        self.settle();
    }

    /// Handles Ctrl-Alt-Del or SIGINT. The first one starts a shutdown; each later one, after a
    /// pause, hastens it by one step.
    pub(crate) fn interrupted(&mut self, how: Shutdown) {
        match self.ending.same_request_until() {
            None => self.shut_down(how),
            Some(from) if from <= self.now => {
                let is_hasty = self.ending.haste().is_some();
                self.hasten(if is_hasty { Haste::AtOnce } else { Haste::Kill });
            }
            Some(_) => {}
        }
    }

    /// Passes a signal on to the command of `init -- CMD`, or to its remaining processes if it has
    /// ended. A signal that requests a shutdown ends init if the command is not executed yet: init
    /// exits with the status of a command that this signal has ended. During a shutdown, such a
    /// signal hastens the shutdown.
    pub(crate) fn forward(&mut self, number: i32) {
        let run = self.options.target.as_ref().and_then(|name| self.runs.latest(name));
        let run = run.filter(|run| self.handle_exec_results(*run));
        let Ok(signal) = u8::try_from(number) else { return };
        let ends = signals::shutdown_by(number, self.mode).is_some();
        if ends && (run.is_none() || self.ending.is_under_way()) {
            self.interrupted(Shutdown::Exit(signal.saturating_add(128)));
        }
        match run.and_then(|run| self.runs.signal_main(run, signal)) {
            Some(Ok(())) => {}
            Some(Err(why)) => {
                self.say(Level::Warning, format_args!("cannot forward signal {number}: {why}"));
            }
            None => run.into_iter().for_each(|run| self.tracker.signal(run, signal, None)),
        }
    }

    /// Stops waiting in a shutdown that is in progress. Returns false if there is none.
    pub(crate) fn hasten(&mut self, haste: Haste) -> bool {
        match self.ending.hasten(haste, self.now) {
            None => return false,
            Some(false) => return true,
            Some(true) => {}
        }
        if self.mode == Mode::Supervisor {
            // As a supervisor, init has no PID namespace that ends with it and must not signal all
            // processes.
            let runs: Vec<RunId> = self.runs.iter().map(|(run, _)| run).collect();
            runs.into_iter().for_each(|run| self.tracker.kill(run));
        }
        match haste {
            Haste::Kill => {
                self.say(Level::Warning, format_args!("waiting no longer: killing all processes"));
                self.units_are_down();
            }
            Haste::AtOnce => {
                let text = "ending at once: unwritten data is lost";
                self.say(Level::Warning, format_args!("{text}"));
                self.ending.end_wait();
            }
        }
        true
    }

    /// Handles the end of the last unit: the logger writes its remaining output, then init ends.
    pub(crate) fn finish(&mut self, how: Shutdown) {
        // The machine reports the kind that the shutdown started with; the latest request takes
        // precedence.
        self.ending.asked.get_or_insert(how);
        if self.ending.haste().is_none() {
            self.say(Level::Info, format_args!("all units are stopped"));
        }
        self.units_are_down();
    }

    fn units_are_down(&mut self) {
        let now = self.now;
        if self.ending.logger_until.is_some() || self.ending.reached.is_some() {
            return;
        }
        if self.logger.finish(now) {
            self.ending.logger_until = Some(now.after(limit::LOGGER_FINISH));
        } else {
            self.ending.end_wait();
        }
    }

    /// Runs at the end of each turn.
    pub(crate) fn look_at_ending(&mut self) {
        let Some(until) = self.ending.logger_until else { return };
        if (self.basics.log_is_finished && self.logger.pid().is_none()) || until <= self.now {
            self.ending.end_wait();
        }
    }
}

fn name(how: Shutdown, mode: Mode) -> &'static str {
    match how {
        _ if mode != Mode::Machine => "stopping everything",
        Shutdown::Poweroff => "powering off",
        Shutdown::Reboot => "rebooting",
        Shutdown::Halt => "halting",
        Shutdown::Exit(_) => "exiting",
    }
}

// Progress messages of a boot and of a shutdown

impl Init {
    /// Names the units that block the boot or the shutdown: process, state, waiting time, and a
    /// command to learn more or to end the wait. In a shutdown a message follows every few seconds;
    /// in a boot the time doubles after each.
    pub(crate) fn name_blockers(&mut self) {
        if self.ending.tell_at.is_none_or(|at| at > self.now) {
            return;
        }
        let blockers: Vec<String> = match self.ending.asked_at {
            Some(since) => self.slow_stops(since),
            None => self.slow_starts(),
        };
        let is_boot = self.ending.asked_at.is_none();
        let has_runs = self.runs.iter().next().is_some();
        let waits = if is_boot { !self.basics.has_settled } else { has_runs };
        // An administrator may be typing in a shell on the console of a boot that waits for long.
        let pause = if is_boot { self.now.since(self.basics.booted) } else { limit::BLOCKERS };
        self.ending.schedule_progress_message(waits, pause.max(limit::BLOCKERS), self.now);
        if !waits || self.ending.haste().is_some() {
            return;
        }
        let reactions = &self.machine.generation().settings.reactions;
        let hint = match (self.mode, &reactions.ctrl_alt_del) {
            _ if is_boot => "`initctl why` explains it",
            (Mode::Machine, Reaction::Nothing) => "`initctl poweroff --force` ends the wait",
            (Mode::Machine, Reaction::End(_) | Reaction::Goal(_)) => "Ctrl-Alt-Del ends the wait",
            (Mode::Container | Mode::Supervisor, _) => "SIGINT ends the wait",
        };
        for text in blockers.iter().take(limit::BLOCKERS_NAMED) {
            self.say(Level::Warning, format_args!("waiting {text}; {hint}"));
        }
        if let Some(more) = blockers.len().checked_sub(limit::BLOCKERS_NAMED).filter(|n| *n > 0) {
            self.say(Level::Warning, format_args!("… and for {more} more units"));
        }
    }

    /// The units that are stopping. Other units wait for these.
    fn slow_stops(&self, since: Time) -> Vec<String> {
        let runs = self.runs.iter().map(|(_, run)| run);
        let stopping = runs.filter(|run| run.procedure.is_told_to_stop());
        stopping.map(|run| self.blocker(run, since)).collect()
    }

    /// The units that have been starting for a few seconds, with the time that they may take.
    fn slow_starts(&self) -> Vec<String> {
        let generation = self.machine.generation();
        let mut texts = Vec::new();
        for (_, running) in self.runs.iter() {
            let Some(unit) = generation.find_unit(running.name.as_str()) else { continue };
            let since = self.machine.since(unit);
            if self.machine.state(unit) == State::Starting
                && self.now.since(since) >= limit::BLOCKERS
            {
                let most = generation.unit(unit).and_then(|unit| unit.live.start_timeout);
                let most = most.map(|most| format!(", at most {} s", most.as_secs()));
                texts.push(self.blocker(running, since) + &most.unwrap_or_default());
            }
        }
        texts
    }

    fn blocker(&self, running: &Running, since: Time) -> String {
        let waited = self.now.since(since).as_secs();
        format!("for {waited} s for {}", blocker(running))
    }
}

fn blocker(running: &Running) -> String {
    let name = &running.name;
    let pid = running.main.as_ref().map(Main::pid).or(running.current);
    let pid = pid.or_else(|| running.lines.first().map(|(pid, _)| *pid));
    let Some(pid) = pid.filter(|pid| *pid > 0) else { return name.to_string() };
    match procfs::shown(Pid::from_raw(pid)) {
        Some((command, state)) => format!("{name}: pid {pid} ({command}), {state}"),
        None => format!("{name}: descendants of pid {pid}"),
    }
}

impl Init {
    /// Releases everything except what the final steps need.
    pub(crate) fn end_with(mut self, how: Shutdown) -> End {
        // Removes the socket that init created.
        if let Some(dir) = &self.paths.runtime_dir {
            // If it is missing, no logger was running.
            let _ = fs::remove_file(place::log_socket(dir));
        }
        let (haste, mode) = (self.ending.haste(), self.mode);
        let outer = std::mem::replace(&mut self.outer, Outer::at(None));
        let watchdog = self.watchdog.take();
        // Keep the descriptors open: if the final steps cannot arm their own binary, a crash
        // executes this one.
        std::mem::forget((self.images.binary.take(), self.images.previous.take()));
        let end = End::new(how, mode, outer, haste, watchdog);
        close_without_linger(move || {
            let whole = self;
            // The signal handlers stay installed and write into this pipe, so its reader stays
            // open.
            std::mem::forget(whole.signals);
        });
        end
    }
}

/// EX_SOFTWARE of sysexits(3): init cannot do its work.
const STATUS: u8 = 70;

impl Init {
    /// Handles a goal and an emergency target that both cannot be reached.
    pub(crate) fn emergency(&mut self) {
        let goal = self.machine.wish().goal.iter();
        let goal: Vec<String> =
            goal.map(|name| format!("{name}: {}", self.why_unreachable(name))).collect();
        let settings = &self.machine.generation().settings;
        let emergency = &settings.emergency_target;
        let text = format!(
            "cannot reach the goal ({}) or the emergency target ({emergency}: {}); unit \
             directories: {}",
            goal.join(", "),
            self.why_unreachable(emergency),
            self.paths.unit_dirs(settings).join(", ")
        );
        if self.mode != Mode::Machine {
            self.say(Level::Error, format_args!("{text}"));
            return self.shut_down(Shutdown::Exit(STATUS));
        }
        self.say(Level::Error, format_args!("{text}: starting a shell on the console"));
        self.emergency_shell();
    }

    /// Starts the shell. It is restarted whenever it exits, until another goal is set.
    pub(crate) fn emergency_shell(&mut self) {
        if let Err(error) = self.basics.shell.start(self.now) {
            self.say(Level::Error, format_args!("cannot start a shell on the console: {error}"));
        }
    }

    /// Handles a reaped child. Returns true if it was the shell.
    pub(crate) fn shell_ended(&mut self, pid: Pid, exit: Exit) -> bool {
        let ended = self.basics.shell.ended(pid, exit, self.now);
        if let Some(Err(why)) = ended {
            self.say(Level::Error, format_args!("cannot start a shell on the console: {why}"));
        }
        ended.is_some()
    }
}

impl Init {
    /// Opens the hardware watchdog according to the settings.
    pub(crate) fn apply_watchdog_setting(&mut self) {
        let Some(asked) = self.machine.generation().settings.watchdog else { return };
        if self.mode != Mode::Machine {
            return;
        }
        match self.watchdog.apply_setting(asked, self.now) {
            Some(Ok(seconds)) => {
                let text = "watchdog armed: the machine reboots if init hangs for";
                self.say(Level::Info, format_args!("{DEVICE}: {text} {seconds} s"));
            }
            Some(Err(error)) => {
                let level = if self.basics.has_settled { Level::Debug } else { Level::Warning };
                self.say(level, format_args!("{DEVICE}: {error}"));
            }
            None => {}
        }
    }
}
