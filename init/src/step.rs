//! One event through the machine, and what the machine orders carried out.

use crate::clock;
use crate::event_loop::Init;
use crate::voice::Level;
use groundstate_units::machine::action::{Action, Note, Outcome};
use groundstate_units::machine::event::{Event, RunId};
use groundstate_units::machine::reason::{Refusal, State};
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Init {
    /// What was told goes through the machine; what it orders is carried out; and so on
    /// until nothing is left. Each order gives at most a few facts at once, so this ends.
    pub(crate) fn settle(&mut self) {
        while let Some(event) = self.facts.pop_front() {
            self.step(event);
        }
    }

    /// A wish of somebody who wants to know whether it was refused.
    pub(crate) fn wish(&mut self, event: Event) -> Result<(), Refusal> {
        self.settle();
        let refused = self.step(event);
        self.settle();
        refused.map_or(Ok(()), Err)
    }

    fn step(&mut self, event: Event) -> Option<Refusal> {
        let (word, about) = (word(&event), run_of(&event));
        let kept = self.record.is_some().then(|| event.clone());
        let now = self.now;
        let machine = AssertUnwindSafe(&mut self.machine);
        let stepped = catch_unwind(move || {
            let machine = machine;
            machine.0.step(now, event)
        });
        let Ok(outcome) = stepped else {
            // The last line of defence: what was decided so far holds, this event is lost.
            self.say(Level::Error, format_args!("a bug in init: an event could not be dealt with"));
            return None;
        };
        if let (Some(record), Some(event)) = (&mut self.record, kept)
            && let Err(error) = record.write(self.now, &event, &outcome)
        {
            self.record = None;
            self.say(Level::Warning, format_args!("the record ends here: {error}"));
        }
        self.triggers.unsettled = true;
        let Outcome { actions, refused } = outcome;
        let notes = actions.iter().filter_map(note_of).cloned().collect::<Vec<_>>();
        self.timings.add(self.now, &notes);
        let word = word.filter(|_| refused.is_none());
        self.history.add(self.now, clock::wall(), word, about, notes);
        for action in actions {
            self.carry_out(action);
        }
        refused
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Start { unit, name, run } => self.start_run(unit, &name, run),
            Action::Stop { run, reason, nothing_left, .. } => {
                self.stop_run(run, &reason, nothing_left);
            }
            Action::Kill { run, .. } => {
                self.kill_trigger(run);
                self.course(run, |procedure| procedure.kill());
            }
            Action::ReloadUnit { run, .. } => self.course(run, |procedure| procedure.reload()),
            Action::Note(note) => self.noted(&note),
            Action::Emergency => self.emergency(),
            Action::Finish(how) => self.finish(how),
        }
    }

    fn noted(&mut self, note: &Note) {
        self.timers_noted(note);
        if note.to.is_active()
            && let Some(running) = note.run.and_then(|run| self.runs.get_mut(run))
        {
            running.procedure.counts_as_ready();
        }
        let level = match note.to {
            State::Failed => Level::Warning,
            state if state.is_active() && !note.from.is_active() => Level::Info,
            State::Disabled
            | State::Waiting
            | State::Starting
            | State::Running
            | State::Reloading
            | State::Exited
            | State::Stopping => Level::Debug,
        };
        let (unit, word) = (&note.unit, note.to.as_str());
        match &note.reason {
            Some(reason) => self.say(level, format_args!("{unit}: {word}: {reason}")),
            None => self.say(level, format_args!("{unit}: {word}")),
        }
    }
}

fn note_of(action: &Action) -> Option<&Note> {
    if let Action::Note(note) = action { Some(note) } else { None }
}

/// The word in the event log for an event that is about init itself.
#[allow(clippy::wildcard_enum_match_arm, reason = "all others are about a run, or time")]
fn word(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::Boot { .. } => "boot",
        Event::SetGoal(_) => "set-target",
        Event::Want { .. } => "want",
        Event::Unwant(_) => "unwant",
        Event::SetPolicy(_) => "policy",
        Event::Reload { tolerant: true, .. } => "source",
        Event::Reload { .. } => "reload",
        Event::Restart(_) => "restart",
        Event::ReloadUnit(_) => "reload-unit",
        Event::Retry(_) => "retry",
        Event::Shutdown(_) => "shutdown",
        _ => return None,
    })
}

/// The run an event is about.
fn run_of(event: &Event) -> Option<RunId> {
    match event {
        Event::Executed(run)
        | Event::Ready(run)
        | Event::Reloading(run)
        | Event::Reloaded(run, _)
        | Event::Stopping(run)
        | Event::Status(run, _)
        | Event::ExtendTimeout(run, _)
        | Event::WatchdogEvery(run, _)
        | Event::WatchdogPing(run)
        | Event::WatchdogTrigger(run)
        | Event::Exited(run, _)
        | Event::Ended(run, _)
        | Event::Gone(run)
        | Event::Skipped(run, _)
        | Event::StartFailed(run, _)
        | Event::Protocol(run, _)
        | Event::OutOfMemory(run) => Some(*run),
        Event::Boot { .. }
        | Event::SetGoal(_)
        | Event::Want { .. }
        | Event::Unwant(_)
        | Event::SetPolicy(_)
        | Event::Reload { .. }
        | Event::Restart(_)
        | Event::ReloadUnit(_)
        | Event::Retry(_)
        | Event::Shutdown(_)
        | Event::Fire(_)
        | Event::Tick => None,
    }
}
