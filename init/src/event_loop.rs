//! The loop: facts in, deeds out. One thread, one place to wait.
//!
//! A turn: what the poll has, taken in a fixed order (notify, logger, exits, control,
//! time) so that the same facts give the same decisions; each event through the
//! machine; each action carried out; then what there is to say is sent. Every source
//! has a budget a turn, and what is left over is taken in the next without waiting.

use crate::boot::{self, Mode, kernel_line::KernelLine, limits::OpenFiles};
use crate::cgroup::Tracker;
use crate::clock;
use crate::control::Control;
use crate::history::History;
use crate::limit;
use crate::loader::Loader;
use crate::logger;
use crate::notify::Notify;
use crate::options::Options;
use crate::outer::Outer;
use crate::paths::Paths;
use crate::record::Record;
use crate::run::table::Runs;
use crate::shutdown::{self, Ending};
use crate::signals::{Asked, Signals};
use crate::spawn::{Base, Null, Spawner};
use crate::sys::Pid;
use crate::timings::Timings;
use crate::voice::{Level, Voice};
use groundstate_units::machine::Machine;
use groundstate_units::machine::action::{Action, Note, Outcome};
use groundstate_units::machine::event::{Event, RunId, Shutdown};
use groundstate_units::machine::reason::{Refusal, State};
use groundstate_units::name::Name;
use groundstate_units::time::Time;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Tokens of the poll: signals come first, connections, and what runs are watched by, last.
pub(crate) mod token {
    /// Signal pipes.
    pub(crate) const SIGNALS: usize = 0;
    /// The control socket.
    pub(crate) const CONTROL: usize = 100;
    /// The notify socket.
    pub(crate) const NOTIFY: usize = 101;
    /// The logger.
    pub(crate) const LOGGER: usize = 102;
    /// The cgroups.
    pub(crate) const TRACKER: usize = 103;
    /// The loader's pipe, where there is no memfd.
    pub(crate) const LOADER: usize = 104;
    /// Connections, from here on.
    pub(crate) const CLIENTS: usize = 1 << 16;
    /// Reports of children and watched processes, from here on.
    pub(crate) const RUNS: usize = 1 << 24;
}

/// Numbers for what is watched for runs: each used once until they come round.
pub(crate) struct Tokens(usize);

impl Tokens {
    /// The next one.
    pub(crate) fn next(&mut self) -> Token {
        self.0 = if self.0 >= usize::MAX >> 4 { token::RUNS } else { self.0 + 1 };
        Token(self.0)
    }
}

/// All of init.
pub(crate) struct Init {
    pub(crate) options: Options,
    pub(crate) mode: Mode,
    pub(crate) paths: Paths,
    pub(crate) poll: Poll,
    pub(crate) tokens: Tokens,
    pub(crate) voice: Voice,
    pub(crate) outer: Outer,
    /// The monotonic clock at this turn.
    pub(crate) now: Time,
    /// When init began.
    pub(crate) booted: Time,
    pub(crate) machine: Machine,
    pub(crate) runs: Runs,
    /// Told and not yet put through the machine.
    pub(crate) facts: VecDeque<Event>,
    pub(crate) spawner: Spawner,
    pub(crate) null: Null,
    pub(crate) base: Base,
    pub(crate) open_files: OpenFiles,
    pub(crate) tracker: Tracker,
    pub(crate) signals: Signals,
    pub(crate) control: Option<Control>,
    pub(crate) notify: Option<Notify>,
    pub(crate) logger: Option<logger::Handle>,
    pub(crate) log_is_finished: bool,
    pub(crate) loader: Loader,
    pub(crate) history: History,
    pub(crate) timings: Timings,
    record: Option<Record>,
    /// A descriptor for the control socket, opened before all others: when there are none left,
    /// the lowest numbers are those that still can be had.
    reserve: Option<File>,
    pub(crate) ending: Ending,
    pub(crate) more_to_reap: bool,
    /// Runs of the log for lines outside of a start, counted down: they have pipes of their own.
    pub(crate) helper_outputs: u64,
    /// Datagrams of processes that may not speak for any unit.
    pub(crate) unheard: u64,
    /// Turns of the loop.
    pub(crate) wakeups: u64,
    said_ready: bool,
    /// The emergency shell.
    pub(crate) shell: Option<Pid>,
    pub(crate) shell_again: Option<Time>,
    /// Goal of the kernel command line.
    pub(crate) kernel_target: Option<groundstate_units::name::Name>,
}

impl Init {
    /// Makes everything ready. What can not be had is said and done without; only
    /// without memory, a poll or any descriptor there is no init.
    pub(crate) fn new(options: Options, mode: Mode) -> io::Result<Init> {
        let open_files = OpenFiles::raise();
        let wrong = boot::duties(mode);
        let reserve = File::open("/dev/null").ok();
        let mut voice = if mode == Mode::Machine { Voice::console() } else { Voice::stderr() };
        let kernel = if mode == Mode::Machine { KernelLine::read() } else { KernelLine::default() };
        if let Some(level) = kernel.level {
            voice.quieten(level);
        }
        let now = clock::now();
        for unknown in &options.unknown {
            voice.say(now, Level::Info, format_args!("not understood: {unknown}"));
        }
        for sentence in wrong {
            voice.say(now, Level::Warning, format_args!("{sentence}"));
        }
        let (paths, no_runtime) = Paths::find(&options);
        if let Some(why) = no_runtime {
            voice.say(now, Level::Warning, format_args!("{why}: there will be no control socket"));
        }
        let poll = Poll::new()?;
        let (signals, deaf) = Signals::listen(poll.registry(), token::SIGNALS);
        for (number, error) in deaf {
            voice.say(now, Level::Warning, format_args!("signal {number} is not heard: {error}"));
        }
        let record = options.record.as_deref().map(|path| (path, Record::create(path)));
        let record = match record {
            Some((path, Err(error))) => {
                voice.say(now, Level::Warning, format_args!("cannot record to {path}: {error}"));
                None
            }
            Some((_, Ok(record))) => Some(record),
            None => None,
        };
        let (tracker, how) = Tracker::new(mode == Mode::Machine);
        if let Some(how) = how {
            voice.say(now, Level::Info, format_args!("{how}"));
        }
        let mut init = Init {
            mode,
            paths,
            poll,
            tokens: Tokens(token::RUNS),
            voice,
            outer: Outer::at(std::env::var("NOTIFY_SOCKET").ok().as_deref()),
            now,
            booted: now,
            machine: Machine::new(match mode {
                Mode::Machine => limit::SHUTDOWN_MACHINE,
                Mode::Container | Mode::Supervisor => limit::SHUTDOWN_CONTAINER,
            }),
            runs: Runs::default(),
            facts: VecDeque::new(),
            spawner: Spawner::new()?,
            null: Null::open()?,
            base: Base::default(),
            open_files,
            tracker,
            signals,
            control: None,
            notify: None,
            logger: None,
            log_is_finished: false,
            loader: Loader::default(),
            history: History::default(),
            timings: Timings::default(),
            record,
            reserve,
            ending: Ending::default(),
            more_to_reap: true,
            helper_outputs: u64::MAX,
            unheard: 0,
            wakeups: 0,
            said_ready: false,
            shell: None,
            shell_again: None,
            kernel_target: kernel.target,
            options,
        };
        if let Some(descriptor) = init.tracker.descriptor() {
            let source = descriptor.as_raw_fd();
            let registry = init.poll.registry();
            registry.register(&mut SourceFd(&source), Token(token::TRACKER), Interest::READABLE)?;
        }
        init.make_sockets();
        init.load_at_boot();
        Ok(init)
    }

    /// One line of init's own.
    pub(crate) fn say(&mut self, level: Level, text: std::fmt::Arguments<'_>) {
        self.voice.say(self.now, level, text);
    }

    /// The control and the notify socket, anew.
    pub(crate) fn make_sockets(&mut self) {
        let Some(dir) = self.paths.runtime_dir.clone() else { return };
        let registry = self.poll.registry();
        if let Some(control) = &mut self.control {
            self.reserve = control.take_reserve();
        }
        (self.control, self.notify) = (None, None);
        let path = groundstate_units::control::place::control_socket(&dir);
        let control = Control::listen(
            registry,
            Token(token::CONTROL),
            token::CLIENTS,
            &path,
            self.reserve.take(),
        );
        let at = format!("{dir}/notify.sock");
        let notify = Notify::bind(registry, Token(token::NOTIFY), &at);
        match control {
            Ok(control) => self.control = Some(control),
            Err(error) => self.say(Level::Error, format_args!("cannot listen at {path}: {error}")),
        }
        match notify {
            Ok(notify) => self.notify = Some(notify),
            Err(error) => self.say(Level::Error, format_args!("cannot listen at {at}: {error}")),
        }
    }

    /// Until the end.
    pub(crate) fn run(mut self) -> shutdown::End {
        let mut events = Events::with_capacity(256);
        loop {
            self.wait(&mut events);
            self.now = clock::now();
            self.wakeups = self.wakeups.saturating_add(1);
            self.sort(&events);
            self.turn();
            if let Some(end) = self.ending.reached() {
                return shutdown::End { how: end, mode: self.mode, outer: self.outer };
            }
        }
    }

    fn wait(&mut self, events: &mut Events) {
        let deadline = [
            self.machine.next_deadline(),
            self.runs_deadline(),
            self.loader.deadline(),
            self.ending.deadline(),
            self.shell_again,
            self.control.as_ref().and_then(Control::next_deadline),
            self.logger.as_ref().and_then(logger::Handle::deadline),
        ]
        .into_iter()
        .flatten()
        .min();
        let now = clock::now();
        let more = self.more_to_reap
            || self.notify.as_ref().is_some_and(|notify| notify.ready)
            || self.control.as_ref().is_some_and(Control::has_more);
        let timeout = if more { Some(Duration::ZERO) } else { deadline.map(|at| at.since(now)) };
        if let Err(error) = self.poll.poll(events, timeout)
            && error.kind() != io::ErrorKind::Interrupted
        {
            self.say(Level::Error, format_args!("cannot wait for events: {error}"));
            // Not to spin: the kernel is out of memory at most for a moment.
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Notes who is ready; nothing is read yet.
    fn sort(&mut self, events: &Events) {
        for event in events {
            match event.token() {
                Token(token::NOTIFY) => {
                    if let Some(notify) = &mut self.notify {
                        notify.ready = true;
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
        self.report_ready(token);
        self.pidfd_ready(token);
    }

    /// One turn, in the order the decisions depend on.
    fn turn(&mut self) {
        let asked = self.signals.take();
        self.settle();
        self.hear();
        self.settle();
        self.logger_reports();
        self.settle();
        if self.more_to_reap || asked.contains(&Asked::Reap) {
            if let Some(logger) = &self.logger {
                logger.look();
            }
            self.reap();
        }
        self.emptied();
        self.settle();
        for asked in asked {
            self.obey(asked);
        }
        self.serve();
        self.settle();
        self.on_time();
        self.settle();
        self.after();
    }

    fn on_time(&mut self) {
        self.runs_due();
        self.loader_due();
        let now = self.now;
        if self.shell_again.take_if(|at| *at <= now).is_some() {
            self.emergency_shell();
        }
        if let Some(logger) = &mut self.logger
            && logger.tick(now)
        {
            self.watch_logger();
        }
        if self.machine.next_deadline().is_some_and(|at| at <= now) {
            self.facts.push_back(Event::Tick);
        }
    }

    /// What was told goes through the machine; what it orders is carried out; and so on
    /// until nothing is left. Each order gives at most a few facts at once, so this ends.
    pub(crate) fn settle(&mut self) {
        while let Some(event) = self.facts.pop_front() {
            self.step(event);
        }
    }

    /// A wish of somebody who wants to know whether it was refused.
    pub(crate) fn wish(&mut self, event: Event) -> Result<(), Refusal> {
        self.settle();
        let refused = self.step(event);
        self.settle();
        refused.map_or(Ok(()), Err)
    }

    fn step(&mut self, event: Event) -> Option<Refusal> {
        let (word, about) = (word(&event), run_of(&event));
        let kept = self.record.is_some().then(|| event.clone());
        let outcome = self.machine.step(self.now, event);
        if let (Some(record), Some(event)) = (&mut self.record, kept)
            && let Err(error) = record.write(self.now, &event, &outcome)
        {
            self.record = None;
            self.say(Level::Warning, format_args!("the record ends here: {error}"));
        }
        let Outcome { actions, refused } = outcome;
        let notes: Vec<Note> = actions
            .iter()
            .filter_map(|action| match action {
                Action::Note(note) => Some(note.clone()),
                _ => None,
            })
            .collect();
        self.timings.add(self.now, &notes);
        let word = word.filter(|_| refused.is_none());
        self.history.add(self.now, clock::wall(), word, about, notes);
        for action in actions {
            self.carry_out(action);
        }
        refused
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Start { unit, name, run } => self.start_run(unit, &name, run),
            Action::Stop { run, reason, nothing_left, .. } => {
                self.stop_run(run, &reason, nothing_left);
            }
            Action::Kill { run, .. } => self.course(run, |procedure| procedure.kill()),
            Action::ReloadUnit { run, .. } => self.course(run, |procedure| procedure.reload()),
            Action::Note(note) => self.noted(&note),
            Action::Emergency => self.emergency(),
            Action::Finish(how) => self.finish(how),
        }
    }

    /// The provider of `log-dir-after` is active: what the log directory lies on is there.
    fn open_log_files(&mut self, active: &Name) {
        let generation = self.machine.generation();
        let Some(after) = &generation.settings.log_dir_after else { return };
        let target = generation.find_target(after.as_str());
        let unit = generation.find_unit(active.as_str()).and_then(|unit| generation.unit(unit));
        if target.zip(unit).is_some_and(|(target, unit)| unit.provides.contains(&target))
            && let Some(logger) = &mut self.logger
        {
            logger.open_files(self.now);
        }
    }

    fn noted(&mut self, note: &Note) {
        if note.to.is_active()
            && let Some(running) = note.run.and_then(|run| self.runs.get_mut(run))
        {
            running.procedure.counts_as_ready();
        }
        if note.to.is_active() {
            self.open_log_files(&note.unit);
        }
        let (level, word) = match note.to {
            State::Failed => (Level::Warning, "failed"),
            State::Running | State::Exited if !note.from.is_active() => {
                (Level::Info, note.to.as_str())
            }
            _ => (Level::Debug, note.to.as_str()),
        };
        let unit = &note.unit;
        match &note.reason {
            Some(reason) => self.say(level, format_args!("{unit}: {word}: {reason}")),
            None => self.say(level, format_args!("{unit}: {word}")),
        }
    }

    fn obey(&mut self, asked: Asked) {
        let machine = self.mode == Mode::Machine;
        let shutdown = match asked {
            Asked::Reap => return,
            Asked::Reload => return self.reload_by_signal(),
            Asked::Sockets => return self.make_sockets(),
            Asked::Noted(number) => {
                return self.say(Level::Debug, format_args!("signal {number}: nothing to do"));
            }
            Asked::Halt if machine => Shutdown::Halt,
            Asked::Poweroff if machine => Shutdown::Poweroff,
            Asked::Reboot | Asked::Interrupt if machine => Shutdown::Reboot,
            Asked::Halt | Asked::Poweroff | Asked::Reboot | Asked::Interrupt => Shutdown::Exit(0),
        };
        self.shut_down(shutdown);
    }

    /// The end of a turn: what there is to say is said.
    fn after(&mut self) {
        let now = self.now;
        self.stream_events();
        self.answer_waits();
        self.look_at_ending();
        if let Some(control) = &mut self.control {
            control.flush(now);
        }
        if let Some(logger) = &mut self.logger {
            logger.flush(now);
        }
        if let Some(record) = &mut self.record {
            // A full disk is noticed by the next write.
            let _ = record.flush();
        }
        if !self.said_ready && self.machine.generation().number > 0 && self.machine.is_settled() {
            self.said_ready = true;
            self.outer.say("READY=1\nSTATUS=running\n");
        }
    }
}

/// The word in the event log for an event that is about init itself.
fn word(event: &Event) -> Option<&'static str> {
    match event {
        Event::Boot { .. } => Some("boot"),
        Event::SetGoal(_) => Some("set-target"),
        Event::Want { .. } => Some("want"),
        Event::Unwant(_) => Some("unwant"),
        Event::SetPolicy(_) => Some("policy"),
        Event::Reload { .. } => Some("reload"),
        Event::Restart(_) => Some("restart"),
        Event::ReloadUnit(_) => Some("reload-unit"),
        Event::Retry(_) => Some("retry"),
        Event::Shutdown(_) => Some("shutdown"),
        _ => None,
    }
}

/// The run an event is about.
fn run_of(event: &Event) -> Option<RunId> {
    match event {
        Event::Executed(run)
        | Event::Ready(run)
        | Event::Reloading(run)
        | Event::Reloaded(run, _)
        | Event::Stopping(run)
        | Event::Status(run, _)
        | Event::ExtendTimeout(run, _)
        | Event::WatchdogEvery(run, _)
        | Event::WatchdogPing(run)
        | Event::WatchdogTrigger(run)
        | Event::Exited(run, _)
        | Event::Ended(run, _)
        | Event::Gone(run)
        | Event::Skipped(run, _)
        | Event::StartFailed(run, _)
        | Event::Protocol(run, _)
        | Event::OutOfMemory(run) => Some(*run),
        _ => None,
    }
}
