//! The event loop: one thread that waits in one place. Only this folder names every component.
//!
//! A turn handles its sources in a fixed order (notify, logger, exits, signals, control, time), so
//! that the same inputs give the same decisions. Each event goes through the state machine,
//! which returns actions to carry out. Every source has a budget for one turn; the loop handles the
//! rest in the next turn without waiting.

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
use crate::base::paths::Paths;
use crate::base::signals::{Asked, Signals};
use crate::base::token::Tokens;
use crate::base::{Level, Mode, clock, limit, token};
use crate::control::Control;
use crate::loader::{Loader, Purpose};
use crate::notify::Notify;
use crate::options::Options;
use crate::output::boot_timings::Timings;
use crate::output::console_log;
use crate::output::console_log::ConsoleLog;
use crate::output::event_log::{History, Record};
use crate::output::parent_notify::Outer;
use crate::process_tracking::Tracker;
use crate::restore::records::{Basics, Pending, State};
use crate::service::orders::Orders;
use crate::service::run_table::{LastEnd, Runs};
use crate::shutdown::watchdog::Watch;
use crate::shutdown::{End, Ending};
use crate::spawn::{Base, Null, Spawner};
use crate::state::event_in_progress::Suspects;
use crate::state::table::Watched;
use crate::sys::signal::FAULTS;
use crate::sys::signal::SignalPipe;
use crate::sys::{shared_memory, signal};
use crate::trigger::Triggers;
use crate::upgrade::Images;
use crate::{fd, logger};
use groundstate_units::control::answer::Dropped;
use groundstate_units::machine::Machine;
use groundstate_units::machine::event::{Event, Goal, Shutdown};
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::unit::reaction::Reaction;
use mio::{Events, Poll, Token};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The whole state of PID 1.
pub(crate) struct Init {
    pub(crate) options: Options,
    pub(crate) mode: Mode,
    pub(crate) paths: Paths,
    pub(crate) poll: Poll,
    pub(crate) tokens: Tokens,
    pub(crate) basics: Basics,
    pub(crate) voice: ConsoleLog,
    pub(crate) outer: Outer,
    /// The monotonic clock at the start of this turn.
    pub(crate) now: Time,
    pub(crate) machine: Machine,
    pub(crate) runs: Runs,
    pub(crate) pending: Pending,
    /// Orders that are not carried out yet.
    pub(crate) orders: Orders,
    /// Descriptors that the committed state names: closed after the next commit.
    pub(crate) closing: Vec<OwnedFd>,
    pub(crate) spawner: Spawner,
    pub(crate) null: Null,
    pub(crate) base: Base,
    pub(crate) tracker: Watched<Tracker>,
    pub(crate) signals: Signals,
    pub(crate) control: Option<Watched<Control>>,
    pub(crate) notify: Option<Watched<Notify>>,
    pub(crate) logger: Watched<logger::Handle>,
    pub(crate) loader: Watched<Loader>,
    pub(crate) history: History,
    pub(crate) timings: Timings,
    pub(crate) triggers: Watched<Triggers>,
    pub(crate) record: Option<Record>,
    /// A descriptor reserved for the control socket. It is opened first and gets a low number,
    /// which stays usable if the limit of open files is lowered.
    pub(crate) reserve: Option<File>,
    pub(crate) ending: Watched<Ending>,
    /// The last end of each unit that other units react to.
    pub(crate) ends: BTreeMap<Name, LastEnd>,
    pub(crate) more_to_reap: bool,
    /// Counters of dropped inputs that init itself keeps.
    pub(crate) dropped: Dropped,
    /// The previous, current and next image of init.
    pub(crate) images: Images,
    written: commit::Written,
    /// Units whose event was in progress when an image crashed.
    pub(crate) suspects: Watched<Suspects>,
    /// The hardware watchdog, fed in each turn of the loop.
    pub(crate) watchdog: Watch,
    /// True if an event has reached the machine since the last call of `tell_outside`.
    pub(crate) has_stepped: bool,
    /// The last generation after whose load init returned freed memory to the kernel.
    trimmed: Option<u32>,
}

/// The parts that each image makes itself.
struct Own {
    options: Options,
    mode: Mode,
    paths: Paths,
    voice: ConsoleLog,
    poll: Poll,
    signals: Signals,
    null: Null,
    images: Images,
}

impl Init {
    /// Combines the parts of this image with the state, which is empty at the first start.
    fn with(own: Own, state: State) -> Init {
        let State { components, machine, runs, spawner, logger, record } = state;
        Init {
            options: own.options,
            mode: own.mode,
            paths: own.paths,
            poll: own.poll,
            tokens: Tokens::starting_at(clock::now()),
            basics: components.head.basics.into_owned(),
            voice: own.voice,
            outer: Outer::at(std::env::var("NOTIFY_SOCKET").ok().as_deref()),
            now: clock::now(),
            machine,
            runs,
            pending: components.pending,
            orders: components.orders,
            closing: Vec::new(),
            spawner,
            null: own.null,
            base: Base::default(),
            tracker: components.tracker.into(),
            signals: own.signals,
            control: components.control.map(Watched::from),
            notify: components.notify.map(Watched::from),
            logger: logger.into(),
            loader: components.loader.into(),
            history: components.history,
            timings: components.timings,
            triggers: components.triggers.into(),
            record,
            reserve: None,
            ending: components.ending.into(),
            ends: BTreeMap::new(),
            more_to_reap: true,
            dropped: Dropped::default(),
            images: own.images,
            written: commit::Written::default(),
            suspects: components.suspects.into(),
            watchdog: Watch::default(),
            has_stepped: true,
            trimmed: None,
        }
    }

    /// Logs a line of init itself.
    pub(crate) fn say(&mut self, level: Level, text: std::fmt::Arguments<'_>) {
        self.voice.say(self.now, level, text);
    }

    /// Runs the loop until init ends.
    pub(crate) fn run(mut self) -> End {
        fd::begin();
        console_log::begin();
        let mut events = Events::with_capacity(256);
        loop {
            self.wait(&mut events);
            self.now = clock::now();
            self.pending.wakeups = self.pending.wakeups.saturating_add(1);
            self.handle_poll_events(&events);
            self.watchdog.feed(self.now);
            self.guarded_turn();
            self.execute_next_image();
            if let Some(how) = self.ending.reached {
                return self.end_with(how);
            }
        }
    }

    fn wait(&mut self, events: &mut Events) {
        self.voice.flush();
        self.commit();
        // All signals of this turn have been handled.
        SignalPipe::note_commit();
        if self.logger.has_to_flush() {
            // After the commit: a pipe that was sent to the logger never belongs to another run
            // after a crash.
            self.logger.flush(self.now);
        }
        let (deadline, now) = (self.deadline(), clock::now());
        let more = self.more_to_reap
            || self.tracker.has_more()
            || self.triggers.has_more()
            || self.notify.as_ref().is_some_and(|notify| notify.has_more(now))
            || self.control.as_deref().is_some_and(Control::has_more);
        let timeout = if more { Some(Duration::ZERO) } else { deadline.map(|at| at.since(now)) };
        if !more {
            self.tracker.unmarked().prepare_next(|run| self.machine.start_after(run));
        }
        signal::deliver_sigchld(true);
        let polled = self.poll.poll(events, timeout);
        signal::deliver_sigchld(false);
        if let Err(error) = polled
            && error.kind() != io::ErrorKind::Interrupted
        {
            self.say(Level::Error, format_args!("cannot wait for events: {error}"));
            // Avoids spinning: the kernel is probably out of memory for a moment.
            clock::pause(Duration::from_millis(10));
        }
    }

    /// The earliest deadline of all components.
    fn deadline(&self) -> Option<Time> {
        let all = [
            self.machine.next_deadline(),
            self.runs_deadline(),
            self.pending.effects.deadline(self.now),
            self.loader.deadline(),
            self.ending.deadline(),
            self.basics.shell.deadline(),
            self.outer.deadline(),
            self.triggers.deadline(),
            self.images.deadline(),
            self.watchdog.deadline(),
            self.control.as_deref().and_then(Control::next_deadline),
            self.notify.as_deref().and_then(Notify::deadline),
            self.logger.deadline(),
            self.tracker.has_to_look().then(|| self.now.after(limit::CGROUP_PAUSE)),
        ];
        all.into_iter().flatten().min()
    }

    /// Marks the sources that are ready. Reads the descriptors of runs and of triggers at once.
    fn handle_poll_events(&mut self, events: &Events) {
        for event in events {
            match event.token() {
                Token(token::NOTIFY) => {
                    if let Some(notify) = &mut self.notify {
                        notify.unmarked().ready = true;
                    }
                }
                Token(token::LOGGER | token::TRACKER) => {}
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
        crash_test::strike_in("poll", self.basics.crashes == 0);
        self.report_ready(token);
        self.runs.note_main_exit(token);
        self.trigger_ready(token);
        self.stored_descriptor_ready(token);
        self.ready_pipe(token);
    }

    /// Runs one turn. The order of the steps determines the decisions.
    pub(crate) fn turn(&mut self) {
        let asked = self.signals.take(self.paths.command.is_some());
        self.settle();
        for step in [Init::receive_notifications, Init::logger_reports, Init::report_exited_mains] {
            step(self);
            self.settle();
        }
        if self.more_to_reap || asked.contains(&Asked::Reap) {
            self.logger.kill_if_stopped(self.now);
            self.reap();
        }
        self.emptied();
        self.settle();
        for asked in asked {
            self.obey(asked);
        }
        // Clients that are served next see which children have executed their program.
        self.look_at_reports(limit::CHILDREN_UNKNOWN_MOST);
        self.settle();
        for step in [Init::serve, Init::handle_deadlines, Init::watch_awaited_triggers] {
            step(self);
            self.settle();
        }
        self.tidy_store();
        self.finish_turn();
    }

    fn handle_deadlines(&mut self) {
        self.runs_due();
        self.loader_due();
        self.upgrade_due();
        self.triggers_due();
        self.name_blockers();
        // A device that was busy after a crash; the hardware keeps counting down meanwhile.
        if self.watchdog.is_due(self.now) {
            self.apply_watchdog_setting();
        }
        let now = self.now;
        if self.basics.shell.is_due(now) && !self.ending.is_under_way() {
            self.basics.shell.restart_on_exit();
            self.emergency_shell();
        }
        self.logger_due();
        if self.machine.next_deadline().is_some_and(|at| at <= now) {
            self.pending.facts.push_back(Event::Tick);
        }
    }

    /// Ends a turn: sends events, answers and status.
    fn finish_turn(&mut self) {
        self.stream_events();
        self.answer_waits();
        self.look_at_ending();
        self.open_log_files();
        self.send_answers();
        fd::close_left();
        if let Some(record) = &mut self.record {
            // The next write reports a full disk.
            let _ = record.flush();
        }
        self.tell_outside();
        self.outer.flush();
    }

    /// Lets the logger open its files once the target named by `log-dir-after` is active.
    fn open_log_files(&mut self) {
        if self.basics.log_files_open || matches!(self.loader.purpose(), Some(Purpose::Boot)) {
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
        if open {
            self.logger.open_files(self.now);
            self.basics.log_files_open = true;
        }
    }

    /// Reports to the outer manager when the boot has settled, and each later change. Returns freed
    /// memory to the kernel once for each loaded generation.
    fn tell_outside(&mut self) {
        let has_stepped = std::mem::take(&mut self.has_stepped);
        if !has_stepped || !self.basics.has_settled && !self.machine.is_settled() {
            return;
        }
        let number = Some(self.machine.generation().number);
        if self.trimmed != number && self.machine.is_settled() {
            self.pending.facts.shrink_to_fit();
            self.spawner.give_back();
            shared_memory::give_back();
            self.trimmed = number;
        }
        let system = self.machine.system();
        if self.ending.is_under_way() || self.outer.said == Some(system) {
            return;
        }
        // The watchdog's kernel module may have been loaded during the boot.
        self.apply_watchdog_setting();
        let ready = if self.basics.has_settled { "" } else { "READY=1\n" };
        (self.basics.has_settled, self.outer.said) = (true, Some(system));
        self.outer.say(&format!("{ready}STATUS={}\n", system.as_str()));
    }
}

impl Init {
    /// Carries out the request of a signal.
    pub(crate) fn obey(&mut self, asked: Asked) {
        // Before a generation is loaded, the default settings apply.
        let key = asked.key(&self.machine.generation().settings.reactions);
        if let Some((key, reaction)) = key.filter(|_| self.mode == Mode::Machine) {
            let reaction = reaction.clone();
            return self.react(asked, key, reaction);
        }
        match (asked, asked.end(self.mode)) {
            (Asked::Reload, _) => self.load(Purpose::Reload { no_restart: false, asker: None }),
            (Asked::Sockets, _) => self.make_sockets(),
            (Asked::Noted(number), _) => {
                let (level, what) = match FAULTS.map(|fault| fault as i32).contains(&number) {
                    true => (Level::Warning, "sent by another process, not a fault of init; "),
                    false => (Level::Debug, ""),
                };
                self.say(level, format_args!("signal {number}: {what}ignored"));
            }
            (Asked::Forward(number), _) => self.forward(number),
            (Asked::Interrupt, Some(how)) => self.interrupted(how),
            (_, Some(how)) => self.shut_down(how),
            (_, None) => {}
        }
    }

    fn react(&mut self, asked: Asked, key: &str, reaction: Reaction) {
        let hastens = asked == Asked::Interrupt && self.ending.is_under_way();
        match reaction {
            Reaction::Nothing => {
                self.say(Level::Info, format_args!("{key}: no action configured"));
            }
            // During a shutdown, Ctrl-Alt-Del hastens it if any action is configured for it.
            Reaction::End(_) | Reaction::Goal(_) if hastens => self.interrupted(Shutdown::Reboot),
            Reaction::End(how) => self.shut_down(how),
            Reaction::Goal(goal) => {
                self.say(Level::Info, format_args!("{key}: setting the goal to {goal}"));
                let wish = Event::SetGoal(Goal { targets: vec![goal], ..Goal::default() });
                if let Err(refused) = self.apply_request(wish) {
                    self.say(Level::Error, format_args!("{key}: {}", refused.message));
                }
            }
        }
    }
}
