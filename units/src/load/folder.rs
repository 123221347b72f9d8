//! The unit directories: their files, the files that hide others, and the drop-ins of each. Only
//! names are read here; [`crate::load::unit_file`] reads the bytes.

use crate::import::fstab::is_fstab;
use crate::limit;
use crate::load::files::{FileKind, Files, Problem, Stat};
use crate::load::foreign::Foreign;
use crate::text::diagnostic::{Diagnostic, Severity};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The accepted owners of files that the loader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The user of init; root is trusted too.
    pub uid: u32,
    /// Refuse files that other users can write. Otherwise only warn. `initctl check DIR` only
    /// warns, and so does init in a container: its files may have been made under other ids.
    pub strict: bool,
}

impl Trust {
    /// Returns the complaint about a file or directory of the loader.
    pub(crate) fn untrusted(self, stat: &Stat, what: &str, path: &str) -> Option<Diagnostic> {
        let (severity, complaint) = self.complaint(stat)?;
        let message = format!("this {what}: {complaint}");
        Some(Diagnostic::of_file(severity, "untrusted", path, message))
    }

    /// Returns the reason why a file or directory is not trusted.
    pub(crate) fn complaint(self, stat: &Stat) -> Option<(Severity, String)> {
        let severity = if self.strict { Severity::Error } else { Severity::Warning };
        if stat.mode & 0o002 != 0 {
            return Some((severity, "anyone can write it".to_string()));
        }
        // Group write access counts only for files of root. Other users choose the group of their
        // files, and most have a private group.
        if stat.mode & 0o020 != 0 && stat.uid == 0 && stat.gid != 0 {
            return Some((severity, format!("group {} can write it", stat.gid)));
        }
        let foreign = stat.uid != 0 && stat.uid != self.uid;
        foreign.then(|| (severity, format!("it belongs to user {}", stat.uid)))
    }
}

/// A unit file that is not hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The path.
    pub(crate) path: Arc<str>,
    /// The name without its suffix.
    pub(crate) stem: String,
}

/// The contents of the directories.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folders {
    /// The unit files by path.
    pub(crate) files: Vec<Found>,
    /// `NAME` of each `NAME.d` → its drop-ins by file name, an earlier directory hiding a later.
    pub(crate) drop_ins: BTreeMap<String, BTreeMap<String, Arc<str>>>,
    /// The unit files of systemd.
    pub(crate) foreign: Foreign,
    /// Diagnostics of the directories, and of files that are not read because of their names.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Lists the directories in order. A missing directory is an error only if `named` says that it was
/// requested. `import` has directories from which only files of systemd are taken, and
/// perhaps /etc/fstab.
pub(crate) fn list(
    files: &dyn Files,
    directories: &[String],
    import: &[String],
    named: impl Fn(&str) -> bool,
    trust: Trust,
) -> Folders {
    let mut folders = Folders::default();
    let mut visible: BTreeMap<String, Arc<str>> = BTreeMap::new();
    let foreign = import.iter().map(|directory| (directory, true));
    for (directory, only_foreign) in directories.iter().map(|dir| (dir, false)).chain(foreign) {
        if only_foreign && is_fstab(directory) {
            if files.stat(directory) != Err(Problem::Missing) {
                visible.entry("fstab".to_string()).or_insert_with(|| directory.as_str().into());
            }
            continue;
        }
        let names = match listing(files, directory, trust, &mut folders.diagnostics) {
            Ok(names) => names,
            Err(Problem::Missing) if !named(directory) => continue,
            Err(problem) => {
                let message = format!("cannot list units: {}", problem.words());
                let error = Diagnostic::of_file(Severity::Error, "unreadable", directory, message);
                folders.diagnostics.push(error);
                continue;
            }
        };
        for name in names {
            let taken = folders.foreign.note(files, directory, &name, only_foreign);
            if taken || only_foreign {
                continue;
            }
            let path: Arc<str> = format!("{}/{name}", directory.trim_end_matches('/')).into();
            if let Some(unit) = name.strip_suffix(".d").filter(|unit| !unit.is_empty()) {
                list_drop_ins(files, unit, &path, trust, &mut folders);
            } else if is_unit_file(&name) {
                visible.entry(name).or_insert(path);
            } else if name.ends_with(".yml") {
                let message = "not read: unit files end in .yaml".to_string();
                folders.diagnostics.push(Diagnostic::of_file(
                    Severity::Warning,
                    "ignored-file",
                    &path,
                    message,
                ));
            }
        }
    }
    folders.foreign.settle();
    folders.diagnostics.append(&mut folders.foreign.diagnostics);
    folders.files = visible
        .into_iter()
        .map(|(name, path)| Found { path, stem: stem(&name).to_string() })
        .collect();
    folders.files.sort_by(|a, b| a.path.cmp(&b.path));
    folders
}

/// Returns true for a name that ends in `.yaml` and is not hidden.
pub(crate) fn is_unit_file(name: &str) -> bool {
    name.ends_with(".yaml") && !name.starts_with('.')
}

/// Returns the file name without directory and suffix.
pub(crate) fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".yaml").unwrap_or(name)
}

pub(crate) fn listing(
    files: &dyn Files,
    directory: &str,
    trust: Trust,
    found: &mut Vec<Diagnostic>,
) -> Result<Vec<String>, Problem> {
    let stat = files.stat(directory)?;
    if stat.kind != FileKind::Directory {
        return Err(Problem::Kind(stat.kind));
    }
    // The sticky bit prevents renaming but not adding files, so it is no exception.
    if let Some(untrusted) = trust.untrusted(&stat, "directory", directory) {
        let is_error = untrusted.severity == Severity::Error;
        let hint = "unit directories are root's (or init's own user's), mode 755";
        found.push(untrusted.with_hint(hint));
        if is_error {
            return Ok(Vec::new());
        }
    }
    let mut names = files.list(directory, limit::DIRECTORY_ENTRIES)?;
    names.sort_unstable();
    Ok(names)
}

fn list_drop_ins(
    files: &dyn Files,
    unit: &str,
    directory: &str,
    trust: Trust,
    folders: &mut Folders,
) {
    let names = match listing(files, directory, trust, &mut folders.diagnostics) {
        Ok(names) => names,
        Err(Problem::Kind(_)) => return,
        Err(problem) => {
            let message = format!("cannot list drop-ins: {}", problem.words());
            let error = Diagnostic::of_file(Severity::Error, "unreadable", directory, message);
            folders.diagnostics.push(error);
            return;
        }
    };
    let known = folders.drop_ins.entry(unit.to_string()).or_default();
    for name in names.into_iter().filter(|name| is_unit_file(name)) {
        let path = format!("{directory}/{name}").into();
        known.entry(name).or_insert(path);
    }
    if known.len() > limit::DROP_INS {
        let message = format!("{} drop-ins for `{unit}`; only the first 64 are used", known.len());
        folders.diagnostics.push(Diagnostic::of_file(
            Severity::Error,
            "too-large",
            directory,
            message,
        ));
        while known.len() > limit::DROP_INS {
            known.pop_last();
        }
    }
}
