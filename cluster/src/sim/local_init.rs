//! The init of a simulated machine, as fleetd sees it.
//! It has a source with a revision, files and roots, and a run per root that takes time to start
//! and stop. It survives fleetd but not its machine.

use crate::clock::Time;
use crate::fleetd::init::{Answered, DrivenInit, Look};
use crate::fleetd::init_socket::InitFault;
use crate::sim::book::is_launched;
use crate::sim::invariant::Moment;
use crate::sim::world::{Event, MachineTime, NEVER, Shared, World, lock};
use crate::unit_name::UnitName;
use groundstate_units::control::answer::{Failure, Put, UnitStatus};
use groundstate_units::control::source_set::SourceSet;
use groundstate_units::machine::reason::State;
use groundstate_units::spec::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Longest start in milliseconds.
const START: u64 = 800;
/// Longest stop in milliseconds: well below a third of the shortest lease.
pub const STOP: u64 = 1_000;

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The process has started and is not ready.
    Starting,
    /// The process is running.
    Up,
    /// The process was told to stop.
    Stopping,
}

/// A run of a unit.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its phase.
    pub phase: Phase,
    /// The file that it started with.
    pub text: String,
    /// A unique id.
    pub life: u64,
    /// The id of its next step.
    step: u64,
}

/// A simulated init.
#[derive(Clone, Debug, Default)]
pub struct LocalInit {
    /// Revision of our source.
    pub revision: u64,
    /// Files by name.
    pub files: BTreeMap<String, String>,
    /// Roots: units that should run.
    pub roots: BTreeSet<String>,
    /// Runs by unit.
    pub runs: BTreeMap<String, Run>,
    steps: u64,
}

/// Returns true if the file asks to run on one machine only.
pub fn is_exclusive(text: &str) -> bool {
    text.contains("Exclusive=true")
}

impl LocalInit {
    /// Returns true if the unit has processes.
    pub fn is_live(&self, name: &str) -> bool {
        self.runs.contains_key(name)
    }

    fn look(&self) -> Look {
        // A unit without a file is listed as long as it has processes.
        let names: BTreeSet<&String> = self.files.keys().chain(self.runs.keys()).collect();
        let units = names.into_iter().map(|name| self.status(name));
        let revision = (self.revision > 0).then_some(self.revision);
        Look { units: units.collect(), revision, ending: false }
    }

    fn status(&self, name: &str) -> UnitStatus {
        let run = self.runs.get(name);
        UnitStatus {
            unit: name.to_string(),
            kind: Kind::ForegroundSupervised,
            description: String::new(),
            provides: Vec::new(),
            state: match run.map(|run| run.phase) {
                None => State::Disabled,
                Some(Phase::Starting) => State::Starting,
                Some(Phase::Up) => State::Running,
                Some(Phase::Stopping) => State::Stopping,
            },
            idle: run.is_none(),
            degraded: false,
            main_pid: None,
            run: None,
            since: String::new(),
            attempt: 0,
            next_try: None,
            verdict: false,
            stale: false,
            needed: self.roots.contains(name),
            needed_by: Vec::new(),
            status: String::new(),
            reason: None,
            can_reload: false,
            reload_failed: false,
            remains: false,
            file: name.to_string(),
            source: None,
        }
    }
}

impl World {
    fn put(&mut self, machine: usize, set: &SourceSet) -> Result<Put, InitFault> {
        let init = &self.machines[machine].init;
        if set.expected.is_some_and(|expected| expected != init.revision) {
            let failure = Failure::new("revision", "another put came before", "");
            return Err(InitFault::Refused(Box::new(failure)));
        }
        let roots: BTreeSet<String> =
            set.roots.iter().map(|root| root.as_str().to_string()).collect();
        let names = |of: Vec<&String>| -> Vec<UnitName> {
            of.into_iter().filter_map(|name| UnitName::new(name).ok()).collect()
        };
        let added = names(roots.difference(&init.roots).collect());
        let dropped = names(init.roots.difference(&roots).collect());
        self.say(|| format!("m{machine}: fleetd puts the roots {roots:?}"));
        let moment = Moment::Put { machine, added: &added, dropped: &dropped, files: &set.files };
        self.judge(&moment);
        let given_up = |name: &UnitName| {
            let text = self.machines[machine].init.files.get(name.as_str());
            let wanted = is_launched(&self.truth, &self.machines[machine].id, name);
            wanted && text.is_some_and(|text| is_exclusive(text))
        };
        if dropped.iter().any(given_up) {
            self.coverage.count("exclusive unit given up");
        }
        self.remember_put(machine, &added, &dropped);
        self.run_signed(machine, &set.files);
        let init = &mut self.machines[machine].init;
        init.revision += 1;
        init.files = set.files.clone();
        init.roots = roots;
        let revision = init.revision;
        self.move_on(machine);
        Ok(Put {
            schema: 0,
            source: String::new(),
            revision,
            generation: 0,
            plan: None,
            diagnostics: Vec::new(),
        })
    }

    /// Starts and stops units to match the source.
    fn move_on(&mut self, machine: usize) {
        let init = &self.machines[machine].init;
        let (mut starts, mut stops) = (Vec::new(), Vec::new());
        for (name, run) in &init.runs {
            let same = init.files.get(name) == Some(&run.text);
            if run.phase != Phase::Stopping && (!init.roots.contains(name) || !same) {
                stops.push(name.clone());
            }
        }
        for name in init.roots.iter().filter(|name| !init.runs.contains_key(*name)) {
            starts.push(name.clone());
        }
        for name in &stops {
            let time = Duration::from_millis(self.chance.between(20, STOP));
            self.step(machine, name, Phase::Stopping, time);
        }
        for name in &starts {
            let time = Duration::from_millis(self.chance.between(20, START));
            self.step(machine, name, Phase::Starting, time);
        }
        if !starts.is_empty() {
            self.judge(&Moment::Live);
        }
        self.tell_fleetd(machine);
    }

    fn step(&mut self, machine: usize, name: &str, phase: Phase, time: Duration) {
        let init = &mut self.machines[machine].init;
        init.steps += 1;
        let step = init.steps;
        let text = init.files.get(name).cloned().unwrap_or_default();
        let run =
            init.runs.entry(name.to_string()).or_insert(Run { phase, text, life: step, step });
        (run.phase, run.step) = (phase, step);
        self.say(|| format!("m{machine}: {name} {phase:?}"));
        self.plan_in(time, Event::Init(machine, step));
    }

    /// Ends a phase: the run is ready or gone.
    pub fn init_steps(&mut self, machine: usize, step: u64) {
        if !self.runs(machine) {
            // A machine without power loses its pending steps.
            let mut again = self.machines[machine].paused_until;
            if again > self.now {
                // The end of all faults ends a pause too.
                if self.healed == NEVER {
                    again = again.min(self.plan.heal);
                }
                self.plan_at(again, Event::Init(machine, step));
            }
            return;
        }
        let init = &mut self.machines[machine].init;
        let Some(name) = init.runs.iter().find(|(_, run)| run.step == step) else { return };
        let name = name.0.clone();
        let phase = init.runs.get(&name).map(|run| run.phase);
        match phase {
            Some(Phase::Starting) => {
                if let Some(run) = init.runs.get_mut(&name) {
                    run.phase = Phase::Up;
                }
            }
            Some(Phase::Stopping) => {
                init.runs.remove(&name);
            }
            Some(Phase::Up) | None => {}
        }
        self.say(|| format!("m{machine}: {name} leaves {phase:?}"));
        self.move_on(machine);
    }

    fn tell_fleetd(&mut self, machine: usize) {
        if let Some(fleetd) = &self.machines[machine].fleetd {
            let _ = fleetd.daemon.happened.try_send(());
        }
    }
}

/// An init as its fleetd sees it.
#[derive(Clone)]
pub struct InitOf {
    /// The world.
    pub world: Shared,
    /// The machine.
    pub machine: usize,
}

impl InitOf {
    /// A message to init and back takes time; there is no answer while init is away.
    fn ask<T: Send + 'static>(
        &self,
        answer: impl FnOnce(&mut World) -> Result<T, InitFault> + Send + 'static,
    ) -> Answered<T> {
        let (world, machine) = (self.world.clone(), self.machine);
        Box::pin(async move {
            let time = MachineTime { world: world.clone(), machine };
            let gone = InitFault::Gone("away".to_string());
            let way = Duration::from_micros(lock(&world).chance.between(100, 3_000));
            time.sleep_until(time.now() + way).await;
            let mut world = lock(&world);
            if world.now < world.machines[machine].away_until {
                return Err(gone);
            }
            let answer = answer(&mut world);
            let rate = world.plan.rates.init;
            if world.mishap(rate) {
                world.coverage.count("init's answer lost");
                let now = world.now;
                world.trouble(machine, now);
                return Err(gone);
            }
            answer
        })
    }
}

impl DrivenInit for InitOf {
    fn revision(&self) -> Answered<Option<u64>> {
        let machine = self.machine;
        self.ask(move |world| {
            let revision = world.machines[machine].init.revision;
            Ok((revision > 0).then_some(revision))
        })
    }

    fn put(&self, set: &SourceSet) -> Answered<Put> {
        let (machine, set) = (self.machine, set.clone());
        self.ask(move |world| world.put(machine, &set))
    }

    fn look(&self) -> Answered<Look> {
        let machine = self.machine;
        self.ask(move |world| Ok(world.machines[machine].init.look()))
    }
}
