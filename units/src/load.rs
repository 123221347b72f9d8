//! Loads settings, accounts, policy and unit files into one generation.
//!
//! The loader is pure except for its calls of [`Files`]. The order in which a directory lists its
//! names does not affect the result. The units of a file are reused if the same program parsed it
//! and its stamp and those of its drop-ins are unchanged. An error breaks its unit and is reported.
//! [`Loaded::refused`] is set if an error belongs to no single named unit; a reload then fails. The
//! machine decides whether a *broken unit* is needed.
//!
//! The units of sources ([`crate::load::delivered`]) are loaded beside these. [`put`] replaces one
//! source and reads no other unit files, so that edits of these take effect only with a reload.
//! [`mod@instances`] likewise changes only the instances of templates.

pub mod command;
pub mod delivered;
pub(crate) mod diagnostics;
pub mod facts;
pub mod files;
pub mod folder;
pub(crate) mod foreign;
pub(crate) mod imported_file;
pub(crate) mod reuse;
pub(crate) mod template;
pub(crate) mod unit_file;

mod bounds;
mod imported;
mod instances;
mod options;
mod replaced;
mod set;
mod source;

pub use instances::instances;
pub use options::Options;

use crate::import::systemd::{Suffix, Surroundings};
use crate::limit;
use crate::load::delivered::{Overlaid, Source};
use crate::load::files::Files;
use crate::load::folder::{Folders, Found};
use crate::load::reuse::{Before, drop_ins_of};
use crate::load::unit_file::{Context, read_still};
use crate::text::diagnostic::{Diagnostic, Severity};
use crate::text::name::Name;
use crate::unit::account::Accounts;
use crate::unit::assembly::assemble;
use crate::unit::generation::{FileRecord, Generation, Stamp};
use crate::unit::policy::Policy;
use crate::unit::policy_file;
use crate::unit::settings::Settings;
use crate::unit::settings_file;
use set::Set;
use source::read_source;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// The running program: after an upgrade, another one may understand a file differently.
const PROGRAM: &str = "/proc/self/exe";

/// A loaded generation.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The generation, with number 0: init numbers it.
    pub generation: Generation,
    /// Number of files that were parsed, of all in [`Generation::files`].
    pub parsed: usize,
    /// An error belongs to no single named unit. Examples are an unreadable file or directory, an
    /// error in settings or policy, and a unit without a recognizable name. A boot continues; a
    /// reload is refused.
    pub refused: bool,
}

/// Loads everything. `in_force` is the present generation, if there is one.
pub fn load(files: &dyn Files, options: &Options, in_force: Option<&Generation>) -> Loaded {
    let mut loader = Loader { files, options, found: Vec::new(), refused: false };
    let settings = loader.settings();
    let policy = loader.policy();
    let (accounts, mut records) = loader.accounts();
    records.push(program(files));
    let is_known = |previous: &&Generation| records.iter().all(|r| previous.files.contains(r));
    let previous = in_force.filter(|previous| previous.settings == settings).filter(is_known);
    let folders = loader.folders(&settings);
    let mut set = Set { records, around: around(files), ..Set::default() };
    let sources = loader.sources(&settings, in_force, &mut set);
    let overlaid = Overlaid { below: files, sources: &sources };
    let (accounts, trust) = (&accounts, options.trust);
    let context = Context { files: &overlaid, settings: &settings, accounts, trust };
    let before = Before::of(previous);
    loader.read_units(&context, &folders, &before, &mut set);
    set.read_imported(&context, &folders.foreign, &before, None);
    sources.iter().for_each(|source| read_source(&context, source, &folders, &before, &mut set));
    loader.tell_unused(&folders, &set);
    set.drafts.extend(options.command.as_ref().and_then(|command| command.draft(&settings)));
    let wanted = wanted(options, &settings, &policy);
    let exceeded = set.settle(&context, &folders.foreign, &wanted);
    exceeded.into_iter().for_each(|diagnostic| loader.complain(diagnostic));
    replaced::drop_ins(&folders.foreign, &set).into_iter().for_each(|d| loader.complain(d));
    in_force.into_iter().for_each(|generation| set.remember_wishes(generation));
    loader.finish(&overlaid, set, settings.clone(), policy)
}

/// Loads one source again and takes everything else from the present generation. Other changed
/// files wait for a reload that the operator requests. A drop-in of the unit directories is read
/// with its file.
pub fn put(files: &dyn Files, options: &Options, previous: &Generation, source: Source) -> Loaded {
    let mut loader = Loader { files, options, found: Vec::new(), refused: false };
    let settings = previous.settings.clone();
    let (accounts, _) = loader.accounts();
    let mut set = Set { around: around(files), ..Set::default() };
    set.carry(previous, |of| of != Some(&source.name));
    let sources = [source];
    let overlaid = Overlaid { below: files, sources: &sources };
    let (accounts, trust) = (&accounts, options.trust);
    let context = Context { files: &overlaid, settings: &settings, accounts, trust };
    let is_known = previous.files.contains(&program(files));
    let before = Before::of(is_known.then_some(previous)).by_texts_alone();
    // A reload reports errors of directories.
    let mut silent = Loader { files, options, found: Vec::new(), refused: false };
    let folders = silent.folders(&settings);
    sources.iter().for_each(|source| read_source(&context, source, &folders, &before, &mut set));
    let wanted = wanted(options, &settings, &previous.policy);
    let exceeded = set.settle(&context, &folders.foreign.drop_ins_alone(), &wanted);
    exceeded.into_iter().for_each(|diagnostic| loader.complain(diagnostic));
    set.remember_wishes(previous);
    loader.finish(&overlaid, set, settings.clone(), previous.policy.clone())
}

fn around(files: &dyn Files) -> Surroundings {
    Surroundings { facts: facts::gather(files), ..Surroundings::default() }
}

/// Targets that are requested from outside the unit files.
fn wanted(options: &Options, settings: &Settings, policy: &Policy) -> Vec<String> {
    let goals = [&settings.default_target, &settings.emergency_target];
    let keys = settings.reactions.goals().map(|(_, goal)| goal);
    let names = goals.into_iter().chain(&settings.exit_with).chain(keys).chain(&options.wanted);
    names.chain(&policy.enable).map(Name::to_string).collect()
}

fn program(files: &dyn Files) -> FileRecord {
    record(PROGRAM, files.stat(PROGRAM).map_or_else(|_| Stamp::default(), |found| found.stamp))
}

/// The record of a file that holds no units.
fn record(path: &str, stamp: Stamp) -> FileRecord {
    FileRecord { stamp, ..FileRecord::new(path.into()) }
}

/// The state of one load: the files, the options, and the diagnostics found so far.
struct Loader<'a> {
    files: &'a dyn Files,
    options: &'a Options,
    found: Vec<Diagnostic>,
    refused: bool,
}

impl Loader<'_> {
    fn complain(&mut self, diagnostic: Diagnostic) {
        self.refused |= diagnostic.severity == Severity::Error;
        self.found.push(diagnostic);
    }

    /// Numbers everything and checks the generation as a whole.
    fn finish(
        mut self,
        files: &dyn Files,
        mut set: Set,
        settings: Settings,
        policy: Policy,
    ) -> Loaded {
        set.name_doubles(&mut self.found);
        let Set { parsed, mut drafts, mut records, mut roots, mut revisions, .. } = set;
        if drafts.len() > limit::UNITS {
            let message = format!("{} units; only the first 65536 by name are used", drafts.len());
            self.complain(Diagnostic::of_file(Severity::Error, "too-large", "units", message));
            drafts.sort_by(|a, b| a.name.cmp(&b.name));
            drafts.truncate(limit::UNITS);
        }
        let mut extra = vec![&settings.default_target, &settings.emergency_target];
        extra.extend(&settings.exit_with);
        extra.extend(settings.reactions.goals().map(|(_, goal)| goal));
        extra.extend(roots.iter().flat_map(|(_, roots)| roots));
        let mut generation = assemble(drafts, extra);
        roots.sort();
        let id = |name: &Name| generation.find_target(name.as_str());
        let numbered = roots.iter().map(|(source, roots)| {
            let roots: BTreeSet<_> = roots.iter().filter_map(id).collect();
            (source.clone(), roots.into_iter().collect())
        });
        generation.roots = numbered.collect();
        revisions.sort();
        generation.revisions = revisions;
        records.sort_by(|a, b| a.path.cmp(&b.path));
        self.found.extend(records.iter().flat_map(|record| record.diagnostics.iter().cloned()));
        generation.settings = settings;
        generation.policy = policy;
        generation.files = records;
        let mut loaded = Loaded { generation, parsed, refused: self.refused };
        loaded.generation.diagnostics = self.found;
        diagnostics::add_graph(&mut loaded.generation, self.options.only.is_some());
        let Generation { files: records, diagnostics, .. } = &mut loaded.generation;
        diagnostics::add_excerpts(files, records, diagnostics);
        loaded
    }

    /// Loads the stored units of the sources in the settings. A source that cannot be read keeps
    /// its units, so that a reload loses none.
    fn sources(
        &mut self,
        settings: &Settings,
        previous: Option<&Generation>,
        set: &mut Set,
    ) -> Vec<Source> {
        let Some(directory) = &self.options.sources else { return Vec::new() };
        let mut sources = Vec::new();
        for name in settings.sources.keys() {
            match Source::kept(self.files, directory, name, self.options.trust) {
                Ok(Some(source)) => sources.push(source),
                kept @ (Ok(None) | Err(_)) => {
                    self.found.extend(kept.err().map(|found| *found));
                    if let Some(previous) = previous {
                        set.carry(previous, |of| of == Some(name));
                    }
                }
            }
        }
        sources
    }

    /// Reads a file that may be missing unless it is `needed`.
    fn optional(&mut self, path: &str, needed: bool) -> Option<Vec<u8>> {
        let missing = matches!(self.files.stat(path), Err(crate::load::files::Problem::Missing));
        if missing && !needed {
            return None;
        }
        match read_still(self.files, path, limit::UNIT_FILE) {
            Ok((bytes, stat)) => {
                let untrusted = self.options.trust.untrusted(&stat, "file", path);
                let is_error = untrusted.as_ref().is_some_and(|d| d.severity == Severity::Error);
                untrusted.into_iter().for_each(|diagnostic| self.complain(diagnostic));
                (!is_error).then_some(bytes)
            }
            Err(error) => {
                self.complain(*error);
                None
            }
        }
    }

    fn settings(&mut self) -> Settings {
        let Some(path) = &self.options.settings else { return Settings::default() };
        let Some(bytes) = self.optional(path, self.options.settings_named) else {
            return Settings::default();
        };
        let (settings, found) = settings_file::read(&Arc::from(path.as_str()), &bytes);
        found.into_iter().for_each(|diagnostic| self.complain(diagnostic));
        settings
    }

    fn policy(&mut self) -> Policy {
        let mut policy = Policy::default();
        for path in [&self.options.policy, &self.options.runtime_policy].into_iter().flatten() {
            if let Some(bytes) = self.optional(path, false) {
                let (over, found) = policy_file::read(&Arc::from(path.as_str()), &bytes);
                found.into_iter().for_each(|diagnostic| self.complain(diagnostic));
                policy = policy.overlaid(&over);
            }
        }
        policy
    }

    /// Reads passwd and group; a missing file has no entries.
    fn accounts(&mut self) -> (Accounts, Vec<FileRecord>) {
        let mut texts = Vec::new();
        let mut records = Vec::new();
        for path in [&self.options.passwd, &self.options.group] {
            let (text, stamp) = match read_still(self.files, path, limit::ACCOUNT_FILE) {
                Ok((bytes, stat)) => (String::from_utf8_lossy(&bytes).into_owned(), stat.stamp),
                Err(_) => (String::new(), Stamp::default()),
            };
            texts.push(text);
            records.push(record(path, stamp));
        }
        let [passwd, group] = texts.as_slice() else { return (Accounts::default(), records) };
        (Accounts::parse(passwd, group), records)
    }

    fn folders(&mut self, settings: &Settings) -> Folders {
        if let Some(only) = &self.options.only {
            let unique: BTreeSet<&String> = only.iter().collect();
            let found = |path: &&String| Found {
                path: path.as_str().into(),
                stem: folder::stem(path).to_string(),
            };
            let (foreign, native): (Vec<&String>, Vec<&String>) =
                unique.into_iter().partition(|path| Suffix::of(path).is_some());
            let files = native.iter().map(found).collect();
            let mut folders = Folders { files, ..Folders::default() };
            for path in foreign {
                let (directory, name) = path.rsplit_once('/').unwrap_or((".", path));
                folders.foreign.note(self.files, directory, name, false);
            }
            folders.foreign.settle();
            return folders;
        }
        let named = if self.options.units.is_empty() {
            settings.unit_dirs.clone().unwrap_or_default()
        } else {
            self.options.units.clone()
        };
        let given = if named.is_empty() { &self.options.standard_units } else { &named };
        let (first, later) = (given.iter().take(1), given.iter().skip(1));
        let mut directories: Vec<String> =
            first.chain(&self.options.runtime_units).chain(later).cloned().collect();
        let mut seen = BTreeSet::new();
        directories.retain(|directory| seen.insert(directory.clone()));
        directories.truncate(limit::UNIT_DIRS);
        let mut import = settings.import_dirs.clone();
        import.retain(|directory| seen.insert(directory.clone()));
        import.truncate(limit::UNIT_DIRS);
        let asked = |directory: &str| named.iter().any(|name| name == directory);
        let mut folders =
            folder::list(self.files, &directories, &import, asked, self.options.trust);
        std::mem::take(&mut folders.diagnostics).into_iter().for_each(|d| self.complain(d));
        folders
    }

    fn read_units(
        &mut self,
        context: &Context<'_>,
        folders: &Folders,
        before: &Before<'_>,
        set: &mut Set,
    ) {
        let files = self.files;
        let read = |found: &Found| {
            let drop_ins = |names: &[&str]| drop_ins_of(folders, &found.stem, names);
            match before.unchanged(files, found, &drop_ins) {
                Some(before) => Ok(before),
                None => Err(Box::new(unit_file::load(context, &found.path, &drop_ins))),
            }
        };
        let results: Vec<OnceLock<_>> = folders.files.iter().map(|_| OnceLock::new()).collect();
        files.each(results.len(), &|at| {
            if let (Some(found), Some(result)) = (folders.files.get(at), results.get(at)) {
                result.get_or_init(|| read(found));
            }
        });
        for (found, result) in folders.files.iter().zip(results) {
            match result.into_inner().unwrap_or_else(|| read(found)) {
                Ok(before) => set.keep(before),
                Err(file) => {
                    self.refused |= file.nameless;
                    set.take(*file, None);
                }
            }
        }
    }

    /// Reports drop-ins without a unit, in the directories or in a source.
    fn tell_unused(&mut self, folders: &Folders, set: &Set) {
        let units = set.drafts.iter().map(|draft| draft.name.as_str());
        let units = units.chain(set.templates.names());
        let files = set.records.iter().map(|record| folder::stem(&record.path));
        let used: BTreeSet<&str> = units.chain(files).collect();
        for (unit, files) in
            folders.drop_ins.iter().filter(|(unit, _)| !used.contains(unit.as_str()))
        {
            if let Some(path) = files.values().next() {
                let message =
                    format!("this drop-in is for `{unit}`, and there is no such unit or file");
                self.complain(Diagnostic::of_file(
                    Severity::Warning,
                    "unused-drop-in",
                    path,
                    message,
                ));
            }
        }
    }
}
