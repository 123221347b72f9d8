//! Loads of unit files: when a load is needed, which request it answers, and what its result
//! changes. The loader itself is [`crate::loader`].

#[cfg(debug_assertions)]
use crate::base::crash_test;
use crate::base::paths::Paths;
use crate::base::{Level, Mode, limit, token};
use crate::control::{self, instances_of, now};
use crate::event_loop::Init;
use crate::loader::child::LoadRequest;
use crate::loader::failed_load::LeftOut;
use crate::loader::transfer::LoadResult;
use crate::loader::{Asker, Next, Outcome, Purpose, Rank, Working, fork};
use crate::spawn::{Base, Passed};
use crate::sys::Pid;
use crate::{fd, logger};
use groundstate_units::control::answer::{Failure, Report};
use groundstate_units::graph::Provider;
use groundstate_units::machine::event::Event;
use groundstate_units::spec::Exit;
use groundstate_units::text::diagnostic::{Diagnostic, Severity};
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::Generation;
use groundstate_units::unit::settings::{Echo, Settings};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

impl Init {
    /// Starts a load, or queues it behind the one in flight.
    pub(crate) fn load(&mut self, purpose: Purpose) {
        if self.loader.is_at_work() {
            self.shorten_load_for_root(self.rank_of(&purpose));
            self.drop_unasked_loads();
            return self.load_later(purpose);
        }
        if let Some(why) = self.source_must_wait(&purpose) {
            return self.not_loaded(purpose, &[], &why);
        }
        self.loader.left_out = LeftOut::default();
        self.start_load(purpose);
    }

    /// Forks the loader child for a load whose turn has come.
    pub(crate) fn start_load(&mut self, purpose: Purpose) {
        let boots = matches!(purpose, Purpose::Boot);
        if self.loader.is_stuck() && !boots {
            let why = "cannot load: earlier loads are blocked on a file system";
            return self.loaded(purpose, Err(why.to_string()));
        }
        let previous = (!boots).then(|| self.machine.generation().clone());
        let errand = LoadRequest {
            previous,
            wanted: self.wanted_for(&purpose),
            left_out: self.loader.left_out.clone(),
            ..LoadRequest::of(&self.paths, self.mode, &purpose)
        };
        let forked = fork(&errand);
        self.load_started(purpose, forked);
    }

    /// Handles the start of a load. If the loader of the first one cannot be started, init boots
    /// with an empty generation and so enters the emergency.
    pub(crate) fn load_started(&mut self, purpose: Purpose, sent: io::Result<(Pid, OwnedFd)>) {
        if matches!(purpose, Purpose::Boot) {
            self.loader.note_boot_load(self.now);
        }
        match sent {
            Ok(sent) => {
                let deadline = self.now.after(self.patience_with(&purpose));
                self.loader.note_forked(sent, purpose, deadline);
            }
            Err(error) => {
                self.loaded(purpose, Err(format!("cannot start the loader: {error}")));
            }
        }
    }

    /// Handles a reaped child. Returns false if it was not the loader.
    pub(crate) fn loader_ended(&mut self, pid: Pid, exit: Exit) -> bool {
        if !self.loader.is_loader(pid) {
            return false;
        }
        match self.loader.reaped(pid, exit) {
            Some(Outcome::Brought(purpose, brought)) => self.loaded(purpose, *brought),
            Some(Outcome::Died(load, exit)) => self.loader_failed(load, exit),
            None => return true,
        }
        self.next_load();
        true
    }

    pub(crate) fn next_load(&mut self) {
        self.drop_unasked_loads();
        if self.images.upgrade.as_ref().is_some_and(|upgrade| upgrade.passed.is_some()) {
            // The binary has passed its trial and waits only for the load in flight.
            return;
        }
        // A load that fails to start is answered at once and starts no successor, hence the loop.
        while let Some(next) = self.loader.next() {
            self.load(next);
        }
    }

    fn rank_of(&self, purpose: &Purpose) -> Rank {
        let Some(asker) = purpose.asker() else { return Rank::Trusted };
        // A client that has disconnected gets the lowest rank.
        let (trusted, uid) = self
            .caller(asker.client)
            .map_or((false, u32::MAX), |caller| (caller.trusted, caller.uid));
        if trusted {
            Rank::Trusted
        } else if matches!(purpose, Purpose::Put { .. }) {
            Rank::Owner(uid)
        } else {
            Rank::Reader(uid)
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

    fn loaded(&mut self, purpose: Purpose, brought: Result<LoadResult, String>) {
        let LoadResult { notes, refused, refusal, mut generation, memory } = match brought {
            Ok(delivery) => delivery,
            Err(why) => {
                self.say(Level::Error, format_args!("{why}"));
                return self.not_loaded(purpose, &[], &why);
            }
        };
        self.loader.left_out = LeftOut::default();
        for note in &notes {
            self.say(Level::Warning, format_args!("{note}"));
        }
        if refused && !matches!(purpose, Purpose::Boot) {
            let why = "the unit files were refused";
            return self.not_loaded(purpose, &generation.diagnostics, why);
        }
        let asker = purpose.asker();
        if let (Some(refusal), Some(asker)) = (refusal, asker) {
            return self.answer_later(asker, Err(control::refused(refusal)));
        }
        let Some(purpose) = self.with_present_policy(purpose, &mut generation) else { return };
        let in_force = self.machine.generation().number;
        generation.number = in_force.saturating_add(1);
        self.loader.origin.record_generation(in_force, generation.number, memory);
        if self.options.exit_with.is_some() {
            generation.settings.exit_with.clone_from(&self.options.exit_with);
        }
        let generation = Arc::new(generation);
        let flip = |no_restart, tolerant| Event::Reload {
            generation: generation.clone(),
            no_restart,
            tolerant,
        };
        let with_report = |failure| {
            let report = Some(Report::new(&generation.diagnostics));
            Failure { report, ..failure }
        };
        let answer = match purpose {
            Purpose::Boot => {
                self.say_diagnostics(&generation.diagnostics);
                return self.boot(generation);
            }
            Purpose::Reload { no_restart, .. } => {
                self.say_diagnostics(&generation.diagnostics);
                let flipped =
                    self.install_generation(&generation, flip(no_restart, false), asker.is_some());
                if let Err(failure) = &flipped {
                    self.say(Level::Error, format_args!("reload refused: {}", failure.message));
                }
                flipped.map_err(with_report)
            }
            Purpose::Plan { .. } => {
                self.show_plan(flip(false, false)).map_err(with_report).and_then(now)
            }
            Purpose::Put { source, plan, .. } => {
                self.loader.slow.forget(&source);
                self.take_source(&generation, flip(false, true), &source, plan)
            }
            Purpose::Instances { wish, dry, .. } => {
                self.take_instances(&generation, flip(false, true), *wish, dry)
            }
        };
        if let Some(asker) = asker {
            self.answer_later(asker, answer);
        }
    }

    fn not_loaded(&mut self, purpose: Purpose, diagnostics: &[Diagnostic], why: &str) {
        match purpose {
            Purpose::Boot => return self.retry_boot(),
            Purpose::Reload { .. } => {
                self.say_diagnostics(diagnostics);
                self.say(Level::Error, format_args!("{why}: nothing has changed"));
            }
            Purpose::Plan { .. } | Purpose::Put { .. } | Purpose::Instances { .. } => {}
        }
        if let Some(asker) = purpose.asker() {
            let mut failure = Failure::new(Failure::REFUSED, why, "nothing has changed");
            failure.report = Some(Report::new(diagnostics));
            self.answer_later(asker, Err(failure));
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

    /// Applies the settings of a new generation and reports the targets in them that no unit
    /// provides.
    pub(crate) fn apply_settings_of(&mut self, generation: &Generation) {
        self.apply_settings(&generation.settings);
        self.warn_about_targets(generation);
    }

    /// Applies the settings that are about init itself.
    pub(crate) fn apply_settings(&mut self, settings: &Settings) {
        let machine = self.mode == Mode::Machine;
        let every = || vec!["*".to_string()];
        let pass = settings.env_pass.clone().unwrap_or(if machine { Vec::new() } else { every() });
        self.base = Base {
            passed: Passed::new(&pass, std::env::vars_os()),
            env: settings.env.clone(),
            limits: self.basics.own_limits.child_limits(),
            score: self.basics.own_limits.score(),
        };
        self.apply_watchdog_setting();
        self.logger.set(log_settings(&self.paths, self.mode, settings), self.now);
    }

    /// Registers the new socket of the logger with the poll.
    pub(crate) fn watch_logger(&mut self) {
        let Some(socket) = self.logger.socket() else { return };
        // Without a watch, init still flushes to the logger in each turn.
        let _ = token::watch_both(self.poll.registry(), socket, token::LOGGER);
    }

    /// Handles a reaped child that belongs to no unit.
    pub(crate) fn child_ended(&mut self, pid: Pid, exit: Exit) {
        if !self.loader_ended(pid, exit)
            && !fd::closer_ended(pid)
            && !self.shell_ended(pid, exit)
            && !self.trial_ended(pid, exit)
            && !self.trigger_child_ended(pid)
        {
            self.logger.ended(pid, self.now);
        }
    }

    /// Gives the generation the policy that it is to be installed with. Returns `None` if that
    /// policy is unknown; then the load is repeated.
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
            // The loader of the repeated load reads the current policy, so this happens once.
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

    /// Names requested outside the unit files. The loader creates those that are instances of
    /// templates.
    fn wanted_for(&self, purpose: &Purpose) -> Vec<Name> {
        if let Purpose::Boot = purpose {
            let targets = [&self.options.target, &self.basics.kernel_target];
            return targets.into_iter().flatten().cloned().collect();
        }
        let wish = self.machine.wish();
        let mut wanted: Vec<Name> = wish.goal.iter().chain(wish.want.keys()).cloned().collect();
        if let Purpose::Put { .. } | Purpose::Instances { .. } = purpose {
            // Other loads read the policy file again.
            wanted.extend(self.machine.policy().enable.iter().cloned());
        }
        if let Purpose::Instances { wish, .. } = purpose {
            wanted.extend(instances_of(wish).cloned());
        }
        wanted
    }

    /// Warns about settings that name a target which no unit provides: init with such an
    /// `exit-with` never exits, and a reaction key has no effect.
    fn warn_about_targets(&mut self, generation: &Generation) {
        let settings = &generation.settings;
        let is_missing = |name: &Name| {
            let target = generation.find_target(name.as_str()).and_then(|id| generation.target(id));
            target.is_none_or(|target| target.candidates.is_empty())
                && generation.find_unit(name.as_str()).is_none()
        };
        if let Some(name) = settings.exit_with.as_ref().filter(|name| is_missing(name)) {
            let what = "no unit provides it, so init does not exit by itself";
            self.say(Level::Warning, format_args!("exit-with {name}: {what}"));
        }
        if self.mode != Mode::Machine {
            return;
        }
        for (setting, name) in settings.reactions.goals().filter(|(_, name)| is_missing(name)) {
            let what = "no unit provides it, so the key has no effect";
            self.say(Level::Warning, format_args!("{setting} {name}: {what}"));
        }
    }
}

impl Init {
    /// Retries a boot load that failed; after the last attempt, boots with an empty generation.
    fn retry_boot(&mut self) {
        if self.loader.retries_boot(self.now) {
            self.start_load(Purpose::Boot);
        } else {
            self.boot(Arc::default());
        }
    }

    /// Installs the first generation: gives the logger its settings and sets the goal.
    pub(crate) fn boot(&mut self, generation: Arc<Generation>) {
        self.apply_settings_of(&generation);
        let targets = self.options.target.clone().or_else(|| self.basics.kernel_target.clone());
        let asked = targets.as_ref().unwrap_or(&generation.settings.default_target).clone();
        let targets = targets.into_iter().collect();
        // Units of the previous root have no timings in this one.
        self.timings.retain_units_of(&generation);
        self.pending.facts.push_back(Event::Boot { generation, targets });
        self.settle();
        #[cfg(debug_assertions)]
        crash_test::strike_in("boot", self.basics.crashes == 0);
        if !self.machine.wish().goal.contains(&asked) && !self.ending.is_under_way() {
            let why = self.why_unreachable(&asked);
            let emergency = self.machine.generation().settings.emergency_target.clone();
            self.say(
                Level::Error,
                format_args!("cannot reach the goal {asked} ({why}): using {emergency} instead"),
            );
        }
    }

    /// The reason why a target cannot be the goal.
    pub(crate) fn why_unreachable(&self, target: &Name) -> &'static str {
        match self.machine.graph().meant(self.machine.generation(), target) {
            Provider::NoUnit => "no unit provides it",
            Provider::Masked => "it is masked",
            Provider::Unit(_) => "its unit cannot be used",
        }
    }
}

impl Init {
    /// The time limit of a load.
    pub(crate) fn patience_with(&self, purpose: &Purpose) -> Duration {
        let is_put = matches!(purpose, Purpose::Put { .. });
        if is_put && self.rank_of(purpose) != Rank::Trusted {
            limit::LOADER_SOURCE
        } else {
            limit::LOADER
        }
    }

    /// Shortens the deadline of another user's load in flight when root asks for a load.
    pub(crate) fn shorten_load_for_root(&mut self, rank: Rank) {
        let Some(purpose) = self.loader.purpose() else { return };
        let is_passed = rank == Rank::Trusted
            && !matches!(purpose, Purpose::Boot)
            && self.rank_of(purpose) != Rank::Trusted;
        if is_passed {
            self.loader.give_way(self.now.after(limit::LOADER_GIVES_WAY));
        }
    }

    /// The reason why the source may not be loaded yet, if any.
    pub(crate) fn source_must_wait(&self, purpose: &Purpose) -> Option<String> {
        let Purpose::Put { source, .. } = purpose else { return None };
        let until = self.loader.slow.until(source).filter(|until| *until > self.now)?;
        let must_wait = self.rank_of(purpose) != Rank::Trusted;
        let seconds = until.since(self.now).as_secs() + 1;
        must_wait.then(|| format!("source {source} took too long to load: retry in {seconds} s"))
    }

    /// Handles a loader that exited or was abandoned without a result.
    pub(crate) fn loader_failed(&mut self, load: Working, exit: Exit) {
        let patience = self.patience_with(&load.purpose);
        match self.loader.failed(load, exit, patience, self.now) {
            Next::Wait(purpose) => self.load_later(purpose),
            Next::Again(purpose, why) => {
                self.say(Level::Error, format_args!("{why}: retrying the load"));
                self.start_load(purpose);
            }
            Next::GiveUp(purpose, why) => self.loaded(purpose, Err(why)),
        }
    }

    /// Queues a load behind the one in flight, or one that was interrupted in favour of root.
    fn load_later(&mut self, purpose: Purpose) {
        let rank = self.rank_of(&purpose);
        if let Err(purpose) = self.loader.waiting.push(rank, purpose)
            && let Some(asker) = purpose.asker()
        {
            let failure = Failure::new(Failure::BUSY, "too many loads are waiting", "try again");
            self.answer_later(asker, Err(failure));
        }
    }
}

impl Init {
    /// Kills a loader at its deadline and abandons one that survives the kill. At boot, init then
    /// continues without it.
    pub(crate) fn loader_due(&mut self) {
        if !self.loader.is_at_work() {
            return;
        }
        let Some((load, pid)) = self.loader.enforce_deadline(self.now) else { return };
        self.say(
            Level::Error,
            format_args!("the loader (process {pid}) does not exit after SIGKILL"),
        );
        self.loader_failed(load, Exit::Signal { signal: 9, core: false });
        self.next_load();
    }
}

/// The logger's part of the settings.
pub(super) fn log_settings(paths: &Paths, mode: Mode, settings: &Settings) -> logger::Settings {
    let echo = if mode == Mode::Machine { Echo::No } else { Echo::Yes };
    logger::Settings {
        log_dir: paths.log_dir(settings),
        log_size: settings.log_size,
        log_keep: settings.log_keep,
        log_readers: settings.log_readers.clone(),
        echo: settings.echo.unwrap_or(echo),
    }
}
