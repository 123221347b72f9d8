//! Carries out the requests of the control socket and answers them. Answers are read from the state
//! machine; changes are events, which the machine decides.

use crate::base::{Level, clock, limit};
use crate::control::client::{Caller, Client, Line as Input};
use crate::control::{Answered, failed, instances_of, now, stopping};
use crate::event_loop::Init;
use crate::fd::Foreign;
use crate::loader::{Asker, Purpose};
use crate::shutdown::Haste;
use crate::upgrade::Wanted;
use crate::{control, fd};
use groundstate_units::control::answer::{Blame, Changed, Failure, Report, SCHEMA, Told};
use groundstate_units::control::request::{Malformed, Request, Role, Verb};
use groundstate_units::control::view;
use groundstate_units::graph::Provider;
use groundstate_units::machine::event::{Event, Goal, Shutdown};
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::Generation;
use std::sync::Arc;
use std::time::Duration;

/// SIGTERM, the default signal of `kill`.
const TERM: u8 = 15;

impl Init {
    /// Turns an unknown target into `busy` before the first load. No target has a provider then, so
    /// the name may be right.
    pub(crate) fn too_early(&self, failure: Failure) -> Failure {
        if failure.kind != Failure::UNKNOWN_TARGET || self.machine.generation().number > 0 {
            return failure;
        }
        let text = "the unit files are still being read";
        Failure::new(Failure::BUSY, text, "retry in a moment")
    }

    /// The credentials of the client on this connection.
    pub(crate) fn caller(&self, number: usize) -> Option<Caller> {
        self.control.as_ref()?.clients.get(&number).map(|client| client.caller)
    }

    pub(crate) fn client(&mut self, number: usize) -> Option<&mut Client> {
        self.control.as_mut()?.clients.get_mut(&number)
    }

    pub(crate) fn queue(&mut self, number: usize, line: &[u8]) {
        if let Some(client) = self.client(number) {
            client.queue(line);
        }
    }

    /// Checks the caller's credentials against the role of the verb.
    fn allowed(&mut self, caller: Caller, verb: &Verb) -> Result<(), Failure> {
        let settings = &self.machine.generation().settings;
        let may = match verb.role() {
            Role::Read => true,
            Role::Source => caller.trusted || control::is_owner(settings, caller, verb),
            Role::Logs | Role::Control => caller.trusted,
        };
        if may {
            return Ok(());
        }
        let hint = match (caller.is_proven, verb.role()) {
            (false, _) => {
                "init cannot prove that the caller is in its user namespace: \
                 run the command inside the container or namespaces of the caller"
            }
            (true, Role::Source) => {
                "only root, the user init runs as and the uid that the settings name"
            }
            (true, Role::Read | Role::Logs | Role::Control) => {
                "only root and the user init runs as may do that"
            }
        };
        let (word, uid, pid) = (verb.word(), caller.uid, caller.pid);
        self.say(Level::Warning, format_args!("{word} refused to uid {uid} (pid {pid})"));
        Err(Failure::new(Failure::DENIED, format!("{word} is not allowed to uid {uid}"), hint))
    }

    pub(crate) fn answer(
        &mut self,
        asker: Asker,
        caller: Caller,
        verb: Verb,
        passed: Vec<Foreign>,
    ) -> Answered {
        self.allowed(caller, &verb)?;
        match verb {
            Verb::Ping {} => now(self.pong()),
            Verb::Status { targets } => now(self.show_status(&targets)?),
            Verb::Why { target } => now(view::why(&self.machine, &self.view_facts(), &target)?),
            Verb::Plan { reload: true, .. } => {
                self.defer_until_load(asker, Purpose::Plan { asker })
            }
            Verb::Plan { targets, want, drop, .. } => {
                let want = want.into_iter().map(|name| (name, None)).collect();
                self.plan_change(asker, Event::SetGoal(Goal { targets, want, drop }))
            }
            Verb::Graph {} => now(view::graph(&self.machine, &self.view_facts())),
            Verb::Timers {} => now(self.show_timers()),
            Verb::Sockets {} => now(self.show_sockets()),
            Verb::Blame {} => now(Blame { schema: SCHEMA, units: self.timings.shown() }),
            Verb::Events { follow, after } => self.answer_events(asker, follow, after),
            Verb::Wait {} => {
                if let Some(client) = self.client(asker.client) {
                    client.waits.push(asker.id);
                }
                Ok(None)
            }
            Verb::Cat { target } => now(view::located(&self.machine, &target)?),
            Verb::Whose { pid } => now(self.whose(pid)),
            Verb::Stats {} => now(self.stats()),
            Verb::SetTarget { targets, want, drop } => {
                Self::some_are_named(&targets)?;
                let want = want.into_iter().map(|name| (name, None)).collect();
                self.change(asker, Event::SetGoal(Goal { targets, want, drop }))
            }
            Verb::Want { target, for_ms } => {
                let until = for_ms.map(|span| self.now.after(Duration::from_millis(span)));
                self.change(asker, Event::Want { target, until })
            }
            Verb::Unwant { target } => self.change(asker, Event::Unwant(target)),
            Verb::Policy { policy } => self.change(asker, Event::SetPolicy(policy)),
            Verb::Reload { no_restart } => {
                self.defer_until_load(asker, Purpose::Reload { no_restart, asker: Some(asker) })
            }
            Verb::Restart { targets } => self.restart_units(targets),
            Verb::ReloadUnit { targets } => {
                let units = self.units_of(&targets)?;
                self.tell(units, Event::ReloadUnit(targets))
            }
            Verb::Retry { targets } => {
                let units = self.units_of(&targets)?;
                self.tell(units, Event::Retry(targets))
            }
            Verb::Kill { targets, signal, all } => {
                self.kill_units(&targets, signal.unwrap_or(TERM), all)
            }
            Verb::SourcePut { source, plan } => self.put_source(asker, source, plan, passed),
            Verb::SourceDrop { source, plan } => self.drop_source(asker, source, plan),
            Verb::SourceList {} => now(self.list_sources(caller)),
            Verb::Upgrade { binary } => self.begin_upgrade(asker, Wanted::Here(binary)),
            Verb::SwitchRoot { root, init } => self.switch_root(asker, root, init),
            Verb::Poweroff {} => self.end(Shutdown::Poweroff),
            Verb::Reboot {} => self.end(Shutdown::Reboot),
            Verb::Halt {} => self.end(Shutdown::Halt),
            Verb::Exit { code } => self.end(Shutdown::Exit(code)),
            Verb::Hasten { at_once } => self.end_sooner(at_once),
        }
    }

    pub(crate) fn remember(&mut self, asker: Asker) {
        if let Some(client) = self.client(asker.client) {
            client.pending.push(asker.id);
        }
    }

    fn send(&mut self, asker: Asker, answer: Answered) {
        let line = match answer {
            Ok(Some(answer)) => answer(asker.id),
            Ok(None) => return,
            Err(failure) => failed(asker.id, failure),
        };
        self.queue(asker.client, &line);
    }

    /// Answers a pending request, unless its client no longer waits.
    pub(crate) fn answer_later(&mut self, asker: Asker, answer: Answered) {
        let Some(client) = self.client(asker.client) else { return };
        let before = client.pending.len();
        client.pending.retain(|id| *id != asker.id);
        if client.pending.len() < before {
            self.send(asker, answer);
        }
    }

    /// Defers a request until the loader has run.
    pub(crate) fn defer_until_load(&mut self, asker: Asker, purpose: Purpose) -> Answered {
        if self.ending.is_under_way() {
            return Err(stopping());
        }
        self.remember(asker);
        self.load(purpose);
        Ok(None)
    }

    fn tell(&mut self, units: Vec<String>, event: Event) -> Answered {
        self.apply_request(event)?;
        now(Told { schema: 1, units, ..Told::default() })
    }

    /// Restarts units. A needed unit that is down is retried; a unit that is down and not needed is
    /// an error.
    fn restart_units(&mut self, targets: Vec<Name>) -> Answered {
        let units = self.units_of(&targets)?;
        let mut idle = Vec::new();
        for (target, unit) in targets.iter().zip(&units) {
            let id = self.unit_of(target)?;
            if self.machine.run(id).is_some() {
                continue;
            }
            if !self.machine.is_needed(id) && !self.machine.graph().is_masked(id) {
                let text = format!("{unit} is not running, and no goal needs it");
                let hint = format!("`initctl want {target}` starts it");
                return Err(Failure::new("not-running", text, hint));
            }
            idle.push(unit.clone());
        }
        self.apply_request(Event::Restart(targets))?;
        now(Told { schema: 1, units, idle })
    }

    /// Starts a shutdown. The answer is sent at the end of this turn, before init ends.
    fn end(&mut self, how: Shutdown) -> Answered {
        self.shut_down(how);
        now(Told { schema: 1, ..Told::default() })
    }

    fn end_sooner(&mut self, at_once: bool) -> Answered {
        let haste = if at_once { Haste::AtOnce } else { Haste::Kill };
        if !self.hasten(haste) {
            let hint = "`initctl poweroff` or `initctl reboot` starts one";
            return Err(Failure::new("not-stopping", "no shutdown is in progress", hint));
        }
        now(Told { schema: 1, ..Told::default() })
    }

    /// Sends a signal to the current runs of these units. If any of the units is unknown, no unit
    /// is signalled.
    fn kill_units(&mut self, names: &[Name], number: u8, all: bool) -> Answered {
        if number == 0 || number > crate::sys::signal::LAST {
            let text = format!("{number} is not a signal number");
            return Err(Failure::new(Failure::USAGE, text, "`kill -l` lists them"));
        }
        let units = self.units_of(names)?;
        let mut runs = Vec::new();
        for unit in &units {
            let latest = Name::new(unit).ok().and_then(|name| self.runs.latest(&name));
            let Some(run) = latest.filter(|run| self.tracker.has_processes(*run)) else {
                let text = format!("{unit} has no process");
                return Err(Failure::new("not-running", text, "`initctl status` shows what runs"));
            };
            runs.push(run);
        }
        let mut refused = None;
        for (unit, run) in units.iter().zip(runs) {
            let sent = if all { None } else { self.runs.signal_main(run, number) };
            match sent {
                None => self.tracker.signal(run, number, None),
                Some(sent) => refused = refused.or(sent.err().map(|error| (unit, error))),
            }
        }
        // The other processes of the run are not signalled.
        if let Some((unit, error)) = refused {
            let text = format!("{unit}: cannot signal the main process: {error}");
            let hint = "`initctl kill --all` signals all processes of the unit";
            return Err(Failure::new("not-running", text, hint));
        }
        now(Told { schema: 1, units, ..Told::default() })
    }

    /// Installs a new generation, unless the machine refuses it. The plan is computed only for a
    /// client: for ten thousand units it takes as long as the request itself.
    pub(crate) fn install_generation(
        &mut self,
        generation: &Arc<Generation>,
        flip: Event,
        for_a_client: bool,
    ) -> Answered {
        let plan = for_a_client.then(|| self.show_plan(flip.clone())).transpose()?;
        self.apply_request(flip)?;
        self.apply_settings_of(generation);
        self.timings.retain_units_of(generation);
        let (number, units) = (generation.number, generation.units.len());
        self.say(Level::Info, format_args!("generation {number}: {units} units"));
        let diagnostics = Report::new(&generation.diagnostics).diagnostics;
        now(Changed { schema: 1, generation: number, plan: plan.unwrap_or_default(), diagnostics })
    }
}

// Instances on request
//
// A request may name an instance that the loader has not made yet. Init then asks the loader for a
// generation with that instance and decides the request in it. If the request is refused or only
// planned, init drops that generation.

impl Init {
    /// Returns true if the request needs a load: it names an instance that does not exist, or one
    /// that the load in flight does not make. That load would install a generation without it.
    fn needs_instances(&self, wish: &Event) -> bool {
        let (generation, graph) = (self.machine.generation(), self.machine.graph());
        let (present, policy) = (self.machine.wish(), self.machine.policy());
        let is_told = |name: &Name| {
            present.want.contains_key(name)
                || present.goal.contains(name)
                || (matches!(wish, Event::SetPolicy(_)) && policy.enable.contains(name))
        };
        let is_missing = |name: &Name| {
            graph.meant(generation, name) == Provider::NoUnit
                && generation.find_unit(name.as_str()).is_none()
        };
        let changes = self.loader.purpose().is_some_and(|purpose| !purpose.is_shown_only());
        instances_of(wish).any(|name| is_missing(name) || (changes && !is_told(name)))
    }

    /// Applies a request: plans it, then grants or refuses it as a whole.
    pub(crate) fn change(&mut self, asker: Asker, wish: Event) -> Answered {
        if self.needs_instances(&wish) {
            return self.defer_until_load(
                asker,
                Purpose::Instances { asker, wish: wish.into(), dry: false },
            );
        }
        let plan = self.show_plan(wish.clone())?;
        self.apply_request(wish)?;
        let generation = self.machine.generation().number;
        now(Changed { schema: 1, generation, plan, diagnostics: Vec::new() })
    }

    /// Answers with the effect that a request would have.
    pub(crate) fn plan_change(&mut self, asker: Asker, wish: Event) -> Answered {
        if self.needs_instances(&wish) {
            return self.defer_until_load(
                asker,
                Purpose::Instances { asker, wish: wish.into(), dry: true },
            );
        }
        now(self.show_plan(wish)?)
    }

    /// Installs a generation that has the requested instances and applies the request.
    pub(crate) fn take_instances(
        &mut self,
        generation: &Generation,
        flip: Event,
        wish: Event,
        dry: bool,
    ) -> Answered {
        let plan = self.show_plans(vec![flip.clone(), wish.clone()])?;
        if dry {
            return now(plan);
        }
        self.apply_request(flip)?;
        self.timings.retain_units_of(generation);
        let (number, units) = (generation.number, generation.units.len());
        self.say(Level::Debug, format_args!("generation {number}: {units} units"));
        self.apply_request(wish)?;
        now(Changed { schema: 1, generation: number, plan, diagnostics: Vec::new() })
    }
}

// Takes requests from clients: how many in a turn, and in which order.

impl Init {
    /// Accepts connections and handles requests. Each client has its share of the turn.
    pub(crate) fn serve(&mut self) {
        self.serve_all();
        fd::close_left();
    }

    fn serve_all(&mut self) {
        let now = self.now;
        let settings = &self.machine.generation().settings;
        let owners: Vec<u32> = settings.sources.values().copied().collect();
        let Some(control) = self.control.as_mut().filter(|control| !control.is_idle()) else {
            return;
        };
        control.accept(self.poll.registry(), now);
        let mut until = None;
        for number in control.order() {
            for _ in 0..limit::REQUESTS_A_TURN {
                let Some(control) = &mut self.control else { return };
                let Some(caller) = control.clients.get(&number).map(|it| it.caller) else { break };
                if !control.has_room_for_answer(caller) {
                    break;
                }
                if until.is_some_and(|until| until <= clock::now()) && !caller.trusted {
                    return;
                }
                let Some(client) = control.clients.get_mut(&number) else { break };
                if !client.may_ask() {
                    break;
                }
                let takes = caller.trusted || owners.iter().any(|uid| caller.is_user(*uid));
                match client.line(now, takes) {
                    Input::None => break,
                    Input::Whole(line, _) if line.iter().all(u8::is_ascii_whitespace) => {}
                    Input::Whole(line, passed) => {
                        if !caller.trusted {
                            control.served = number;
                            let end = || clock::now().after(limit::SERVING_A_TURN);
                            until = until.or_else(|| Some(end()));
                        }
                        self.request(number, caller, &line, passed);
                    }
                    Input::TooLong => {
                        let hint = "a request is one line of at most 64 KiB";
                        let failure = Failure::new("protocol", "the request is too long", hint);
                        client.queue(&failed(0, failure));
                        client.close();
                    }
                }
            }
        }
    }

    fn request(&mut self, number: usize, caller: Caller, text: &[u8], passed: Vec<Foreign>) {
        let request = Request::parse(text);
        if !matches!(&request, Ok(Request { verb: Verb::SourcePut { .. }, .. })) {
            // This request does not use the descriptors that came with it.
            fd::dropped(passed.len());
        }
        match request {
            Err(Malformed { id, kind, message, hint }) => {
                let asker = Asker { client: number, id: id.unwrap_or(0) };
                self.send(asker, Err(Failure::new(kind, message, hint)));
            }
            Ok(request) => {
                let asker = Asker { client: number, id: request.id };
                let answer = self.answer(asker, caller, request.verb, passed);
                let answer = answer.map_err(|failure| self.too_early(failure));
                self.send(asker, answer);
            }
        }
    }
}
