//! Wraps a script that does more than declare: the unit has openrc-run start and stop it. Where
//! OpenRC has not booted the system, openrc-run needs two things, which the unit provides: its
//! state directories below /run/openrc, and the file `softlevel` there. With `--nodeps` it leaves
//! dependencies to the unit; `zap` before `start` makes it forget an earlier run that openrc-run
//! itself did not stop.

use super::declaration::Reason;
use super::reading::{Reading, SCRIPT};
use super::signalling;
use super::unit::Unit;
use crate::import::import_outcome::Outcome;
use crate::import::systemd::quote;
use crate::limit;
use crate::spec::value;
use crate::text::diagnostic::Diagnostic;

/// The state directories of openrc-run below /run/openrc.
const STATES: [&str; 12] = [
    "daemons",
    "exclusive",
    "failed",
    "hotplugged",
    "inactive",
    "options",
    "scheduled",
    "started",
    "starting",
    "stopping",
    "tmp",
    "wasinactive",
];

/// The timeout of scripts is that of SysV scripts, because their duration is unknown.
const PATIENCE: u32 = 300;
/// OpenRC waits for ever; a shutdown cannot.
const STOP: u32 = 90;

/// Fills the unit, and records the outcome of everything that was read.
pub(super) fn wrap(reading: &Reading, unit: &mut Unit, reasons: &[Reason]) {
    let start = unit.start();
    let file = match value::path(&start.file) {
        Ok(path) => path,
        Err(_) => format!("/etc/init.d/{}", unit.name),
    };
    let call = |verbs: &str| {
        format!("/sbin/openrc-run {} --nodeps {verbs}", quote(&file.replace('$', "$$")))
    };
    for state in STATES {
        unit.add("runtime-dir", &format!("openrc/{state}"), &start);
    }
    unit.put("runtime-dir-keep", "yes", &start);
    let level = "/bin/sh -c 'echo default >/run/openrc/softlevel'";
    unit.put("exec-start-pre", level, &start);
    unit.put("exec-start", &call("zap start"), &start);
    unit.put("exec-stop", &call("stop"), &start);
    let reloads = reading.functions.get("reload").cloned();
    if let Some(at) = reloads.filter(|_| reading.extra_commands().contains("reload")) {
        unit.put("exec-reload", &call("reload"), &at);
    }
    unit.put_default("start-timeout", &format!("{PATIENCE}s"));
    unit.put("stop-timeout", &format!("{}s", stop_timeout(reading)), &start);
    if let Some(text) = reading.variables.last_assigned("description") {
        let at = reading.place("description").unwrap_or_else(|| start.clone());
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        unit.put("description", &text, &at);
    }
    tell(reading, unit, reasons);
}

/// Returns the duration of the script's own stop schedule and some seconds more.
fn stop_timeout(reading: &Reading) -> u32 {
    let retry = reading.variables.last_assigned("retry").unwrap_or_default();
    let steps = signalling::schedule(&retry).unwrap_or_default();
    let spans = steps.iter().map(|(_, span)| span.unwrap_or(PATIENCE));
    let all = spans.fold(0u32, u32::saturating_add);
    STOP.max(all.saturating_add(20)).min(3600)
}

fn tell(reading: &Reading, unit: &mut Unit, reasons: &[Reason]) {
    let start = unit.start();
    let first = reasons.first().map_or("", |reason| reason.what.as_str());
    let message = format!("it is run through openrc-run: {first}");
    let mut said = Diagnostic::note("scripted", start.clone(), message)
        .with_hint("/sbin/openrc-run must stay installed");
    said.related = reasons.iter().map(|reason| reason.at.clone()).collect();
    said.related.truncate(limit::DIAGNOSTICS_PER_FILE);
    unit.tell(said);
    let needs = "openrc-run of OpenRC and its helper programs must stay installed";
    let needs = Outcome::ByDesign(needs.to_string());
    unit.record_outcome("unit", "/sbin/openrc-run", "", &start, needs);
    for reason in reasons {
        let why = Outcome::ByDesign("so openrc-run has to run the script".to_string());
        unit.record_outcome("unit", &reason.what, "", &reason.at, why);
    }
    for (at, why) in &reading.broken {
        let how = format!("{why}: the text after it is not read, including dependencies");
        unit.record_outcome(SCRIPT, "the rest of the file", "", at, Outcome::Lost(how));
    }
    let with_it = || Outcome::ByDesign("openrc-run reads it at each start".to_string());
    for assignment in &reading.assignments {
        let name = assignment.name.as_str();
        let outcome = match name {
            "description" if unit.manifest().entry(name).is_some() => {
                Outcome::Kept("description".to_string())
            }
            _ => with_it(),
        };
        unit.record_outcome(assignment.section, name, &assignment.raw, &assignment.at, outcome);
    }
    for passed in &reading.passed {
        unit.record_outcome(passed.section, &passed.name, &passed.raw, &passed.at, with_it());
    }
    for (name, at) in &reading.functions {
        let outcome = match name.as_str() {
            "depend" => Outcome::ByDesign("its words are listed one by one".to_string()),
            "start" | "start_pre" | "start_post" => Outcome::Kept("exec-start".to_string()),
            "stop" | "stop_pre" | "stop_post" => Outcome::Kept("exec-stop".to_string()),
            "reload" if unit.manifest().entry("exec-reload").is_some() => {
                Outcome::Kept("exec-reload".to_string())
            }
            _ => Outcome::ByDesign("it can be called by openrc-run".to_string()),
        };
        unit.record_outcome(SCRIPT, &format!("{name}()"), "", at, outcome);
    }
}
