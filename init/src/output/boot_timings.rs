//! Durations of starts, for `blame`, `critical-chain` and `plot`. It keeps the latest start of each
//! unit, and the first one that became ready: a restart does not change the course of the boot.

use crate::state::table::Table;
use groundstate_units::control::answer::Timing;
use groundstate_units::machine::action::Note;
use groundstate_units::machine::reason::{Reason, State};
use groundstate_units::text::fields::is_default;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::unit::generation::Generation;
use serde::{Deserialize, Serialize};
use serde_with::apply;

/// One start.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    waited_from: Time,
    started: Option<Time>,
    ready: Option<Time>,
    after: Option<Name>,
    /// The time of the first failure before the unit was ready. The units that waited for it
    /// continued then.
    failed: Option<Time>,
}

/// The starts of each unit.
#[derive(Default)]
pub(crate) struct Timings {
    /// The latest start.
    pub(crate) of: Table<Name, Start>,
    /// The first start that became ready, for units that were started again since.
    pub(crate) first: Table<Name, Start>,
    /// The number of automatic restarts of each unit.
    pub(crate) restarts: Table<Name, u32>,
}

impl Timings {
    /// Adds the changes of one step.
    pub(crate) fn add(&mut self, now: Time, notes: &[Note]) {
        // The unit whose readiness led to the other changes.
        let opener = notes
            .iter()
            .find(|note| note.to.is_active() && !note.from.is_active())
            .map(|note| &note.unit);
        for note in notes {
            self.count(note);
            match note.to {
                State::Waiting if note.from != State::Waiting => {
                    // A failed start counts as part of the wait for the next successful one.
                    let fresh = self.fresh(now, &note.unit);
                    self.put(&note.unit, fresh);
                }
                State::Starting => self.started(now, note, opener),
                State::Running | State::Exited if !note.from.is_active() => {
                    self.started(now, note, opener);
                    if let Some(start) = self.of.get_mut(&note.unit) {
                        start.ready = Some(now);
                    }
                }
                State::Disabled => {
                    self.of
                        .remove(&note.unit)
                        .filter(|start| start.ready.is_some())
                        .map(|start| self.of.insert(note.unit.clone(), start));
                }
                State::Failed => {
                    let fresh = self.fresh(now, &note.unit);
                    let start = self.of.get_or_insert(&note.unit, fresh);
                    if start.ready.is_none() {
                        start.failed.get_or_insert(now);
                    }
                }
                State::Waiting
                | State::Running
                | State::Reloading
                | State::Exited
                | State::Stopping => {}
            }
        }
    }

    /// Counts automatic restarts: a backoff ends in one. A manual stop or restart resets the count.
    fn count(&mut self, note: &Note) {
        let is_by_itself = matches!(note.reason, Some(Reason::Backoff { .. }));
        match (note.from, note.to) {
            (from, State::Waiting) if from != State::Waiting && is_by_itself => {
                let count = self.restarts.get_or_default(note.unit.clone());
                *count = count.saturating_add(1);
            }
            (_, State::Disabled) | (State::Stopping, State::Starting) => {
                self.restarts.remove(&note.unit);
            }
            _ => {}
        }
    }

    /// A new start of a unit. Earlier starts that never became ready are part of it.
    fn fresh(&self, now: Time, unit: &Name) -> Start {
        let unready = self.of.get(unit).filter(|start| start.ready.is_none());
        let waited_from = unready.map_or(now, |start| start.waited_from);
        let failed = unready.and_then(|start| start.failed);
        Start { waited_from, started: None, ready: None, after: None, failed }
    }

    fn started(&mut self, now: Time, note: &Note, opener: Option<&Name>) {
        if note.from == State::Starting {
            return;
        }
        let after = opener.filter(|opener| **opener != note.unit).cloned();
        let start = Start { started: Some(now), after, ..self.fresh(now, &note.unit) };
        self.put(&note.unit, start);
    }

    fn put(&mut self, unit: &Name, start: Start) {
        let before = self.of.insert(unit.clone(), start);
        if let Some(ready) = before.filter(|start| start.ready.is_some()) {
            self.first.get_or_insert(unit, ready);
        }
    }

    /// Forgets units that the generation does not have.
    pub(crate) fn retain_units_of(&mut self, generation: &Generation) {
        retain(&mut self.of, generation);
        retain(&mut self.first, generation);
        retain(&mut self.restarts, generation);
    }

    /// The starts to show: units that were started, or failed because of another unit, by name.
    pub(crate) fn shown(&self) -> Vec<Timing> {
        let shown = |(name, start): (&Name, &Start)| {
            start.started.or(start.failed)?;
            let first = self.first.get(name).map(|first| Box::new(timing(name, first)));
            let restarts = self.restarts.get(name).copied().unwrap_or(0);
            Some(Timing { first, restarts, ..timing(name, start) })
        };
        self.of.iter().filter_map(shown).collect()
    }
}

fn timing(name: &Name, start: &Start) -> Timing {
    let micros = |time: Time| time.as_nanos() / 1000;
    Timing {
        unit: name.to_string(),
        waited_from_us: micros(start.waited_from),
        started_us: start.started.map(micros),
        ready_us: start.ready.map(micros),
        failed_us: start.failed.map(micros),
        after: start.after.as_ref().map(Name::to_string),
        restarts: 0,
        first: None,
    }
}

fn retain<T>(of: &mut Table<Name, T>, generation: &Generation) {
    // Both are in the order of names.
    let mut units = generation.units.iter().peekable();
    of.retain(|name, _| {
        while units.next_if(|unit| unit.name < *name).is_some() {}
        units.peek().is_some_and(|unit| unit.name == *name)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::spec::Kind;
    use groundstate_units::text::diagnostic::Place;
    use groundstate_units::unit::assembly::{Draft, assemble};
    use groundstate_units::unit::settings::Settings;

    #[test]
    fn only_removed_units_are_forgotten() {
        let unit = |text: &&str| {
            let place = Place { file: "u.yaml".into(), line: 1, column: 1 };
            let name = Name::new(text).expect("a name");
            Draft::new(name, place, Kind::Virtual, &Settings::default())
        };
        let mut timings = Timings::default();
        let names = ["a", "b", "d", "e", "g"];
        let started = names.map(|name| note(name, State::Disabled, State::Starting));
        timings.add(Time::from_nanos(1_000), &started);
        timings.retain_units_of(&assemble(["b", "c", "e", "f"].iter().map(unit).collect(), []));
        let left: Vec<String> = timings.shown().into_iter().map(|timing| timing.unit).collect();
        assert_eq!(left, ["b", "e"]);
        timings.retain_units_of(&assemble(Vec::new(), []));
        assert!(timings.shown().is_empty());
    }

    #[test]
    fn failed_starts_of_a_unit_are_part_of_its_wait() {
        let mut timings = Timings::default();
        let at = Time::from_nanos;
        for (when, from, to) in [
            (1_000, State::Disabled, State::Starting),
            (2_000, State::Starting, State::Waiting),
            (5_000, State::Waiting, State::Starting),
            (6_000, State::Starting, State::Failed),
            (7_000, State::Failed, State::Starting),
            (9_000, State::Starting, State::Running),
        ] {
            timings.add(at(when), &[note("db", from, to)]);
        }
        let shown = timings.shown();
        let db = shown.first().expect("one unit");
        assert_eq!((db.waited_from_us, db.started_us, db.ready_us), (1, Some(7), Some(9)));
        assert_eq!(db.failed_us, Some(6));
    }

    #[test]
    fn first_start_of_a_unit_is_kept_beside_the_latest() {
        let mut timings = Timings::default();
        let at = Time::from_nanos;
        for (when, from, to) in [
            (1_000, State::Disabled, State::Starting),
            (2_000, State::Starting, State::Running),
            (5_000, State::Running, State::Stopping),
            (6_000, State::Stopping, State::Starting),
            (7_000, State::Starting, State::Running),
            (8_000, State::Running, State::Starting),
            (9_000, State::Starting, State::Running),
        ] {
            timings.add(at(when), &[note("db", from, to)]);
        }
        let shown = timings.shown();
        let db = shown.first().expect("one unit");
        assert_eq!((db.started_us, db.ready_us), (Some(8), Some(9)));
        let first = db.first.as_ref().expect("it was started before");
        assert_eq!((first.started_us, first.ready_us), (Some(1), Some(2)));
        timings.retain_units_of(&assemble(Vec::new(), []));
        assert!(timings.shown().is_empty() && timings.first.is_empty());
    }

    #[test]
    fn unit_failed_by_its_dependency_has_a_failure_time_and_no_start_time() {
        let mut timings = Timings::default();
        let at = Time::from_nanos;
        timings.add(at(1_000), &[note("web", State::Disabled, State::Waiting)]);
        timings.add(at(4_000), &[note("web", State::Waiting, State::Failed)]);
        let shown = timings.shown();
        let web = shown.first().expect("one unit");
        assert_eq!((web.started_us, web.failed_us, web.ready_us), (None, Some(4), None));
        // It was ready before, so no unit waited for this failure.
        timings.add(at(5_000), &[note("db", State::Disabled, State::Starting)]);
        timings.add(at(6_000), &[note("db", State::Starting, State::Running)]);
        timings.add(at(9_000), &[note("db", State::Running, State::Failed)]);
        let shown = timings.shown();
        assert_eq!(shown.first().map(|db| (db.ready_us, db.failed_us)), Some((Some(6), None)));
    }

    fn note(unit: &str, from: State, to: State) -> Note {
        let unit = Name::new(unit).expect("a name");
        Note { unit, run: None, from, to, reason: None }
    }

    #[test]
    fn start_is_timed_from_its_wait_to_its_readiness() {
        let mut timings = Timings::default();
        let at = Time::from_nanos;
        timings.add(
            at(1_000),
            &[
                note("db", State::Disabled, State::Starting),
                note("web", State::Disabled, State::Waiting),
            ],
        );
        timings.add(
            at(5_000),
            &[
                note("db", State::Starting, State::Running),
                note("web", State::Waiting, State::Starting),
            ],
        );
        timings.add(at(9_000), &[note("web", State::Starting, State::Running)]);
        let shown = timings.shown();
        let web = shown.last().expect("two units");
        assert_eq!((web.waited_from_us, web.started_us, web.ready_us), (1, Some(5), Some(9)));
        assert_eq!(web.after.as_deref(), Some("db"));
        let db = shown.first().expect("two units");
        assert_eq!((db.started_us, db.ready_us, &db.after), (Some(1), Some(5), &None));
    }
}
