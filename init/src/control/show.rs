//! What init shows of itself and of the machine: the answers that only read.

use crate::event_loop::Init;
use crate::history::Entry;
use crate::limit;
use groundstate_units::control::answer::{
    self, Event as Shown, Failure, Located, Overlay, Paths, Plan, Pong, SCHEMA, Stats, Status,
    TargetStatus, UnitStatus, Why,
};
use groundstate_units::control::place;
use groundstate_units::generation::UnitId;
use groundstate_units::graph::Provider;
use groundstate_units::machine::event::Event;
use groundstate_units::machine::reason::State;
use groundstate_units::name::Name;
use groundstate_units::wall::Wall;
use std::time::Duration;

/// A line of the event log.
pub(super) fn event(entry: &Entry) -> Shown {
    let note = entry.note.as_ref();
    Shown {
        seq: entry.seq,
        time: wall(entry.wall),
        mono_us: entry.at.as_nanos() / 1000,
        unit: note.map(|note| note.unit.to_string()),
        run: note.and_then(|note| note.run).map(|run| run.0),
        event: entry.event.to_string(),
        from: note.map(|note| note.from),
        to: note.map(|note| note.to),
        reason: None,
        cause: entry.cause,
    }
}

fn wall(at: Duration) -> String {
    Wall::from_millis(u64::try_from(at.as_millis()).unwrap_or(u64::MAX)).to_string()
}

fn unknown(name: &Name) -> Failure {
    Failure::new(
        Failure::UNKNOWN_TARGET,
        format!("no target and no unit is called {name}"),
        "`initctl status` lists them",
    )
}

impl Init {
    /// The unit a target or unit name means.
    pub(super) fn unit_of(&self, name: &Name) -> Result<UnitId, Failure> {
        let generation = self.machine.generation();
        match self.machine.graph().meant(generation, name) {
            Provider::Unit(unit) => Ok(unit),
            Provider::Masked | Provider::Nobody => {
                generation.find_unit(name.as_str()).ok_or_else(|| unknown(name))
            }
        }
    }

    /// The names of the units these names mean; all are known, or it is refused.
    pub(super) fn units_of(&self, names: &[Name]) -> Result<Vec<String>, Failure> {
        if names.is_empty() {
            return Err(Failure::new(Failure::USAGE, "no target is named", ""));
        }
        let generation = self.machine.generation();
        let name_of = |unit| generation.unit(unit).map(|unit| unit.name.to_string());
        names.iter().map(|name| Ok(name_of(self.unit_of(name)?).unwrap_or_default())).collect()
    }

    pub(super) fn pong(&self) -> Pong {
        let settings = &self.machine.generation().settings;
        Pong {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_string(),
            pid: std::process::id(),
            boot: wall(self.booted),
            seq: self.history.last(),
            paths: Paths {
                config: self.paths.config.0.clone(),
                policy: self.paths.policy.clone(),
                runtime_policy: self.paths.runtime_dir.as_deref().map(place::runtime_policy),
                runtime_dir: self.paths.runtime_dir.clone(),
                log_dir: self.paths.log_dir(settings),
                unit_dirs: self.paths.unit_dirs(settings),
            },
        }
    }

    pub(super) fn stats(&self) -> Stats {
        // Of /proc/self/statm the second number is the resident pages, proc_pid_statm(5).
        let pages = std::fs::read_to_string("/proc/self/statm")
            .ok()
            .and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok())
            .unwrap_or(0);
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let fds = std::fs::read_dir("/proc/self/fd").map_or(0, |dir| count(dir.count()));
        Stats {
            schema: SCHEMA,
            crashes: 0,
            // One of them is the directory being read.
            fds: fds.saturating_sub(1),
            rss: pages.saturating_mul(limit::PAGE),
            wakeups: self.wakeups,
            units: count(self.machine.generation().units.len()),
            runs: count(self.runs.len()),
        }
    }

    pub(super) fn locate(&self, name: &Name) -> Result<Located, Failure> {
        let unit = self.unit_of(name)?;
        let unit = self.machine.generation().unit(unit).ok_or_else(|| unknown(name))?;
        Ok(Located {
            schema: SCHEMA,
            unit: unit.name.to_string(),
            file: unit.at.file.to_string(),
            line: unit.at.line,
        })
    }

    pub(super) fn show_plan(&self, wish: Event) -> Result<Plan, Failure> {
        let plan = self.machine.plan(self.now, wish);
        let plan = plan.map_err(|r| Failure::new(&r.kind, r.message, r.hint))?;
        let texts = |names: Vec<Name>| names.iter().map(Name::to_string).collect::<Vec<_>>();
        let waves = |waves: Vec<Vec<Name>>| waves.into_iter().map(texts).collect();
        Ok(Plan {
            schema: SCHEMA,
            stop: waves(plan.stop),
            start: waves(plan.start),
            restart: texts(plan.restart),
            keep: texts(plan.keep),
        })
    }

    pub(super) fn system(&self) -> answer::System {
        self.machine.system()
    }

    /// A point of the monotonic clock on the wall.
    fn wall_of(&self, at: groundstate_units::time::Time) -> String {
        wall(crate::clock::wall().saturating_sub(self.now.since(at)))
    }

    pub(super) fn show_status(&self, names: &[Name]) -> Result<Status, Failure> {
        let asked = names.iter().map(|name| self.unit_of(name)).collect::<Result<Vec<_>, _>>()?;
        let machine = &self.machine;
        let generation = machine.generation();
        let texts = |names: &mut dyn Iterator<Item = &Name>| names.map(Name::to_string).collect();
        let wish = machine.wish();
        let units = generation.unit_ids().filter(|id| asked.is_empty() || asked.contains(id));
        let units = units.filter_map(|id| self.show_unit(id)).collect();
        let targets = generation
            .targets
            .iter()
            .zip(0u32..)
            .map(|(target, id)| {
                let provider = machine.graph().provider(groundstate_units::generation::TargetId(id));
                let unit = provider.unit();
                TargetStatus {
                    target: target.name.to_string(),
                    unit: unit.and_then(|u| generation.unit(u)).map(|u| u.name.to_string()),
                    state: unit.map_or(State::Disabled, |u| machine.state(u)),
                    degraded: false,
                    coincidental: false,
                }
            })
            .collect();
        Ok(Status {
            schema: SCHEMA,
            generation: generation.number,
            goal: texts(&mut wish.goal.iter()),
            overlay: Overlay {
                want: texts(&mut wish.want.keys()),
                drop: texts(&mut wish.drop.iter()),
                until: wish.want.values().map(|at| at.map(|at| self.wall_of(at))).collect(),
            },
            system: machine.system(),
            settled: machine.is_settled(),
            crashes: 0,
            resumed: None,
            booted: wall(self.booted),
            now: wall(crate::clock::wall()),
            units,
            targets,
        })
    }

    fn show_unit(&self, id: UnitId) -> Option<UnitStatus> {
        let machine = &self.machine;
        let generation = machine.generation();
        let unit = generation.unit(id)?;
        let run = machine.run(id);
        let main = run.and_then(|run| self.runs.get(run)).and_then(|r| r.main.as_ref());
        let provides = unit.provides.iter().filter_map(|t| generation.target(*t));
        Some(UnitStatus {
            unit: unit.name.to_string(),
            kind: unit.kind,
            description: unit.live.description.clone(),
            provides: provides.map(|t| t.name.to_string()).collect(),
            state: machine.state(id),
            degraded: false,
            main_pid: main.and_then(|main| u32::try_from(main.pid()).ok()),
            run: run.map(|run| run.0),
            since: self.wall_of(machine.since(id)),
            attempt: machine.failures(id),
            next_try: None,
            verdict: machine.has_verdict(id),
            stale: machine.is_stale(id),
            needed: machine.is_needed(id),
            needed_by: Vec::new(),
            status: machine.status(id).to_string(),
            reason: machine.reason(id).map(|r| answer::Reason { text: r.to_string(), cause: answer::Cause::Other }),
            file: unit.at.file.to_string(),
            source: None,
        })
    }

    pub(super) fn show_why(&self, _: &Name) -> Result<Why, Failure> {
        Err(Failure::new(Failure::UNSUPPORTED, "", ""))
    }
}
