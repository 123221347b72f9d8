//! Adds units of systemd's files and requested instances of templates to the native units of a
//! load.

use super::bounds::size;
use super::set::Set;
use crate::import;
use crate::import::systemd::UnitName;
use crate::limit;
use crate::load::folder::Found;
use crate::load::foreign::Foreign;
use crate::load::imported_file;
use crate::load::reuse::Before;
use crate::load::template::{self, Body, Template};
use crate::load::unit_file::{Context, interpret, left_out, placeholder};
use crate::spec::{DependencyKind, OnChange};
use crate::text::diagnostic::{Diagnostic, Severity};
use crate::text::name::Name;
use crate::unit::assembly::Draft;
use crate::unit::generation::FileRecord;
use std::collections::{BTreeMap, BTreeSet};

impl Set {
    /// Reads files of systemd: those of a source, or those of the directories.
    pub(super) fn read_imported(
        &mut self,
        context: &Context<'_>,
        foreign: &Foreign,
        before: &Before<'_>,
        source: Option<&Name>,
    ) {
        for file in &foreign.files {
            let found = Found { path: file.path.clone(), stem: file.name.to_string() };
            let beside = |_: &[&str]| foreign.beside(&file.name);
            if let Some(before) = before.unchanged(context.files, &found, &beside) {
                self.keep(before);
                continue;
            }
            let loaded = imported_file::load(context, file, foreign, &self.around);
            for template in &loaded.templates {
                let aliases = foreign.aliases_of(&template.name);
                self.templates.add_aliases(&template.name, &aliases);
            }
            self.take(loaded, source);
        }
    }

    /// Creates the requested instances, and resolves imported units against the others. Returns the
    /// limit that was exceeded, if any.
    pub(super) fn settle(
        &mut self,
        context: &Context<'_>,
        foreign: &Foreign,
        wanted: &[String],
    ) -> Option<Diagnostic> {
        let mut wanted = wanted.to_vec();
        wanted.extend(self.templates.defaults());
        wanted.extend(self.roots.iter().flat_map(|(_, roots)| roots).map(Name::to_string));
        wanted.extend(foreign.links.keys().cloned());
        let exceeded = if self.templates.is_empty() {
            None
        } else {
            self.instances(context, foreign, &wanted)
        };
        for (file, note) in import::set::yield_to_native(&mut self.drafts, context.settings) {
            if let Some(record) = self.records.iter_mut().find(|record| record.path == file) {
                // Without the native unit, the file's own definition applies again.
                record.again = true;
                record.diagnostics.extend(note);
            }
        }
        import::set::settle(&mut self.drafts, context.settings);
        self.keep_runs_of_connections();
        self.check_patterns(context);
        self.keep_to_size(context, limit::ALL_UNITS);
        exceeded
    }

    /// Makes the units that take the connections of sockets keep their runs at a reload. A connection
    /// lasts as long as its peers want, so a new definition applies to the next connection.
    fn keep_runs_of_connections(&mut self) {
        let edges = self.drafts.iter().flat_map(|draft| &draft.dependencies);
        let accepts = edges.filter(|edge| edge.kind == DependencyKind::Accepts);
        let places: BTreeSet<Name> = accepts.map(|edge| edge.target.clone()).collect();
        for draft in self.drafts.iter_mut().filter(|draft| places.contains(&draft.name)) {
            draft.live.on_change = OnChange::Keep;
        }
    }

    fn instances(
        &mut self,
        context: &Context<'_>,
        foreign: &Foreign,
        wanted: &[String],
    ) -> Option<Diagnostic> {
        let (mut made, mut sizes) = (BTreeSet::new(), BTreeMap::new());
        let mut asked = template::unprovided(&self.drafts, wanted);
        let provided = |drafts: &[Draft]| -> Vec<Name> {
            let names =
                drafts.iter().flat_map(|draft| [&draft.name].into_iter().chain(&draft.provides));
            names.filter(|name| name.as_str().contains('@')).cloned().collect()
        };
        let mut known: BTreeSet<Name> = provided(&self.drafts).into_iter().collect();
        // Each round examines only the instances of the previous round.
        while !asked.is_empty() {
            let before = self.drafts.len();
            for target in std::mem::take(&mut asked) {
                let Some((template, name)) = self.templates.of(&target) else { continue };
                if !made.insert(name.to_string()) {
                    continue;
                }
                if made.len() > limit::INSTANCES {
                    let message = format!("more than {} instances of templates", limit::INSTANCES);
                    let file = template.file().to_string();
                    return Some(Diagnostic::of_file(Severity::Error, "too-large", &file, message));
                }
                let template = template.clone();
                let size = sizes.entry(template.file().clone()).or_insert(0);
                if *size > limit::TEMPLATE {
                    self.oversize(context, &template, &name);
                    continue;
                }
                *size += self.instance(context, foreign, &template, &name);
            }
            let new = self.drafts.get(before..).unwrap_or_default();
            let pulled: BTreeSet<&str> = new.iter().flat_map(template::pulled_by).collect();
            known.extend(provided(new));
            let is_known = |target: &str| Name::new(target).is_ok_and(|name| known.contains(&name));
            let is_asked = |target: &&str| target.contains('@') && !is_known(target);
            asked = pulled.into_iter().filter(is_asked).map(str::to_string).collect();
        }
        None
    }

    fn instance(
        &mut self,
        context: &Context<'_>,
        foreign: &Foreign,
        template: &Template,
        name: &UnitName,
    ) -> usize {
        let mut record = FileRecord::new(template.file().clone());
        record.source = template.source.clone();
        // All instances of a template are left out together.
        let what = format!("{} (instances)", template.file());
        let mut draft = None;
        let why = context.files.work_on(&what, &mut || {
            draft = match &template.body {
                Body::Native(manifest) => template::instance(manifest, name, &self.around.facts)
                    .and_then(|manifest| interpret(context, manifest, None, &mut record)),
                Body::Imported { .. } => {
                    let around = &self.around;
                    imported_file::instance(context, template, name, foreign, around, &mut record)
                }
            };
        });
        if why.is_some() {
            let error = left_out(template.file(), why);
            let name = Name::new(&name.to_string()).ok();
            draft = name.map(|name| placeholder(context, name, &error));
            record.diagnostics.push(error);
        }
        let source = template.source.clone();
        let size = draft.as_ref().map_or(0, size);
        self.drafts.extend(draft.map(|draft| Draft { source, ..draft }));
        // A diagnostic that several instances share is reported once.
        if let Some(known) = self.records.iter_mut().find(|known| known.path == record.path) {
            for (path, stamp) in record.drop_ins {
                known.drop_ins.retain(|(old, _)| *old != path);
                known.drop_ins.push((path, stamp));
            }
            for said in record.diagnostics {
                if !known.diagnostics.contains(&said)
                    && known.diagnostics.len() < limit::DIAGNOSTICS_PER_FILE
                {
                    known.diagnostics.push(said);
                }
            }
        }
        size
    }

    /// Reports an instance that is not created, because earlier ones use all the room of their
    /// template.
    fn oversize(&mut self, context: &Context<'_>, template: &Template, name: &UnitName) {
        let file = template.file();
        let message = format!(
            "instances of template {} take more than {} KiB together",
            template.name,
            limit::TEMPLATE / 1024
        );
        let error = Diagnostic::of_file(Severity::Error, "too-large", file, message)
            .with_hint("make the template smaller, or want fewer instances");
        let name = Name::new(&name.to_string()).ok();
        let draft = name.map(|name| placeholder(context, name, &error));
        let source = template.source.clone();
        self.drafts.extend(draft.map(|draft| Draft { source, ..draft }));
        self.tell(file, error);
    }
}
