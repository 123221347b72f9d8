//! Any bytes as a systemd unit file: imported, written in the native form, read back and
//! meant, without a panic, and every place that is told lies within the file. The first
//! byte chooses the kind of unit.
#![no_main]

use groundstate_units::account::Accounts;
use groundstate_units::import::systemd::{Suffix, Surroundings, UnitName, convert, unit_text};
use groundstate_units::settings::Settings;
use groundstate_units::{meaning, yaml, yaml_writer};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, text)) = bytes.split_first() else { return };
    let suffix = Suffix::ALL[usize::from(*first) % Suffix::ALL.len()];
    let stem = ["a", "a@", "a@b", "mnt-x"][usize::from(*first / 16) % 4];
    let name = format!("{stem}.{}", suffix.as_str());
    let file = name.as_str().into();
    let Ok(read) = unit_text::parse(&file, text) else { return };
    let imported = convert(&UnitName::of(&name), &file, &[read], &Surroundings::default());
    let lines = text.iter().filter(|byte| **byte == b'\n').count() + 1;
    for said in &imported.manifest.diagnostics {
        assert!(said.at.line as usize <= lines, "{said}");
    }
    let written = yaml_writer::write(&imported.manifest);
    let limits = yaml::Limits { bytes: usize::MAX, nodes: usize::MAX, ..yaml::Limits::UNIT_FILE };
    assert!(yaml::parse("native", written.as_bytes(), &limits).is_ok(), "{written}");
    meaning::read(imported.manifest, &Settings::default(), &Accounts::default());
});
