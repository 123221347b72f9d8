//! The event loop: one thread, and one place to wait. This folder alone names every component.
//!
//! A turn takes what the poll has reported in a fixed order (notify, logger, exits, control, time), so that the same
//! inputs give the same decisions. Each event goes through the machine, and each action is carried out. Every source
//! has a budget for one turn; the rest is taken in the next turn without waiting.

mod commit;
mod control;
mod dispatch;
mod loader;
mod resume;
mod service;
mod shutdown;
mod start;
mod trigger;
mod upgrade;

#[cfg(debug_assertions)]
use crate::base::crash_test;
use crate::base::own_limits::OwnLimits;
use crate::base::paths::Paths;
use crate::base::signals::{Asked, Signals};
use crate::base::token::{self, Tokens};
use crate::base::{Level, Mode, clock, limit};
use crate::control::Control;
use crate::loader::Loader;
use crate::notify::Notify;
use crate::options::Options;
use crate::output::boot_timings::Timings;
use crate::output::console_log::{self, ConsoleLog};
use crate::output::event_log::History;
use crate::output::parent_notify::Outer;
use crate::output::recorder::Record;
use crate::process_tracking::Tracker;
use crate::restore::records::Order;
use crate::service::effects::Effects;
use crate::service::run_table::{Reaped, Runs};
use crate::shutdown::emergency_shell::EmergencyShell;
use crate::shutdown::watchdog::Watch;
use crate::shutdown::{End, Ending};
use crate::spawn::{Base, Null, Spawner};
use crate::state::event_in_progress::Suspects;
use crate::state::table::{Queue, Watched};
use crate::sys::fault::FAULTS;
use crate::sys::signal_pipe::SignalPipe;
use crate::sys::{memory, signal};
use crate::trigger::Triggers;
use crate::upgrade::images::Images;
use crate::{fd, logger};
use groundstate_units::control::answer::{Dropped, System};
use groundstate_units::machine::Machine;
use groundstate_units::machine::event::{Event, Goal, Shutdown};
use groundstate_units::text::time::Time;
use groundstate_units::unit::reaction::Reaction;
use mio::{Events, Poll, Token};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// All of init.
pub(crate) struct Init {
    pub(crate) options: Options,
    pub(crate) mode: Mode,
    pub(crate) paths: Paths,
    pub(crate) poll: Poll,
    pub(crate) tokens: Tokens,
    pub(crate) voice: ConsoleLog,
    pub(crate) outer: Outer,
    /// The monotonic clock at this turn.
    pub(crate) now: Time,
    /// When init began.
    pub(crate) booted: Time,
    pub(crate) on_the_wall: clock::OnTheWall,
    pub(crate) machine: Machine,
    pub(crate) runs: Runs,
    /// Facts that the machine has not been told.
    pub(crate) facts: VecDeque<Event>,
    /// Orders that are not carried out yet.
    pub(crate) orders: Queue<Order>,
    /// Starts and signals that wait for a commit.
    pub(crate) effects: Effects,
    /// Processes that were reaped and whose runs are not told yet.
    pub(crate) reaped: VecDeque<Reaped>,
    /// Descriptors that the committed state names: closed after the next commit.
    pub(crate) closing: Vec<OwnedFd>,
    pub(crate) spawner: Spawner,
    /// Tokens of reports that were not readable yet when the child was cloned, oldest first.
    pub(crate) reports: VecDeque<usize>,
    pub(crate) null: Null,
    pub(crate) base: Base,
    pub(crate) own_limits: OwnLimits,
    pub(crate) tracker: Watched<Tracker>,
    pub(crate) signals: Signals,
    pub(crate) control: Option<Watched<Control>>,
    pub(crate) notify: Option<Watched<Notify>>,
    pub(crate) logger: Option<Watched<logger::Handle>>,
    pub(crate) log_is_finished: bool,
    pub(crate) log_files_open: bool,
    pub(crate) loader: Watched<Loader>,
    pub(crate) history: Watched<History>,
    pub(crate) timings: Timings,
    pub(crate) triggers: Watched<Triggers>,
    pub(crate) record: Option<Record>,
    /// A descriptor for the control socket, opened before all others: when there are none left,
    /// the lowest numbers are those that still can be had.
    pub(crate) reserve: Option<File>,
    pub(crate) ending: Watched<Ending>,
    /// Runs that let others start first.
    pub(crate) idle: std::collections::BTreeSet<groundstate_units::machine::event::RunId>,
    /// The last end of each unit that brings others in by its end.
    pub(crate) ends: std::collections::BTreeMap<
        groundstate_units::text::name::Name,
        crate::service::run_table::LastEnd,
    >,
    pub(crate) more_to_reap: bool,
    /// Runs of the log for lines outside of a start, counted down: they have pipes of their own.
    pub(crate) helper_outputs: u64,
    /// Of what was dropped, that which is counted here.
    pub(crate) dropped: Dropped,
    /// Turns of the loop.
    pub(crate) wakeups: u64,
    /// What the outer manager was last told.
    pub(crate) said: Option<System>,
    /// The emergency shell.
    pub(crate) shell: EmergencyShell,
    /// Goal of the kernel command line.
    pub(crate) kernel_target: Option<groundstate_units::text::name::Name>,
    /// The images of this init before, now and next.
    pub(crate) images: Images,
    /// Units whose event was in progress when an image crashed.
    pub(crate) suspects: Watched<Suspects>,
    /// Fed by each turn of the loop.
    pub(crate) watchdog: Watch,
}

impl Init {
    /// One line of init's own.
    pub(crate) fn say(&mut self, level: Level, text: std::fmt::Arguments<'_>) {
        self.voice.say(self.now, level, text);
    }

    /// Until the end.
    pub(crate) fn run(mut self) -> End {
        fd::begin();
        console_log::begin();
        let mut events = Events::with_capacity(256);
        loop {
            self.wait(&mut events);
            self.now = clock::now();
            self.wakeups = self.wakeups.saturating_add(1);
            self.sort(&events);
            self.watchdog.feed(self.now);
            self.guarded_turn();
            self.go_on_as_another();
            if let Some(how) = self.ending.reached() {
                return self.end_with(how);
            }
        }
    }

    fn wait(&mut self, events: &mut Events) {
        self.voice.flush();
        self.commit();
        // The signals of this turn were obeyed.
        SignalPipe::committed();
        if let Some(logger) = self.logger.as_mut().filter(|logger| logger.has_to_tell()) {
            // After the commit: a pipe that the logger has is never another run's after a crash.
            logger.flush(self.now);
        }
        let (deadline, now) = (self.deadline(), clock::now());
        let more = self.more_to_reap
            || self.tracker.has_more()
            || self.triggers.has_more()
            || self.notify.as_ref().is_some_and(|notify| notify.has_more(now))
            || self.control.as_deref().is_some_and(Control::has_more);
        let timeout = if more { Some(Duration::ZERO) } else { deadline.map(|at| at.since(now)) };
        signal::children_are_told(true);
        let polled = self.poll.poll(events, timeout);
        signal::children_are_told(false);
        if let Err(error) = polled
            && error.kind() != io::ErrorKind::Interrupted
        {
            self.say(Level::Error, format_args!("cannot wait for events: {error}"));
            // Not to spin: the kernel is out of memory at most for a moment.
            clock::pause(Duration::from_millis(10));
        }
    }

    /// When something is due in time.
    fn deadline(&self) -> Option<Time> {
        let all = [
            self.machine.next_deadline(),
            self.runs_deadline(),
            self.effects.deadline(self.now),
            self.loader.deadline(),
            self.ending.deadline(),
            self.shell.deadline(),
            self.outer.deadline(),
            self.triggers.deadline(),
            self.images.deadline(),
            self.watchdog.deadline(),
            self.control.as_deref().and_then(Control::next_deadline),
            self.notify.as_deref().and_then(Notify::deadline),
            self.logger.as_deref().and_then(logger::Handle::deadline),
            self.tracker.has_to_look().then(|| self.now.after(limit::CGROUP_PAUSE)),
        ];
        all.into_iter().flatten().min()
    }

    /// Notes who is ready; nothing is read yet.
    fn sort(&mut self, events: &Events) {
        for event in events {
            match event.token() {
                Token(token::NOTIFY) => {
                    if let Some(notify) = &mut self.notify {
                        notify.unmarked().ready = true;
                    }
                }
                Token(token::LOGGER | token::LOADER | token::TRACKER) => {}
                token @ Token(token::RUNS..) => self.facts_of_token(token.0),
                token => {
                    let gone = event.is_read_closed() && event.is_write_closed();
                    if !self.signals.readable(token)
                        && let Some(control) = &mut self.control
                    {
                        control.ready(token, gone);
                    }
                }
            }
        }
    }

    fn facts_of_token(&mut self, token: usize) {
        #[cfg(debug_assertions)]
        crash_test::strike_in("sort", self.images.crashes == 0);
        self.report_ready(token);
        self.runs.main_ready(token);
        self.trigger_ready(token);
        self.kept_ready(token);
        self.ready_pipe(token);
    }

    /// One turn, in the order the decisions depend on.
    pub(crate) fn turn(&mut self) {
        let asked = self.signals.take();
        self.settle();
        self.hear();
        self.settle();
        self.logger_reports();
        self.settle();
        self.tell_mains_ended();
        self.settle();
        if self.more_to_reap || asked.contains(&Asked::Reap) {
            let now = self.now;
            if let Some(logger) = &mut self.logger {
                logger.look(now);
            }
            self.reap();
        }
        self.emptied();
        self.settle();
        for asked in asked {
            self.obey(asked);
        }
        // Who asks now is told which processes have become their programs.
        self.look_at_reports(limit::CHILDREN_UNKNOWN_MOST);
        self.settle();
        self.serve();
        self.settle();
        self.on_time();
        self.settle();
        self.attend();
        self.settle();
        self.tidy_store();
        self.after();
    }

    fn on_time(&mut self) {
        self.runs_due();
        self.loader_due();
        self.upgrade_due();
        self.triggers_due();
        self.name_blockers();
        self.watchdog_due();
        let now = self.now;
        if self.shell.is_due(now) && !self.ending.is_under_way() {
            self.shell.keep();
            self.emergency_shell();
        }
        self.logger_due();
        if self.machine.next_deadline().is_some_and(|at| at <= now) {
            self.facts.push_back(Event::Tick);
        }
    }

    /// The end of a turn: what there is to say is said.
    fn after(&mut self) {
        self.stream_events();
        self.answer_waits();
        self.look_at_ending();
        self.open_log_files();
        self.send_answers();
        fd::close_left();
        if let Some(record) = &mut self.record {
            // A full disk is noticed by the next write.
            let _ = record.flush();
        }
        self.tell_outside();
        self.outer.flush();
    }

    /// Log files may be opened once the file system they are on is there.
    fn open_log_files(&mut self) {
        if self.log_files_open || self.loader.is_booting() {
            return;
        }
        let generation = self.machine.generation();
        let open = match &generation.settings.log_dir_after {
            None => true,
            Some(target) => {
                let unit = self.machine.graph().meant(generation, target).unit();
                unit.is_some_and(|unit| self.machine.state(unit).is_active())
            }
        };
        let now = self.now;
        if let Some(logger) = self.logger.as_mut().filter(|_| open) {
            logger.open_files(now);
            self.log_files_open = true;
        }
    }

    /// The outer manager is told when the boot has settled, and of each change after it.
    fn tell_outside(&mut self) {
        if self.said.is_none() && !self.machine.is_settled() {
            return;
        }
        let system = self.machine.system();
        if self.ending.is_under_way() || self.said == Some(system) {
            return;
        }
        // Its module may have come with the boot.
        self.settle_watchdog();
        let ready = if self.said.is_none() { "READY=1\n" } else { "" };
        self.facts.shrink_to_fit();
        self.spawner.give_back();
        memory::give_back();
        self.said = Some(system);
        self.outer.say(&format!("{ready}STATUS={}\n", system.as_str()));
    }
}

// Carries out what signals ask for.

impl Init {
    /// What a signal asks for.
    pub(crate) fn obey(&mut self, asked: Asked) {
        // Before any settings are there, the defaults hold.
        let key = asked.key(&self.machine.generation().settings.reactions);
        if let Some((key, reaction)) = key.filter(|_| self.mode == Mode::Machine) {
            let reaction = reaction.clone();
            return self.react(asked, key, reaction);
        }
        match (asked, asked.end(self.mode)) {
            (Asked::Reload, _) => self.reload_by_signal(),
            (Asked::Sockets, _) => self.make_sockets(),
            (Asked::Noted(number), _) => {
                let (level, what) = match FAULTS.contains(&number) {
                    true => (Level::Warning, "somebody sent it, it is no fault of init's: "),
                    false => (Level::Debug, ""),
                };
                self.say(level, format_args!("signal {number}: {what}nothing to do"));
            }
            (Asked::Interrupt, Some(how)) => self.interrupted(how),
            (_, Some(how)) => self.shut_down(how),
            (_, None) => {}
        }
    }

    fn react(&mut self, asked: Asked, key: &str, reaction: Reaction) {
        let hastens = asked == Asked::Interrupt && self.ending.is_under_way();
        match reaction {
            Reaction::Nothing => {
                self.say(Level::Info, format_args!("{key}: nothing is to be done"));
            }
            // Whatever it was to do before.
            Reaction::End(_) | Reaction::Goal(_) if hastens => self.interrupted(Shutdown::Reboot),
            Reaction::End(how) => self.shut_down(how),
            Reaction::Goal(goal) => {
                self.say(Level::Info, format_args!("{key}: the goal is to be {goal}"));
                let wish = Event::SetGoal(Goal { targets: vec![goal], ..Goal::default() });
                if let Err(refusal) = self.wish(wish) {
                    self.say(Level::Error, format_args!("{key}: {}", refusal.message));
                }
            }
        }
    }
}
