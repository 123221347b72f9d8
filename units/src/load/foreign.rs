//! Unit files of systemd in the directories: units, masks, aliases, links that enable units, and
//! drop-ins (systemd.unit(5), "UNIT FILE LOAD PATH"). Only names and links are read here;
//! [`crate::load::imported_file`] reads the bytes.

use crate::import::systemd::replacement;
use crate::limit;
use crate::load::files::{FileKind, Files, Problem};
use crate::text::diagnostic::{Diagnostic, Severity};
use crate::text::unit_name::{Suffix, UnitName};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Limit of links that are followed in a row.
const LINKS: usize = 8;

/// A unit file that is not hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForeignFile {
    /// The path.
    pub(crate) path: Arc<str>,
    /// The parsed unit name.
    pub(crate) name: UnitName,
    /// The file is from a directory of another init system: its install section counts only once
    /// the unit is enabled.
    pub(crate) opt_in: bool,
}

/// A link in `TARGET.wants`, `TARGET.upholds` or `TARGET.requires`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The unit that pulls the linked unit in.
    pub(crate) target: String,
    /// The link is in a `.requires` directory.
    pub(crate) required: bool,
    /// The path of the link.
    pub(crate) path: Arc<str>,
}

/// Drop-ins of one directory by file name; `None` is a link to /dev/null.
type DropIns = BTreeMap<String, Option<Arc<str>>>;

/// The contents of the directories.
#[derive(Clone, Debug, Default)]
pub(crate) struct Foreign {
    /// The unit files in the order in which they were found.
    pub(crate) files: Vec<ForeignFile>,
    /// Aliases by the unit's own name.
    pub(crate) aliases: BTreeMap<String, Vec<(String, Arc<str>)>>,
    /// Links that enable units, by unit.
    pub(crate) links: BTreeMap<String, Vec<Link>>,
    /// Every name seen so far: an earlier directory hides a later one.
    seen: BTreeSet<String>,
    /// The directories in their order.
    directories: Vec<String>,
    /// `NAME` of each `NAME.d`, with the position of its directory → its drop-ins. A link to
    /// /dev/null hides the others of that name.
    drop_ins: BTreeMap<(String, usize), DropIns>,
    /// Diagnostics of files that look like unit files but are not read.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl Foreign {
    /// Handles one entry of a directory. Returns false if it does not belong to systemd.
    pub(crate) fn note(
        &mut self,
        files: &dyn Files,
        directory: &str,
        entry: &str,
        opt_in: bool,
    ) -> bool {
        let path: Arc<str> = format!("{}/{entry}", directory.trim_end_matches('/')).into();
        for (ending, required) in [(".wants", false), (".requires", true), (".upholds", false)] {
            if let Some(target) = entry.strip_suffix(ending) {
                self.note_links(files, target, required, &path);
                return true;
            }
        }
        if let Some(unit) = entry.strip_suffix(".d") {
            let rank = self.rank(directory);
            self.note_drop_ins(files, unit, rank, &path);
            // A native unit may have drop-ins of its own in the same directory.
            return false;
        }
        if Suffix::of(entry).is_none() || entry.starts_with('.') {
            return false;
        }
        self.note_file(files, entry, path, opt_in);
        true
    }

    fn note_file(&mut self, files: &dyn Files, entry: &str, path: Arc<str>, opt_in: bool) {
        // Native units replace systemd's own units.
        if opt_in && replacement::is_replaced(entry) || self.seen.contains(entry) {
            return;
        }
        if opt_in && matches!(Suffix::of(entry), Some(Suffix::Slice | Suffix::Scope)) {
            self.seen.insert(entry.to_string());
            let message =
                "slices and scopes are not units here: the limits in this file do not apply";
            let note =
                Diagnostic::of_file(Severity::Note, "ignored-file", &path, message.to_string());
            return self.diagnostics.push(note.with_hint("set the limits in each of its units"));
        }
        let stat = match files.stat(&path) {
            Ok(stat) => stat,
            // As in systemd, a dangling link hides nothing.
            Err(problem) => return self.passed_over(opt_in, &path, &problem),
        };
        self.seen.insert(entry.to_string());
        match stat.kind {
            FileKind::Regular if stat.stamp.size > 0 => {}
            FileKind::Regular => return,
            FileKind::Special => {
                if files.link(&path).is_none_or(|target| target != "/dev/null") {
                    self.passed_over(opt_in, &path, &Problem::Kind(stat.kind));
                }
                return;
            }
            FileKind::Directory => {
                return self.passed_over(opt_in, &path, &Problem::Kind(stat.kind));
            }
        }
        if let Some(real) = target_of(files, &path)
            && real != entry
            && Suffix::of(&real) == Suffix::of(entry)
        {
            // An alias of a replaced unit is no unit either.
            if opt_in && replacement::is_replaced(&real) {
                return;
            }
            self.aliases.entry(real).or_default().push((entry.to_string(), path));
            return;
        }
        self.files.push(ForeignFile { path, name: UnitName::of(entry), opt_in });
    }

    /// Reports a file that was not read. In directories of another system nothing is reported,
    /// because they may contain anything.
    fn passed_over(&mut self, opt_in: bool, path: &str, problem: &Problem) {
        if !opt_in {
            let message = format!("not read: {}", problem.words());
            let hint = match problem {
                Problem::Kind(FileKind::Special) => {
                    "it counts as a mask, as a link to /dev/null does"
                }
                Problem::Kind(_) | Problem::Missing | Problem::TooLarge | Problem::Other(_) => "",
            };
            let warning = Diagnostic::of_file(Severity::Warning, "ignored-file", path, message);
            self.diagnostics.push(warning.with_hint(hint));
        }
    }

    fn note_links(
        &mut self,
        files: &dyn Files,
        target: &str,
        required: bool,
        directory: &Arc<str>,
    ) {
        let mut names = files.list(directory, limit::DIRECTORY_ENTRIES).unwrap_or_default();
        names.sort_unstable();
        for name in names.into_iter().filter(|name| Suffix::of(name).is_some()) {
            let path: Arc<str> = format!("{directory}/{name}").into();
            let link = Link { target: target.to_string(), required, path };
            self.links.entry(name).or_default().push(link);
        }
    }

    fn rank(&mut self, directory: &str) -> usize {
        if self.directories.last().is_none_or(|last| last != directory) {
            self.directories.push(directory.to_string());
        }
        self.directories.len() - 1
    }

    fn note_drop_ins(&mut self, files: &dyn Files, unit: &str, rank: usize, directory: &Arc<str>) {
        let names = files.list(directory, limit::DIRECTORY_ENTRIES).unwrap_or_default();
        for name in
            names.into_iter().filter(|name| name.ends_with(".conf") && !name.starts_with('.'))
        {
            let path: Arc<str> = format!("{directory}/{name}").into();
            let masks = files.link(&path).is_some_and(|target| target == "/dev/null");
            let of_unit = self.drop_ins.entry((unit.to_string(), rank)).or_default();
            of_unit.insert(name, (!masks).then_some(path));
        }
    }

    /// Returns a copy with only the drop-ins, for units that are not in these directories.
    pub(crate) fn drop_ins_alone(&self) -> Foreign {
        let (directories, drop_ins) = (self.directories.clone(), self.drop_ins.clone());
        Foreign { directories, drop_ins, ..Foreign::default() }
    }

    /// Returns the unit name and the path of each drop-in below /etc and /run. Packages install none
    /// there.
    pub(crate) fn local_drop_ins(&self) -> impl Iterator<Item = (&str, &Arc<str>)> {
        let all = self.drop_ins.iter().flat_map(|((unit, _), files)| {
            files.values().flatten().map(move |path| (unit.as_str(), path))
        });
        all.filter(|(_, path)| path.starts_with("/etc/") || path.starts_with("/run/"))
    }

    /// Turns aliases of missing files into files of their own.
    pub(crate) fn settle(&mut self) {
        let known: BTreeSet<String> = self.files.iter().map(|file| file.name.to_string()).collect();
        let aliases = std::mem::take(&mut self.aliases);
        for (real, names) in aliases {
            if known.contains(&real) {
                self.aliases.insert(real, names);
                continue;
            }
            for (name, path) in names {
                self.files.push(ForeignFile { path, name: UnitName::of(&name), opt_in: false });
            }
        }
        self.files.sort_by(|a, b| a.path.cmp(&b.path));
    }

    /// Returns the drop-ins of a unit in the order in which they apply, by file name. Of several
    /// with one file name only one counts: that of the earlier directory and, within one directory,
    /// that of the more specific name. Those of an alias come after those of the unit's own name, and
    /// those of `service.d` last, whatever their directory.
    pub(crate) fn drop_ins_of(&self, name: &UnitName) -> Vec<Arc<str>> {
        let Some(suffix) = name.suffix else { return Vec::new() };
        let mut groups = vec![name.drop_in_names()];
        let aliases = self.aliases.get(&name.to_string()).into_iter().flatten();
        groups.extend(aliases.map(|(alias, _)| UnitName::of(alias).drop_in_names()));
        groups.push(vec![suffix.as_str().to_string()]);
        let mut chosen: BTreeMap<&String, &Option<Arc<str>>> = BTreeMap::new();
        for names in groups {
            for rank in 0..self.directories.len() {
                for name in &names {
                    for (file, path) in
                        self.drop_ins.get(&(name.clone(), rank)).into_iter().flatten()
                    {
                        chosen.entry(file).or_insert(path);
                    }
                }
            }
        }
        chosen.into_values().flatten().take(limit::DROP_INS).cloned().collect()
    }

    /// Returns the paths beside a unit's file that affect the unit.
    pub(crate) fn beside(&self, name: &UnitName) -> Vec<Arc<str>> {
        let mut paths = self.drop_ins_of(name);
        let name = name.to_string();
        paths.extend(self.links.get(&name).into_iter().flatten().map(|link| link.path.clone()));
        let aliases = self.aliases.get(&name).into_iter().flatten();
        for (alias, path) in aliases {
            paths.push(path.clone());
            paths.extend(self.links.get(alias).into_iter().flatten().map(|link| link.path.clone()));
        }
        paths
    }

    /// Returns the aliases of a unit, and those its instances have through an alias of the
    /// template.
    pub(crate) fn aliases_of(&self, name: &UnitName) -> Vec<String> {
        let own = self.aliases.get(&name.to_string()).into_iter().flatten();
        let mut names: Vec<String> = own.map(|(alias, _)| alias.clone()).collect();
        if let (Some(template), Some(instance)) = (name.template(), &name.instance) {
            let others = self.aliases.get(&template.to_string()).into_iter().flatten();
            let others = others.map(|(alias, _)| UnitName::of(alias));
            let others = others.filter(UnitName::is_template);
            names.extend(others.map(|other| other.with_instance(instance).to_string()));
        }
        names
    }
}

/// Returns the file name that a link leads to, or `None` if the path is no link.
fn target_of(files: &dyn Files, path: &str) -> Option<String> {
    let mut real: Option<String> = None;
    let mut path = path.to_string();
    for _ in 0..LINKS {
        let Some(target) = files.link(&path) else { break };
        let name = target.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        real = Some(name.to_string());
        path = if target.starts_with('/') {
            target
        } else {
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            format!("{parent}/{target}")
        };
    }
    real
}
