//! Converts units that refer to each other by name to a generation with dense ids, and back.
//!
//! A [`Draft`] is a unit before the other units are known. The loader makes drafts from text; the
//! simulator and tests make them directly. [`assemble`] sorts and numbers, and checks nothing: see
//! [`crate::unit::semantics`] for the text of one unit and [`crate::unit::wire`] for the validation
//! of a generation.

use crate::spec::{
    DependencyKind, Kind, Live, OnChange, Readiness, Restart, RestartLimit, Run, SuccessStatus,
};
use crate::text::diagnostic::Place;
use crate::text::name::Name;
use crate::trigger::Trigger;
use crate::unit::generation::{Dependency, Fault, Generation, Target, TargetId, Unit, UnitId};
use crate::unit::settings::Settings;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of SIGTERM: signal(7).
const TERM: u8 = 15;

/// One entry of a dependency list, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The kind of the dependency.
    pub kind: DependencyKind,
    /// The target.
    pub target: Name,
    /// The dependency is optional, written `t?`.
    pub optional: bool,
    /// The dependency comes from an imported file.
    pub imported: bool,
    /// The line in the unit's file; the unit's own line for a drop-in.
    pub line: u32,
}

/// A unit that names its targets. Fields are those of [`Unit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// See [`Unit::name`].
    pub name: Name,
    /// See [`Unit::at`].
    pub at: Place,
    /// See [`Unit::kind`].
    pub kind: Kind,
    /// Targets in any order; empty means the unit's name.
    pub provides: Vec<Name>,
    /// See [`Unit::dependencies`].
    pub dependencies: Vec<Edge>,
    /// See [`Unit::wanted_by`].
    pub wanted_by: Vec<Name>,
    /// See [`Unit::required_by`].
    pub required_by: Vec<Name>,
    /// See [`Unit::pulled_by`].
    pub pulled_by: Vec<Name>,
    /// See [`Unit::activates`].
    pub activates: Option<Name>,
    /// See [`Unit::live`].
    pub live: Live,
    /// See [`Unit::readiness`].
    pub readiness: Readiness,
    /// See [`Unit::has_exec_stop`].
    pub has_exec_stop: bool,
    /// See [`Unit::has_exec_reload`].
    pub has_exec_reload: bool,
    /// See [`Unit::remains`].
    pub remains: bool,
    /// See [`Unit::at_terminal`].
    pub at_terminal: bool,
    /// See [`Unit::run_hash`].
    pub run_hash: u64,
    /// See [`Unit::run`].
    pub run: Arc<[u8]>,
    /// See [`Unit::fault`].
    pub fault: Option<Fault>,
    /// See [`Unit::source`].
    pub source: Option<Name>,
    /// See [`Unit::opt_in`].
    pub opt_in: bool,
    /// See [`Unit::has_synonyms`].
    pub has_synonyms: bool,
    /// The place of its `ready-grep`, if that is expensive to compile and not compiled yet.
    pub expensive_pattern: Option<Place>,
}

impl Live {
    /// Returns the defaults of a unit of this type.
    pub fn standard(kind: Kind, settings: &Settings) -> Live {
        let supervised = match kind {
            Kind::ForegroundNotified | Kind::ForegroundSupervised | Kind::BackgroundPidfile => true,
            Kind::BackgroundScripted | Kind::Oneshot | Kind::Virtual => false,
            Kind::Socket | Kind::Timer | Kind::Path => true,
        };
        let restart = if supervised {
            settings.restart.unwrap_or(Restart::OnFailure)
        } else {
            Restart::Never
        };
        Live {
            description: String::new(),
            start_timeout: settings.start_timeout,
            stop_timeout: settings.stop_timeout,
            stop_signal: TERM,
            restart,
            restart_delay: settings.restart_delay,
            restart_delay_max: settings.restart_delay_max,
            restart_reset: settings.restart_reset,
            restart_limit: RestartLimit::None,
            failure_verdict: settings.failure_verdict,
            success_status: SuccessStatus::default(),
            restart_except: SuccessStatus::default(),
            restart_also: SuccessStatus::default(),
            run_timeout: None,
            on_change: OnChange::Restart,
            essential: false,
            stop_promptly: false,
        }
    }
}

impl Draft {
    /// Creates a minimal unit of that name; `kind` selects the defaults. A kind with a process also
    /// needs [`Draft::set_run`].
    pub fn new(name: Name, at: Place, kind: Kind, settings: &Settings) -> Draft {
        Draft {
            name,
            at,
            kind,
            provides: Vec::new(),
            dependencies: Vec::new(),
            wanted_by: Vec::new(),
            required_by: Vec::new(),
            pulled_by: Vec::new(),
            activates: None,
            live: Live::standard(kind, settings),
            readiness: Readiness::Instant,
            has_exec_stop: false,
            has_exec_reload: false,
            remains: kind == Kind::Oneshot,
            at_terminal: false,
            run_hash: hash(kind.as_str().as_bytes()),
            run: Arc::default(),
            fault: None,
            source: None,
            opt_in: false,
            has_synonyms: false,
            expensive_pattern: None,
        }
    }

    /// Sets the process settings.
    pub fn set_run(&mut self, run: &Run) {
        self.readiness = run.readiness;
        self.has_exec_stop = run.has_stop_work();
        self.has_exec_reload = run.has_reload();
        self.remains = run.remain;
        self.at_terminal = run.reads_terminal();
        self.run = run.encode().into();
        self.run_hash = hash(&self.run);
    }

    /// Sets the trigger. A socket is ready when it listens, other triggers at once.
    pub fn set_trigger(&mut self, trigger: &Trigger) {
        if matches!(trigger, Trigger::Socket(_)) {
            self.readiness = Readiness::Reported;
        }
        self.run = trigger.encode().into();
        self.run_hash = hash(&self.run);
    }

    /// Converts a unit of a generation back to a draft.
    pub fn of(generation: &Generation, unit: &Unit) -> Draft {
        let name = |id: &TargetId| Some(generation.target(*id)?.name.clone());
        Draft {
            name: unit.name.clone(),
            at: unit.at.clone(),
            kind: unit.kind,
            provides: unit.provides.iter().filter_map(name).collect(),
            dependencies: unit
                .dependencies
                .iter()
                .filter_map(|edge| {
                    let Dependency { kind, target, optional, imported, line } = edge.clone();
                    Some(Edge { kind, target: name(&target)?, optional, imported, line })
                })
                .collect(),
            wanted_by: unit.wanted_by.iter().filter_map(name).collect(),
            required_by: unit.required_by.iter().filter_map(name).collect(),
            pulled_by: unit.pulled_by.iter().filter_map(name).collect(),
            activates: unit.activates.as_ref().and_then(name),
            live: Live::clone(&unit.live),
            readiness: unit.readiness,
            has_exec_stop: unit.has_exec_stop,
            has_exec_reload: unit.has_exec_reload,
            remains: unit.remains,
            at_terminal: unit.at_terminal,
            run_hash: unit.run_hash,
            run: unit.run.clone(),
            fault: unit.fault.as_deref().cloned(),
            source: unit.source.clone(),
            opt_in: unit.opt_in,
            has_synonyms: unit.has_synonyms,
            expensive_pattern: None,
        }
    }

    fn targets(&self) -> impl Iterator<Item = &Name> {
        let own = self.provides.is_empty().then_some(&self.name);
        own.into_iter()
            .chain(&self.provides)
            .chain(self.dependencies.iter().map(|edge| &edge.target))
            .chain(&self.wanted_by)
            .chain(&self.required_by)
            .chain(&self.pulled_by)
            .chain(&self.activates)
    }
}

/// Hashes with 64-bit FNV-1a. The algorithm is fixed, because init keeps the hash of a definition
/// across an upgrade.
pub fn hash(bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(OFFSET, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// Sorts and numbers the units. Of two drafts with one name the first counts; the caller has
/// reported the other. `extra` are target names that need an id although no unit provides them
/// (goals, roots).
pub fn assemble<'a>(drafts: Vec<Draft>, extra: impl IntoIterator<Item = &'a Name>) -> Generation {
    let mut by_name: BTreeMap<Name, Draft> = BTreeMap::new();
    for draft in drafts {
        by_name.entry(draft.name.clone()).or_insert(draft);
    }
    let mut ids: BTreeMap<Name, TargetId> = BTreeMap::new();
    for draft in by_name.values() {
        for name in draft.targets() {
            if !ids.contains_key(name) {
                ids.insert(name.clone(), TargetId(0));
            }
        }
    }
    ids.extend(extra.into_iter().map(|name| (name.clone(), TargetId(0))));
    for (index, id) in ids.values_mut().enumerate() {
        *id = TargetId(number(index));
    }
    let mut targets: Vec<Target> =
        ids.keys().map(|name| Target { name: name.clone(), candidates: Vec::new() }).collect();
    let mut units = Vec::with_capacity(by_name.len());
    for (index, draft) in by_name.into_values().enumerate() {
        let unit = numbered(draft, &ids);
        for target in &unit.provides {
            if let Some(target) = targets.get_mut(target.0 as usize) {
                target.candidates.push(UnitId(number(index)));
            }
        }
        units.push(unit);
    }
    Generation { units, targets, ..Generation::default() }
}

fn numbered(mut draft: Draft, ids: &BTreeMap<Name, TargetId>) -> Unit {
    let id = |name: &Name| ids.get(name).copied();
    let sorted = |names: &[Name]| {
        let mut found: Vec<TargetId> = names.iter().filter_map(id).collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    if draft.provides.is_empty() {
        draft.provides.push(draft.name.clone());
    }
    let edges = std::mem::take(&mut draft.dependencies);
    let dependencies = edges.into_iter().filter_map(|edge| {
        let Edge { kind, target, optional, imported, line } = edge;
        Some(Dependency { kind, target: id(&target)?, optional, imported, line })
    });
    Unit {
        dependencies: dependencies.collect(),
        provides: sorted(&draft.provides),
        wanted_by: sorted(&draft.wanted_by).into(),
        required_by: sorted(&draft.required_by).into(),
        pulled_by: sorted(&draft.pulled_by).into(),
        activates: draft.activates.as_ref().and_then(id),
        name: draft.name,
        at: draft.at,
        kind: draft.kind,
        live: Arc::new(draft.live),
        readiness: draft.readiness,
        has_exec_stop: draft.has_exec_stop,
        has_exec_reload: draft.has_exec_reload,
        remains: draft.remains,
        at_terminal: draft.at_terminal,
        run_hash: draft.run_hash,
        run: draft.run,
        fault: draft.fault.map(Box::new),
        source: draft.source,
        opt_in: draft.opt_in,
        has_synonyms: draft.has_synonyms,
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn draft(unit: &str, provides: &[&str], needs: &[&str]) -> Draft {
        let at = Place { file: "x".into(), line: 1, column: 1 };
        let mut draft = Draft::new(name(unit), at, Kind::Virtual, &Settings::default());
        draft.provides = provides.iter().copied().map(name).collect();
        draft.dependencies = needs
            .iter()
            .map(|target| Edge {
                kind: DependencyKind::WaitsFor,
                target: name(target),
                optional: false,
                imported: false,
                line: 2,
            })
            .collect();
        draft
    }

    #[test]
    fn assembled_generation_is_independent_of_the_order_of_drafts() {
        let drafts = [
            draft("c", &["x", "a"], &["b"]),
            draft("b", &[], &["missing"]),
            draft("a", &["x"], &[]),
        ];
        let forward = assemble(drafts.to_vec(), []);
        let backward = assemble(drafts.iter().rev().cloned().collect(), []);
        assert_eq!(forward, backward);
        let targets: Vec<_> =
            forward.targets.iter().map(|t| (t.name.as_str(), t.candidates.len())).collect();
        assert_eq!(targets, [("a", 1), ("b", 1), ("missing", 0), ("x", 2)]);
    }

    #[test]
    fn unit_of_a_generation_is_converted_back_to_its_draft() {
        let extra = name("goal");
        let drafts = vec![draft("a", &["p", "q"], &["b"]), draft("b", &["b"], &["p", "zz"])];
        let generation = assemble(drafts.clone(), [&extra]);
        let back: Vec<_> = generation.units.iter().map(|u| Draft::of(&generation, u)).collect();
        assert_eq!(back, drafts);
        assert_eq!(assemble(back, [&extra]), generation);
    }
}
