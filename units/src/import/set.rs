//! Integrates imported units into the whole set. They get short names that no other unit has. The
//! boot's goal gets its native name. Targets of systemd that no unit provides here get a unit.

use super::fstab::is_fstab;
use super::systemd::replacement;
use super::systemd::unit_name::Suffix;
use crate::spec::{DependencyKind, Kind};
use crate::text::diagnostic::{Diagnostic, Place};
use crate::text::name::Name;
use crate::unit::assembly::Draft;
use crate::unit::settings::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The place of units without a file.
const NOWHERE: &str = "(built in)";
/// The name of the goal in imported files.
const GOAL: &str = "multi-user";

/// Integrates all imported units.
pub(crate) fn settle(drafts: &mut Vec<Draft>, settings: &Settings) {
    if drafts.iter().any(is_imported) {
        for draft in drafts.iter_mut().filter(|draft| is_imported(draft)) {
            draft.has_synonyms = true;
            pulled_by(draft);
        }
        short_names(drafts);
        goal(drafts, settings);
        stand_ins(drafts, settings);
    }
}

/// Removes units of import directories whose name, or other name, belongs to a native unit: the
/// native unit wins. A unit file below /etc or /run wins over fstab, which wins over the files of
/// packages. Returns the files of removed units, and a note for each unit.
pub(crate) fn yield_to_native(
    drafts: &mut Vec<Draft>,
    settings: &Settings,
) -> Vec<(Arc<str>, Option<Diagnostic>)> {
    let from_elsewhere = |draft: &Draft| {
        let directory = draft.at.file.rsplit_once('/').map_or("", |(directory, _)| directory);
        let is =
            |known: &String| [directory, &draft.at.file].contains(&known.trim_end_matches('/'));
        draft.source.is_none() && is_imported(draft) && settings.import_dirs.iter().any(is)
    };
    let mut native: BTreeMap<Name, Place> = BTreeMap::new();
    for draft in drafts.iter().filter(|draft| !is_imported(draft)) {
        for name in std::iter::once(&draft.name).chain(&draft.provides) {
            native.entry(name.clone()).or_insert_with(|| draft.at.clone());
        }
    }
    // The best unit file of each name in fstab.
    let rank =
        |file: &str| (file.starts_with("/usr/") || file.starts_with("/lib/"), is_fstab(file));
    let in_fstab = drafts.iter().filter(|draft| is_fstab(&draft.at.file));
    let in_fstab: BTreeSet<Name> = in_fstab.map(|draft| draft.name.clone()).collect();
    let mut best: BTreeMap<Name, Place> = BTreeMap::new();
    for draft in drafts.iter().filter(|draft| in_fstab.contains(&draft.name)) {
        let best = best.entry(draft.name.clone()).or_insert_with(|| draft.at.clone());
        if rank(&draft.at.file) < rank(&best.file) {
            *best = draft.at.clone();
        }
    }
    let mut found = Vec::new();
    drafts.retain_mut(|draft| {
        if !from_elsewhere(draft) {
            return true;
        }
        if let Some(at) = native.get(&draft.name) {
            let message = format!("`{}` is a native unit; this one is left out", draft.name);
            let note = Diagnostic::note("native-unit", draft.at.clone(), message);
            found.push((draft.at.file.clone(), Some(note.with_related(vec![at.clone()]))));
            return false;
        }
        if let Some(at) = best.get(&draft.name).filter(|at| at.file != draft.at.file) {
            let message =
                format!("`{}` is a unit of {}; this one is left out", draft.name, at.file);
            let note = Diagnostic::note("other-unit", draft.at.clone(), message);
            found.push((draft.at.file.clone(), Some(note.with_related(vec![at.clone()]))));
            return false;
        }
        let before = draft.provides.len();
        draft.provides.retain(|name| !native.contains_key(name));
        if draft.provides.len() != before {
            found.push((draft.at.file.clone(), None));
        }
        true
    });
    found
}

/// Returns true for a unit from a systemd file or from fstab.
pub(crate) fn is_imported(draft: &Draft) -> bool {
    Suffix::of(&draft.at.file).is_some() || is_fstab(&draft.at.file)
}

/// If a unit is installed into a unit other than a target, that other unit pulls it in but does not
/// wait for it. The same holds for each `wanted-by` of a unit of fstab.
fn pulled_by(draft: &mut Draft) {
    let in_fstab = is_fstab(&draft.at.file);
    let waits = |name: &Name| {
        let suffix = name.as_str().rsplit_once('.').map(|(_, suffix)| suffix);
        !in_fstab && !matches!(suffix, Some("service" | "socket" | "mount" | "timer" | "path"))
    };
    let (waiting, pulling) = std::mem::take(&mut draft.wanted_by).into_iter().partition(waits);
    draft.wanted_by = waiting;
    draft.pulled_by.extend::<Vec<Name>>(pulling);
}

/// `nginx.service` is also `nginx` if no other unit has that name.
fn short_names(drafts: &mut [Draft]) {
    let mut claims: BTreeMap<Name, usize> = BTreeMap::new();
    let mut taken: BTreeSet<Name> = BTreeSet::new();
    for draft in drafts.iter_mut() {
        if !is_imported(draft) {
            taken.insert(draft.name.clone());
            taken.extend(draft.provides.iter().cloned());
            continue;
        }
        draft.provides.retain(|name| Suffix::of(name.as_str()).is_some());
        let shorts: BTreeSet<Name> = draft.provides.iter().filter_map(short).collect();
        for name in shorts {
            *claims.entry(name).or_default() += 1;
        }
    }
    for draft in drafts.iter_mut().filter(|draft| is_imported(draft)) {
        let free = |name: &Name| !taken.contains(name) && claims.get(name) == Some(&1);
        let shorts: BTreeSet<Name> = draft.provides.iter().filter_map(short).filter(free).collect();
        draft.provides.extend(shorts);
    }
}

fn short(name: &Name) -> Option<Name> {
    let (stem, suffix) = name.as_str().rsplit_once('.')?;
    if matches!(suffix, "service" | "target") { Name::new(stem).ok() } else { None }
}

/// The goal of imported files is the default target if no unit has the goal's usual name. If a unit
/// has it again, units of the previous generation that name the default target get the usual name
/// back.
fn goal(drafts: &mut [Draft], settings: &Settings) {
    let default = &settings.default_target;
    let named = drafts.iter().any(|draft| provides(draft, GOAL));
    let (from, to) = match Name::new(GOAL) {
        Ok(usual) if named => (default.clone(), usual),
        Ok(usual) => (usual, default.clone()),
        Err(_) => return,
    };
    for draft in drafts.iter_mut().filter(|draft| is_imported(draft)) {
        let names = draft.wanted_by.iter_mut().chain(&mut draft.required_by);
        for name in names.chain(&mut draft.pulled_by) {
            if *name == from {
                *name = to.clone();
            }
        }
    }
}

fn provides(draft: &Draft, name: &str) -> bool {
    draft.provides.iter().any(|provided| provided.as_str() == name)
        || draft.provides.is_empty() && draft.name.as_str() == name
}

/// Adds targets of systemd that imported units pull in or install themselves into.
fn stand_ins(drafts: &mut Vec<Draft>, settings: &Settings) {
    let mut asked: BTreeSet<Name> = BTreeSet::new();
    for draft in drafts.iter().filter(|draft| is_imported(draft)) {
        let wishes = draft.wanted_by.iter().chain(&draft.required_by).chain(&draft.pulled_by);
        asked.extend(wishes.cloned());
        let pulled = draft.dependencies.iter().filter(|edge| {
            // Every unit pulls in the target of the system start; this dependency alone does not
            // create the target.
            edge.kind.pulls_in() && !(edge.optional && edge.kind == DependencyKind::DependsMs)
        });
        asked.extend(pulled.map(|edge| edge.target.clone()));
    }
    let place = Place { file: NOWHERE.into(), line: 1, column: 1 };
    for name in asked {
        let own = name.as_str().ends_with(".target") && replacement::is_own(name.as_str());
        if !own || drafts.iter().any(|draft| draft.name == name || provides(draft, name.as_str())) {
            continue;
        }
        let mut draft = Draft::new(name.clone(), place.clone(), Kind::Virtual, settings);
        draft.provides = vec![name.clone()];
        draft.live.description = "stands for a target of systemd's".to_string();
        if replacement::GATHERING.contains(&name.as_str()) {
            let goal = drafts.iter().any(|draft| provides(draft, GOAL));
            let goal = if goal { Name::new(GOAL).ok() } else { None };
            draft.wanted_by = vec![goal.unwrap_or_else(|| settings.default_target.clone())];
        }
        drafts.push(draft);
    }
}
