//! Passes events to the state machine and carries out the actions that it orders.

#[cfg(debug_assertions)]
use crate::base::crash_test;
use crate::base::{Level, clock};
use crate::control;
use crate::event_loop::Init;
use crate::output::event_log::{self, Said};
use crate::service::orders::Order;
use crate::service::sequence::Effect;
use crate::state::event_in_progress;
use crate::sys::{fault, inbox};
use groundstate_units::control::answer::Failure;
use groundstate_units::machine::action::{Action, Note, Outcome};
use groundstate_units::machine::event::{Event, RunId};
use groundstate_units::machine::reason::{Refusal, State};
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::UnitId;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Init {
    /// Passes facts to the state machine and carries out its orders until both queues are empty.
    /// Effects on processes wait for a commit. Both queues are part of the state, so a commit may
    /// come between any two steps.
    pub(crate) fn settle(&mut self) {
        loop {
            if self.pending.effects.is_full() {
                self.carry_out_effects();
            } else if let Some(order) = self.orders.front() {
                if self.ends_sockets(order) {
                    // A crash before the next commit carries the order out again.
                    self.commit();
                }
                self.orders.pop_front().into_iter().for_each(|order| self.carry_out(order));
            } else if let Some(event) = self.pending.facts.pop_front() {
                self.step(event);
            } else if !self.pending.effects.is_empty() {
                self.carry_out_effects();
            } else {
                return;
            }
        }
    }

    /// Applies a request, unless the machine refuses it.
    pub(crate) fn apply_request(&mut self, event: Event) -> Result<(), Failure> {
        self.settle();
        let edits_policy = matches!(event, Event::SetPolicy(_));
        let refused = self.step(event);
        if edits_policy && refused.is_none() {
            self.loader.policy_edited = Some(true);
        }
        self.settle();
        refused.map_or(Ok(()), |refusal| Err(control::refused(refusal)))
    }

    fn step(&mut self, event: Event) -> Option<Refusal> {
        let (occasion, about) = self.occasion(&event);
        let subject = about.and_then(|run| self.machine.name_of_run(run));
        let is_late = about.is_some() && subject.is_none();
        let late = &mut self.dropped.events_too_late;
        *late = late.saturating_add(u64::from(is_late));
        let kept = self.record.is_some().then(|| event.clone());
        inbox::record_unit(event_in_progress::of(&event, subject.as_ref()));
        let wished = matches!(event, Event::Restart(_) | Event::Retry(_)).then(|| event.clone());
        let sets_goal = matches!(&event, Event::SetGoal(goal) if !goal.targets.is_empty());
        let now = self.now;
        let machine = AssertUnwindSafe(&mut self.machine);
        let stepped = catch_unwind(move || {
            let machine = machine;
            #[cfg(debug_assertions)]
            crash_test::strike(&event);
            machine.0.step(now, event)
        });
        let Ok(outcome) = stepped else {
            fault::by_panic();
            // The machine keeps the decisions made so far; this event is lost.
            self.say(Level::Error, format_args!("a bug in init: an event was dropped"));
            return None;
        };
        if let (Some(record), Some(event)) = (&mut self.record, kept)
            && let Err(error) = event_log::record(record, self.now, &event, &outcome)
        {
            self.record = None;
            self.say(
                Level::Warning,
                format_args!("cannot write the record: {error}; later events are not recorded"),
            );
        }
        self.triggers.unmarked().unsettled = true;
        self.has_stepped = true;
        let Outcome { actions, refused } = outcome;
        if let Some(wished) = wished.filter(|_| refused.is_none()) {
            event_in_progress::clear(&mut self.suspects, &wished);
        }
        if sets_goal && refused.is_none() {
            // The emergency shell was for the previous goal.
            self.basics.shell.stop_restarting();
        }
        let mut notes = actions.iter().filter_map(note_of).cloned().collect::<Vec<_>>();
        event_log::cause_first(&mut notes, subject.as_ref());
        self.timings.add(self.now, &notes);
        let occasion = occasion.filter(|_| refused.is_none());
        let Init { history, runs, machine, .. } = self;
        let up = |run| runs.get(run).is_some() || machine.name_of_run(run).is_some();
        history.add(self.now, clock::wall(), occasion, about, notes, up);
        let let_go = about.map(Order::LetGo);
        self.orders.push(actions.into_iter().map(Order::Machine).chain(let_go).collect());
        inbox::record_unit(0);
        refused
    }

    /// The event's entry in the event log, and the run that the event is about.
    fn occasion(&self, event: &Event) -> (Option<Said>, Option<RunId>) {
        let Event::Fire(name) = event else {
            return (word(event).map(|word| Said::Own(word.into())), event.run());
        };
        let trigger = self.machine.generation().find_unit(name.as_str());
        let run = trigger.and_then(|trigger| self.machine.run(trigger));
        (Some(Said::Fired(name.clone())), run)
    }

    /// Drops an ended run that the machine no longer knows: no further action will name it.
    fn let_go(&mut self, run: RunId) {
        let has_ended = self.runs.get(run).is_some_and(|running| running.procedure.has_ended());
        if has_ended && self.machine.name_of_run(run).is_none() {
            self.follow(run, vec![Effect::Forget]);
        }
    }

    /// Returns true if the order closes sockets, or kills the child that opens them, at once.
    fn ends_sockets(&self, order: &Order) -> bool {
        let Order::Machine(Action::Stop { run, .. } | Action::Kill { run, .. }) = order else {
            return false;
        };
        self.triggers.is_opening(*run) || self.triggers.listening.contains_key(run)
    }

    fn carry_out(&mut self, order: Order) {
        let action = match order {
            Order::Machine(action) => action,
            Order::LetGo(run) => return self.let_go(run),
        };
        match action {
            Action::Start { unit, name, run } => self.start_run(unit, &name, run),
            Action::Stop { run, reason, nothing_left, .. } => {
                self.stop_run(run, &reason, nothing_left);
            }
            Action::Kill { run, .. } => {
                self.stop_opening(run);
                self.advance(run, |procedure| procedure.kill());
            }
            Action::ReloadUnit { run, .. } => self.advance(run, |procedure| procedure.reload()),
            Action::Note(note) => self.noted(&note),
            Action::Emergency => {
                self.basics.shell.restart_on_exit();
                self.emergency();
            }
            Action::Finish(how) => self.finish(how),
        }
    }

    fn noted(&mut self, note: &Note) {
        self.timers_noted(note);
        self.connections_noted(note);
        if note.to.is_active()
            && let Some(run) = note.run
            && let Some(running) = self.runs.get_mut(run)
        {
            running.procedure.note_counted_ready();
        }
        let level = if note.to == State::Failed {
            Level::Warning
        } else if note.to.is_active() && !note.from.is_active() {
            Level::Info
        } else {
            Level::Debug
        };
        let (unit, word) = (&note.unit, note.to.word());
        let failed = if level == Level::Info { self.failed_below(unit) } else { 0 };
        match &note.reason {
            None if failed > 0 => {
                let units = if failed == 1 { "unit" } else { "units" };
                let text = format_args!("{unit}: {word}, but {failed} {units} failed");
                self.say(Level::Warning, text);
            }
            Some(reason) => self.say(level, format_args!("{unit}: {word}: {reason}")),
            None => self.say(level, format_args!("{unit}: {word}")),
        }
    }

    /// Returns the number of failed units that are needed, or 0 if `unit` does not provide a goal
    /// target.
    fn failed_below(&self, unit: &Name) -> usize {
        let (machine, generation) = (&self.machine, self.machine.generation());
        let is_unit = |id: UnitId| generation.unit(id).is_some_and(|it| it.name == *unit);
        let mut goal = machine.wish().goal.iter();
        let providers = |name| machine.graph().meant(generation, name).unit();
        if !goal.any(|name| providers(name).is_some_and(is_unit)) {
            return 0;
        }
        let has_failed =
            |id: &UnitId| machine.is_needed(*id) && machine.state(*id) == State::Failed;
        generation.unit_ids().filter(has_failed).count()
    }
}

fn note_of(action: &Action) -> Option<&Note> {
    if let Action::Note(note) = action { Some(note) } else { None }
}

/// The event log's word for an event about init itself.
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
