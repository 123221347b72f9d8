//! Makes the answers of [`crate::control::answer`] from a [`Machine`] and a few facts that only
//! init knows. Pure, and the same for `init`, the simulator and tests.

mod cause;
mod location;
mod plan;
mod relation;

use cause::present;
pub use cause::reason;
pub use location::located;
pub use plan::plan;

use crate::control::answer::{
    Edge, Failure, Graph, Link, Node, Overlay, SCHEMA, Status, TargetStatus, UnitStatus, Why,
};
use crate::graph::Provider;
use crate::import::systemd::span;
use crate::machine::event::RunId;
use crate::machine::reason::{Reason, State};
use crate::machine::{Machine, why};
use crate::spec::Kind;
use crate::text::name::{Name, template_hint};
use crate::text::time::Time;
use crate::text::wall_clock::WallTime;
use crate::unit::generation::{TargetId, Unit, UnitId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Facts that init knows and the machine does not.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The present time of the machine's clock.
    pub now: Time,
    /// The wall clock at that time, since 1970.
    pub wall: Duration,
    /// The time at which init started.
    pub booted: Time,
    /// Number of crashes that init survived.
    pub crashes: u32,
    /// The time of the last recovery from a crash.
    pub resumed: Option<Time>,
    /// The process tracking: `cgroup2` or `process-group`.
    pub tracking: String,
    /// The event that each active trigger waits for, in words.
    pub waits: BTreeMap<RunId, String>,
    /// The main process of each run that has one.
    pub main_pids: BTreeMap<RunId, u32>,
}

impl Facts {
    /// Converts a time of the machine's clock to RFC 3339.
    pub fn wall_of(&self, at: Time) -> String {
        let then = if at > self.now {
            self.wall.saturating_add(at.since(self.now))
        } else {
            self.wall.saturating_sub(self.now.since(at))
        };
        WallTime::from_millis(u64::try_from(then.as_millis()).unwrap_or(u64::MAX)).to_string()
    }
}

/// Answer of `status` for these targets or units; for all of them if the list is empty.
///
/// # Errors
/// The first name that belongs to no target or unit.
pub fn status(machine: &Machine, facts: &Facts, names: &[Name]) -> Result<Status, Failure> {
    let view = View::new(machine, facts);
    let (units, targets) = view.chosen(names)?;
    let mut shown: Vec<UnitStatus> = units.iter().filter_map(|unit| view.unit(*unit)).collect();
    if names.is_empty() {
        shown.extend(view.removed());
        shown.sort_by(|a, b| a.unit.cmp(&b.unit));
    }
    let wish = machine.wish();
    let wall = |at: &Time| facts.wall_of(*at);
    Ok(Status {
        schema: SCHEMA,
        generation: machine.generation().number,
        goal: wish.goal.iter().map(Name::to_string).collect(),
        overlay: Overlay {
            want: wish.want.keys().map(Name::to_string).collect(),
            drop: wish.drop.iter().map(Name::to_string).collect(),
            until: wish.want.values().map(|until| until.as_ref().map(wall)).collect(),
        },
        sources: relation::sources(machine.generation()),
        system: machine.system(),
        settled: machine.is_settled(),
        tracking: facts.tracking.clone(),
        crashes: facts.crashes,
        resumed: facts.resumed.as_ref().map(wall),
        booted: facts.wall_of(facts.booted),
        now: facts.wall_of(facts.now),
        units: shown,
        targets: targets.iter().filter_map(|target| view.target(*target)).collect(),
    })
}

/// Answer of `why`.
///
/// # Errors
/// The name belongs to no target or unit.
pub fn why(machine: &Machine, facts: &Facts, name: &Name) -> Result<Why, Failure> {
    let view = View::new(machine, facts);
    let (units, targets) = view.chosen(std::slice::from_ref(name))?;
    let asked = targets
        .iter()
        .filter_map(|target| view.target(*target))
        .find(|target| target.target == name.as_str());
    let unit = match asked {
        Some(TargetStatus { unit: None, state, .. }) => {
            return Ok(view.why_no_provider(name, state));
        }
        _ => units.first().copied().ok_or_else(|| unknown(machine, name))?,
    };
    let detail = view.unit(unit).ok_or_else(|| unknown(machine, name))?;
    let mut chain: Vec<Link> = machine.why(unit).iter().map(|link| view.link(link)).collect();
    if let Some(first) = chain.first_mut() {
        first.target = name.to_string();
    }
    Ok(Why {
        schema: SCHEMA,
        target: name.to_string(),
        unit: Some(detail.unit.clone()),
        state: detail.state,
        degraded: detail.degraded,
        chain,
        needed_by: view.needs(unit),
        activated_by: view.activated_by(unit),
        affects: view.affects(unit),
        detail: Some(detail),
    })
}

/// Answer of `graph` and `tree`.
pub fn graph(machine: &Machine, facts: &Facts) -> Graph {
    let view = View::new(machine, facts);
    let generation = machine.generation();
    let node = |id: UnitId| {
        let unit = generation.unit(id)?;
        Some(Node {
            unit: unit.name.to_string(),
            kind: unit.kind,
            provides: view.names(&unit.provides),
            state: Some(machine.state(id)),
            degraded: view.degraded.contains(&id),
            needed: machine.is_needed(id),
            reason: machine.reason(id).map(|why| present(machine, &why, facts, None)),
        })
    };
    let edges = |id: UnitId| {
        let from = generation.unit(id).map(|unit| unit.name.to_string()).unwrap_or_default();
        machine.graph().edges(id).iter().filter_map(move |edge| {
            Some(Edge {
                from: from.clone(),
                target: generation.target(edge.target)?.name.to_string(),
                to: edge.provider.and_then(|to| Some(generation.unit(to)?.name.to_string())),
                kind: edge.kind,
                optional: edge.optional,
            })
        })
    };
    let wish = machine.wish();
    Graph {
        schema: SCHEMA,
        goal: wish.goal.iter().chain(wish.want.keys()).map(Name::to_string).collect(),
        nodes: generation.unit_ids().filter_map(node).collect(),
        edges: generation.unit_ids().flat_map(edges).collect(),
    }
}

fn unknown(machine: &Machine, name: &Name) -> Failure {
    let near = machine.generation().nearest_target(name.as_str());
    let near = near.map(|near| format!("did you mean `{near}`?"));
    let hint = template_hint(name.as_str()).or(near).unwrap_or_default();
    Failure::new(Failure::UNKNOWN_TARGET, format!("no target and no unit is named `{name}`"), hint)
}

/// A machine with its facts, and values computed once for all units.
struct View<'a> {
    machine: &'a Machine,
    facts: &'a Facts,
    degraded: BTreeSet<UnitId>,
    coincidental: BTreeSet<TargetId>,
    /// Targets without a provider that the goal or needed units name.
    missed: BTreeSet<TargetId>,
    goal: BTreeSet<UnitId>,
}

impl<'a> View<'a> {
    fn new(machine: &'a Machine, facts: &'a Facts) -> View<'a> {
        let wish = machine.wish();
        let generation = machine.generation();
        let graph = machine.graph();
        let goals = || wish.goal.iter().chain(wish.want.keys());
        let mut missed: BTreeSet<TargetId> = goals()
            .filter_map(|name| generation.find_target(name.as_str()))
            .filter(|target| graph.provider(*target).unit().is_none())
            .collect();
        for unit in generation.unit_ids().filter(|unit| machine.is_needed(*unit)) {
            let dead = graph
                .edges(unit)
                .iter()
                .filter(|edge| edge.provider.is_none() && edge.kind.pulls_in() && !edge.optional);
            missed.extend(dead.map(|edge| edge.target));
        }
        View {
            machine,
            facts,
            degraded: machine.degraded(),
            coincidental: machine.coincidental(),
            missed,
            goal: goals().filter_map(|name| graph.meant(generation, name).unit()).collect(),
        }
    }

    /// Returns the units and targets of names, each in the order of names.
    fn chosen(&self, names: &[Name]) -> Result<(Vec<UnitId>, Vec<TargetId>), Failure> {
        let generation = self.machine.generation();
        if names.is_empty() {
            let count = u32::try_from(generation.targets.len()).unwrap_or(u32::MAX);
            let targets = (0..count).map(TargetId).collect();
            return Ok((generation.unit_ids().collect(), targets));
        }
        let (mut units, mut targets) = (BTreeSet::new(), BTreeSet::new());
        for name in names {
            let target = generation.find_target(name.as_str());
            targets.extend(target);
            let found = match self.machine.graph().meant(generation, name) {
                Provider::Unit(unit) => Some(unit),
                // The unit that would provide the target if it were not masked.
                Provider::Masked | Provider::NoUnit => {
                    let claims = target.and_then(|target| generation.target(target));
                    let claims = claims.map(|target| target.candidates.as_slice());
                    let first = claims.unwrap_or_default().first().copied();
                    first.or_else(|| generation.find_unit(name.as_str()))
                }
            };
            if found.is_none() && target.is_none() {
                return Err(unknown(self.machine, name));
            }
            units.extend(found);
        }
        for unit in units.iter().filter_map(|unit| generation.unit(*unit)) {
            targets.extend(unit.provides.iter().copied());
        }
        Ok((units.into_iter().collect(), targets.into_iter().collect()))
    }

    fn names(&self, targets: &[TargetId]) -> Vec<String> {
        let generation = self.machine.generation();
        targets.iter().filter_map(|t| Some(generation.target(*t)?.name.to_string())).collect()
    }

    fn unit(&self, id: UnitId) -> Option<UnitStatus> {
        let unit = self.machine.generation().unit(id)?;
        let run = self.machine.run(id);
        let pid = run.and_then(|run| self.facts.main_pids.get(&run).copied());
        let why = self.machine.reason(id);
        Some(UnitStatus {
            unit: unit.name.to_string(),
            kind: unit.kind,
            description: unit.live.description.clone(),
            provides: self.names(&unit.provides),
            state: self.machine.state(id),
            idle: self.machine.state(id) == State::Disabled,
            degraded: self.degraded.contains(&id),
            main_pid: pid,
            run: run.map(|run| run.0),
            since: self.facts.wall_of(self.machine.since(id)),
            attempt: self.machine.failures(id),
            next_try: self.next_try(id),
            verdict: self.machine.has_verdict(id),
            stale: self.machine.is_stale(id),
            needed: self.machine.is_needed(id),
            needed_by: self.needed_by(id),
            status: self.says(id),
            reason: why.map(|why| self.told(id, &why, pid)),
            can_reload: unit.has_exec_reload,
            reload_failed: self.machine.reload_failed(id),
            remains: !self.machine.is_over(id) && (unit.remains || !unit.kind.has_process()),
            file: unit.at.file.to_string(),
            source: unit.source.as_ref().map(Name::to_string),
        })
    }

    /// Returns a reason in words. A pending retry comes after the reason of the last failure. A
    /// start timeout has the unit's present limit, because the reason stores none.
    fn told(&self, unit: UnitId, why: &Reason, pid: Option<u32>) -> crate::control::answer::Reason {
        let mut told = present(self.machine, why, self.facts, pid);
        let last = self.machine.last_failure(unit);
        let last = last.filter(|_| matches!(why, Reason::Backoff { .. }));
        if let Some(last) = last {
            told.text = format!("{}; {}", reason(last, self.facts, None).text, told.text);
        }
        let unit = self.machine.generation().unit(unit);
        if *last.unwrap_or(why) == Reason::StartTimeout
            && let Some(limit) = unit.and_then(|unit| unit.live.start_timeout)
        {
            let limit = span::native(u64::try_from(limit.as_micros()).unwrap_or(u64::MAX));
            told.text = told.text.replacen("-timeout", &format!("-timeout ({limit})"), 1);
        }
        told
    }

    /// Returns the up runs of removed units.
    fn removed(&self) -> Vec<UnitStatus> {
        let removed = self.machine.removed().into_iter();
        removed
            .map(|(name, run, state)| UnitStatus {
                unit: name.to_string(),
                kind: self.machine.kind_of_run(run).unwrap_or(Kind::Virtual),
                description: String::new(),
                provides: Vec::new(),
                state,
                idle: state == State::Disabled,
                degraded: false,
                main_pid: self.facts.main_pids.get(&run).copied(),
                run: Some(run.0),
                since: self.facts.wall_of(self.facts.now),
                attempt: 0,
                next_try: None,
                verdict: false,
                stale: true,
                needed: false,
                needed_by: Vec::new(),
                status: String::new(),
                reason: None,
                can_reload: false,
                reload_failed: false,
                remains: true,
                file: String::new(),
                source: None,
            })
            .collect()
    }

    fn target(&self, id: TargetId) -> Option<TargetStatus> {
        let name = self.machine.generation().target(id)?.name.to_string();
        let unit = self.machine.graph().provider(id).unit();
        let provider = unit.and_then(|unit| self.machine.generation().unit(unit));
        Some(TargetStatus {
            target: name,
            unit: provider.map(|unit: &Unit| unit.name.to_string()),
            state: match unit {
                Some(unit) => self.machine.state(unit),
                None if self.missed.contains(&id) => State::Failed,
                None => State::Disabled,
            },
            degraded: unit.is_some_and(|unit| self.degraded.contains(&unit)),
            coincidental: self.coincidental.contains(&id),
            reason: self.no_provider(id).map(|why| present(self.machine, &why, self.facts, None)),
        })
    }

    fn link(&self, link: &why::Link) -> Link {
        let unit = link.unit.and_then(|unit| self.machine.generation().unit(unit));
        let run = link.unit.and_then(|unit| self.machine.run(unit));
        let pid = run.and_then(|run| self.facts.main_pids.get(&run).copied());
        Link {
            unit: unit.map(|unit| unit.name.to_string()),
            target: link.target.to_string(),
            state: link.state,
            degraded: link.unit.is_some_and(|unit| self.degraded.contains(&unit)),
            reason: link.reason.as_ref().map(|why| match link.unit {
                Some(unit) => self.told(unit, why, pid),
                None => present(self.machine, why, self.facts, pid),
            }),
            next_try: link.unit.and_then(|unit| self.next_try(unit)),
            gives_up: link.unit.map(|unit| self.machine.has_failed_for_good(unit)),
            file: unit.map(|unit| unit.at.file.to_string()),
            line: unit.map(|unit| unit.at.line),
        }
    }

    /// Returns the reason why a target has no provider.
    fn no_provider(&self, id: TargetId) -> Option<Reason> {
        let target = self.machine.generation().target(id)?.name.clone();
        match self.machine.graph().provider(id) {
            Provider::Unit(_) => None,
            Provider::Masked => Some(Reason::Masked { target }),
            Provider::NoUnit => Some(Reason::Missing { target }),
        }
    }

    /// Returns the answer of `why` for a target that is masked or has no provider.
    fn why_no_provider(&self, name: &Name, state: State) -> Why {
        let target = self.machine.generation().find_target(name.as_str());
        let why = target.and_then(|target| self.no_provider(target));
        let why = why.unwrap_or_else(|| Reason::Missing { target: name.clone() });
        Why {
            schema: SCHEMA,
            target: name.to_string(),
            state,
            chain: vec![Link {
                target: name.to_string(),
                state,
                reason: Some(present(self.machine, &why, self.facts, None)),
                ..Link::default()
            }],
            ..Why::default()
        }
    }
}
