//! Checks of the fuzz target `import` for any bytes as a systemd unit file:
//!
//! - They are imported, written in the native form, read back and interpreted, without a panic.
//! - Every reported position is within the file.
//! - Each assignment has an outcome, and an omission is reported.
//! - A file imported without a mistake is read back without one.
//!
//! The first byte chooses the kind of unit and of name. The tests of the workspace feed
//! `corpus/import` to the same function.

use groundstate_units::import::import_outcome::Outcome;
use groundstate_units::import::systemd::{Suffix, Surroundings, UnitName, convert, unit_text};
use groundstate_units::spec::{Kind, Run};
use groundstate_units::text::diagnostic::{Diagnostic, Severity};
use groundstate_units::text::yaml;
use groundstate_units::unit::account::Accounts;
use groundstate_units::unit::manifest::Manifest;
use groundstate_units::unit::semantics;
use groundstate_units::unit::settings::Settings;
use groundstate_units::unit::yaml_writer;
use std::collections::BTreeSet;

/// The name for this first byte.
pub fn name(first: u8) -> String {
    let suffix = Suffix::ALL[usize::from(first) % Suffix::ALL.len()];
    let stem = ["a", "a@", "a@b", "mnt-x"][usize::from(first / 16) % 4];
    format!("{stem}.{}", suffix.as_str())
}

/// The kind of unit, if it is one. Panics if a promise is broken.
pub fn import(bytes: &[u8]) -> Option<Kind> {
    let (first, text) = bytes.split_first()?;
    let name = name(*first);
    let file = name.as_str().into();
    let unit = UnitName::of(&name);
    let lines = text.iter().filter(|byte| **byte == b'\n').count() + 1;
    let read = match unit_text::parse(&file, text) {
        Ok(read) => read,
        Err(found) => {
            assert!(!found.is_empty(), "refused without a word");
            found.iter().for_each(|said| assert!(said.at.line as usize <= lines, "{said}"));
            return None;
        }
    };
    let lines_of = |said: &[Diagnostic]| said.iter().map(|said| said.at.line).collect();
    let found: BTreeSet<u32> = lines_of(&read.found);
    let imported = convert(&unit, &file, &[read], &Surroundings::default());
    let told: BTreeSet<u32> = lines_of(&imported.manifest.diagnostics);
    let outcomes: BTreeSet<u32> =
        imported.outcomes.iter().map(|directive| directive.at.line).collect();
    for (section, line) in assignments(text) {
        // For an unknown section, the section is reported.
        let is_told = found.contains(&line) || told.contains(&section);
        assert!(outcomes.contains(&line) || is_told, "line {line} is dropped in silence");
    }
    for directive in &imported.outcomes {
        // Up to the start of the next assignment. Assignments that only weaken the unit are
        // reported together.
        let end = outcomes.range(directive.at.line + 1..).next().copied().unwrap_or(u32::MAX);
        let is_left_out = matches!(directive.outcome, Outcome::Lost(_) | Outcome::Refused(_));
        let is_told = told.range(directive.at.line..end).next().is_some();
        assert!(is_told || !is_left_out, "left out without a word: {directive:?}");
    }
    for said in &imported.manifest.diagnostics {
        assert!(said.at.line as usize <= lines, "{said}");
    }
    let written = yaml_writer::write(&imported.manifest);
    let limits = yaml::Limits { bytes: usize::MAX, nodes: usize::MAX, ..yaml::Limits::UNIT_FILE };
    let Ok(documents) = yaml::parse("native", written.as_bytes(), &limits) else {
        panic!("cannot be read back:\n{written}")
    };
    let direct = semantics::read(imported.manifest, &Settings::default(), &Accounts::default());
    let wrong = |found: &semantics::Semantics| {
        let errors = found.diagnostics.iter().filter(|said| said.severity == Severity::Error);
        errors.map(|said| said.message.clone()).collect::<Vec<_>>()
    };
    let errors = wrong(&direct);
    let kind = direct.draft.as_ref().map(|draft| draft.kind)?;
    if unit.is_template() || !errors.is_empty() {
        return Some(kind);
    }
    let Some(document) = documents.first() else { panic!("nothing was written") };
    let again = Manifest::read(&"native".into(), document);
    let again = semantics::read(again, &Settings::default(), &Accounts::default());
    assert_eq!(wrong(&again), errors, "{written}");
    let (Some(direct), Some(again)) = (direct.draft, again.draft) else {
        panic!("no unit:\n{written}")
    };
    assert_eq!(
        (direct.kind, &direct.provides, run(&direct.run)),
        (again.kind, &again.provides, run(&again.run)),
        "means another thing when read back:\n{written}"
    );
    Some(kind)
}

/// The lines on which an assignment and its section start, by a simple scan of the text: within a
/// section except foreign `[X-…]` ones, no comment, no continuation line.
fn assignments(text: &[u8]) -> Vec<(u32, u32)> {
    let text = String::from_utf8_lossy(text);
    let (mut section, mut goes_on, mut lines) = (None, false, Vec::new());
    for (line, number) in text.trim_start_matches('\u{feff}').split('\n').zip(1..) {
        let slashes = line.trim_end_matches('\r').bytes().rev().take_while(|byte| *byte == b'\\');
        let ends_open = slashes.count() % 2 == 1;
        let line = line.trim_matches([' ', '\t', '\r']);
        if line.starts_with(['#', ';']) {
            continue;
        }
        let is_first = !std::mem::replace(&mut goes_on, ends_open);
        if is_first && line.starts_with('[') {
            section = Some(number).filter(|_| !line.starts_with("[X-"));
        }
        let is_assignment = is_first && !line.starts_with(['[', '=']) && line.contains('=');
        lines.extend(section.filter(|_| is_assignment).map(|section| (section, number)));
    }
    lines
}

/// The stored run without the mark of an imported unit: a limit that cannot be set fails only a
/// native one.
pub(super) fn run(stored: &[u8]) -> Option<Run> {
    let mut run = Run::decode(stored)?;
    if let Some(particular) = &mut run.particular {
        particular.lenient = false;
    }
    run.particular = run.particular.filter(|particular| particular.is_any());
    Some(run)
}
