//! What an image of init that crashed had started since its state was kept, and which sockets had been
//! opened for it, as its notes name them. What becomes of that is [`crate::replay`]'s.

use crate::cgroup::Tracker;
use crate::journal::learnt::Learnt;
use crate::journal::notes::{self, Begun, Note, What};
use crate::run::procedure::Part;
use crate::sys::{Pid, inherit};
use groundstate_units::machine::event::RunId;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

/// Before all other lines of a run.
const FIRST: Part = Part::Condition(0);

/// A process the image before this one had started and of which the state does not know.
#[derive(Debug)]
pub(crate) struct One {
    /// Which.
    pub(crate) pid: Pid,
    /// As it was noted.
    pub(crate) begun: Begun,
    /// Its end was noted too.
    pub(crate) ended: bool,
    /// Another crash ago it was not taken up: it is of no line, and was to be killed.
    pub(crate) is_given_up: bool,
    /// Something was begun for its unit after that: what was beside it has been killed, and what is there now
    /// is not its.
    pub(crate) is_replaced: bool,
    /// It was stopped by an image before this one, to be looked at, and may not have gone on.
    pub(crate) is_held: bool,
    /// The read end of its output, if it was still in the table.
    output: Option<OwnedFd>,
    /// The same of its pipes aside.
    pub(crate) asides: BTreeMap<RunId, OwnedFd>,
    /// That of its `ready-fd`, if it is still listened to.
    pub(crate) ready: Option<OwnedFd>,
}

impl One {
    /// One of which nothing else is known.
    fn of(pid: i32, begun: &Begun) -> One {
        let output = inherit::take_if_same(begun.output);
        let asides = begun.asides.iter();
        let asides = asides
            .filter_map(|aside| Some((aside.run, inherit::take_if_same(aside.end)?)))
            .collect();
        let ready = inherit::take_if_same(begun.more.ready);
        let (is_given_up, is_replaced, is_held) = (false, false, false);
        let (pid, begun, ended) = (Pid::from_raw(pid.max(0)), begun.clone(), pid <= 0);
        One { pid, begun, ended, is_given_up, is_replaced, is_held, output, asides, ready }
    }

    /// Where it is, if that was made for its run.
    pub(crate) fn cgroup(&self, tracker: &Tracker) -> Option<String> {
        tracker.cgroup_for(self.pid, self.begun.run, self.begun.ahead)
    }
}

/// All of these.
#[derive(Debug, Default)]
pub(crate) struct Started {
    /// By line, those of each in the order in which they were begun: one that was given up may live on.
    of: BTreeMap<(RunId, Part), Vec<One>>,
    /// Sockets that were opened, by run and unit.
    opened: BTreeMap<(RunId, u64), Vec<OwnedFd>>,
    /// Which of them could not be opened, and why.
    broken: BTreeMap<(RunId, u64), (String, i32)>,
    /// Runs of which the line was seen by which they are ready.
    seen: BTreeSet<RunId>,
}

impl Started {
    /// Those among the notes. Takes over the descriptors they name.
    pub(crate) fn among(notes: &[Note]) -> Started {
        let mut started = Started::default();
        for note in notes {
            match &note.what {
                What::Ended(_) => {
                    // Who had the pid before it has ended too.
                    let of = started.all_mut().filter(|one| one.pid.as_raw() == note.pid);
                    of.for_each(|one| one.ended = true);
                }
                What::Begun(begun) if note.pid > 0 || begun.more.refused.is_some() => {
                    for before in started.all_mut() {
                        before.is_replaced |= before.is_given_up && before.begun.unit == begun.unit;
                        // Given out again: what stands there is not about the one before.
                        if note.pid > 0 && before.begun.slot == begun.slot {
                            before.begun.slot = u32::MAX;
                        }
                    }
                    started.add(One::of(note.pid, begun));
                }
                What::Opened(opened) => {
                    let (numbers, key) = (&opened.descriptors, (opened.run, opened.unit));
                    if let Some(broken) = &opened.broken {
                        started.broken.insert(key, broken.clone());
                        continue;
                    }
                    let is_same = |(number, then): &(i32, u64)| inherit::identity(*number) == *then;
                    if numbers.iter().all(is_same) {
                        let taken = numbers.iter().filter_map(|(fd, _)| inherit::take(*fd).ok());
                        started.opened.insert(key, taken.collect());
                    }
                }
                What::Seen(run) => _ = started.seen.insert(*run),
                What::Learnt(Learnt::GaveUp(pid)) => {
                    started.living_as(*pid).for_each(|one| one.is_given_up = true);
                }
                What::Learnt(Learnt::Held(pid, is_held)) => {
                    started.living_as(*pid).for_each(|one| one.is_held = *is_held);
                }
                What::Begun(_) | What::Heard(_) | What::Wished(_) | What::Learnt(_) => {}
            }
        }
        started
    }

    fn add(&mut self, one: One) {
        self.of.entry((one.begun.run, one.begun.part)).or_default().push(one);
    }

    /// Of no line a process is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Runs of which a line is.
    pub(crate) fn of_lines(&self) -> BTreeSet<RunId> {
        self.of.keys().map(|(run, _)| *run).collect()
    }

    /// The line was seen by which this run is ready.
    pub(crate) fn has_seen(&self, run: RunId) -> bool {
        self.seen.contains(&run)
    }

    /// A line that is begun once nothing of this run of the unit is left, and was not ordered again yet. Where it
    /// was begun anew in another crash that is the line, and the one before it is ordered by nobody.
    pub(crate) fn has_last(&self, run: RunId, unit: &str) -> bool {
        let [first, last] = [0, usize::MAX].map(|n| (run, Part::StopPost(n)));
        let unit = notes::unit(unit);
        let is_last = |one: &One| one.begun.unit == unit && !one.is_replaced;
        self.of.range(first..=last).flat_map(|(_, all)| all).any(is_last)
    }

    /// Of whatever line.
    pub(crate) fn all(&self) -> impl Iterator<Item = &One> {
        self.of.values().flatten()
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut One> {
        self.of.values_mut().flatten()
    }

    /// Who has this pid, as far as was noted up to here.
    fn living_as(&mut self, pid: i32) -> impl Iterator<Item = &mut One> {
        self.all_mut().filter(move |one| one.pid.as_raw() == pid && !one.ended)
    }

    /// The sockets that were opened for this run of the unit.
    pub(crate) fn take_opened(&mut self, run: RunId, unit: &str) -> Option<Vec<OwnedFd>> {
        self.opened.remove(&(run, notes::unit(unit)))
    }

    /// Why those could not be opened.
    pub(crate) fn take_broken(&mut self, run: RunId, unit: &str) -> Option<(String, i32)> {
        self.broken.remove(&(run, notes::unit(unit)))
    }

    /// The pipe of a run of which a process was started; within it None: it was passed on.
    pub(crate) fn output_of(&mut self, run: RunId) -> Option<Option<OwnedFd>> {
        let mut of_run = self.of.range_mut((run, FIRST)..).take_while(|((of, _), _)| *of == run);
        let is_process = |one: &&mut One| one.begun.more.refused.is_none() && !one.is_given_up;
        let first = of_run.find_map(|(_, all)| all.iter_mut().find(is_process));
        first.map(|one| one.output.take())
    }

    /// Units, as notes name them, and the runs of them of which a process or a socket is there.
    pub(crate) fn runs(&self) -> BTreeSet<(u64, RunId)> {
        let opened = self.opened.keys().chain(self.broken.keys());
        let opened = opened.map(|(run, unit)| (*unit, *run));
        self.all().map(|one| (one.begun.unit, one.begun.run)).chain(opened).collect()
    }

    /// The pids of those of whose end nothing was noted.
    pub(crate) fn living(&self) -> BTreeSet<i32> {
        self.all().filter(|one| !one.ended).map(|one| one.pid.as_raw()).collect()
    }

    /// The first of the line that was not taken yet.
    pub(crate) fn take(&mut self, run: RunId, part: Part, unit: u64) -> Option<One> {
        let all = self.of.get_mut(&(run, part))?;
        let one = all.extract_if(.., |one| one.begun.unit == unit && !one.is_given_up).next();
        if all.is_empty() {
            self.of.remove(&(run, part));
        }
        one
    }

    /// What else there is of the unit.
    pub(crate) fn others_of(&mut self, unit: u64) -> Vec<One> {
        let mut others = Vec::new();
        self.of.retain(|_, all| {
            others.extend(all.extract_if(.., |one| one.begun.unit == unit));
            !all.is_empty()
        });
        others
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::notes::More;
    use groundstate_units::machine::event::{ExecFailure, Stage};
    use groundstate_units::spec::Exit;
    use groundstate_units::text::time::Time;

    fn note(pid: i32, what: What) -> Note {
        Note { what, pid, at: Time::from_nanos(1), turn: 1, reaped: None }
    }

    fn made(run: u64) -> Begun {
        Begun {
            run: RunId(run),
            part: Part::Start(0),
            slot: u32::MAX,
            output: (-1, 0),
            unit: notes::unit("web"),
            ahead: None,
            asides: Vec::new(),
            born: 0,
            more: More::default(),
        }
    }

    fn begun(run: u64) -> What {
        What::Begun(made(run))
    }

    #[test]
    fn who_got_the_pid_of_one_that_had_ended_has_not_ended() {
        let ended = || note(42, What::Ended(Exit::Code(0)));
        let living = |notes: &[Note]| {
            let started = Started::among(notes);
            let living = started.all().filter(|one| !one.ended);
            living.map(|one| one.begun.run.0).collect::<Vec<u64>>()
        };
        assert_eq!(living(&[ended(), note(42, begun(7))]), [7]);
        assert_eq!(living(&[note(42, begun(7)), ended()]), [0; 0]);
        assert_eq!(living(&[ended(), note(42, begun(7)), ended()]), [0; 0]);
        assert_eq!(living(&[note(42, begun(7)), ended(), note(42, begun(9))]), [9]);
    }

    #[test]
    fn a_line_is_never_one_that_was_given_up_before() {
        let web = notes::unit("web");
        let gave_up = |pid| note(0, What::Learnt(Learnt::GaveUp(pid)));
        let noted = [note(42, begun(7)), gave_up(42), note(43, begun(7))];
        let mut started = Started::among(&noted);
        assert_eq!(started.living(), BTreeSet::from([42, 43]), "it may not be gone yet");
        for pid in [Some(43), None] {
            let one = started.take(RunId(7), Part::Start(0), web);
            assert_eq!(one.map(|one| one.pid.as_raw()), pid);
        }
        assert_eq!(started.all().filter(|one| one.is_given_up).count(), 1);
        let ended = note(42, What::Ended(Exit::Code(0)));
        let mut started = Started::among(&[note(42, begun(7)), gave_up(42), ended]);
        assert!(started.take(RunId(7), Part::Start(0), web).is_none(), "it was killed");
        // Who has its pid later is another.
        let mut started = Started::among(&[gave_up(42), note(42, begun(7))]);
        assert!(started.take(RunId(7), Part::Start(0), web).is_some());
    }

    #[test]
    fn what_was_beside_one_that_was_given_up_may_live_until_something_is_begun_instead() {
        let gave_up = || note(0, What::Learnt(Learnt::GaveUp(42)));
        let is_replaced = |pid: i32, instead: Begun| {
            let instead = note(pid, What::Begun(instead));
            let started = Started::among(&[note(42, begun(7)), gave_up(), instead]);
            started.all().find(|one| one.pid.as_raw() == 42).map(|one| one.is_replaced)
        };
        assert_eq!(is_replaced(43, made(7)), Some(true));
        assert_eq!(is_replaced(43, made(8)), Some(true));
        assert_eq!(is_replaced(43, Begun { unit: notes::unit("other"), ..made(9) }), Some(false));
        let why = ExecFailure { stage: Stage::Fork, errno: 11, path: String::new() };
        let more = More { refused: Some(why), ..More::default() };
        assert_eq!(is_replaced(0, Begun { more, ..made(7) }), Some(true));
    }

    #[test]
    fn nothing_was_left_until_the_last_line_is_ordered_however_often_it_was_begun() {
        let (web, run) = (notes::unit("web"), RunId(7));
        let last = || What::Begun(Begun { part: Part::StopPost(0), ..made(7) });
        let gave_up = || note(0, What::Learnt(Learnt::GaveUp(42)));
        let mut started = Started::among(&[note(42, last()), gave_up(), note(43, last())]);
        assert!(started.has_last(run, "web") && !started.has_last(run, "other"));
        assert!(!started.has_last(RunId(8), "web"));
        assert!(started.take(run, Part::StopPost(0), web).is_some());
        assert!(!started.has_last(run, "web"), "the one that was given up is ordered by nobody");
        let mut started = Started::among(&[note(42, last()), gave_up()]);
        assert!(started.has_last(run, "web"));
        assert!(started.take(run, Part::StopPost(0), web).is_none());
        assert_eq!(started.others_of(web).len(), 1);
        assert!(!started.has_last(run, "web"));
    }

    #[test]
    fn who_was_stopped_is_so_until_it_goes_on_or_is_another() {
        let held = |pid, is_held| note(0, What::Learnt(Learnt::Held(pid, is_held)));
        let ended = || note(42, What::Ended(Exit::Code(0)));
        let is_held = |notes: &[Note]| {
            let started = Started::among(notes);
            started.all().filter(|one| one.is_held).count()
        };
        assert_eq!(is_held(&[note(42, begun(7)), held(42, true)]), 1);
        assert_eq!(is_held(&[note(42, begun(7)), held(43, true)]), 0);
        assert_eq!(is_held(&[note(42, begun(7)), held(42, true), held(42, false)]), 0);
        let before = [note(42, begun(7)), ended(), held(42, true)];
        assert_eq!(is_held(&before), 0);
    }

    #[test]
    fn a_line_that_was_begun_again_is_each_of_its_processes_in_order() {
        let web = notes::unit("web");
        let noted = [note(42, begun(7)), note(43, begun(7)), note(44, begun(8))];
        let mut started = Started::among(&noted);
        assert_eq!(started.living(), BTreeSet::from([42, 43, 44]));
        let part = Part::Start(0);
        assert!(started.take(RunId(7), part, web ^ 1).is_none(), "it is another unit's");
        for pid in [Some(42), Some(43), None] {
            let one = started.take(RunId(7), part, web);
            assert_eq!(one.map(|one| one.pid.as_raw()), pid);
        }
        let left = started.others_of(web);
        assert_eq!(left.iter().map(|one| one.pid.as_raw()).collect::<Vec<_>>(), [44]);
        assert!(started.of.is_empty());
    }
}
