//! The event log: recent changes in memory, numbered. The state machine reports changes; this
//! module adds the number, the time and the causing line. A reader (`initctl events`) may miss
//! lines that were dropped; gaps in the numbers show it.

use crate::base::limit;
use crate::state::table::Table;
use groundstate_units::machine::action::{Action, Note, Outcome};
use groundstate_units::machine::event::{Event, RunId};
use groundstate_units::machine::reason::{Reason, Refusal, State};
use groundstate_units::text::fields::is_default;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::io::{BufWriter, Write};
use std::time::Duration;

/// One line, in compact form, because thousands are kept. Its number is its key.
#[derive(Serialize, Deserialize)]
pub(crate) struct Entry {
    /// CLOCK_REALTIME in nanoseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) wall: u64,
    /// CLOCK_MONOTONIC.
    pub(crate) at: Time,
    /// The number of the line that caused this one; 0 if there is none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) cause: u64,
    pub(crate) said: Said,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Said {
    /// A line about init itself.
    Own(Cow<'static, str>),
    /// A line about a unit.
    Unit(Change),
    /// A trigger fired and caused a change.
    Fired(Name),
}

impl Said {
    /// The run that the line is about.
    fn run(&self) -> Option<RunId> {
        match self {
            Said::Unit(Change { run: run @ 1.., .. }) => Some(RunId(*run)),
            Said::Unit(_) | Said::Own(_) | Said::Fired(_) => None,
        }
    }
}

/// A change of a unit.
#[derive(Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) name: Name,
    /// The number of the run; 0 if there is none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) run: u64,
    #[serde(default)]
    pub(crate) from: State,
    #[serde(default)]
    pub(crate) to: State,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) reason: Option<Box<Reason>>,
}

/// Sorts the changes of a step: those of its subject first, and independent changes before
/// consequences of another unit. So the first line is the cause of the others.
pub(crate) fn cause_first(notes: &mut [Note], subject: Option<&Name>) {
    let follows = |note: &Note| {
        matches!(note.reason, Some(Reason::Dependency { .. } | Reason::Inactive { .. }))
    };
    notes.sort_by_key(|note| (Some(&note.unit) != subject, follows(note)));
}

/// The last [`limit::EVENTS`] lines.
#[derive(Default)]
pub(crate) struct History {
    kept: Table<u64, Entry>,
    /// The last line of each active run; it may contain some ended runs too. After a crash it lacks
    /// the runs whose last line is not kept.
    of_run: BTreeMap<RunId, u64>,
    /// The size of `of_run` when ended runs were last removed.
    size_then: usize,
}

impl History {
    /// The history of stored lines, as [`Table::of`].
    pub(crate) fn of(kept: BTreeMap<u64, Entry>) -> History {
        let of_run = kept.iter().filter_map(|(seq, entry)| Some((entry.said.run()?, *seq)));
        History { of_run: of_run.collect(), kept: Table::of(kept), size_then: 0 }
    }

    /// The lines as a table of records.
    pub(crate) fn table(&mut self) -> &mut Table<u64, Entry> {
        &mut self.kept
    }

    /// The number of the last line; 0 if there is none.
    pub(crate) fn last(&self) -> u64 {
        self.kept.last_key_value().map_or(0, |(seq, _)| *seq)
    }

    /// The lines after `seq` that are still kept, oldest first.
    pub(crate) fn after(&self, seq: u64) -> impl Iterator<Item = (&u64, &Entry)> {
        self.kept.range(seq.saturating_add(1)..)
    }

    /// Adds the changes of one step. `occasion` becomes a line too and is the cause of the changes.
    /// The firing of a trigger becomes a line only if the step changed a unit. `about` is the run
    /// that the step is about: its last line causes the first line here, which causes the others.
    /// Runs that are not `up` are removed eventually.
    pub(crate) fn add(
        &mut self,
        at: Time,
        wall: Duration,
        occasion: Option<Said>,
        about: Option<RunId>,
        notes: Vec<Note>,
        up: impl Fn(RunId) -> bool,
    ) {
        let changes_nothing = notes.is_empty();
        let occasion = occasion.filter(|said| !matches!(said, Said::Fired(_)) || !changes_nothing);
        let mut cause = about.and_then(|run| self.of_run.get(&run).copied());
        let wall = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        let mut first = true;
        let changes = notes.into_iter().map(|note| {
            let Note { unit: name, run, from, to, reason } = note;
            let run = run.map_or(0, |run| run.0);
            Said::Unit(Change { name, run, from, to, reason: reason.map(Box::new) })
        });
        for said in occasion.into_iter().chain(changes) {
            let seq = self.last().saturating_add(1);
            if let Some(run) = said.run() {
                self.of_run.insert(run, seq);
            }
            if self.kept.len() >= limit::EVENTS
                && let Some(first) = self.kept.keys().next().copied()
            {
                self.kept.remove(&first);
            }
            self.kept.insert(seq, Entry { wall, at, cause: cause.unwrap_or(0), said });
            if first {
                (cause, first) = (Some(seq), false);
            }
        }
        // This runs rarely, because it checks every run.
        if self.of_run.len() > limit::EVENTS.max(self.size_then.saturating_mul(2)) {
            self.of_run.retain(|run, _| up(*run));
            self.size_then = self.of_run.len();
        }
    }

    /// Forgets a run that is over.
    pub(crate) fn forget(&mut self, run: RunId) {
        self.of_run.remove(&run);
    }
}

// `--record FILE`: records each event and the machine's answer, one JSON object a line, to replay
// them elsewhere.
//
// A line is `{"now":NANOS,"event":EVENT,"actions":[ACTION…],"refused":REFUSAL|null}`. EVENT,
// ACTION and REFUSAL are the serde form of the types of `groundstate_units::machine`: externally
// tagged, as in `{"Ready":7}`, `{"Start":{"unit":0,"name":"web","run":7}}`, `"Tick"`. `now` is
// CLOCK_MONOTONIC. A replay starts with an empty machine, steps through the lines at their `now`,
// and gets the same actions.

#[derive(Serialize)]
struct Line<'a> {
    now: Time,
    event: &'a Event,
    actions: &'a [Action],
    refused: &'a Option<Refusal>,
}

/// The open file. It is flushed at the end of each turn of the loop, and for the next image.
pub(crate) type Record = BufWriter<File>;

/// Writes one step.
pub(crate) fn record(
    to: &mut Record,
    now: Time,
    event: &Event,
    outcome: &Outcome,
) -> io::Result<()> {
    let line = Line { now, event, actions: &outcome.actions, refused: &outcome.refused };
    serde_json::to_writer(&mut *to, &line)?;
    to.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(run: u64) -> Note {
        Note {
            unit: Name::new("a").expect("a name"),
            run: Some(RunId(run)),
            from: State::Starting,
            to: State::Running,
            reason: None,
        }
    }

    fn add(history: &mut History, about: Option<u64>, notes: Vec<Note>) {
        history.add(Time::ZERO, Duration::ZERO, None, about.map(RunId), notes, |_| true);
    }

    #[test]
    fn event_line_names_its_causing_line() {
        let mut history = History::default();
        add(&mut history, None, vec![note(1), note(2)]);
        add(&mut history, Some(2), vec![note(2), note(3)]);
        let causes: Vec<_> = history.after(0).map(|(seq, entry)| (*seq, entry.cause)).collect();
        assert_eq!(causes, [(1, 0), (2, 1), (3, 2), (4, 3)]);
    }

    #[test]
    fn failure_is_logged_before_its_consequences() {
        let name = |name| Name::new(name).expect("a name");
        let failed = |unit, reason| {
            let (from, to) = (State::Running, State::Failed);
            Note { unit: name(unit), run: None, from, to, reason: Some(reason) }
        };
        let told = |notes: &[Note]| notes.iter().map(|note| note.unit.clone()).collect::<Vec<_>>();
        let gone = || Reason::Dependency { target: name("c"), unit: name("c") };
        let mut notes = vec![
            failed("a", gone()),
            failed("b", Reason::StartTimeout),
            failed("c", Reason::Watchdog),
        ];
        cause_first(&mut notes, None);
        assert_eq!(told(&notes), [name("b"), name("c"), name("a")]);
        cause_first(&mut notes, Some(&name("c")));
        assert_eq!(told(&notes), [name("c"), name("b"), name("a")]);
    }

    #[test]
    fn start_by_a_trigger_has_the_firing_as_its_cause() {
        let mut history = History::default();
        add(&mut history, None, vec![note(1)]);
        let fired = |history: &mut History, notes| {
            let name = Name::new("tick").expect("a name");
            let fired = Some(Said::Fired(name));
            history.add(Time::ZERO, Duration::ZERO, fired, Some(RunId(1)), notes, |_| true);
        };
        fired(&mut history, vec![note(2)]);
        fired(&mut history, Vec::new());
        let lines: Vec<_> = history.after(1).map(|(_, entry)| (&entry.said, entry.cause)).collect();
        let [(Said::Fired(trigger), 1), (Said::Unit(_), 2)] = lines.as_slice() else {
            panic!("a firing and a change");
        };
        assert_eq!(trigger.as_str(), "tick");
    }

    #[test]
    fn old_event_lines_are_dropped_and_numbers_continue() {
        let mut history = History::default();
        for _ in 0..limit::EVENTS + 5 {
            add(&mut history, None, vec![note(1)]);
        }
        assert_eq!(history.after(0).count(), limit::EVENTS);
        assert_eq!(history.after(0).next().map(|(seq, _)| *seq), Some(6));
        assert_eq!(history.after(history.last()).count(), 0);
    }
    #[test]
    fn runs_without_a_reported_end_are_forgotten_unless_they_are_up() {
        let mut history = History::default();
        add(&mut history, None, vec![note(1)]);
        // No end is reported for a virtual unit, a trigger, or a refused start.
        for run in 2..10_000 {
            let up = |other: RunId| [1, run].contains(&other.0);
            history.add(Time::ZERO, Duration::ZERO, None, None, vec![note(run)], up);
            assert!(history.of_run.len() <= limit::EVENTS, "{}", history.of_run.len());
        }
        add(&mut history, Some(1), vec![note(10_000)]);
        let last = history.after(history.last() - 1).next().expect("a line");
        assert_eq!(last.1.cause, 1, "one that is up is remembered however long it is");
    }

    #[test]
    fn many_active_runs_are_not_scanned_for_each_event_line() {
        let (mut history, looks) = (History::default(), std::cell::Cell::new(0));
        let most = 4 * limit::EVENTS;
        for run in 1..=most as u64 {
            let up = |_| {
                looks.set(looks.get() + 1);
                true
            };
            history.add(Time::ZERO, Duration::ZERO, None, None, vec![note(run)], up);
        }
        assert_eq!(history.of_run.len(), most);
        assert!(looks.get() < 2 * most, "{}", looks.get());
    }
}
