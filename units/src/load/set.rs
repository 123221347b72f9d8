//! What a load has gathered so far, by names.

use crate::assembly::Draft;
use crate::diagnostic::Diagnostic;
use crate::generation::{Fault, FileRecord, Generation};
use crate::import::systemd::Surroundings;
use crate::limit;
use crate::name::Name;
use crate::template::Templates;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Units, files and roots before they are numbered.
#[derive(Default)]
pub(super) struct Set {
    pub(super) parsed: usize,
    pub(super) drafts: Vec<Draft>,
    pub(super) records: Vec<FileRecord>,
    pub(super) roots: Vec<(Name, Vec<Name>)>,
    pub(super) revisions: Vec<(Name, u64)>,
    pub(super) templates: Templates,
    pub(super) around: Surroundings,
}

impl Set {
    /// Takes over what a generation has of the unit directories (None) and of sources.
    pub(super) fn carry(&mut self, from: &Generation, is_kept: impl Fn(Option<&Name>) -> bool) {
        let units = from.units.iter().filter(|unit| is_kept(unit.source.as_ref()));
        self.drafts.extend(units.map(|unit| Draft::of(from, unit)));
        let records = from.files.iter().filter(|record| is_kept(record.source.as_ref()));
        self.records.extend(records.cloned());
        for (source, revision) in from.revisions.iter().filter(|(name, _)| is_kept(Some(name))) {
            self.revisions.push((source.clone(), *revision));
        }
        for (source, roots) in from.roots.iter().filter(|(name, _)| is_kept(Some(name))) {
            let name = |id| Some(from.target(id)?.name.clone());
            let names = roots.iter().filter_map(|id| name(*id)).collect();
            self.roots.push((source.clone(), names));
        }
    }

    /// One unit name in two places: an error at each, and one broken unit of that name.
    pub(super) fn name_doubles(&mut self, found: &mut Vec<Diagnostic>) {
        let mut by_name: BTreeMap<Name, Vec<Draft>> = BTreeMap::new();
        let mut contested: BTreeSet<Arc<str>> = BTreeSet::new();
        for draft in std::mem::take(&mut self.drafts) {
            by_name.entry(draft.name.clone()).or_default().push(draft);
        }
        for (name, mut drafts) in by_name {
            if let Some(local) = drafts.iter().find(|draft| draft.source.is_none()) {
                let at = local.at.clone();
                let is_local = |draft: &Draft| draft.source.is_none();
                for foreign in drafts.iter().filter(|draft| !is_local(draft)) {
                    let message =
                        format!("`{name}` is a unit of the unit directories; this one is left out");
                    let error = Diagnostic::error("double-unit", foreign.at.clone(), message);
                    found.push(error.with_related(vec![at.clone()]));
                    contested.insert(foreign.at.file.clone());
                }
                drafts.retain(is_local);
            }
            let places: Vec<_> = drafts.iter().map(|draft| draft.at.clone()).collect();
            let Some(mut draft) = drafts.pop() else { continue };
            if !drafts.is_empty() {
                let message = format!("{} units are named `{name}`", places.len());
                draft.fault = Some(Fault { at: draft.at.clone(), message: message.clone() });
                for other in &mut drafts {
                    draft.provides.append(&mut other.provides);
                }
                let shown = places.get(..limit::DIAGNOSTICS_PER_FILE).unwrap_or(&places);
                for (index, place) in shown.iter().enumerate() {
                    let mut related = shown.to_vec();
                    related.remove(index);
                    let hint = "a unit has one file; a file of the same name in an earlier directory hides one in a later";
                    let error = Diagnostic::error("double-unit", place.clone(), message.clone());
                    found.push(error.with_hint(hint).with_related(related));
                }
                contested.extend(places.into_iter().map(|place| place.file));
            }
            self.drafts.push(draft);
        }
        // With the other file gone, these are fine as they are.
        let again = |record: &&mut FileRecord| contested.contains(&record.path);
        self.records.iter_mut().filter(again).for_each(|record| record.again = true);
    }
}
