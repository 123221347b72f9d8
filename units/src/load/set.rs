//! The units, files and roots that a load has collected so far, by name.

use crate::import::systemd::Surroundings;
use crate::limit;
use crate::load::template::Templates;
use crate::load::unit_file::UnitFile;
use crate::text::diagnostic::Diagnostic;
use crate::text::name::Name;
use crate::unit::assembly::Draft;
use crate::unit::generation::{Fault, FileRecord, Generation, TargetId};
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
    /// Takes the units of a file that was read. `source` is `None` for the unit directories.
    pub(super) fn take(&mut self, file: UnitFile, source: Option<&Name>) {
        let UnitFile { mut drafts, mut record, templates, .. } = file;
        drafts.iter_mut().for_each(|draft| draft.source = source.cloned());
        record.source = source.cloned();
        for template in templates {
            self.templates.add(template.of_source(source));
        }
        self.parsed += 1;
        self.keep((drafts, record));
    }

    /// Takes the units of a file as they were before.
    pub(super) fn keep(&mut self, (drafts, record): (Vec<Draft>, FileRecord)) {
        self.drafts.extend(drafts);
        self.records.push(record);
    }

    /// Takes over the units of a generation: those of the unit directories (`None`) and of sources.
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

    /// Keeps the previous wishes for the units of a file with an error; otherwise a reload would
    /// stop them.
    pub(super) fn remember_wishes(&mut self, previous: &Generation) {
        let target = |id: &TargetId| Some(previous.target(*id)?.name.clone());
        for draft in self.drafts.iter_mut().filter(|draft| draft.fault.is_some()) {
            let known = previous.find_unit(draft.name.as_str()).and_then(|id| previous.unit(id));
            let Some(known) = known.filter(|known| known.source == draft.source) else { continue };
            let mut lost = false;
            for (list, before) in [
                (&mut draft.wanted_by, &known.wanted_by),
                (&mut draft.required_by, &known.required_by),
                (&mut draft.pulled_by, &known.pulled_by),
            ] {
                for name in before.iter().filter_map(target) {
                    if !list.contains(&name) {
                        list.push(name);
                        lost = true;
                    }
                }
            }
            if lost {
                draft.opt_in = known.opt_in;
            }
        }
    }

    /// Reports a unit name in two places: an error at each, and one broken unit of that name.
    pub(super) fn name_doubles(&mut self, found: &mut Vec<Diagnostic>) {
        let mut by_name: BTreeMap<Name, Vec<Draft>> = BTreeMap::new();
        let mut contested: BTreeSet<Arc<str>> = BTreeSet::new();
        for draft in std::mem::take(&mut self.drafts) {
            by_name.entry(draft.name.clone()).or_default().push(draft);
        }
        for (name, mut drafts) in by_name {
            // `None`, the unit directories, sorts before every source.
            let first = drafts.iter().map(|draft| draft.source.clone()).min().flatten();
            if let Some(owner) = drafts.iter().find(|draft| draft.source == first) {
                let at = owner.at.clone();
                let whose = match &first {
                    None => "the unit directories".to_string(),
                    Some(source) => format!("source {source}"),
                };
                for foreign in drafts.iter().filter(|draft| draft.source != first) {
                    let message = format!("`{name}` is a unit of {whose}; this one is left out");
                    let error = Diagnostic::error("double-unit", foreign.at.clone(), message);
                    found.push(error.with_related(vec![at.clone()]));
                    contested.insert(foreign.at.file.clone());
                }
                drafts.retain(|draft| draft.source == first);
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
                    let others = shown.iter().enumerate().filter(|(other, _)| *other != index);
                    let related = others.map(|(_, other)| other.clone()).collect();
                    let hint = "a unit has one file; a file of the same name in an earlier directory hides one in a later";
                    let error = Diagnostic::error("double-unit", place.clone(), message.clone());
                    found.push(error.with_hint(hint).with_related(related));
                }
                contested.extend(places.into_iter().map(|place| place.file));
            }
            self.drafts.push(draft);
        }
        // Without the other file, these units are fine.
        let again = |record: &&mut FileRecord| contested.contains(&record.path);
        self.records.iter_mut().filter(again).for_each(|record| record.again = true);
    }
}
