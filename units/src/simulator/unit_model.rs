//! A set of units as the simulator draws, edits and shrinks it, and its conversion to a
//! [`Generation`]. No text is involved. Drawn in [`crate::simulator::shape`].

use crate::simulator::graph::Universe;
use crate::spec::{DependencyKind, Kind, Live, OnChange, Readiness, Restart, RestartLimit};
use crate::text::diagnostic::Place;
use crate::text::name::Name;
use crate::unit::generation::{Dependency, Fault, Generation, Target, TargetId, Unit, UnitId};
use crate::unit::policy::Policy;
use crate::unit::settings::Settings;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Number of units of the universe.
pub const UNITS: usize = 24;
/// Number of targets that are no unit's own.
pub const EXTRA: usize = 8;

/// Returns all names: `u00`… are units, `t00`… their own targets, `x0`… shared ones.
pub fn universe() -> Universe {
    let name = |text: String| Name::new(&text).ok();
    let mut targets: Vec<Name> = (0..UNITS).filter_map(|u| name(format!("t{u:02}"))).collect();
    targets.extend((0..EXTRA).filter_map(|x| name(format!("x{x}"))));
    Universe { units: (0..UNITS).filter_map(|u| name(format!("u{u:02}"))).collect(), targets }
}

/// One unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The type.
    pub kind: Kind,
    /// The targets it provides.
    pub provides: Vec<usize>,
    /// The dependencies: kind, target number, optional.
    pub edges: Vec<(DependencyKind, usize, bool)>,
    /// Targets of `wanted-by`.
    pub wanted_by: Vec<usize>,
    /// Targets of `required-by`.
    pub required_by: Vec<usize>,
    /// Targets that pull the unit in.
    pub pulled_by: Vec<usize>,
    /// The target that the trigger activates.
    pub activates: Option<usize>,
    /// Keys of class live.
    pub live: Live,
    /// The readiness protocol.
    pub readiness: Readiness,
    /// The unit has an exec-stop.
    pub has_exec_stop: bool,
    /// The unit has an exec-reload.
    pub has_exec_reload: bool,
    /// Represents the keys of class run.
    pub run_hash: u64,
    /// The text is no unit.
    pub broken: bool,
    /// The targets are names of one thing.
    pub has_synonyms: bool,
}

/// A set of units with settings and policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitModel {
    /// The units by number.
    pub units: BTreeMap<usize, Entry>,
    /// Rank by unit number: edges lead from higher to lower ranks.
    pub rank: Vec<usize>,
    /// The settings (init.yaml).
    pub settings: Settings,
    /// The policy (policy.yaml).
    pub policy: Policy,
    /// Roots of the only source, as target numbers.
    pub roots: Vec<usize>,
    /// The units have properties of imported files: classes of restart, limits of a run, and more
    /// relations. Drawn with an rng of their own, so that other worlds stay the same.
    pub rich: bool,
}

/// Returns true if a missing provider is an error.
fn is_loud(kind: DependencyKind) -> bool {
    use DependencyKind as D;
    matches!(kind, D::DependsOn | D::DependsMs | D::WaitsFor | D::RequiresActive | D::Accepts)
}

impl UnitModel {
    /// Returns the generation that a loader would make. Edges to targets without a provider are
    /// left out, except optional and ordering ones.
    pub fn generation(&self, universe: &Universe, number: u32) -> Arc<Generation> {
        let present: Vec<usize> = self.units.keys().copied().collect();
        let id = |unit: usize| present.binary_search(&unit).ok().map(|at| UnitId(at as u32));
        let mut candidates: Vec<Vec<UnitId>> = vec![Vec::new(); universe.targets.len()];
        for (unit, entry) in &self.units {
            for target in &entry.provides {
                candidates[*target].extend(id(*unit));
            }
        }
        let targets = |list: &[usize]| list.iter().map(|t| TargetId(*t as u32)).collect::<Vec<_>>();
        let units = self.units.iter().map(|(unit, entry)| Unit {
            name: universe.units[*unit].clone(),
            at: place(*unit),
            kind: entry.kind,
            provides: {
                let mut provides = entry.provides.clone();
                provides.sort_unstable();
                targets(&provides)
            },
            dependencies: entry
                .edges
                .iter()
                .filter(|(kind, target, optional)| {
                    *optional || !is_loud(*kind) || !candidates[*target].is_empty()
                })
                .map(|(kind, target, optional)| Dependency {
                    kind: *kind,
                    target: TargetId(*target as u32),
                    optional: *optional,
                    imported: false,
                    line: 1,
                })
                .collect(),
            wanted_by: targets(&entry.wanted_by).into(),
            required_by: targets(&entry.required_by).into(),
            pulled_by: targets(&entry.pulled_by).into(),
            activates: entry
                .activates
                .filter(|target| !candidates[*target].is_empty())
                .map(|target| TargetId(target as u32)),
            live: entry.live.clone().into(),
            readiness: entry.readiness,
            has_exec_stop: entry.has_exec_stop,
            has_exec_reload: entry.has_exec_reload,
            remains: entry.run_hash & 2 == 0,
            at_terminal: entry.run_hash & 12 == 0,
            run_hash: entry.run_hash,
            run: std::sync::Arc::default(),
            fault: entry.broken.then(|| Box::new(drawn_broken(place(*unit)))),
            source: None,
            opt_in: false,
            has_synonyms: entry.has_synonyms,
        });
        let units = units.collect();
        let names = universe.targets.iter().zip(candidates);
        let source = Name::new("fleet").ok().map(|name| (name, targets(&self.roots)));
        Arc::new(Generation {
            number,
            units,
            targets: names
                .map(|(name, candidates)| Target { name: name.clone(), candidates })
                .collect(),
            settings: self.settings.clone(),
            policy: self.policy.clone(),
            roots: source.into_iter().filter(|_| !self.roots.is_empty()).collect(),
            ..Generation::default()
        })
    }

    /// Returns the model without `unit`.
    pub fn without(&self, unit: usize) -> UnitModel {
        let mut less = self.clone();
        less.units.remove(&unit);
        less
    }

    /// Returns the highest rank of the units that may provide `target`.
    pub fn rank_of(&self, target: usize) -> Option<usize> {
        let claims = self.units.iter().filter(|(_, entry)| entry.provides.contains(&target));
        claims.map(|(unit, _)| self.rank[*unit]).max()
    }
}

fn place(unit: usize) -> Place {
    Place { file: format!("u{unit:02}.yaml").into(), line: 1, column: 1 }
}

fn drawn_broken(at: Place) -> Fault {
    Fault { at, message: "drawn broken".to_string() }
}

/// Returns the keys of class *live* of a new unit of this type.
pub fn live(kind: Kind) -> Live {
    let supervised = !matches!(kind, Kind::Oneshot | Kind::BackgroundScripted);
    Live {
        description: String::new(),
        start_timeout: Some(Duration::from_secs(10)),
        stop_timeout: Some(Duration::from_secs(5)),
        stop_signal: 15,
        restart: if supervised { Restart::OnFailure } else { Restart::Never },
        restart_delay: Duration::from_millis(200),
        restart_delay_max: Duration::from_secs(60),
        restart_reset: Duration::from_secs(60),
        restart_limit: RestartLimit::None,
        failure_verdict: 3,
        success_status: Default::default(),
        restart_except: Default::default(),
        restart_also: Default::default(),
        run_timeout: None,
        on_change: OnChange::Restart,
        essential: false,
        stop_promptly: false,
    }
}

/// Returns the readiness of a unit of this type, unless its keys say otherwise.
pub fn readiness(kind: Kind) -> Readiness {
    match kind {
        Kind::ForegroundSupervised => Readiness::Exec,
        Kind::ForegroundNotified | Kind::BackgroundPidfile => Readiness::Reported,
        Kind::BackgroundScripted | Kind::Oneshot => Readiness::Exit,
        Kind::Virtual | Kind::Socket | Kind::Timer | Kind::Path => Readiness::Instant,
    }
}
