//! From the state that was kept last to now, after a crash: what was noted since is put to an init
//! that has gone back ([`crate::journal::notes`]). The machine is deterministic, so it decides
//! again as it had decided; what it orders a second time is done a second time where that does no
//! harm (a signal, a removal), and is not where it was done: a process that was started is
//! taken up. What was noted and can not be understood any more is left out: what then is not as
//! the machine has it, [`crate::reconcile`] finds.

use crate::cgroup::mark;
use crate::clock;
use crate::event_loop::Init;
use crate::journal::learnt::{Known, Learnt};
use crate::journal::notes::{self, Note, Past, What, Wished};
use crate::journal::turns;
use crate::limit;
use crate::notify::Datagram;
use crate::sys::Pid;
use crate::sys::notes as writer;
use crate::sys::wait::{self, Ended};
use groundstate_units::machine::event::{Event, RunId};
use groundstate_units::text::time::Time;
use groundstate_units::unit::generation::UnitId;
use std::collections::BTreeMap;

/// What of the notes is put again. What was put before and made this program crash is not put just
/// so a second time: first what anybody wished or said is left out, then all.
pub(crate) fn heeded(past: &Past) -> Vec<Note> {
    let is_fact = |note: &&Note| match note.what {
        // A line that was read in a pipe is nowhere else.
        What::Ended(_) | What::Begun(_) | What::Opened(_) | What::Learnt(_) | What::Seen(_) => true,
        What::Heard(_) | What::Wished(_) => false,
    };
    match past.tries {
        0 => past.notes.clone(),
        1 => past.notes.iter().filter(is_fact).cloned().collect(),
        _ => Vec::new(),
    }
}

/// Of what was begun since the state was kept nothing is left out of that.
pub(crate) fn heeds_all_begun(past: &Past) -> bool {
    past.tries <= 1 && !past.has_gap
}

/// What the kernel wrote alone has no time.
fn is_known(at: &Time) -> bool {
    *at > Time::ZERO
}

impl Init {
    /// Once, before the first turn.
    pub(crate) fn go_back_to_now(&mut self, notes: Vec<Note>) {
        // What is put again from before they were reaped is not sent to who has their pids by now.
        for note in &notes {
            if let What::Ended(_) = note.what {
                wait::reaped_before(Pid::from_raw(note.pid));
                self.tracker.was_reaped(Pid::from_raw(note.pid));
            }
        }
        let begun = self.lineage.started.living();
        self.end_helpers(&begun);
        self.tracker.knows_begun(begun);
        self.kill_what_nobody_noted();
        self.number_as_before();
        self.lineage.known = Some(Known::among(&notes));
        self.now = notes.iter().map(|note| note.at).find(is_known).unwrap_or(self.now);
        let notify = self.notify.as_mut();
        // Heard in the next turn, whatever else that did.
        let mut heard = notify.map(|notify| notify.take_waiting()).unwrap_or_default();
        let is_heeded = !notes.is_empty();
        for notes in turns::of(notes) {
            if let Some(known) = &mut self.lineage.known {
                known.begins_turn(&notes);
            }
            self.replay_turn(std::mem::take(&mut heard), notes);
        }
        if is_heeded {
            writer::looked();
        }
        self.hear_these(heard);
        self.settle();
        self.now = clock::now();
        self.all_is_put();
        self.find_what_is_so();
        self.machine.nothing_begun_before();
        self.kill_unclaimed();
        self.reconcile();
        self.look_at_reports(limit::CHILDREN_UNKNOWN_MOST);
        self.settle();
    }

    /// The machine gives the runs that were begun the numbers they had, whatever was not noted; and to no other that of
    /// one of which something lives.
    fn number_as_before(&mut self) {
        let runs = self.lineage.started.runs();
        let units = &self.machine.generation().units;
        let named: BTreeMap<u64, UnitId> = units
            .iter()
            .zip(0..)
            .map(|(unit, number)| (notes::unit(unit.name.as_str()), UnitId(number)))
            .collect();
        let known = runs.iter().filter_map(|(unit, run)| Some((*named.get(unit)?, *run)));
        let known: Vec<(UnitId, RunId)> = known.collect();
        self.machine.begun_before(known);
        if !self.tracker.has_cgroups() {
            self.machine.numbered_before(mark::highest());
        }
    }

    /// What else a look gives, and what follows from that, once it is of now: some of it had followed, and was not
    /// noted.
    fn find_what_is_so(&mut self) {
        for _ in 0..limit::CHILDREN_UNKNOWN_MOST {
            self.look_at_reports(limit::CHILDREN_UNKNOWN_MOST);
            if self.facts.is_empty() {
                break;
            }
            self.settle();
            self.look_at_all();
        }
    }

    /// One turn of the loop, with what it took from the notes. What nobody has read yet is left where it is: it may be
    /// by somebody who is still to be taken up.
    fn replay_turn(&mut self, mut heard: Vec<Datagram>, notes: Vec<Note>) {
        let (turn, look) = (notes.first().map(|note| note.turn), turns::left_by(&notes));
        let latest = notes.iter().map(|note| note.at).max();
        self.now = latest.filter(is_known).unwrap_or(self.now);
        let (mut ends, mut seen, mut wished) = (Vec::new(), Vec::new(), Vec::new());
        let (mut opened, mut first, mut then) = (Vec::new(), Vec::new(), Vec::new());
        let (mut left, mut executed, mut late) = (Vec::new(), Vec::new(), Vec::new());
        for note in notes {
            match note.what {
                What::Heard(bytes) => heard.push(Datagram::again(note.pid, &bytes)),
                What::Ended(exit) => ends.push(Ended { pid: Pid::from_raw(note.pid), exit }),
                What::Seen(run) => seen.push(run),
                What::Wished(wish) => match *wish {
                    Wished::Event(event @ Event::Fire(_)) => self.facts.push_back(event),
                    wish @ (Wished::Event(_) | Wished::End(_) | Wished::Haste(_)) => {
                        wished.push((wish, Vec::new()));
                    }
                },
                What::Learnt(learnt @ (Learnt::Executed(_) | Learnt::Emptied(_)))
                    if !wished.is_empty() =>
                {
                    wished.last_mut().into_iter().for_each(|(_, after)| after.push(learnt.clone()));
                }
                What::Learnt(Learnt::Executed(pid)) if ends.is_empty() => executed.push(pid),
                What::Learnt(Learnt::Executed(pid)) => late.push(pid),
                What::Opened(note) => opened.push(note.run),
                What::Learnt(learnt @ Learnt::Left(_)) => left.push(learnt),
                What::Learnt(learnt) if ends.is_empty() => first.push(learnt),
                What::Learnt(learnt) => then.push(learnt),
                What::Begun(_) => {}
            }
        }
        self.settle();
        self.executed_in_turn(&mut executed);
        opened.into_iter().for_each(|run| self.opened_before(run));
        self.settle();
        // Some of it was said by who was begun by the rest.
        let is_known = |init: &Init, said: &Datagram| init.speaker(said).is_some();
        let (known, others): (Vec<_>, Vec<_>) =
            heard.into_iter().partition(|said| is_known(self, said));
        self.hear_these(known);
        self.settle();
        self.hear_these(others);
        self.settle();
        seen.into_iter().for_each(|run| self.seen_before(run));
        self.settle();
        self.are_emptied(&first);
        self.learnt_in_turn(first);
        let ends = ends.into_iter().map(|ended| {
            wait::reaped_before(ended.pid);
            self.let_go_of(ended)
        });
        let ends = ends.collect();
        left.into_iter().for_each(|left| self.learnt_before(left));
        self.find_left(look, turn);
        self.are_emptied(&then);
        self.tell_ends(ends, false);
        self.learnt_in_turn(then);
        self.emptied();
        self.settle();
        executed.append(&mut late);
        self.executed_in_turn(&mut executed);
        let due = self.wished_in_turn(wished, &mut executed);
        self.due_in_turn();
        self.learnt_in_turn(due);
        self.executed_in_turn(&mut executed);
        self.find_what_is_so();
    }

    fn due_in_turn(&mut self) {
        self.runs_due();
        if self.machine.next_deadline().is_some_and(|at| at <= self.now) {
            self.facts.push_back(Event::Tick);
        }
        self.settle();
    }

    /// Each with those that had become their programs after it, and of which nothing was left any more. Gives those of
    /// what is due: that is done when all are.
    fn wished_in_turn(
        &mut self,
        wished: Vec<(Wished, Vec<Learnt>)>,
        executed: &mut Vec<i32>,
    ) -> Vec<Learnt> {
        let mut due = Vec::new();
        for (wish, after) in wished {
            self.are_emptied(&after);
            let is_time = matches!(wish, Wished::Event(Event::Tick));
            self.wished_before(wish);
            self.settle();
            for learnt in after {
                if let Learnt::Executed(pid) = learnt {
                    executed.push(pid);
                } else if is_time {
                    due.push(learnt);
                } else {
                    self.learnt_before(learnt);
                }
                self.settle();
                self.executed_in_turn(executed);
            }
        }
        due
    }

    /// It was granted then; refused now, it has no effect.
    fn wished_before(&mut self, wish: Wished) {
        match wish {
            // That there was this turn is all it says: what is due follows.
            Wished::Event(Event::Tick) => {}
            Wished::Event(event) => drop(self.wish(event)),
            Wished::End(how) => self.shut_down(how),
            Wished::Haste(haste) => _ = self.hasten(haste),
        }
    }

    /// Those that had become their programs, in this order, as far as they are begun again.
    fn executed_in_turn(&mut self, executed: &mut Vec<i32>) {
        executed.retain(|pid| {
            let is_known = self.executed_before(*pid);
            self.settle();
            !is_known
        });
    }

    /// Of these nothing was left as what was learnt, or the end of the last, was told.
    fn are_emptied(&mut self, learnt: &[Learnt]) {
        let Some(known) = &mut self.lineage.known else { return };
        for learnt in learnt {
            if let Learnt::Emptied(run) = learnt {
                known.emptied.insert(*run);
            }
        }
    }

    fn learnt_in_turn(&mut self, learnt: Vec<Learnt>) {
        for learnt in learnt {
            self.learnt_before(learnt);
            self.settle();
        }
    }
}
