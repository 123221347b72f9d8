//! `doctor`: what a machine, or the tree of an image, lacks for a boot with Groundstate.
//!
//! [`facts`] reads everything once. The checks are functions from the facts to findings: [`fstab`]
//! has those of file systems, [`unit`] those of the goal and its units, [`machine`] those of
//! programs, services and consoles, and [`state`] those of a running init.

mod facts;
mod fstab;
mod machine;
mod state;
mod unit;

#[cfg(test)]
mod tests;

use super::check;
use crate::arguments;
use crate::exit::{Error, Exit};
use crate::files::{Local, Rooted};
use crate::session::Session;
use crate::style::{self, Style, Tone};
use facts::{Facts, Kernel};
use groundstate_units::control::answer::{Doctor, Finding, Level, Status};
use groundstate_units::control::request::Verb;
use groundstate_units::load::Options;
use nix::unistd::geteuid;
use std::path::Path;

/// Width of the column with the level.
const LEVEL: usize = 9;

/// Examines the machine and prints the findings.
pub(crate) fn run(session: &Session, asked: &arguments::Doctor) -> Result<Exit, Error> {
    let doctor = match &asked.root {
        Some(root) => examine_tree(root)?,
        None => examine_machine(session)?,
    };
    session.show(&doctor, || render(&doctor, asked.all, &session.style))?;
    session.remark(&summary(&doctor));
    let is_bad = doctor.errors > 0 || asked.strict && doctor.warnings > 0;
    Ok(if is_bad { Exit::Bad } else { Exit::Done })
}

fn examine_tree(root: &Path) -> Result<Doctor, Error> {
    let named = root.display().to_string();
    let root = check::rooted_path(root)?;
    let files = Rooted(&root);
    let options = Options::system(geteuid().as_raw());
    let mut facts = Facts::gather(&files, &options, None, None);
    facts.root = Some(named);
    Ok(run_checks(&facts))
}

/// Examines this machine. If init at the socket is not PID 1, only the files count.
fn examine_machine(session: &Session) -> Result<Doctor, Error> {
    let (uid, files) = (geteuid().as_raw(), Local::new());
    let is_first = session.init()?.is_some_and(|init| init.pid == 1);
    let (options, status) = match is_first {
        true => {
            let all = Verb::Status { targets: Vec::new() };
            (check::loader_options(session, uid, &files), Some(session.ask_as::<Status>(all)?.0))
        }
        false => (Options::system(uid), None),
    };
    Ok(run_checks(&Facts::gather(&files, &options, Some(Kernel::read()), status)))
}

/// Runs all checks.
fn run_checks(facts: &Facts<'_>) -> Doctor {
    let checks: [fn(&Facts<'_>) -> Vec<Finding>; 15] = [
        state::system,
        unit::goal,
        unit::errors,
        fstab::lines,
        unit::programs,
        machine::programs,
        machine::consoles,
        machine::root_account,
        machine::services,
        machine::bus,
        machine::containers,
        unit::left_out,
        unit::of_generators,
        machine::kernel,
        machine::next_boot,
    ];
    Doctor::new(checks.iter().flat_map(|check| check(facts)).collect())
}

fn finding(level: Level, subject: &str, message: impl Into<String>, hint: &str) -> Finding {
    Finding { level, subject: subject.to_string(), message: message.into(), hint: hint.to_string() }
}

/// One line for each finding: the level, the subject, the message and the hint.
pub(super) fn render(doctor: &Doctor, all: bool, style: &Style) -> String {
    let shown = doctor.findings.iter().filter(|finding| all || finding.level != Level::Ok);
    shown.map(|finding| line(finding, style)).collect()
}

fn line(finding: &Finding, style: &Style) -> String {
    let (word, tone) = match finding.level {
        Level::Error => ("error", Tone::Bad),
        Level::Warning => ("warning", Tone::Warning),
        Level::Ok => ("ok", Tone::Good),
    };
    let parts = [&finding.subject, &finding.message, &finding.hint];
    let parts: Vec<&str> =
        parts.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let word = style.paint(tone, &style::pad(word, LEVEL));
    format!("{word}{}\n", style.hang(&parts.join(": "), LEVEL, LEVEL))
}

fn summary(doctor: &Doctor) -> String {
    match (doctor.errors, doctor.warnings) {
        (0, 0) => "nothing is missing".to_string(),
        (errors, warnings) => {
            format!("{}, {}", style::count(errors, "error"), style::count(warnings, "warning"))
        }
    }
}
