//! Turns the dependency lists of unit files into links: `before` is reversed, and `wanted-by` and
//! `required-by` become edges of the other unit. Missing targets are found here, rings in
//! [`super::ring`].

use super::{Edge, Fault, Provider};
use crate::limit;
use crate::spec::DependencyKind;
use crate::text::diagnostic::{Diagnostic, Place, Severity};
use crate::text::name::template_hint;
use crate::unit::generation::{Dependency, Generation, TargetId, Unit, UnitId};
use crate::unit::policy::Policy;
use std::collections::BTreeMap;

/// An [`Edge`] with its two ends and the line that made it.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) from: UnitId,
    pub(super) kind: DependencyKind,
    pub(super) target: TargetId,
    pub(super) provider: Option<UnitId>,
    pub(super) optional: bool,
    /// The unit whose file has the line.
    pub(super) by: UnitId,
    pub(super) line: u32,
    /// An imported `after` or `before`, which is dropped if it is part of a ring.
    pub(super) droppable: bool,
}

impl Link {
    /// A dependency without a provider.
    fn without_provider(from: UnitId, target: TargetId, line: u32) -> Link {
        Link {
            from,
            kind: DependencyKind::DependsOn,
            target,
            provider: None,
            optional: false,
            by: from,
            line,
            droppable: false,
        }
    }

    pub(super) fn edge(&self) -> Edge {
        let Link { kind, target, provider, optional, .. } = *self;
        Edge { kind, target, provider, optional }
    }

    /// Returns the place in the file.
    pub(super) fn place(&self, generation: &Generation) -> Place {
        match generation.unit(self.by) {
            Some(unit) => Place { file: unit.at.file.clone(), line: self.line, column: 1 },
            None => Place { file: "".into(), line: 0, column: 0 },
        }
    }
}

/// Rows of values by unit, in one allocation.
#[derive(Clone, Debug)]
pub(super) struct Rows<T> {
    starts: Vec<u32>,
    values: Vec<T>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Rows { starts: Vec::new(), values: Vec::new() }
    }
}

impl<T: Copy> Rows<T> {
    /// Builds the rows. `place` returns the row and the value of an item; items of a row keep their
    /// order.
    pub(super) fn new<I>(count: usize, items: &[I], place: impl Fn(&I) -> (UnitId, T)) -> Rows<T> {
        let mut placed: Vec<(UnitId, T)> = items.iter().map(place).collect();
        placed.sort_by_key(|(unit, _)| *unit);
        let mut starts = Vec::with_capacity(count + 1);
        let mut at = 0;
        for unit in 0..count {
            starts.push(u32::try_from(at).unwrap_or(u32::MAX));
            while placed.get(at).is_some_and(|(owner, _)| owner.index() <= unit) {
                at += 1;
            }
        }
        starts.push(u32::try_from(at).unwrap_or(u32::MAX));
        Rows { starts, values: placed.into_iter().map(|(_, value)| value).collect() }
    }

    pub(super) fn row(&self, unit: UnitId) -> &[T] {
        let bounds = (self.starts.get(unit.index()), self.starts.get(unit.index() + 1));
        let (Some(&from), Some(&to)) = bounds else { return &[] };
        self.values.get(from as usize..to as usize).unwrap_or(&[])
    }
}

struct Collector<'a> {
    generation: &'a Generation,
    providers: &'a [Provider],
    links: Vec<Link>,
}

/// Collects the links of all usable units.
pub(super) fn collect(
    generation: &Generation,
    policy: &Policy,
    providers: &[Provider],
    masked: &[bool],
    faults: &mut Vec<Fault>,
) -> Vec<Link> {
    let mut collector = Collector { generation, providers, links: Vec::new() };
    let mut missing = Vec::new();
    for (id, unit) in generation.unit_ids().zip(&generation.units) {
        let masked = masked.get(id.index()).copied().unwrap_or(false);
        // The names in an unusable unit are checked too, so that all errors are reported at once.
        let usable = unit.fault.is_none();
        for dependency in &unit.dependencies {
            if usable {
                collector.add(id, dependency, masked);
            }
            if !masked && collector.is_missing(dependency) {
                missing.push((id, dependency.target, dependency.line, Some(dependency.kind)));
            }
        }
        if let Some(target) = unit.activates {
            let provider = collector.provider(target);
            // A trigger has no effect while its unit is masked or missing.
            if usable && provider.unit().is_none() {
                collector.links.push(Link::without_provider(id, target, unit.at.line));
            }
            if provider == Provider::NoUnit {
                missing.push((id, target, unit.at.line, None));
            }
        }
        // A broken unit stays wanted, so that a reload that breaks it is refused.
        if !masked && is_enabled(generation, policy, unit) {
            collector.add_wanted(id, unit, DependencyKind::WaitsFor, &unit.wanted_by);
            collector.add_wanted(id, unit, DependencyKind::DependsMs, &unit.required_by);
            collector.add_wanted(id, unit, DependencyKind::Wants, &unit.pulled_by);
        }
    }
    report_missing(generation, missing, faults);
    collector.report_at_odds(faults);
    collector.links
}

/// Returns true if the policy enables the unit's `wanted-by` and `required-by`.
fn is_enabled(generation: &Generation, policy: &Policy, unit: &Unit) -> bool {
    let named = |names: &std::collections::BTreeSet<crate::text::name::Name>| {
        names.contains(&unit.name)
            || unit
                .provides
                .iter()
                .filter_map(|target| generation.target(*target))
                .any(|target| names.contains(&target.name))
    };
    if named(&policy.disable) {
        return false;
    }
    named(&policy.enable) || generation.settings.enabled_by_default && !unit.opt_in
}

impl Collector<'_> {
    fn provider(&self, target: TargetId) -> Provider {
        self.providers.get(target.index()).copied().unwrap_or(Provider::NoUnit)
    }

    /// Reports units that need a unit they conflict with.
    fn report_at_odds(&self, faults: &mut Vec<Fault>) {
        let written = |of: &UnitId| {
            let unit = self.generation.unit(*of);
            let all = unit.map(|unit| unit.dependencies.as_slice()).unwrap_or_default();
            all.iter().filter(|dependency| !dependency.imported)
        };
        for id in self.generation.unit_ids() {
            // The first edge to each provider; computed only if there is a conflict.
            let mut needed = None;
            for conflict in written(&id).filter(|it| it.kind == DependencyKind::Conflicts) {
                let Provider::Unit(other) = self.provider(conflict.target) else { continue };
                let needed: &BTreeMap<_, _> = needed.get_or_insert_with(|| {
                    let needs = written(&id).rev().filter(|it| {
                        matches!(it.kind, DependencyKind::DependsOn | DependencyKind::DependsMs)
                    });
                    needs.filter_map(|it| Some((self.provider(it.target).unit()?, it))).collect()
                });
                let names = (self.generation.unit(id), self.generation.target(conflict.target));
                let needs = needed.get(&other);
                let (Some(needs), (Some(unit), Some(target))) = (needs, names) else { continue };
                let at = Place { file: unit.at.file.clone(), line: conflict.line, column: 1 };
                let (kind, name) = (needs.kind.as_str(), &unit.name);
                let message = format!("{name} {kind} {} and conflicts with it", target.name);
                let diagnostic = Diagnostic::warning("at-odds", at, message)
                    .with_hint("it can never start: remove one of the two");
                faults.push(Fault { units: vec![id], diagnostic });
            }
        }
    }

    fn is_missing(&self, dependency: &Dependency) -> bool {
        let loud = match dependency.kind {
            DependencyKind::DependsOn
            | DependencyKind::DependsMs
            | DependencyKind::WaitsFor
            | DependencyKind::RequiresActive
            | DependencyKind::Wants
            | DependencyKind::Accepts
            | DependencyKind::OnFailure
            | DependencyKind::OnSuccess => true,
            DependencyKind::After
            | DependencyKind::Before
            | DependencyKind::RestartWith
            | DependencyKind::ReloadWith
            | DependencyKind::Conflicts => false,
        };
        loud && !dependency.optional
            && !dependency.imported
            && self.provider(dependency.target) == Provider::NoUnit
    }

    fn add(&mut self, id: UnitId, dependency: &Dependency, masked: bool) {
        let Dependency { kind, target, optional, imported, line } = *dependency;
        let provider = self.provider(target).unit();
        let link =
            Link { from: id, kind, target, provider, optional, by: id, line, droppable: false };
        match kind {
            DependencyKind::DependsOn
            | DependencyKind::DependsMs
            | DependencyKind::WaitsFor
            | DependencyKind::RequiresActive => self.links.push(link),
            DependencyKind::Wants
            | DependencyKind::RestartWith
            | DependencyKind::ReloadWith
            | DependencyKind::OnFailure
            | DependencyKind::OnSuccess
            | DependencyKind::Accepts => {
                if provider != Some(id) {
                    self.links.push(link);
                }
            }
            DependencyKind::After => self.links.push(Link { droppable: imported, ..link }),
            DependencyKind::Before => {
                if let (Some(other), false) = (provider, masked) {
                    let target = self.own_target(id, target);
                    let turned = Link { from: other, provider: Some(id), target, ..link };
                    let kind = DependencyKind::After;
                    self.links.push(Link { kind, droppable: imported, ..turned });
                }
            }
            DependencyKind::Conflicts => {
                if let Some(other) = provider.filter(|other| *other != id) {
                    let back = self.own_target(id, target);
                    self.links.push(link.clone());
                    self.links.push(Link { from: other, provider: Some(id), target: back, ..link });
                }
            }
        }
    }

    fn add_wanted(&mut self, id: UnitId, unit: &Unit, kind: DependencyKind, by: &[TargetId]) {
        let providers = self.providers;
        let provider = |target: &TargetId| providers.get(target.index())?.unit();
        for wanting in by.iter().filter_map(provider) {
            for target in &unit.provides {
                let provider = self.provider(*target).unit();
                if wanting == id || provider == Some(wanting) {
                    continue;
                }
                self.links.push(Link {
                    from: wanting,
                    kind,
                    target: *target,
                    provider,
                    optional: true,
                    by: id,
                    line: unit.at.line,
                    droppable: false,
                });
            }
        }
    }

    /// Returns the target by which other units name this unit.
    fn own_target(&self, id: UnitId, otherwise: TargetId) -> TargetId {
        self.generation
            .unit(id)
            .and_then(|unit| {
                unit.provides.iter().find(|t| self.provider(**t).unit() == Some(id)).copied()
            })
            .unwrap_or(otherwise)
    }
}

type Missing = (UnitId, TargetId, u32, Option<DependencyKind>);

fn report_missing(generation: &Generation, missing: Vec<Missing>, faults: &mut Vec<Fault>) {
    for (nth, (id, target, line, kind)) in missing.into_iter().enumerate() {
        let (Some(unit), Some(target)) = (generation.unit(id), generation.target(target)) else {
            continue;
        };
        let key = kind.map_or("activates", DependencyKind::as_str);
        let at = Place { file: unit.at.file.clone(), line, column: 1 };
        let message =
            format!("no unit provides `{}`, named in {key} of {}", target.name, unit.name);
        let mut diagnostic = Diagnostic::error("missing-target", at, message);
        // The unit runs without the units that it only wants, or starts at its end. A systemd file
        // may activate a service that is masked by a link to /dev/null.
        if kind.map_or(unit.has_synonyms, |kind| {
            kind == DependencyKind::Wants || kind.pulls_in_at_end()
        }) {
            diagnostic.severity = Severity::Warning;
        }
        let hint = missing_hint(generation, target.name.as_str(), kind, nth < limit::HINTS);
        let diagnostic = diagnostic.with_hint(hint);
        faults.push(Fault { units: vec![id], diagnostic });
    }
}

fn missing_hint(
    generation: &Generation,
    name: &str,
    kind: Option<DependencyKind>,
    search: bool,
) -> String {
    let unit = generation.find_unit(name).and_then(|unit| generation.unit(unit));
    if let Some(target) = unit.and_then(|unit| generation.target(*unit.provides.first()?)) {
        return format!("`{name}` is a unit; write its target `{}`", target.name);
    }
    if let Some(hint) = template_hint(name) {
        return hint;
    }
    let near = search.then(|| generation.nearest_target(name)).flatten();
    match (near, kind) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, Some(_)) => format!("write `{name}?` if it may be missing"),
        (None, None) => "name a target that a unit provides, or write that unit".to_string(),
    }
}
