//! The loader, as PID 1 sees it: a child that reads and checks the unit files and hands
//! over one finished generation. A fork of init without an exec, with a deadline and
//! limits. PID 1 believes nothing of what it says before it has proved it.
//!
//! What the child does is in [`child`]; how the bytes travel in [`transfer`].

pub(crate) mod boot_load;
pub(crate) mod child;
pub(crate) mod disk;
mod failed_load;
pub(crate) mod identity;
mod queue;
mod source_put;
pub(crate) mod transfer;

use crate::base::Level;
use crate::base::Mode;
use crate::base::limit;
use crate::base::token;
use crate::control::handlers::instances_of;
use crate::event_loop::Init;
use crate::output::oom_score;
use crate::spawn::{Base, Passed};
use crate::state::carried;
use crate::sys::{Pid, process};
use crate::{fd, logger};
use child::{Errand, Part};
use failed_load::SlowSources;
use failed_load::Stragglers;
use failed_load::{LeftOut, Progress};
use groundstate_units::spec::Exit;
use groundstate_units::text::diagnostic::{Diagnostic, Severity};
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::unit::generation::Generation;
use groundstate_units::unit::settings::{Echo, Settings};
use mio::Registry;
use nix::sys::resource::Resource;
pub(crate) use queue::{Asker, Purpose};
use queue::{Queue, Rank};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use transfer::Origin;
use transfer::{Delivery, Parcel};

/// One at work.
#[derive(Serialize, Deserialize)]
struct Working {
    #[serde(with = "carried::pid")]
    pid: Pid,
    parcel: Parcel,
    deadline: Time,
    purpose: Purpose,
    killed: bool,
    /// Root asked for another load meanwhile: killed, this one waits behind it.
    #[serde(skip)]
    gives_way: bool,
}

/// At most one at work, and those that wait.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Loader {
    working: Option<Working>,
    waiting: Queue,
    #[serde(skip)]
    stragglers: Stragglers,
    /// First loads that brought nothing.
    #[serde(skip)]
    boots: u8,
    /// When the first of these began.
    #[serde(skip)]
    since: Option<Time>,
    /// A policy edit was granted since the load at work began. None: another image began it.
    #[serde(skip)]
    policy_edited: Option<bool>,
    /// Files that loaders of the load at work did not come past.
    #[serde(skip)]
    left_out: LeftOut,
    /// Sources that took too long to load.
    #[serde(skip)]
    slow: SlowSources,
    /// Where the generation in force came from.
    pub(crate) origin: Origin,
}

impl Loader {
    /// The first generation is not there yet.
    pub(crate) fn is_booting(&self) -> bool {
        let boots = |working: &Working| matches!(working.purpose, Purpose::Boot);
        self.working.as_ref().is_some_and(boots)
    }

    /// One is at work.
    pub(crate) fn is_at_work(&self) -> bool {
        self.working.is_some()
    }

    /// One is at work that may bring another generation.
    pub(crate) fn will_change(&self) -> bool {
        self.working.as_ref().is_some_and(|working| !working.purpose.is_shown_only())
    }

    /// When the one at work is killed, or given up.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.working.as_ref().map(|working| working.deadline)
    }
}

/// Forks the child.
pub(crate) fn send(registry: &Registry, errand: &Errand<'_>) -> std::io::Result<(Pid, Parcel)> {
    let (parcel, wrapping) = Parcel::new(registry)?;
    let body = match errand.part {
        Part::Source(_, body) => body,
        Part::Whole | Part::Instances => None,
    };
    let kept: Vec<BorrowedFd<'_>> = [wrapping.as_fd()].into_iter().chain(body).collect();
    let pid = process::fork(&kept, || {
        oom_score::sink();
        // Limits that can not be set leave the deadline.
        let _ = process::die_with_parent(9);
        for (resource, most) in [
            (Resource::RLIMIT_CPU, limit::LOADER_CPU),
            (Resource::RLIMIT_AS, limit::LOADER_MEMORY),
            (Resource::RLIMIT_CORE, 0),
        ] {
            let _ = nix::sys::resource::setrlimit(resource, most, most);
        }
        #[cfg(debug_assertions)]
        crate::base::crash_test::strike_in("loader", true);
        let progress = Progress::new(wrapping.memory(), &errand.left_out);
        let delivery = child::run(errand, &progress);
        match wrapping.fill(&delivery) {
            Ok(()) => 0,
            Err(_) => 1,
        }
    })?;
    Ok((pid, parcel))
}

impl Init {
    /// SIGHUP.
    pub(crate) fn reload_by_signal(&mut self) {
        self.load(Purpose::Reload { no_restart: false, asker: None });
    }

    /// Begins a load, or lets it wait for the one under way.
    pub(crate) fn load(&mut self, purpose: Purpose) {
        if self.loader.working.is_some() {
            let rank = self.rank_of(&purpose);
            self.let_root_pass(rank);
            self.drop_unasked_loads();
            if let Err(purpose) = self.loader.waiting.push(rank, purpose)
                && let Some(asker) = purpose.asker()
            {
                self.turn_away(asker);
            }
            return;
        }
        if let Some(why) = self.source_must_wait(&purpose) {
            return self.not_loaded(purpose, Vec::new(), &why);
        }
        self.loader.left_out = LeftOut::default();
        self.send_for(purpose);
    }

    /// Forks the child for a load whose turn it is.
    fn send_for(&mut self, purpose: Purpose) {
        if self.loader.stragglers.are_many() {
            let why = "earlier loads wait for a file system that does not answer";
            return self.loaded(purpose, Err(why.to_string()));
        }
        let part = match &purpose {
            Purpose::Put { source, body, .. } => {
                Part::Source(source, body.as_ref().map(AsFd::as_fd))
            }
            Purpose::Instances { .. } => Part::Instances,
            Purpose::Boot | Purpose::Reload { .. } | Purpose::Plan { .. } => Part::Whole,
        };
        let previous = Some(self.machine.generation().clone());
        let wanted = self.wanted_for(&purpose);
        let left_out = self.loader.left_out.clone();
        let errand =
            Errand { previous, part, wanted, left_out, ..Errand::of(&self.paths, self.mode) };
        let sent = send(self.poll.registry(), &errand);
        self.loading(purpose, sent);
    }

    fn loading(&mut self, purpose: Purpose, sent: std::io::Result<(Pid, Parcel)>) {
        match sent {
            Ok((pid, parcel)) => {
                let deadline = self.now.after(self.patience_with(&purpose));
                let (killed, gives_way) = (false, false);
                self.loader.policy_edited = Some(false);
                self.loader.working =
                    Some(Working { pid, parcel, deadline, purpose, killed, gives_way });
            }
            Err(error) => {
                self.loaded(purpose, Err(format!("cannot start the loader: {error}")));
            }
        }
    }

    /// A child was reaped: if it was the loader, what it brought is looked at.
    pub(crate) fn loader_ended(&mut self, pid: Pid, exit: Exit) -> bool {
        let Some(working) = self.loader.working.take_if(|working| working.pid == pid) else {
            return self.loader.stragglers.ended(pid);
        };
        if exit == Exit::Code(0) {
            let brought = working.parcel.open();
            let brought = brought.map_err(|error| format!("the loader's work: {error}"));
            self.loaded(working.purpose, brought);
        } else {
            self.loader_failed(working, exit);
        }
        self.next_load();
        true
    }

    pub(crate) fn next_load(&mut self) {
        self.drop_unasked_loads();
        if self.lineage.waits_for_loader() {
            return;
        }
        // One that can not begin is answered at once, and no end of it brings the next one.
        while self.loader.working.is_none()
            && let Some(next) = self.loader.waiting.pop()
        {
            self.load(next);
        }
    }

    fn rank_of(&self, purpose: &Purpose) -> Rank {
        let Some(asker) = purpose.asker() else { return Rank::Trusted };
        // A client that has gone has no claim to a place before others.
        let (trusted, uid) = self
            .caller(asker.client)
            .map_or((false, u32::MAX), |caller| (caller.trusted, caller.uid));
        match purpose {
            _ if trusted => Rank::Trusted,
            Purpose::Put { .. } => Rank::Owner(uid),
            Purpose::Boot
            | Purpose::Reload { .. }
            | Purpose::Plan { .. }
            | Purpose::Instances { .. } => Rank::Reader(uid),
        }
    }

    fn drop_unasked_loads(&mut self) {
        let Init { loader, control, .. } = self;
        let clients = control.as_ref().map(|control| &control.clients);
        let waits = |asker: Asker| {
            let client = clients.and_then(|clients| clients.get(&asker.client));
            client.is_some_and(|client| !client.dead && client.pending.contains(&asker.id))
        };
        loader.waiting.drop_unasked(waits);
    }

    fn loaded(&mut self, purpose: Purpose, brought: Result<Delivery, String>) {
        let delivery = match brought {
            Ok(delivery) => delivery,
            Err(why) => {
                self.say(Level::Error, format_args!("{why}"));
                return self.not_loaded(purpose, Vec::new(), &why);
            }
        };
        self.loader.left_out = LeftOut::default();
        let Delivery { notes, refused, refusal, mut generation, memory } = delivery;
        for note in &notes {
            self.say(Level::Warning, format_args!("{note}"));
        }
        if refused && !matches!(purpose, Purpose::Boot) {
            return self.not_loaded(purpose, generation.diagnostics, "the unit files were refused");
        }
        let Some(purpose) = self.with_present_policy(purpose, &mut generation) else { return };
        let in_force = self.machine.generation().number;
        generation.number = in_force.saturating_add(1);
        self.loader.origin.delivered(in_force, generation.number, memory);
        if self.options.exit_with.is_some() {
            generation.settings.exit_with.clone_from(&self.options.exit_with);
        }
        match purpose {
            Purpose::Boot => {
                self.say_diagnostics(&generation.diagnostics);
                self.boot(generation);
            }
            Purpose::Reload { no_restart, asker } => {
                self.say_diagnostics(&generation.diagnostics);
                self.flip(Arc::new(generation), no_restart, asker);
            }
            Purpose::Plan { asker } => self.plan_load(asker, Arc::new(generation)),
            Purpose::Put { asker, source, plan, .. } => match refusal {
                Some(refusal) => self.refuse_source(asker, refusal),
                None => {
                    self.loader.slow.forget(&source);
                    self.take_source(asker, &source, plan, generation);
                }
            },
            Purpose::Instances { asker, wish, dry } => match refusal {
                Some(refusal) => self.refuse_source(asker, refusal),
                None => self.take_instances(asker, *wish, dry, generation),
            },
        }
    }

    fn not_loaded(&mut self, purpose: Purpose, diagnostics: Vec<Diagnostic>, why: &str) {
        match purpose {
            Purpose::Boot => self.not_booted(),
            Purpose::Reload { asker, .. } => {
                self.say_diagnostics(&diagnostics);
                self.say(Level::Error, format_args!("{why}: nothing has changed"));
                if let Some(asker) = asker {
                    self.refuse_load(asker, &diagnostics, why);
                }
            }
            Purpose::Plan { asker }
            | Purpose::Put { asker, .. }
            | Purpose::Instances { asker, .. } => {
                self.refuse_load(asker, &diagnostics, why);
            }
        }
    }

    fn say_diagnostics(&mut self, diagnostics: &[Diagnostic]) {
        for diagnostic in diagnostics {
            let level = match diagnostic.severity {
                Severity::Error => Level::Error,
                Severity::Warning => Level::Warning,
                Severity::Note => Level::Debug,
            };
            let (at, fact) = (&diagnostic.at, &diagnostic.message);
            self.say(level, format_args!("{at}: {}: {fact}", diagnostic.severity));
        }
    }

    /// The settings of a generation that is taken; what they name and nobody provides is told.
    pub(crate) fn settle_with(&mut self, generation: &Generation) {
        self.settle_in(&generation.settings);
        self.mind_targets(generation);
    }

    /// What the settings say about init itself.
    pub(crate) fn settle_in(&mut self, settings: &Settings) {
        let machine = self.mode == Mode::Machine;
        let every = || vec!["*".to_string()];
        let pass = settings.env_pass.clone().unwrap_or(if machine { Vec::new() } else { every() });
        self.base = Base {
            passed: Passed::new(&pass, std::env::vars_os()),
            env: settings.env.clone(),
            limits: self.own_limits.of_children(),
            score: self.own_limits.score(),
        };
        self.settle_watchdog();
        let log = self.log_settings(settings);
        let now = self.now;
        match &mut self.logger {
            Some(logger) => logger.set(log, now),
            None => self.start_logger(log),
        }
    }

    fn log_settings(&self, settings: &Settings) -> logger::Settings {
        let machine = self.mode == Mode::Machine;
        logger::Settings {
            log_dir: self.paths.log_dir(settings),
            log_size: settings.log_size,
            log_keep: settings.log_keep,
            log_readers: settings.log_readers.clone(),
            echo: settings.echo.unwrap_or(if machine { Echo::No } else { Echo::Yes }),
        }
    }

    /// The logger is made while the loader is at work, when there is time, and before this
    /// process has grown: it is a copy of it. What it is to do it is told later.
    pub(crate) fn start_logger_early(&mut self) {
        let log = self.log_settings(&Settings::default());
        self.start_logger(log);
    }

    fn start_logger(&mut self, log: logger::Settings) {
        let now = self.now;
        let listener = self.log_listener();
        match logger::Handle::new(log, listener) {
            Ok(mut logger) => {
                if let Err(error) = logger.start(now) {
                    self.say(Level::Error, format_args!("cannot start the logger: {error}"));
                }
                self.logger = Some(logger.into());
                self.watch_logger();
            }
            Err(error) => self.say(Level::Error, format_args!("there is no logger: {error}")),
        }
    }

    /// The logger has a new socket.
    pub(crate) fn watch_logger(&mut self) {
        let Some(socket) = self.logger.as_deref().and_then(logger::Handle::socket) else { return };
        // Unwatched, it is still told at each turn.
        let _ = token::watch_both(self.poll.registry(), socket, token::LOGGER);
    }

    /// A child was reaped that is no unit's.
    pub(crate) fn child_ended(&mut self, pid: Pid, exit: Exit) {
        let now = self.now;
        if !self.loader_ended(pid, exit)
            && !fd::closer_ended(pid)
            && !self.shell_ended(pid, exit)
            && !self.trial_ended(pid, exit)
            && !self.trigger_child_ended(pid)
            && let Some(logger) = &mut self.logger
        {
            logger.ended(pid, now);
        }
    }

    /// A policy edit was granted. The client has written the file before: what a loader at work has
    /// read of it may be older.
    pub(crate) fn policy_edited(&mut self) {
        self.loader.policy_edited = Some(true);
    }

    /// Gives the generation the policy that it is to be taken with. None: which one that is can
    /// not be known, and it is loaded once more.
    fn with_present_policy(
        &mut self,
        purpose: Purpose,
        generation: &mut Generation,
    ) -> Option<Purpose> {
        let present = self.machine.policy();
        match (&purpose, self.loader.policy_edited) {
            (Purpose::Put { .. } | Purpose::Instances { .. }, _) | (_, Some(true)) => {
                generation.policy.clone_from(present);
            }
            // Of the next one it is known: this happens once.
            (Purpose::Reload { .. } | Purpose::Plan { .. }, None)
                if generation.policy != *present =>
            {
                self.load(purpose);
                return None;
            }
            (Purpose::Boot | Purpose::Reload { .. } | Purpose::Plan { .. }, _) => {}
        }
        Some(purpose)
    }

    /// Names that are asked for outside the unit files: the loader makes those that are instances of
    /// templates.
    fn wanted_for(&self, purpose: &Purpose) -> Vec<Name> {
        let wish = self.machine.wish();
        let mut wanted: Vec<Name> = wish.goal.iter().chain(wish.want.keys()).cloned().collect();
        if let Purpose::Put { .. } | Purpose::Instances { .. } = purpose {
            // The others read the policy anew.
            wanted.extend(self.machine.policy().enable.iter().cloned());
        }
        if let Purpose::Instances { wish, .. } = purpose {
            wanted.extend(instances_of(wish).cloned());
        }
        wanted
    }

    /// Settings that name nobody's target are told: init whose end is to be that of one goes on for
    /// ever, and a key does nothing.
    fn mind_targets(&mut self, generation: &Generation) {
        let settings = &generation.settings;
        let is_missing = |name: &Name| {
            let target = generation.find_target(name.as_str()).and_then(|id| generation.target(id));
            target.is_none_or(|target| target.candidates.is_empty())
                && generation.find_unit(name.as_str()).is_none()
        };
        if let Some(name) = settings.exit_with.as_ref().filter(|name| is_missing(name)) {
            let what = "nobody provides it, so nothing ends init by itself";
            self.say(Level::Warning, format_args!("exit-with {name}: {what}"));
        }
        if self.mode != Mode::Machine {
            return;
        }
        for (setting, name) in settings.reactions.goals().filter(|(_, name)| is_missing(name)) {
            let what = "nobody provides it, so the key does nothing";
            self.say(Level::Warning, format_args!("{setting} {name}: {what}"));
        }
    }
}
