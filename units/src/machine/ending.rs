//! The end of everything: shutdown, reboot, exit. The goal is empty whatever else
//! was wished; a deadline; then what remains is killed.

use super::mutant::Mutant;
use super::{Ix, Machine};
use crate::machine::action::Action;
use crate::machine::event::{Shutdown, Stage};
use crate::machine::reason::Reason;
use crate::spec::Exit;
use crate::text::time::Time;
use serde::{Deserialize, Serialize};

/// An end under way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ending {
    pub(super) how: Shutdown,
    /// None: passed.
    pub(super) deadline: Option<Time>,
    pub(super) finished: bool,
}

impl Machine {
    pub(super) fn end(&mut self, now: Time, how: Shutdown) {
        let span = self.generation.settings.shutdown_deadline.unwrap_or(self.shutdown_deadline);
        let deadline = Some(now.after(span));
        self.ending = Some(Ending { how, deadline, finished: false });
        self.search_due = true;
    }

    /// The global deadline has come: KILL to all that is up, told or not.
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

    /// Says so, once, when everything is down.
    pub(super) fn finish(&mut self, out: &mut Vec<Action>) {
        let Some(ending) = self.ending.filter(|ending| !ending.finished) else { return };
        let left = self.runs.values().filter(|ix| !self.cell(**ix).phase.is_hopeless()).count();
        if left <= usize::from(self.planted(Mutant::FinishesOneEarly)) {
            self.ending = Some(Ending { finished: true, ..ending });
            out.push(Action::Finish(ending.how));
        }
    }

    /// No further run of this unit comes by itself: what `exit-with` waits for.
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

/// What a shell would say of it.
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
        // There was nothing to do.
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
