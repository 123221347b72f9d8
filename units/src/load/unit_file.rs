//! Reads one unit file with its drop-ins safely, turns its documents into drafts, and checks the
//! paths that they need. Also makes a record that lets the next load skip the file.

use crate::import::fstab;
use crate::limit;
use crate::load::files::{FileKind, Files, Problem, Stat};
use crate::load::folder::{self, Trust};
use crate::load::template::Template;
use crate::spec::Kind;
use crate::text::diagnostic::{Diagnostic, Severity};
use crate::text::encoding;
use crate::text::name::Name;
use crate::text::unit_name::UnitName;
use crate::text::yaml::{self, Document};
use crate::unit::account::Accounts;
use crate::unit::assembly::Draft;
use crate::unit::generation::{Fault, FileRecord};
use crate::unit::manifest::Manifest;
use crate::unit::semantics::{self, Outside};
use crate::unit::settings::Settings;
use std::sync::Arc;

/// Limit of reads of a file that changes while it is read.
const ATTEMPTS: u32 = 3;

/// The common inputs for all files.
pub(crate) struct Context<'a> {
    pub(crate) files: &'a dyn Files,
    pub(crate) settings: &'a Settings,
    pub(crate) accounts: &'a Accounts,
    pub(crate) trust: Trust,
}

/// The result of reading a file.
pub(crate) struct UnitFile {
    /// The units; those with an error are placeholders.
    pub(crate) drafts: Vec<Draft>,
    /// The record for the next load.
    pub(crate) record: FileRecord,
    /// The units that are templates.
    pub(crate) templates: Vec<Template>,
    /// The file has a unit without a recognizable name.
    pub(crate) nameless: bool,
}

/// Returns the bytes of a file that did not change while they were read.
///
/// # Errors
/// A diagnostic about the file as a whole.
pub(crate) fn read_still(
    files: &dyn Files,
    path: &str,
    limit: usize,
) -> Result<(Vec<u8>, Stat), Box<Diagnostic>> {
    let failed = |problem: &Problem| {
        let (code, message) = if *problem == Problem::TooLarge {
            ("too-large", format!("larger than {} KiB", limit / 1024))
        } else {
            ("unreadable", format!("cannot be read: {}", problem.words()))
        };
        Box::new(Diagnostic::of_file(Severity::Error, code, path, message))
    };
    for _ in 0..ATTEMPTS {
        // Opening a device may have side effects, so only regular files are opened.
        let before = files.stat(path).map_err(|problem| failed(&problem))?;
        if before.kind != FileKind::Regular {
            return Err(failed(&Problem::Kind(before.kind)));
        }
        let (bytes, stat) = files.read(path, limit).map_err(|problem| failed(&problem))?;
        if bytes.len() > limit {
            return Err(failed(&Problem::TooLarge));
        }
        let after = files.stat(path).map_err(|problem| failed(&problem))?;
        if after.stamp == stat.stamp && stat.stamp.size == bytes.len() as u64 {
            return Ok((bytes, stat));
        }
    }
    let message = "it changes while it is read".to_string();
    Err(Box::new(Diagnostic::of_file(Severity::Error, "unstable", path, message)))
}

/// The code of a diagnostic about a file that [`Files::work_on`] leaves out.
pub(crate) const LEFT_OUT: &str = "left-out";

/// Reads and interprets one file. `drop_ins` returns the files to lay over a unit.
pub(crate) fn load(
    context: &Context<'_>,
    path: &Arc<str>,
    drop_ins: &dyn Fn(&[&str]) -> Vec<Arc<str>>,
) -> UnitFile {
    let mut file = None;
    let why = context.files.work_on(path, &mut || file = Some(read(context, path, drop_ins)));
    file.unwrap_or_else(|| {
        let error = left_out(path, why);
        // Only the file name is known of its units.
        let name = Name::new(folder::stem(path)).ok();
        let draft = name.map(|name| placeholder(context, name, &error));
        let record =
            FileRecord { again: true, diagnostics: vec![error], ..FileRecord::new(path.clone()) };
        let drafts =
            draft.into_iter().filter(|draft| !UnitName::of(draft.name.as_str()).is_template());
        UnitFile { drafts: drafts.collect(), record, templates: Vec::new(), nameless: true }
    })
}

/// The diagnostic of a file that [`Files::work_on`] leaves out.
pub(crate) fn left_out(path: &str, why: Option<String>) -> Diagnostic {
    let why = why.unwrap_or_else(|| "it was not read".to_string());
    Diagnostic::of_file(Severity::Error, LEFT_OUT, path, format!("this file is left out: {why}"))
        .with_hint("make it smaller or simpler, then `initctl reload`")
}

/// A broken unit in place of one whose definition is unknown.
pub(crate) fn placeholder(context: &Context<'_>, name: Name, error: &Diagnostic) -> Draft {
    let mut draft = Draft::new(name, error.at.clone(), Kind::Virtual, context.settings);
    draft.fault = Some(Fault { at: error.at.clone(), message: error.message.clone() });
    draft
}

fn read(
    context: &Context<'_>,
    path: &Arc<str>,
    drop_ins: &dyn Fn(&[&str]) -> Vec<Arc<str>>,
) -> UnitFile {
    let mut record = FileRecord::new(path.clone());
    let Some(bytes) = trusted(context, path, limit::UNIT_FILE, &mut record) else {
        record.again = true;
        return UnitFile { drafts: Vec::new(), record, templates: Vec::new(), nameless: true };
    };
    let is_fstab = fstab::is_fstab(path);
    let (mut manifests, diagnostics) = if is_fstab {
        fstab::read(path, &bytes)
    } else {
        let reading = yaml::read(path, &bytes, &yaml::Limits::UNIT_FILE);
        let units = reading.documents.iter().map(|document| Manifest::read(path, document));
        (units.collect(), reading.diagnostics)
    };
    // A unit that is named twice is one unit with a repeated line.
    manifests.dedup_by(|second, first| {
        second.broken && first.broken && first.name.is_some() && first.name == second.name
    });
    for cut in diagnostics.iter().filter(|found| found.code == "truncated") {
        // A name on a truncated line may be the start of another name.
        for manifest in manifests.iter_mut().filter(|manifest| manifest.at.line == cut.at.line) {
            manifest.name = None;
        }
    }
    if manifests.is_empty() && diagnostics.is_empty() && !is_fstab {
        let message = "there is no unit in this file".to_string();
        let error = Diagnostic::of_file(Severity::Error, "empty", path, message);
        record.diagnostics.push(error.with_hint("begin it with `unit: NAME`, or delete it"));
    }
    let names: Vec<String> =
        manifests.iter().filter_map(|m| m.name.as_ref()).map(|name| name.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut texts = vec![(path.clone(), bytes)];
    for drop_in in drop_ins(&names) {
        let over = lay_over(context, &drop_in, &mut manifests, &mut record);
        texts.extend(over.map(|bytes| (drop_in, bytes)));
    }
    // A line of fstab without a name is left out. A reload is not refused for it, because the other
    // lines keep their units.
    let nameless =
        !is_fstab && (manifests.is_empty() || manifests.iter().any(|m| m.name.is_none()));
    // A generation has no unit for this document, so the next load must read the file again.
    record.again |= nameless;
    let (mut drafts, mut templates) = (Vec::new(), Vec::new());
    for mut manifest in manifests {
        let broken = manifest.broken.then(|| mistake_in(&diagnostics, &manifest)).flatten();
        match Template::of(&manifest) {
            Some(template) => {
                record.diagnostics.extend(manifest.diagnostics);
                templates.push(template);
            }
            None => {
                manifest.tell_specifiers();
                drafts.extend(interpret(context, manifest, broken, &mut record));
            }
        }
    }
    // A generation has no unit for a template either.
    record.again |= !templates.is_empty();
    record.diagnostics.extend(diagnostics);
    finish(&mut record, &texts, path);
    UnitFile { drafts, record, templates, nameless }
}

/// Interprets one manifest; its diagnostics go into the record of the file.
pub(crate) fn interpret(
    context: &Context<'_>,
    manifest: Manifest,
    broken: Option<Fault>,
    record: &mut FileRecord,
) -> Option<Draft> {
    let semantics = semantics::read(manifest, context.settings, context.accounts);
    record.diagnostics.extend(semantics.diagnostics);
    for (place, outside) in semantics.outside {
        if let Some((code, message, is_there)) = missing(context.files, &outside) {
            // The path may appear without a change of this file.
            record.again = true;
            let without = match outside {
                Outside::Executable(_, _, without) => without,
                Outside::Directory(_) | Outside::File(_) => "the unit cannot start",
            };
            let until = if is_there { "until that is corrected" } else { "until it exists" };
            let hint = format!("{until}, {without}");
            record.diagnostics.push(Diagnostic::warning(code, place, message).with_hint(hint));
        }
    }
    let mut draft = semantics.draft?;
    draft.fault = broken.or(draft.fault);
    Some(draft)
}

/// Adds excerpts to the diagnostics and sorts them.
pub(crate) fn finish(record: &mut FileRecord, texts: &[(Arc<str>, Vec<u8>)], path: &str) {
    for (file, bytes) in texts {
        if let Ok(text) = std::str::from_utf8(bytes) {
            encoding::add_excerpts(&mut record.diagnostics, file, text);
        }
    }
    record.diagnostics.sort_by(|a, b| (&a.at, &a.code).cmp(&(&b.at, &b.code)));
    cut(&mut record.diagnostics, limit::DIAGNOSTICS_PER_FILE, path);
}

/// Keeps the first diagnostics if there are too many, and reports that.
fn cut(diagnostics: &mut Vec<Diagnostic>, most: usize, path: &str) {
    let count = diagnostics.len();
    if count > most {
        // Warnings do not displace errors.
        diagnostics.sort_by_key(|diagnostic| diagnostic.severity);
        diagnostics.truncate(most.saturating_sub(1));
        diagnostics.sort_by(|a, b| (&a.at, &a.code).cmp(&(&b.at, &b.code)));
        let message = format!("{} more are not shown", count - diagnostics.len());
        diagnostics.push(Diagnostic::of_file(Severity::Note, "more", path, message));
    }
}

/// Returns the parser's diagnostic that broke the manifest's document.
fn mistake_in(found: &[Diagnostic], manifest: &Manifest) -> Option<Fault> {
    let mistake = found.iter().find(|d| d.at.line >= manifest.at.line).or(found.first())?;
    Some(Fault { at: mistake.at.clone(), message: mistake.message.clone() })
}

/// Returns the bytes of a trusted file; errors go into the record.
pub(crate) fn trusted(
    context: &Context<'_>,
    path: &str,
    limit: usize,
    record: &mut FileRecord,
) -> Option<Vec<u8>> {
    match read_still(context.files, path, limit) {
        Ok((bytes, stat)) => {
            record.stamp = stat.stamp;
            let untrusted = context.trust.untrusted(&stat, "file", path);
            let is_refused = untrusted.as_ref().is_some_and(is_error);
            let hint = "unit files are root's (or init's own user's), mode 644";
            record.diagnostics.extend(untrusted.map(|untrusted| untrusted.with_hint(hint)));
            (!is_refused).then_some(bytes)
        }
        Err(error) => {
            record.diagnostics.push(*error);
            None
        }
    }
}

/// Reads a drop-in and merges it into its units. Returns its bytes, for excerpts.
fn lay_over(
    context: &Context<'_>,
    drop_in: &Arc<str>,
    manifests: &mut [Manifest],
    record: &mut FileRecord,
) -> Option<Vec<u8>> {
    let file = record.stamp;
    let bytes = trusted(context, drop_in, limit::UNIT_FILE, record);
    let stamp = std::mem::replace(&mut record.stamp, file);
    record.drop_ins.push((drop_in.clone(), stamp));
    let reading = match &bytes {
        Some(bytes) => yaml::read(drop_in, bytes, &yaml::Limits::UNIT_FILE),
        None => yaml::Reading::default(),
    };
    let unit = drop_in.rsplit('/').nth(1).and_then(|directory| directory.strip_suffix(".d"));
    let single = manifests.len() == 1;
    for manifest in manifests.iter_mut() {
        let name = manifest.name.as_ref().map(crate::text::name::Name::as_str);
        if !single && name != unit {
            continue;
        }
        // Without its drop-in, the unit would run with a definition that no file contains.
        manifest.broken |= bytes.is_none() || reading.diagnostics.iter().any(is_error);
        for document in &reading.documents {
            let whole = Document { broken: manifest.broken, ..document.clone() };
            manifest.merge(drop_in, &whole);
        }
    }
    record.diagnostics.extend(reading.diagnostics);
    bytes
}

fn is_error(diagnostic: &Diagnostic) -> bool {
    diagnostic.severity == Severity::Error
}

/// Returns the error of a path that does not meet a unit's requirement. The second value is true if
/// the path exists.
fn missing(files: &dyn Files, outside: &Outside) -> Option<(&'static str, String, bool)> {
    match outside {
        Outside::Executable(word, candidates, _) => {
            let answers = candidates.iter().map(|path| files.stat_outside(path));
            let answers: Vec<_> = answers.collect::<Option<_>>()?;
            let stats: Vec<Stat> = answers.into_iter().filter_map(Result::ok).collect();
            let regular = |stat: &&Stat| stat.kind == FileKind::Regular;
            if stats.iter().filter(regular).any(|stat| stat.mode & 0o111 != 0) {
                return None;
            }
            let what = if stats.is_empty() {
                "there is no program"
            } else if stats.iter().any(|stat| stat.kind == FileKind::Regular) {
                "no permission to execute"
            } else {
                "this is not a program:"
            };
            Some(("missing-executable", format!("{what} {word}"), !stats.is_empty()))
        }
        Outside::Directory(path) => {
            let stat = files.stat_outside(path)?;
            let there = stat.as_ref().is_ok_and(|stat| stat.kind == FileKind::Directory);
            let message = format!("there is no directory {path}");
            (!there).then(|| ("missing-directory", message, stat.is_ok()))
        }
        Outside::File(path) => {
            let stat = files.stat_outside(path)?;
            let there = stat.as_ref().is_ok_and(|stat| stat.kind == FileKind::Regular);
            (!there).then(|| ("missing-file", format!("there is no file {path}"), stat.is_ok()))
        }
    }
}
