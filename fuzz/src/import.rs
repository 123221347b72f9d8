//! What the fuzz target `import` holds of any bytes: as a systemd unit file they are imported,
//! written in the native form, read back and meant, without a panic; every place that is
//! told lies within the file; and what was imported without a mistake is read back without
//! one. The first byte chooses the kind of unit and of name.
//!
//! The tests of the workspace feed `corpus/import` to the same function.

use groundstate_units::account::Accounts;
use groundstate_units::diagnostic::Severity;
use groundstate_units::import::systemd::{Suffix, Surroundings, UnitName, convert, unit_text};
use groundstate_units::manifest::Manifest;
use groundstate_units::settings::Settings;
use groundstate_units::spec::{Kind, Run};
use groundstate_units::{meaning, yaml, yaml_writer};

/// The name that the first byte stands for.
pub fn name(first: u8) -> String {
    let suffix = Suffix::ALL[usize::from(first) % Suffix::ALL.len()];
    let stem = ["a", "a@", "a@b", "mnt-x"][usize::from(first / 16) % 4];
    format!("{stem}.{}", suffix.as_str())
}

/// The kind of unit, if it is one. Panics where one of the promises is broken.
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
    let imported = convert(&unit, &file, &[read], &Surroundings::default());
    for said in &imported.manifest.diagnostics {
        assert!(said.at.line as usize <= lines, "{said}");
    }
    let written = yaml_writer::write(&imported.manifest);
    let limits = yaml::Limits { bytes: usize::MAX, nodes: usize::MAX, ..yaml::Limits::UNIT_FILE };
    let Ok(documents) = yaml::parse("native", written.as_bytes(), &limits) else {
        panic!("can not be read back:\n{written}")
    };
    let direct = meaning::read(imported.manifest, &Settings::default(), &Accounts::default());
    let wrong = |found: &meaning::Meaning| {
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
    let again = meaning::read(again, &Settings::default(), &Accounts::default());
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

/// As a run is stored, but for what tells an imported unit from a native one: a limit that can
/// not be set fails only the latter.
fn run(stored: &[u8]) -> Option<Run> {
    let mut run = Run::decode(stored)?;
    if let Some(particular) = &mut run.particular {
        particular.lenient = false;
    }
    run.particular = run.particular.filter(|particular| particular.is_any());
    Some(run)
}
