//! Instances of templates that are requested while the system runs: `initctl want x@y`.
//!
//! The result is the present generation with the instances that are wanted now, and without unwanted
//! ones. The loader reads only templates. It uses new ones and those that are unchanged since the
//! last load, because edits take effect with a reload only.

use super::set::Set;
use super::source::listed;
use super::{Loaded, Loader, Options, around, wanted};
use crate::import::systemd::instance_of_drop_in;
use crate::load::delivered::Overlaid;
use crate::load::files::Files;
use crate::load::foreign::Foreign;
use crate::load::imported_file;
use crate::load::reuse::drop_ins_of;
use crate::load::template::{self, Body, Template};
use crate::load::unit_file::{self, Context, LEFT_OUT, UnitFile};
use crate::machine::reason::Refusal;
use crate::text::name::Name;
use crate::unit::assembly::Draft;
use crate::unit::generation::{FileRecord, Generation, Stamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Changes the instances of the present generation. [`Options::wanted`] has all requests from
/// outside the unit files.
///
/// # Errors
/// The template of a wanted instance has changed since the load, or there would be too many
/// instances.
pub fn instances(
    files: &dyn Files,
    options: &Options,
    previous: &Generation,
) -> Result<Loaded, Refusal> {
    let mut loader = Loader { files, options, found: Vec::new(), refused: false };
    let settings = previous.settings.clone();
    let (accounts, _) = loader.accounts();
    // A reload reports errors of directories and sources.
    let mut silent = Loader { files, options, found: Vec::new(), refused: false };
    let folders = silent.folders(&settings);
    let sources = silent.sources(&settings, None, &mut Set::default());
    let overlaid = Overlaid { below: files, sources: &sources };
    let (accounts, trust) = (&accounts, options.trust);
    let context = Context { files: &overlaid, settings: &settings, accounts, trust };
    let mut set = Set { around: around(files), ..Set::default() };
    set.carry(previous, |_| true);
    let mut found_templates = FoundTemplates::of(previous);
    for found in &folders.files {
        if !found_templates.may_hold_templates(&found.path) {
            continue;
        }
        let drop_ins = |names: &[&str]| drop_ins_of(&folders, &found.stem, names);
        found_templates.offer(unit_file::load(&context, &found.path, &drop_ins), None, &mut set);
    }
    found_templates.offer_imported(&context, &folders.foreign, None, &mut set);
    for source in &sources {
        let (foreign, native) = listed(&context, source, &folders);
        for found in &native {
            if !found_templates.may_hold_templates(&found.path) {
                continue;
            }
            let drop_ins = |names: &[&str]| drop_ins_of(&folders, &found.stem, names);
            let file = unit_file::load(&context, &found.path, &drop_ins);
            found_templates.offer(file, Some(&source.name), &mut set);
        }
        found_templates.offer_imported(&context, &foreign, Some(&source.name), &mut set);
    }
    set.drafts.retain(|draft| {
        !found_templates.unchanged.iter().any(|template| is_made_of(draft, template))
    });
    let wanted = wanted(options, &settings, &previous.policy);
    if let Some(exceeded) = set.settle(&context, &folders.foreign, &wanted) {
        let hint = "the next reload removes the instances that no unit or request names";
        return Err(refusal("too-large", exceeded.message, hint));
    }
    if let Some(file) = found_templates.missed(&set, &wanted) {
        let message = format!("{file} has changed since it was loaded");
        return Err(refusal("changed", message, "`initctl reload` first"));
    }
    set.remember_wishes(previous);
    Ok(loader.finish(&overlaid, set, settings.clone(), previous.policy.clone()))
}

fn refusal(kind: &str, message: String, hint: &str) -> Refusal {
    Refusal { kind: kind.to_string(), message, hint: hint.to_string() }
}

/// Returns true if the draft is an instance of the template.
fn is_made_of(draft: &Draft, template: &Template) -> bool {
    let line = match &template.body {
        Body::Native(manifest) => manifest.at.line == draft.at.line,
        Body::Imported { .. } => true,
    };
    line && draft.at.file == *template.file()
}

/// The templates in the present files. A changed one may not be used.
struct FoundTemplates<'g> {
    previous: &'g Generation,
    /// Positions in the generation's records, by path.
    known: BTreeMap<&'g str, usize>,
    /// Templates of unchanged and of new files.
    unchanged: Vec<Template>,
    changed: Vec<Template>,
}

impl<'g> FoundTemplates<'g> {
    fn of(previous: &'g Generation) -> FoundTemplates<'g> {
        let records = previous.files.iter().enumerate();
        let known = records.map(|(index, record)| (&*record.path, index)).collect();
        FoundTemplates { previous, known, unchanged: Vec::new(), changed: Vec::new() }
    }

    /// Returns true if the file may hold a template. Every load reads a file with a template again;
    /// a file without a record is new.
    fn may_hold_templates(&self, path: &str) -> bool {
        let record = self.known.get(path).and_then(|index| self.previous.files.get(*index));
        let is_left_out =
            |record: &FileRecord| record.diagnostics.iter().any(|d| d.code == LEFT_OUT);
        record.is_none_or(|record| record.again && !is_left_out(record))
    }

    fn offer_imported(
        &mut self,
        context: &Context<'_>,
        foreign: &Foreign,
        source: Option<&Name>,
        set: &mut Set,
    ) {
        for file in foreign.files.iter().filter(|file| file.name.is_template()) {
            let loaded = imported_file::load(context, file, foreign, &set.around);
            set.templates.add_aliases(&file.name, &foreign.aliases_of(&file.name));
            self.offer(loaded, source, set);
        }
    }

    fn offer(&mut self, file: UnitFile, source: Option<&Name>, set: &mut Set) {
        let UnitFile { mut record, templates, .. } = file;
        if templates.is_empty() {
            return;
        }
        let known = self.known.get(&*record.path).and_then(|at| self.previous.files.get(*at));
        // The present record also has the drop-ins of its instances, which every load reads again.
        fn shared(record: &FileRecord) -> impl Iterator<Item = &(Arc<str>, Stamp)> {
            record.drop_ins.iter().filter(|(path, _)| instance_of_drop_in(path).is_none())
        }
        let same = known
            .is_none_or(|known| known.stamp == record.stamp && shared(known).eq(shared(&record)));
        if known.is_none() {
            // The other units of the file take effect only with a reload.
            record.again = true;
            record.source = source.cloned();
            set.records.push(record);
        }
        for template in templates {
            let template = template.of_source(source);
            if same {
                set.templates.add(template.clone());
                self.unchanged.push(template);
            } else {
                self.changed.push(template);
            }
        }
    }

    /// Returns the file of a changed template of which an instance is still wanted.
    fn missed(&self, set: &Set, wanted: &[String]) -> Option<Arc<str>> {
        let mut changed = template::Templates::default();
        self.changed.iter().for_each(|template| changed.add(template.clone()));
        let asked = template::unprovided(&set.drafts, wanted);
        asked.iter().find_map(|target| Some(changed.of(target)?.0.file().clone()))
    }
}
