//! Everything on disk made one generation: settings, accounts, policy, unit files.
//!
//! Pure but for the questions it asks through [`Files`]; the result is the same
//! whatever order a directory lists its names in. A file whose stamp, and those of
//! its drop-ins, did not change since the previous generation is not parsed again.
//! A mistake breaks the unit it is in and is told; [`Loaded::refused`] says that
//! more than single units is wrong, which a reload does not take. Whether a *broken
//! unit* is needed is the machine's to judge.

use crate::account::Accounts;
use crate::assembly::{Draft, assemble};
use crate::diagnostic::{Diagnostic, Place, Severity};
use crate::files::Files;
use crate::folder::{self, Folders, Found, Trust, whole};
use crate::generation::{Fault, FileRecord, Generation, Stamp};
use crate::graph::Graph;
use crate::limit;
use crate::name::Name;
use crate::policy::Policy;
use crate::settings::Settings;
use crate::unit_file::{self, Context, UnitFile, read_still};
use crate::{policy_file, settings_file};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is to be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// init.yaml.
    pub settings: Option<String>,
    /// Somebody asked for that file: it must be there.
    pub settings_named: bool,
    /// policy.yaml.
    pub policy: Option<String>,
    /// The policy of this boot, laid over it.
    pub runtime_policy: Option<String>,
    /// `--units`: instead of those of the settings and of `standard_units`.
    pub units: Vec<String>,
    /// Where units are when nobody says.
    pub standard_units: Vec<String>,
    /// The unit directory of the runtime directory; it stands behind the first.
    pub runtime_units: Option<String>,
    /// These files, and no directory.
    pub only: Option<Vec<String>>,
    /// passwd(5).
    pub passwd: String,
    /// group(5).
    pub group: String,
    /// Whose files are read.
    pub trust: Trust,
}

impl Options {
    /// Those of a booted machine, for init running as `uid`.
    pub fn system(uid: u32) -> Options {
        Options {
            settings: Some("/etc/groundstate/init.yaml".to_string()),
            settings_named: false,
            policy: Some("/etc/groundstate/policy.yaml".to_string()),
            runtime_policy: Some("/run/groundstate/policy.yaml".to_string()),
            units: Vec::new(),
            standard_units: vec![
                "/etc/groundstate/units".to_string(),
                "/usr/lib/groundstate/units".to_string(),
            ],
            runtime_units: Some("/run/groundstate/units".to_string()),
            only: None,
            passwd: "/etc/passwd".to_string(),
            group: "/etc/group".to_string(),
            trust: Trust { uid, strict: true },
        }
    }

    /// One directory (or several) as the whole set, as `initctl check DIR` takes it.
    pub fn directories(directories: Vec<String>, uid: u32) -> Options {
        Options {
            settings: None,
            policy: None,
            runtime_policy: None,
            units: directories,
            standard_units: Vec::new(),
            runtime_units: None,
            trust: Trust { uid, strict: false },
            ..Options::system(uid)
        }
    }

    /// Single files, as `initctl check FILE…` takes them.
    pub fn files(files: Vec<String>, uid: u32) -> Options {
        Options { only: Some(files), ..Options::directories(Vec::new(), uid) }
    }
}

/// A loaded set.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Number 0: init counts.
    pub generation: Generation,
    /// Files that were parsed, of all that [`Generation::files`] lists.
    pub parsed: usize,
    /// There is an error that no single named unit stands for: a file or directory that
    /// can not be read, settings or policy with a mistake, a unit whose name can not be
    /// told. A boot goes on; a reload is refused.
    pub refused: bool,
}

/// Loads everything. `previous` is the generation in force, if there is one.
pub fn load(files: &dyn Files, options: &Options, previous: Option<&Generation>) -> Loaded {
    let mut loader = Loader { files, options, found: Vec::new(), refused: false };
    let settings = loader.settings();
    let policy = loader.policy();
    let (accounts, account_records) = loader.accounts();
    let folders = loader.folders(&settings);
    let context = Context { files, settings: &settings, accounts: &accounts, trust: options.trust };
    let previous = previous.filter(|previous| {
        let known = |record: &FileRecord| previous.files.contains(record);
        previous.settings == settings && account_records.iter().all(known)
    });
    let mut set = Set { parsed: 0, drafts: Vec::new(), records: account_records };
    loader.read_units(&context, &folders, previous, &mut set);
    loader.name_doubles(&mut set);
    let Set { parsed, mut drafts, mut records } = set;
    if drafts.len() > limit::UNITS {
        let message = format!("{} units; the first 65536 by name count", drafts.len());
        loader.complain(whole(Severity::Error, "too-large", "units", message));
        drafts.sort_by(|a, b| a.name.cmp(&b.name));
        drafts.truncate(limit::UNITS);
    }
    let mut extra = vec![&settings.default_target, &settings.emergency_target];
    extra.extend(&settings.exit_with);
    let mut generation = assemble(drafts, extra);
    records.sort_by(|a, b| a.path.cmp(&b.path));
    loader.found.extend(records.iter().flat_map(|record| record.diagnostics.iter().cloned()));
    generation.settings = settings;
    generation.policy = policy;
    generation.files = records;
    let mut loaded = Loaded { generation, parsed, refused: loader.refused };
    loaded.generation.diagnostics = loader.found;
    add_graph(&mut loaded.generation, options.only.is_some());
    add_excerpts(files, &mut loaded.generation.diagnostics);
    loaded
}

/// Adds what the graph finds, sorts by place, and keeps to the limit.
fn add_graph(generation: &mut Generation, alone: bool) {
    let mut found = std::mem::take(&mut generation.diagnostics);
    let (_, faults) = Graph::resolve(generation, &generation.policy);
    for fault in faults {
        let mut diagnostic = fault.diagnostic;
        if alone && diagnostic.code == "missing-target" {
            // The others may be in files that were not given.
            diagnostic.severity = Severity::Note;
        }
        if matches!(diagnostic.code.as_str(), "ring" | "double-claim") {
            found.extend(at_each_place(&diagnostic));
        } else {
            found.push(diagnostic);
        }
    }
    found.sort_by(|a, b| {
        (&a.at, a.severity, &a.code, &a.message).cmp(&(&b.at, b.severity, &b.code, &b.message))
    });
    found.dedup();
    if found.len() > limit::DIAGNOSTICS {
        found.sort_by_key(|diagnostic| diagnostic.severity);
        found.truncate(limit::DIAGNOSTICS);
        found.sort_by(|a, b| a.at.cmp(&b.at));
    }
    generation.diagnostics = found;
}

/// The same mistake at each of its places, so that each file's owner sees it.
fn at_each_place(diagnostic: &Diagnostic) -> Vec<Diagnostic> {
    let mut places = vec![diagnostic.at.clone()];
    places.extend(diagnostic.related.iter().cloned());
    places.sort();
    places.dedup();
    let others = |at: &Place| places.iter().filter(|place| *place != at).cloned().collect();
    let one = |at: &Place| Diagnostic { at: at.clone(), related: others(at), ..diagnostic.clone() };
    places.iter().take(limit::DIAGNOSTICS_PER_FILE).map(one).collect()
}

/// Files that are read once more only to show a line of them.
const EXCERPT_FILES: usize = 64;

/// Shows the line of what was found between files.
fn add_excerpts(files: &dyn Files, found: &mut [Diagnostic]) {
    let bare = |d: &Diagnostic| d.excerpt.is_empty() && d.at.line > 0;
    let paths: BTreeSet<Arc<str>> =
        found.iter().filter(|d| bare(d)).map(|d| d.at.file.clone()).collect();
    for path in paths.into_iter().take(EXCERPT_FILES) {
        let Ok((bytes, _)) = read_still(files, &path, limit::UNIT_FILE) else { continue };
        if let Ok(text) = std::str::from_utf8(&bytes) {
            crate::text::add_excerpts(found, &path, text);
        }
    }
    for diagnostic in found.iter_mut().filter(|d| d.code == "missing-target") {
        point_at_name(diagnostic);
    }
}

/// The graph knows the line of a dependency; the column is where the line names it.
fn point_at_name(diagnostic: &mut Diagnostic) {
    let Some(name) = diagnostic.message.split('`').nth(1) else { return };
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '.' | '@' | '-');
    let line = &diagnostic.excerpt;
    let value = line.find(": ").map_or(0, |colon| colon + 1);
    let column = line.match_indices(name).find(|(at, _)| {
        let (before, behind) = (line.get(..*at), line.get(at + name.len()..));
        *at >= value
            && !before.is_some_and(|text| text.ends_with(inside))
            && !behind.is_some_and(|text| text.starts_with(inside))
    });
    let before = column.and_then(|(at, _)| line.get(..at));
    if let Some(column) = before.and_then(|text| u32::try_from(text.chars().count()).ok()) {
        diagnostic.at.column = column + 1;
    }
}

struct Loader<'a> {
    files: &'a dyn Files,
    options: &'a Options,
    found: Vec<Diagnostic>,
    refused: bool,
}

struct Set {
    parsed: usize,
    drafts: Vec<Draft>,
    records: Vec<FileRecord>,
}

impl Loader<'_> {
    fn complain(&mut self, diagnostic: Diagnostic) {
        self.refused |= diagnostic.severity == Severity::Error;
        self.found.push(diagnostic);
    }

    /// A file that may be missing unless it is `needed`.
    fn optional(&mut self, path: &str, needed: bool) -> Option<Vec<u8>> {
        let missing = matches!(self.files.stat(path), Err(crate::files::Problem::Missing));
        if missing && !needed {
            return None;
        }
        match read_still(self.files, path, limit::UNIT_FILE) {
            Ok((bytes, stat)) => {
                if let Some((severity, complaint)) = self.options.trust.complaint(&stat) {
                    self.complain(whole(
                        severity,
                        "untrusted",
                        path,
                        format!("this file: {complaint}"),
                    ));
                    if severity == Severity::Error {
                        return None;
                    }
                }
                Some(bytes)
            }
            Err(error) => {
                self.complain(error);
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

    /// passwd and group; missing ones know nobody.
    fn accounts(&mut self) -> (Accounts, Vec<FileRecord>) {
        let mut texts = Vec::new();
        let mut records = Vec::new();
        for path in [&self.options.passwd, &self.options.group] {
            let (text, stamp) = match read_still(self.files, path, limit::ACCOUNT_FILE) {
                Ok((bytes, stat)) => (String::from_utf8_lossy(&bytes).into_owned(), stat.stamp),
                Err(_) => (String::new(), Stamp::default()),
            };
            texts.push(text);
            records.push(FileRecord {
                path: path.as_str().into(),
                stamp,
                drop_ins: Vec::new(),
                diagnostics: Vec::new(),
                again: false,
            });
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
            let files = unique.iter().map(found).collect();
            return Folders { files, ..Folders::default() };
        }
        let named = if self.options.units.is_empty() {
            settings.unit_dirs.clone().unwrap_or_default()
        } else {
            self.options.units.clone()
        };
        let mut directories =
            if named.is_empty() { self.options.standard_units.clone() } else { named.clone() };
        if let Some(runtime) = &self.options.runtime_units {
            directories.insert(directories.len().min(1), runtime.clone());
        }
        let mut seen = BTreeSet::new();
        directories.retain(|directory| seen.insert(directory.clone()));
        directories.truncate(limit::UNIT_DIRS);
        let asked = |directory: &str| named.iter().any(|name| name == directory);
        let mut folders = folder::list(self.files, &directories, asked, self.options.trust);
        std::mem::take(&mut folders.diagnostics).into_iter().for_each(|d| self.complain(d));
        folders
    }

    fn read_units(
        &mut self,
        context: &Context<'_>,
        folders: &Folders,
        previous: Option<&Generation>,
        set: &mut Set,
    ) {
        let before = Before::of(previous);
        let mut used = BTreeSet::new();
        for found in &folders.files {
            let drop_ins = |names: &[&str]| drop_ins_of(folders, &found.stem, names);
            if let Some((drafts, record)) = before.unchanged(self.files, found, &drop_ins) {
                used.extend(drafts.iter().map(|draft| draft.name.to_string()));
                set.drafts.extend(drafts);
                set.records.push(record);
            } else {
                let UnitFile { drafts, record, nameless } =
                    unit_file::load(context, &found.path, &drop_ins);
                self.refused |= nameless;
                used.extend(drafts.iter().map(|draft| draft.name.to_string()));
                set.parsed += 1;
                set.drafts.extend(drafts);
                set.records.push(record);
            }
            used.insert(found.stem.clone());
        }
        for (unit, files) in folders.drop_ins.iter().filter(|(unit, _)| !used.contains(*unit)) {
            if let Some(path) = files.values().next() {
                let message =
                    format!("this drop-in is for `{unit}`, and there is no such unit or file");
                self.complain(whole(Severity::Warning, "unused-drop-in", path, message));
            }
        }
    }

    /// One unit name in two places: an error at each, and one broken unit of that name.
    fn name_doubles(&mut self, set: &mut Set) {
        let mut by_name: BTreeMap<Name, Vec<Draft>> = BTreeMap::new();
        for draft in std::mem::take(&mut set.drafts) {
            by_name.entry(draft.name.clone()).or_default().push(draft);
        }
        for (name, mut drafts) in by_name {
            let places: Vec<_> = drafts.iter().map(|draft| draft.at.clone()).collect();
            let Some(mut draft) = drafts.pop() else { continue };
            if !drafts.is_empty() {
                let message = format!("{} units are named `{name}`", places.len());
                draft.fault = Some(Fault { at: draft.at.clone(), message: message.clone() });
                for other in &mut drafts {
                    draft.provides.append(&mut other.provides);
                }
                for (index, place) in places.iter().enumerate() {
                    let mut related = places.clone();
                    related.remove(index);
                    let hint = "a unit has one file; a file of the same name in an earlier directory hides one in a later";
                    let error = Diagnostic::error("double-unit", place.clone(), message.clone());
                    self.found.push(error.with_hint(hint).with_related(related));
                }
                // With the other file gone, these are fine as they are.
                let again = |record: &&mut FileRecord| places.iter().any(|p| p.file == record.path);
                set.records.iter_mut().filter(again).for_each(|record| record.again = true);
            }
            set.drafts.push(draft);
        }
    }
}

/// The drop-ins for a file and the units in it, in the order of their own names.
fn drop_ins_of(folders: &Folders, stem: &str, names: &[&str]) -> Vec<Arc<str>> {
    let units: BTreeSet<&str> = names.iter().copied().chain([stem]).collect();
    let mut all: Vec<(&String, &Arc<str>)> =
        units.iter().filter_map(|unit| folders.drop_ins.get(*unit)).flatten().collect();
    all.sort();
    all.into_iter().map(|(_, path)| path.clone()).collect()
}

/// The previous generation by file.
struct Before<'a> {
    generation: Option<&'a Generation>,
    records: BTreeMap<&'a str, &'a FileRecord>,
    units: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Before<'a> {
    fn of(generation: Option<&'a Generation>) -> Before<'a> {
        let mut before = Before { generation, records: BTreeMap::new(), units: BTreeMap::new() };
        let Some(generation) = generation else { return before };
        before.records = generation.files.iter().map(|record| (&*record.path, record)).collect();
        for (index, unit) in generation.units.iter().enumerate() {
            if unit.source.is_none() {
                before.units.entry(&unit.at.file).or_default().push(index);
            }
        }
        before
    }

    /// What the file gave last time, if nothing about it changed.
    fn unchanged(
        &self,
        files: &dyn Files,
        found: &Found,
        drop_ins: &dyn Fn(&[&str]) -> Vec<Arc<str>>,
    ) -> Option<(Vec<Draft>, FileRecord)> {
        let generation = self.generation?;
        let record = *self.records.get(&*found.path)?;
        if record.again || files.stat(&found.path).ok()?.stamp != record.stamp {
            return None;
        }
        let units: Vec<_> = self
            .units
            .get(&*found.path)
            .into_iter()
            .flatten()
            .filter_map(|index| generation.units.get(*index))
            .collect();
        let names: Vec<&str> = units.iter().map(|unit| unit.name.as_str()).collect();
        let now = drop_ins(&names);
        let same = now.len() == record.drop_ins.len()
            && now.iter().zip(&record.drop_ins).all(|(path, (known, stamp))| {
                path == known && files.stat(path).is_ok_and(|stat| stat.stamp == *stamp)
            });
        let drafts = units.iter().map(|unit| Draft::of(generation, unit)).collect();
        same.then(|| (drafts, record.clone()))
    }
}
