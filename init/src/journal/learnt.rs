//! What init has found out of runs by looking, or was told by the kernel or by a helper of its own, and nobody can find
//! out once more: a process that was named and is gone, an end that is reaped by another, a pid file that
//! by now is the next run's, a removal that is not to be done under the next run, whose an orphan is. It is noted before it has an
//! effect ([`super::notes`]). How it is put to runs again is in [`crate::run::again`].

use super::notes::{Kind, Note, What};
use crate::cgroup::Orphans;
use crate::run::procedure::Part;
use crate::sys::notes as writer;
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Exit;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Learnt {
    /// The logger has read the last lines of the run, or has had its time for that.
    Drained(RunId),
    /// A process that init did not start is the run's main process from now on.
    Found(RunId, i32),
    /// There is none to be found, and why; without a word: there is no telling which one it is.
    Unfound(RunId, String),
    /// The main process, which init did not start, has ended so, and no other goes on for it.
    Over(RunId, Exit),
    /// What init does itself at this part is done.
    Done(RunId, Part, Exit),
    /// Children that others have left to init, and whose they are.
    Left(Orphans),
    /// What this process has said is heard as the run's. Init did not start it.
    Spoke(RunId, i32),
    /// What was begun in a crash is not taken up, and is about to be killed.
    GaveUp(i32),
    /// What was begun before a crash is about to be stopped, to be looked at; or (false) it is to go on.
    Held(i32, bool),
    /// This process has become its program, and what follows from that does.
    Executed(i32),
    /// Nothing is left of the run, and what follows from that does.
    Emptied(RunId),
    /// From here on neither of these two is noted: there is too much else.
    Unnoted,
}

impl Learnt {
    /// Before it has an effect. What can not be noted has it all the same.
    pub(crate) fn note(&self) {
        let Ok(text) = postcard::to_allocvec(self) else { return };
        match self {
            // As often as somebody says so.
            Learnt::Found(..) | Learnt::Spoke(..) => writer::put_of_others(Kind::Learnt, &text),
            // As the past is put again.
            Learnt::GaveUp(_) | Learnt::Held(..) => writer::put_meanwhile(Kind::Learnt, &text),
            Learnt::Left(_) => writer::put_left(Kind::Learnt, None, &text),
            Learnt::Executed(_) | Learnt::Emptied(_) if writer::are_put_again() => {}
            Learnt::Executed(_) | Learnt::Emptied(_) => self.note_if_few(),
            Learnt::Drained(_)
            | Learnt::Unfound(..)
            | Learnt::Over(..)
            | Learnt::Done(..)
            | Learnt::Unnoted => writer::put_text(Kind::Learnt, &text),
        }
    }

    /// A look tells it too, too soon or too late. Noted as the past is put again, too.
    fn note_if_few(&self) {
        let Ok(text) = postcard::to_allocvec(self) else { return };
        let Ok(no_more) = postcard::to_allocvec(&Learnt::Unnoted) else { return };
        writer::put_if_few(Kind::Learnt, &text, &no_more);
    }

    /// What was found out in this turn, as it is put again after a crash.
    pub(crate) fn note_late(&self, turn: u32) {
        let Ok(text) = postcard::to_allocvec(self) else { return };
        match self {
            Learnt::Left(_) => writer::put_left(Kind::Learnt, Some(turn), &text),
            Learnt::Found(..) => writer::put_late_of_others(Kind::Learnt, turn, &text),
            Learnt::Drained(_)
            | Learnt::Unfound(..)
            | Learnt::Over(..)
            | Learnt::Done(..)
            | Learnt::Spoke(..)
            | Learnt::GaveUp(_)
            | Learnt::Held(..)
            | Learnt::Executed(_)
            | Learnt::Emptied(_)
            | Learnt::Unnoted => writer::put_late(Kind::Learnt, turn, &text),
        }
    }
}

/// All that was noted of these, as far as it is not put again yet.
#[derive(Debug, Default)]
pub(crate) struct Known {
    found: Vec<(RunId, i32)>,
    sought: BTreeSet<RunId>,
    unknown: BTreeSet<RunId>,
    speakers: Vec<(RunId, i32)>,
    done: BTreeMap<(RunId, Part), Exit>,
    /// Of these the turn in which they were done has come.
    done_by_now: BTreeSet<(RunId, Part)>,
    /// Of these it has not, and they were ordered again.
    awaited: BTreeSet<(RunId, Part)>,
    /// The turn that is being put.
    pub(crate) turn: u32,
    /// Main processes that have ended so; whether another goes on for them is noted later, or has not
    /// been found out.
    pub(crate) unanswered: BTreeMap<RunId, Exit>,
    /// Of these nothing was left, and nothing was begun since.
    pub(crate) emptied: BTreeSet<RunId>,
    /// What a look gives is so by now: all turns are put, or it was noted no more.
    pub(crate) looks: bool,
    /// All turns are put: what a look gives is new.
    pub(crate) is_put: bool,
}

impl Known {
    /// Those among the notes.
    pub(crate) fn among(notes: &[Note]) -> Known {
        let mut known = Known::default();
        for note in notes {
            match &note.what {
                What::Learnt(Learnt::Found(run, pid)) => {
                    known.found.push((*run, *pid));
                    known.sought.insert(*run);
                }
                What::Learnt(Learnt::Unfound(run, why)) => {
                    known.sought.insert(*run);
                    if why.is_empty() {
                        known.unknown.insert(*run);
                    }
                }
                What::Learnt(Learnt::Spoke(run, pid)) => known.speakers.push((*run, *pid)),
                What::Learnt(Learnt::Done(run, part, exit)) => {
                    known.done.insert((*run, *part), *exit);
                }
                What::Learnt(
                    Learnt::Drained(_)
                    | Learnt::Over(..)
                    | Learnt::Left(_)
                    | Learnt::GaveUp(_)
                    | Learnt::Held(..)
                    | Learnt::Executed(_)
                    | Learnt::Emptied(_)
                    | Learnt::Unnoted,
                )
                | What::Heard(_)
                | What::Ended(_)
                | What::Begun(_)
                | What::Wished(_)
                | What::Seen(_)
                | What::Opened(_) => {}
            }
        }
        known
    }

    /// It was noted. Of that which an image that goes back may find out by itself.
    fn has(&self, learnt: &Learnt) -> bool {
        match learnt {
            Learnt::Found(run, pid) => self.finds(*run, *pid),
            Learnt::Unfound(run, _) => self.has_sought(*run),
            Learnt::Done(run, part, _) => self.done.contains_key(&(*run, *part)),
            // It is as it was, or is noted where it is.
            Learnt::Drained(_)
            | Learnt::Over(..)
            | Learnt::Left(_)
            | Learnt::Spoke(..)
            | Learnt::GaveUp(_)
            | Learnt::Held(..)
            | Learnt::Executed(_)
            | Learnt::Emptied(_)
            | Learnt::Unnoted => true,
        }
    }

    /// What was found out as it is put again, and by nobody before the crash: in another one it is known.
    pub(crate) fn note_new(&self, learnt: &Learnt) {
        if !self.has(learnt) {
            learnt.note_late(self.turn);
        }
    }

    /// A look has told it. By nobody before the crash, where all is put.
    pub(crate) fn note_told(&self, learnt: &Learnt) {
        if self.is_put {
            learnt.note_if_few();
        }
    }

    /// This one will be found to be the run's main process, and is not yet.
    pub(crate) fn finds(&self, run: RunId, pid: i32) -> bool {
        self.found.contains(&(run, pid))
    }

    /// The next that will be.
    pub(crate) fn next_of(&self, run: RunId) -> Option<i32> {
        self.found.iter().find(|(of, _)| *of == run).map(|(_, pid)| *pid)
    }

    /// It is.
    pub(crate) fn has_found(&mut self, run: RunId, pid: i32) {
        let mut is_left = true;
        self.found.retain(|found| *found != (run, pid) || !std::mem::take(&mut is_left));
    }

    /// Whether the run has a main process is noted.
    pub(crate) fn has_sought(&self, run: RunId) -> bool {
        self.sought.contains(&run)
    }

    /// Which process it is could not be told.
    pub(crate) fn is_unknown(&self, run: RunId) -> bool {
        self.unknown.contains(&run)
    }

    /// For whom this one has spoken, of what is not heard again yet.
    pub(crate) fn speaker(&self, pid: i32) -> Option<RunId> {
        self.speakers.iter().find(|(_, of)| *of == pid).map(|(run, _)| *run)
    }

    /// It is heard.
    pub(crate) fn has_spoken(&mut self, run: RunId, pid: i32) {
        let mut is_left = true;
        self.speakers.retain(|spoke| *spoke != (run, pid) || !std::mem::take(&mut is_left));
    }

    /// With these the next turn begins.
    pub(crate) fn begins_turn(&mut self, notes: &[Note]) {
        for note in notes {
            self.turn = note.turn;
            if let What::Learnt(Learnt::Done(run, part, _)) = note.what {
                self.done_by_now.insert((run, part));
            }
        }
    }

    /// It was done for the run.
    pub(crate) fn take_done(&mut self, run: RunId, part: Part) -> Option<Done> {
        let of = (run, part);
        if self.done_by_now.contains(&of) {
            return self.done.remove(&of).map(Done::Now);
        }
        self.done.contains_key(&of).then(|| {
            self.awaited.insert(of);
            Done::Later
        })
    }

    /// How it ended, if it was ordered before.
    pub(crate) fn take_awaited(&mut self, run: RunId, part: Part) -> Option<Exit> {
        let of = (run, part);
        if self.awaited.remove(&of) { self.done.remove(&of) } else { None }
    }

    /// Something of the run is under way until its turn comes.
    pub(crate) fn awaits(&self, run: RunId) -> bool {
        self.awaited.iter().any(|(of, _)| *of == run)
    }
}

/// What init does itself was done before a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// And had ended so by the turn that is put again.
    Now(Exit),
    /// In a turn that is still to come.
    Later,
}

#[cfg(test)]
mod tests {
    use super::super::notes::Past;
    use super::super::notes::tests::written;
    use super::*;
    use groundstate_units::text::time::Time;

    #[test]
    fn what_was_learnt_is_read_by_the_next_image_and_not_noted_twice() {
        let why = || Learnt::Unfound(RunId(8), "a long reason ".repeat(20));
        let bytes = written(|| {
            Learnt::Found(RunId(7), 42).note();
            why().note();
            writer::while_quiet(|| Learnt::Drained(RunId(7)).note());
            Learnt::Over(RunId(7), Exit::Code(3)).note();
        });
        let notes = Past::read(&bytes, 0).notes.into_iter().map(|note| note.what);
        let all = [Learnt::Found(RunId(7), 42), why(), Learnt::Over(RunId(7), Exit::Code(3))];
        assert_eq!(notes.collect::<Vec<_>>(), all.map(What::Learnt));
    }

    #[test]
    fn what_is_found_out_as_it_is_put_again_is_noted_in_its_turn_unless_it_was() {
        let (run, other) = (RunId(7), RunId(8));
        let note = |learnt| Note {
            what: What::Learnt(learnt),
            pid: 0,
            at: Time::from_nanos(1),
            turn: 3,
            reaped: None,
        };
        let done = |run| Learnt::Done(run, Part::Unlink, Exit::Code(0));
        let unfound = |run| Learnt::Unfound(run, String::new());
        let was = [Learnt::Found(run, 42), done(run)];
        let mut known = Known::among(&was.clone().map(note));
        known.turn = 3;
        let new = [Learnt::Found(other, 42), Learnt::Found(run, 43), done(other), unfound(other)];
        let bytes = written(|| {
            writer::while_quiet(|| {
                was.iter().chain([&unfound(run)]).chain(&new).for_each(|it| known.note_new(it));
            });
        });
        let notes = Past::read(&bytes, 0).notes;
        assert!(notes.iter().all(|note| note.turn == 3));
        let what = notes.into_iter().map(|note| note.what);
        assert_eq!(what.collect::<Vec<_>>(), new.map(What::Learnt));
    }

    #[test]
    fn who_was_found_is_found_in_order_and_once() {
        let run = RunId(7);
        let note = |learnt| Note {
            what: What::Learnt(learnt),
            pid: 0,
            at: Time::from_nanos(1),
            turn: 1,
            reaped: None,
        };
        let done = Learnt::Done(run, Part::Clean, Exit::Code(0));
        let all =
            [Learnt::Found(run, 42), Learnt::Found(RunId(8), 43), Learnt::Found(run, 41), done];
        let mut known = Known::among(&all.map(note));
        assert!(known.finds(run, 42) && !known.finds(run, 43) && known.has_sought(run));
        assert_eq!(known.next_of(run), Some(42));
        known.has_found(run, 42);
        assert_eq!((known.next_of(run), known.finds(run, 42)), (Some(41), false));
        assert_eq!(known.take_done(run, Part::Unlink), None);
        assert_eq!(known.take_done(run, Part::Clean), Some(Done::Later));
        assert!(known.awaits(run) && !known.awaits(RunId(8)));
        assert_eq!(known.take_awaited(run, Part::Clean), Some(Exit::Code(0)));
        assert_eq!(known.take_awaited(run, Part::Clean), None);
        assert!(known.take_done(run, Part::Clean).is_none() && !known.awaits(run));
        let unlinked = [note(Learnt::Done(run, Part::Unlink, Exit::Code(3)))];
        let mut known = Known::among(&unlinked);
        known.begins_turn(&unlinked);
        assert_eq!(known.take_done(run, Part::Unlink), Some(Done::Now(Exit::Code(3))));
        assert_eq!(known.take_awaited(run, Part::Unlink), None);
        assert!(!known.has_sought(RunId(9)));
    }
}
