//! Diagnostics that need all units: errors of the graph, and advice about units that are fine each
//! by itself. Diagnostics also get their excerpts and order here.

use crate::graph::Graph;
use crate::limit;
use crate::load::files::Files;
use crate::load::folder;
use crate::load::unit_file::read_still;
use crate::spec::{DependencyKind, Kind, Run};
use crate::text::diagnostic::{Diagnostic, Place, Severity};
use crate::unit::generation::{FileRecord, Generation, Unit};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Adds the errors of the graph, and keeps to the limit, errors first.
pub(crate) fn add_graph(generation: &mut Generation, alone: bool) {
    let mut found = std::mem::take(&mut generation.diagnostics);
    let (_, faults) = Graph::resolve(generation, &generation.policy);
    for fault in faults {
        let mut diagnostic = fault.diagnostic;
        if alone && diagnostic.code == "missing-target" {
            // The other units may be in files that were not given.
            diagnostic.severity = Severity::Note;
        }
        if matches!(diagnostic.code.as_str(), "ring" | "double-claim") {
            found.extend(at_each_place(&diagnostic));
        } else {
            found.push(diagnostic);
        }
    }
    found.extend(advice(generation));
    found.extend(unmet(generation, alone));
    if found.len() > limit::DIAGNOSTICS {
        found.sort_by_key(|diagnostic| diagnostic.severity);
        found.truncate(limit::DIAGNOSTICS);
    }
    generation.diagnostics = found;
}

/// Reports imported units with a requirement that no unit provides: they can never start.
fn unmet(generation: &Generation, alone: bool) -> Vec<Diagnostic> {
    let severity = if alone { Severity::Note } else { Severity::Warning };
    let mut found = Vec::new();
    for unit in &generation.units {
        let hard = unit.dependencies.iter().filter(|edge| {
            let kind = matches!(edge.kind, DependencyKind::DependsOn | DependencyKind::DependsMs);
            kind && edge.imported && !edge.optional
        });
        for edge in hard {
            let Some(target) = generation.target(edge.target) else { continue };
            if target.candidates.is_empty() {
                let at = Place { file: unit.at.file.clone(), line: edge.line, column: 1 };
                let message =
                    format!("no unit provides `{}`, which {} requires", target.name, unit.name);
                let said = Diagnostic::new(severity, "missing-target", at, message);
                found.push(said.with_hint("it cannot start until a unit provides the target"));
            }
        }
    }
    found
}

/// Reports definitions that are allowed but rarely intended.
fn advice(generation: &Generation) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let goal = &generation.settings.default_target;
    let target = generation.targets.iter().find(|target| target.name == *goal);
    for id in target.iter().flat_map(|target| &target.candidates) {
        let Some(unit) = generation.unit(*id) else { continue };
        let hard = unit.dependencies.iter().find(|edge| edge.kind == DependencyKind::DependsOn);
        if let Some(edge) = hard {
            let at = Place { file: unit.at.file.clone(), line: edge.line, column: 1 };
            let message = format!(
                "`{goal}` is the default target, and hard dependencies take it down with them"
            );
            let hint = "use waits-for, so that one failure leaves the rest of the system up";
            found.push(Diagnostic::note("hard-goal", at, message).with_hint(hint));
        }
    }
    let mut pid_files: BTreeMap<String, &Unit> = BTreeMap::new();
    for unit in generation.units.iter().filter(|unit| unit.kind == Kind::BackgroundPidfile) {
        let Some(path) = Run::decode(&unit.run).and_then(|run| run.pid_file) else { continue };
        if let Some(other) = pid_files.get(&path) {
            let message =
                format!("{} and {} leave their pid in the same file {path}", other.name, unit.name);
            let warning = Diagnostic::warning("shared-pid-file", unit.at.clone(), message);
            found.push(warning.with_related(vec![other.at.clone()]));
        }
        pid_files.insert(path, unit);
    }
    found
}

/// Repeats a diagnostic at each of its places, so that the owner of each file sees it.
fn at_each_place(diagnostic: &Diagnostic) -> Vec<Diagnostic> {
    let mut places = vec![diagnostic.at.clone()];
    places.extend(diagnostic.related.iter().cloned());
    places.sort();
    places.dedup();
    places.truncate(limit::DIAGNOSTICS_PER_FILE);
    let others = |at: &Place| places.iter().filter(|place| *place != at).cloned().collect();
    let one = |at: &Place| Diagnostic { at: at.clone(), related: others(at), ..diagnostic.clone() };
    places.iter().map(one).collect()
}

/// Limit of files that are read again only to show one line.
const EXCERPT_FILES: usize = 64;

/// Adds excerpts to the diagnostics without one, and sorts all diagnostics by place.
pub(crate) fn add_excerpts(files: &dyn Files, records: &[FileRecord], found: &mut Vec<Diagnostic>) {
    let bare = |d: &Diagnostic| d.excerpt.is_empty() && d.at.line > 0;
    let paths: BTreeSet<Arc<str>> =
        found.iter().filter(|d| bare(d)).map(|d| d.at.file.clone()).collect();
    for path in paths.into_iter().take(EXCERPT_FILES) {
        let Ok((bytes, _)) = read_still(files, &path, limit::UNIT_FILE) else { continue };
        if let Ok(text) = std::str::from_utf8(&bytes) {
            crate::text::encoding::add_excerpts(found, &path, text);
        }
    }
    let lost = lost_names(files, found);
    for diagnostic in found.iter_mut() {
        match diagnostic.code.as_str() {
            "missing-target" => {
                let name = diagnostic.message.split('`').nth(1).unwrap_or_default().to_string();
                if let Some(file) = lost.get(&name) {
                    diagnostic.hint = format!("{file} would provide it: correct that file first");
                }
                if !point_at_name(diagnostic, &name) {
                    look_in_drop_ins(files, records, diagnostic, &name);
                }
            }
            "ring" => {
                if let Some(name) = next_in_ring(diagnostic).map(str::to_string)
                    && !point_at_name(diagnostic, &name)
                {
                    look_in_drop_ins(files, records, diagnostic, &name);
                }
            }
            _ => {}
        }
    }
    found.sort_by(|a, b| {
        (&a.at, a.severity, &a.code, &a.message).cmp(&(&b.at, b.severity, &b.code, &b.message))
    });
    found.dedup();
}

/// Returns the names in files with an error, each with its file. The loader knows only a part of
/// such a file.
fn lost_names(files: &dyn Files, found: &[Diagnostic]) -> BTreeMap<String, Arc<str>> {
    let is_missing = |d: &Diagnostic| d.code == "missing-target";
    let is_lost = |d: &&Diagnostic| {
        d.severity == Severity::Error && !is_missing(d) || d.code == "ignored-file"
    };
    let mut names = BTreeMap::new();
    if !found.iter().any(is_missing) {
        return names;
    }
    let paths: BTreeSet<&Arc<str>> = found.iter().filter(is_lost).map(|d| &d.at.file).collect();
    for path in paths.into_iter().take(EXCERPT_FILES) {
        let bytes = read_still(files, path, limit::UNIT_FILE).map_or(Vec::new(), |read| read.0);
        let text = String::from_utf8_lossy(&bytes);
        let keys = text.lines().filter_map(|line| line.split_once(':'));
        let values = keys.filter(|(key, _)| matches!(*key, "unit" | "name" | "provides"));
        let written = values.flat_map(|(_, value)| value.split([',', ' ', '[', ']', '\'', '"']));
        for name in written.chain([folder::stem(path)]) {
            names.entry(name.to_string()).or_insert_with(|| path.clone());
        }
    }
    names
}

/// Returns the unit that a link of a ring leads to: `a waits-for (FILE:LINE) b …`.
fn next_in_ring(diagnostic: &Diagnostic) -> Option<&str> {
    let place = format!("({}:{}) ", diagnostic.at.file, diagnostic.at.line);
    let (_, behind) = diagnostic.message.split_once(&place)?;
    behind.split_whitespace().next()
}

/// Finds a name in drop-ins: the graph knows one file per unit, and a name that is not on the
/// unit's own line is in a drop-in.
fn look_in_drop_ins(
    files: &dyn Files,
    records: &[FileRecord],
    diagnostic: &mut Diagnostic,
    name: &str,
) {
    let record = records.iter().find(|record| record.path == diagnostic.at.file);
    for (path, _) in record.iter().flat_map(|record| &record.drop_ins) {
        let Ok((bytes, _)) = read_still(files, path, limit::UNIT_FILE) else { continue };
        for (line, text) in (1u32..).zip(String::from_utf8_lossy(&bytes).lines()) {
            let at = Place { file: path.clone(), line, column: 1 };
            let mut here = Diagnostic { at, excerpt: text.to_string(), ..diagnostic.clone() };
            if point_at_name(&mut here, name) {
                *diagnostic = here;
                return;
            }
        }
    }
}

/// Sets the column of a diagnostic to the name in the line, if the line contains it. The graph
/// knows only the line.
fn point_at_name(diagnostic: &mut Diagnostic, name: &str) -> bool {
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
    let found = before.and_then(|text| u32::try_from(text.chars().count()).ok());
    if let Some(column) = found {
        diagnostic.at.column = column + 1;
    }
    found.is_some()
}
