//! Imports OpenRC service scripts. Data flow:
//!
//! 1. [`script`] splits the text into simple commands with places, and loses nothing.
//! 2. [`reading`] and [`relation`] interpret assignments and the words of `depend()`.
//! 3. [`declare`] converts a script that only declares; [`wrapping`] wraps any other script.
//! 4. The result is a native [`crate::unit::manifest::Manifest`], and the outcome of each item for
//!    the report.
//!
//! No shell runs: a conversion executes nothing and gives the same result everywhere. A script is
//! read as far as its text determines its meaning ([`expansion`]). The outcome names the parts that
//! only a shell could determine.
//!
//! References: openrc-run(8), supervise-daemon(8), start-stop-daemon(8) of OpenRC, and its guides
//! to service scripts.

mod daemon_option;
mod declaration;
mod declare;
mod directory;
mod expansion;
mod function;
mod quoting;
mod reading;
mod relation;
mod script;
mod signalling;
mod table;
mod unit;
mod variables;
mod wrapping;

use super::import_outcome::{Imported, Outcome};
use crate::limit;
use crate::spec::Kind;
use crate::text::diagnostic::{Diagnostic, Severity};
use crate::unit::account::Accounts;
use crate::unit::semantics;
use crate::unit::settings::Settings;
use declaration::Reason;
use reading::{Reading, SCRIPT, SETTINGS};
use std::sync::Arc;
use unit::Unit;

/// Converts the script `file` of the service `name`. `settings` are the path and text of
/// /etc/conf.d/NAME, if that exists.
pub fn convert(
    name: &str,
    file: &Arc<str>,
    text: &[u8],
    settings: Option<(&Arc<str>, &[u8])>,
) -> Imported {
    let size = settings.map_or(text.len(), |(_, bytes)| bytes.len().max(text.len()));
    if size > limit::IMPORTED_FILE {
        return too_large(name, file);
    }
    let text = String::from_utf8_lossy(text);
    let script = script::parse(text.strip_prefix('\u{feff}').unwrap_or(&text));
    let mut reading = Reading::of(name, file);
    if let Some((file, bytes)) = settings {
        let text = String::from_utf8_lossy(bytes);
        reading.read(SETTINGS, file, &script::parse(&text));
    }
    reading.read(SCRIPT, file, &script);
    let relations = relation::read(&mut reading, &script, file, name);
    let mut unit = Unit::of(name, file, declare::kind(&mut reading));
    relations.apply(&mut unit);
    let mut reasons = declare::declare(&mut reading, &mut unit, &script);
    if reasons.is_empty() {
        reasons.extend(refused(&unit));
    }
    if !reasons.is_empty() {
        unit = Unit::of(name, file, Kind::BackgroundScripted);
        relations.apply(&mut unit);
        wrapping::wrap(&reading, &mut unit, &reasons);
    }
    look_at_first_line(&mut unit, &text);
    unit.imported()
}

/// Returns the errors that the reader of native units would report.
fn refused(unit: &Unit) -> Vec<Reason> {
    let read = semantics::read(unit.manifest().clone(), &Settings::default(), &Accounts::default());
    let known = &unit.manifest().diagnostics;
    let new = read.diagnostics.into_iter().filter(|said| !known.contains(said));
    let errors = new.filter(|said| said.severity == Severity::Error);
    errors.map(|said| Reason { at: said.at, what: said.message }).collect()
}

fn too_large(name: &str, file: &Arc<str>) -> Imported {
    let mut unit = Unit::of(name, file, Kind::Virtual);
    let at = unit.start();
    let message = "a script or its settings of more than 1 MiB";
    unit.tell(Diagnostic::error("too-large", at.clone(), message));
    unit.record_outcome(SCRIPT, "all", "", &at, Outcome::Refused(message.to_string()));
    unit.imported()
}

fn look_at_first_line(unit: &mut Unit, text: &str) {
    let first = text.lines().next().unwrap_or_default();
    let known = ["openrc-run", "runscript"].iter().any(|program| first.ends_with(program));
    if !first.starts_with("#!") || !known {
        let at = unit.start();
        let message = "the first line does not name openrc-run as the interpreter";
        unit.warn("not-openrc", &at, message.to_string());
    }
}

#[cfg(test)]
mod tests;
