//! Checks a unit file before it is sent, as init will check it, so that a typing error is found
//! before placement. The result is advice: the cluster accepts every file that fleet accepted.

use super::output::warn;
use crate::native_unit;
use groundstate_units::import::systemd::{self, Surroundings, unit_text};
use groundstate_units::text::diagnostic::{Diagnostic, Severity};
use groundstate_units::text::specifier::Facts;
use groundstate_units::text::yaml::{self, Limits};
use groundstate_units::unit::account::Accounts;
use groundstate_units::unit::manifest::Manifest;
use groundstate_units::unit::semantics;
use groundstate_units::unit::settings::Settings;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of messages per file.
const MOST: usize = 20;

/// Prints the faults of a unit file of either kind to stderr.
pub(super) fn review(name: &str, path: &Path) {
    let Ok(bytes) = std::fs::read(path) else { return };
    let base = path.file_name().and_then(|base| base.to_str()).unwrap_or_default();
    let place = path.display().to_string();
    let found = match native_unit::stem(base) {
        Some(_) => found_in_native(&place, &bytes),
        None => found(name, &place, &bytes),
    };
    for diagnostic in found.iter().take(MOST) {
        warn(&diagnostic.to_string());
    }
    if found.len() > MOST {
        warn(&format!("{}: and {} more", path.display(), found.len() - MOST));
    }
}

/// Placeholder facts: a specifier that any machine can expand is not an error.
fn anywhere() -> Surroundings {
    let some = || Some("0".to_string());
    let keys = ["ID", "VERSION_ID", "BUILD_ID", "VARIANT_ID", "IMAGE_ID", "IMAGE_VERSION"];
    let facts = Facts {
        machine_id: some(),
        boot_id: some(),
        host: some(),
        kernel: some(),
        architecture: some(),
        os: keys.map(|key| (key.to_string(), "0".to_string())).to_vec(),
    };
    Surroundings { facts, ..Surroundings::default() }
}

/// Returns warnings and errors, by position.
fn found(name: &str, place: &str, bytes: &[u8]) -> Vec<Diagnostic> {
    let file: Arc<str> = place.into();
    let unit = systemd::UnitName::of(name);
    in_order(match unit_text::parse(&file, bytes) {
        Err(fatal) => fatal,
        Ok(text) => {
            let manifest = systemd::convert(&unit, &file, &[text], &anywhere()).manifest;
            if unit.is_template() { manifest.diagnostics } else { read(manifest) }
        }
    })
}

/// Like [`found`], for a native file.
fn found_in_native(place: &str, bytes: &[u8]) -> Vec<Diagnostic> {
    let file: Arc<str> = place.into();
    let Ok(documents) = yaml::parse(place, bytes, &Limits::UNIT_FILE) else { return Vec::new() };
    in_order(documents.iter().flat_map(|document| read(Manifest::read(&file, document))).collect())
}

/// Returns the faults of a manifest. Of its semantics only errors count: warnings may not apply on
/// the unit's machine.
fn read(manifest: Manifest) -> Vec<Diagnostic> {
    let mut found = manifest.diagnostics.clone();
    let read = semantics::read(manifest, &Settings::default(), &Accounts::default());
    found.extend(
        read.diagnostics.into_iter().filter(|diagnostic| diagnostic.severity == Severity::Error),
    );
    found
}

fn in_order(mut found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    found.retain(|diagnostic| diagnostic.severity != Severity::Note);
    found.sort_by(|a, b| (&a.at, &a.code).cmp(&(&b.at, &b.code)));
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        found("a.service", "a.service", text.as_bytes()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn misspelled_directive_is_reported_with_line_and_hint() {
        let joined = messages("[Service]\nExecStart=/bin/a\nExecStrat=/bin/b\n").join("\n");
        assert!(joined.contains("a.service:3") && joined.contains("ExecStrat"), "{joined}");
        assert!(joined.contains("ExecStart"), "the hint names the directive: {joined}");
    }

    #[test]
    fn misspelled_native_key_is_reported_with_line_and_hint() {
        let messages = |text: &str| -> Vec<String> {
            found_in_native("a.yaml", text.as_bytes()).iter().map(ToString::to_string).collect()
        };
        let joined = messages("unit: a\nexec-strat: /bin/a\n").join("\n");
        assert!(joined.contains("a.yaml:2") && joined.contains("exec-start"), "{joined}");
        let joined = messages("unit: a\nexec-start: /bin/a\nstop-timeout: soon\n").join("\n");
        assert!(joined.contains("a.yaml:3"), "{joined}");
        let good = "unit: a\nexec-start: /bin/a\nuser: shop\nx-fleet: {Global: true}\n";
        assert_eq!(messages(good), Vec::<String>::new());
    }

    #[test]
    fn correct_file_has_no_reported_faults() {
        let good = "[Unit]\nDescription=%p on %H\n[Service]\nUser=shop\nExecStart=/bin/a %n\n\
                    [X-Fleet]\nGlobal=true\n[Install]\nWantedBy=multi-user.target\n";
        assert_eq!(messages(good), Vec::<String>::new());
    }
}
