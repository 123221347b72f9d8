//! The MONITOR_ variables of a unit that `on-failure` or `on-success` starts, as in
//! systemd.exec(5), `$MONITOR_SERVICE_RESULT`.

use crate::event_loop::Init;
use crate::service::run_table::{LastEnd, exit_words};
use crate::service::sequence::{CommandKind, Outcome, result_of};
use groundstate_units::machine::event::RunId;
use groundstate_units::machine::reason::{Reason, State};
use groundstate_units::spec::DependencyKind;
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::UnitId;

fn is_alarm(kind: DependencyKind) -> bool {
    matches!(kind, DependencyKind::OnFailure | DependencyKind::OnSuccess)
}

impl Init {
    /// Records the end of a run or of its main process, before the machine starts the units that
    /// react to it.
    pub(crate) fn note_end(&mut self, run: RunId) {
        let Some(running) = self.runs.get(run) else { return };
        let (name, outcome) = (running.name.clone(), running.procedure.outcome());
        let unit = self.machine.generation().find_unit(name.as_str());
        let brings_in = |unit: UnitId| {
            let mut edges = self.machine.graph().edges(unit).iter();
            edges.any(|edge| is_alarm(edge.kind))
        };
        if unit.is_some_and(brings_in) {
            self.ends.insert(name, LastEnd { run, outcome });
        }
        let generation = self.machine.generation();
        if self.ends.len() > generation.units.len() {
            self.ends.retain(|name, _| generation.find_unit(name.as_str()).is_some());
        }
    }

    /// The variables for the start commands of unit `name` about the one unit that triggers it.
    /// With several triggering units there are none, as in systemd.
    pub(crate) fn monitored(&self, name: &Name, part: CommandKind) -> Vec<(String, String)> {
        if !matches!(part, CommandKind::Pre(_) | CommandKind::Start(_)) {
            return Vec::new();
        }
        let Some(unit) = self.machine.generation().find_unit(name.as_str()) else {
            return Vec::new();
        };
        let back = self.machine.graph().back(unit).iter().filter(|back| is_alarm(back.kind));
        let mut causes = back.map(|back| back.dependent);
        let Some(cause) = causes.next() else { return Vec::new() };
        if causes.any(|other| other != cause) {
            return Vec::new();
        }
        let Some(of) = self.machine.generation().unit(cause).map(|unit| unit.name.clone()) else {
            return Vec::new();
        };
        let Some(end) = self.last_end(cause, &of) else { return Vec::new() };
        let mut told = vec![
            ("MONITOR_SERVICE_RESULT", end.outcome.result.to_string()),
            ("MONITOR_UNIT", of.to_string()),
        ];
        if let Some(exit) = end.outcome.exit {
            let (code, status) = exit_words(exit);
            told.extend([("MONITOR_EXIT_CODE", code.to_string()), ("MONITOR_EXIT_STATUS", status)]);
        }
        if end.run != RunId(0) {
            told.push(("MONITOR_INVOCATION_ID", format!("{:032x}", end.run.0)));
        }
        told.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    /// The last end of a unit: from a unit that stays `exited`, from a run that this image saw end,
    /// or from the machine and the event log.
    fn last_end(&self, unit: UnitId, name: &Name) -> Option<LastEnd> {
        let run = self.machine.run(unit);
        if self.machine.state(unit) == State::Exited {
            let (run, exit) = (run.unwrap_or(RunId(0)), self.machine.exit(unit));
            return Some(LastEnd { run, outcome: Outcome { result: "success", exit } });
        }
        if let Some(LastEnd { run, outcome }) = self.ends.get(name) {
            return Some(LastEnd { run: *run, outcome: *outcome });
        }
        let outcome = outcome_of(self.machine.last_failure(unit)?);
        let is_its = |entry: &crate::output::event_log::Entry| {
            entry.note.as_ref().is_some_and(|note| note.unit == *name && note.run.is_some())
        };
        let last = self.history.after(0).filter(is_its).last();
        let of = last.and_then(|entry| entry.note?.run);
        Some(LastEnd { run: of.unwrap_or(RunId(0)), outcome })
    }
}

/// The outcome, as far as the reason of a failure tells it.
fn outcome_of(reason: &Reason) -> Outcome {
    let (result, exit) = match reason {
        Reason::Exit(exit) => (result_of(*exit), Some(*exit)),
        Reason::StartTimeout | Reason::StopTimeout | Reason::RunTimeout => ("timeout", None),
        Reason::Watchdog => ("watchdog", None),
        Reason::OutOfMemory => ("oom-kill", None),
        Reason::Protocol { .. } => ("protocol", None),
        Reason::Exec(_)
        | Reason::Dependency { .. }
        | Reason::Inactive { .. }
        | Reason::Masked { .. }
        | Reason::Missing { .. }
        | Reason::Config { .. }
        | Reason::Conflict { .. }
        | Reason::Skipped { .. }
        | Reason::Slot
        | Reason::Backoff { .. }
        | Reason::On { .. }
        | Reason::Unkillable
        | Reason::Internal => ("resources", None),
    };
    Outcome { result, exit }
}
