//! What init will say of a unit file, said before the file is sent: a directive with a typing
//! mistake is found here and not after placement. Advice only: the cluster takes what fleet took.

use super::session::warn;
use groundstate_units::account::Accounts;
use groundstate_units::diagnostic::{Diagnostic, Severity};
use groundstate_units::import::systemd::{self, Surroundings, unit_text};
use groundstate_units::meaning;
use groundstate_units::settings::Settings;
use groundstate_units::specifier::Facts;
use std::path::Path;
use std::sync::Arc;

/// Lines that are said of one file.
const MOST: usize = 20;

/// Says on stderr what is wrong with the file of a unit of systemd's form.
pub(super) fn review(name: &str, path: &Path) {
    let Ok(bytes) = std::fs::read(path) else { return };
    let found = found(name, &path.display().to_string(), &bytes);
    for said in found.iter().take(MOST) {
        warn(&said.to_string());
    }
    if found.len() > MOST {
        warn(&format!("{}: and {} more", path.display(), found.len() - MOST));
    }
}

/// Each fact has some value: a specifier that any machine knows is no mistake.
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

/// Warnings and errors, by place.
fn found(name: &str, place: &str, bytes: &[u8]) -> Vec<Diagnostic> {
    let file: Arc<str> = place.into();
    let unit = systemd::UnitName::of(name);
    let mut found = match unit_text::parse(&file, bytes) {
        Err(fatal) => fatal,
        Ok(text) => {
            let manifest = systemd::convert(&unit, &file, &[text], &anywhere()).manifest;
            let mut found = manifest.diagnostics.clone();
            let own = |said: &Diagnostic| said.severity == Severity::Error;
            if !unit.is_template() {
                let read = meaning::read(manifest, &Settings::default(), &Accounts::default());
                found.extend(read.diagnostics.into_iter().filter(own));
            }
            found
        }
    };
    found.retain(|said| said.severity != Severity::Note);
    found.sort_by(|a, b| (&a.at, &a.code).cmp(&(&b.at, &b.code)));
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<String> {
        found("a.service", "a.service", text.as_bytes()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn directive_with_a_typing_mistake_is_said_with_its_line_and_a_hint() {
        let told = said("[Service]\nExecStart=/bin/a\nExecStrat=/bin/b\n").join("\n");
        assert!(told.contains("a.service:3") && told.contains("ExecStrat"), "{told}");
        assert!(told.contains("ExecStart"), "the hint names the directive: {told}");
    }

    #[test]
    fn file_without_mistakes_has_nothing_said_of_it() {
        let good = "[Unit]\nDescription=%p on %H\n[Service]\nUser=shop\nExecStart=/bin/a %i\n\
                    [X-Fleet]\nGlobal=true\n[Install]\nWantedBy=multi-user.target\n";
        assert_eq!(said(good), Vec::<String>::new());
    }
}
