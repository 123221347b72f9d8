//! Shutdown, reboot and exit. The goal becomes empty whatever the wish says; processes that remain
//! at the deadline are killed.

use super::mutant::Mutant;
use super::{Ix, Machine};
use crate::machine::action::Action;
use crate::machine::event::{Shutdown, Stage};
use crate::machine::reason::Reason;
use crate::spec::Exit;
use crate::text::fields::is_default;
use crate::text::time::Time;
use serde::{Deserialize, Serialize};

/// A shutdown in progress.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ending {
    pub(super) how: Shutdown,
    /// `None` once it has passed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) deadline: Option<Time>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) finished: bool,
}

impl Machine {
    pub(super) fn end(&mut self, now: Time, how: Shutdown) {
        let span = self.generation.settings.shutdown_deadline.unwrap_or(self.shutdown_deadline);
        let deadline = Some(now.after(span));
        self.ending = Some(Ending { how, deadline, finished: false });
        self.search_due = true;
    }

    /// Handles the shutdown deadline: sends KILL to every run that may have a process and is not
    /// unkillable.
    pub(super) fn end_deadline(&mut self, now: Time, out: &mut Vec<Action>) {
        if let Some(ending) = &mut self.ending {
            ending.deadline = None;
        }
        if self.planted(Mutant::DeadlineKillsNothing) {
            return;
        }
        let mut up: Vec<_> = self.runs.values().copied().map(|ix| self.key(ix)).collect();
        up.sort_unstable();
        for (_, _, ix) in up {
            if !self.cell(ix).phase.is_hopeless() && self.may_hang(ix) {
                self.kill(now, ix, true, out);
            }
        }
    }

    /// Emits `Finish`, once, when everything is down.
    pub(super) fn finish(&mut self, out: &mut Vec<Action>) {
        let Some(ending) = self.ending.filter(|ending| !ending.finished) else { return };
        let left = self.runs.values().filter(|ix| !self.cell(**ix).phase.is_hopeless()).count();
        if left <= usize::from(self.planted(Mutant::FinishesOneEarly)) {
            self.ending = Some(Ending { finished: true, ..ending });
            out.push(Action::Finish(ending.how));
        }
    }

    /// Handles a unit that will not run again by itself: sets the exit code if it is the unit of
    /// `exit-with`.
    pub(super) fn over_for_good(&mut self, ix: Ix, reason: &Reason) {
        if self.ending.is_some() {
            return;
        }
        let Some(name) = self.generation.settings.exit_with.clone() else { return };
        if self.graph.meant(&self.generation, &name).unit().map(|unit| unit.0) == Some(ix) {
            self.exit_code = Some(exit_code(reason));
        }
    }
}

/// Returns the exit code that a shell would report.
fn exit_code(reason: &Reason) -> u8 {
    const ENOENT: i32 = 2;
    match reason {
        Reason::Exit(Exit::Code(code)) => *code,
        Reason::Exit(Exit::Signal { signal, .. }) => 128u8.saturating_add(*signal),
        Reason::Exec(failure)
            if matches!(failure.stage, Stage::Execve | Stage::Interpreter)
                && failure.errno == ENOENT =>
        {
            127
        }
        Reason::Exec(_) => 126,
        Reason::OutOfMemory => 128 + 9,
        // A skipped unit had nothing to do.
        Reason::Skipped { .. } => 0,
        Reason::StartTimeout
        | Reason::StopTimeout
        | Reason::Watchdog
        | Reason::RunTimeout
        | Reason::Dependency { .. }
        | Reason::Inactive { .. }
        | Reason::Masked { .. }
        | Reason::Missing { .. }
        | Reason::Config { .. }
        | Reason::Conflict { .. }
        | Reason::Protocol { .. }
        | Reason::Slot
        | Reason::Backoff { .. }
        | Reason::On { .. }
        | Reason::Unkillable
        | Reason::Internal => 1,
    }
}
