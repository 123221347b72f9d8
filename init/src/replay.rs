//! From the state that was kept last to now, after a crash: what was noted since is put to an init
//! that has gone back ([`crate::journal::notes`]). The machine is deterministic, so it decides
//! again as it had decided; what it orders a second time is done a second time where that does no
//! harm (a signal, a removal), and is not where it was done: a process that was started is
//! taken up. What was noted and can not be understood any more is left out: what then is not as
//! the machine has it, [`crate::reconcile`] finds.

use crate::cgroup::Tracker;
use crate::clock;
use crate::event_loop::Init;
use crate::journal::notes::{self, Begun, Note, Past, What, Wished};
use crate::journal::turns;
use crate::limit;
use crate::notify::Datagram;
use crate::process;
use crate::run::output::run_log;
use crate::run::procedure::Part;
use crate::sys::wait::{self, Ended};
use crate::sys::{Pid, inherit, signal};
use crate::voice::Level;
use groundstate_units::generation::UnitId;
use groundstate_units::machine::event::{Event, RunId};
use groundstate_units::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

const KILL: u8 = 9;
const STOP: u8 = 19;
const GO_ON: u8 = 18;

/// A process the image before this one had started and of which the state does not know.
#[derive(Debug)]
struct One {
    pid: Pid,
    begun: Begun,
    /// Its end was noted too.
    ended: bool,
    /// The read end of its output, if it was still in the table.
    output: Option<OwnedFd>,
    /// The same of its pipes aside.
    asides: BTreeMap<RunId, OwnedFd>,
}

impl One {
    /// Where it is, if that was made for its run.
    fn cgroup(&self, tracker: &Tracker) -> Option<String> {
        tracker.cgroup_for(self.pid, self.begun.run, self.begun.ahead)
    }
}

/// All of these.
#[derive(Debug, Default)]
pub(crate) struct Started {
    of: BTreeMap<(RunId, Part), One>,
    /// Sockets that were opened, by run and unit.
    opened: BTreeMap<(RunId, u64), Vec<OwnedFd>>,
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
                    let of = started.of.values_mut().filter(|one| one.pid.as_raw() == note.pid);
                    of.for_each(|one| one.ended = true);
                }
                What::Begun(begun) if note.pid > 0 => {
                    // Given out again: what stands there is not about the one before.
                    let before = started.of.values_mut().filter(|one| one.begun.slot == begun.slot);
                    before.for_each(|one| one.begun.slot = u32::MAX);
                    let (pid, begun) = (Pid::from_raw(note.pid), begun.clone());
                    let output = inherit::take_if_same(begun.output);
                    let asides = begun.asides.iter();
                    let asides = asides
                        .filter_map(|aside| Some((aside.run, inherit::take_if_same(aside.end)?)))
                        .collect();
                    let one = One { pid, begun, ended: false, output, asides };
                    started.of.insert((one.begun.run, one.begun.part), one);
                }
                What::Opened(opened) => {
                    let (numbers, key) = (&opened.descriptors, (opened.run, opened.unit));
                    let is_same = |(number, then): &(i32, u64)| inherit::identity(*number) == *then;
                    if numbers.iter().all(is_same) {
                        let taken = numbers.iter().filter_map(|(fd, _)| inherit::take(*fd).ok());
                        started.opened.insert(key, taken.collect());
                    }
                }
                What::Seen(run) => _ = started.seen.insert(*run),
                What::Begun(_) | What::Heard(_) | What::Wished(_) => {}
            }
        }
        started
    }

    /// The sockets that were opened for this run of the unit.
    pub(crate) fn take_opened(&mut self, run: RunId, unit: &str) -> Option<Vec<OwnedFd>> {
        self.opened.remove(&(run, notes::unit(unit)))
    }

    /// The pipe of a run of which a process was started; within it None: it was passed on.
    pub(crate) fn output_of(&mut self, run: RunId) -> Option<Option<OwnedFd>> {
        let mut of_run = self.of.range_mut((run, FIRST)..).take_while(|((of, _), _)| *of == run);
        of_run.next().map(|(_, one)| one.output.take())
    }

    /// Units, as notes name them, and the runs of them of which a process or a socket is there.
    fn runs(&self) -> BTreeSet<(u64, RunId)> {
        let opened = self.opened.keys().map(|(run, unit)| (*unit, *run));
        self.of.values().map(|one| (one.begun.unit, one.begun.run)).chain(opened).collect()
    }

    /// The pids of those of whose end nothing was noted.
    fn living(&self) -> BTreeSet<i32> {
        self.of.values().filter(|one| !one.ended).map(|one| one.pid.as_raw()).collect()
    }

    fn take(&mut self, run: RunId, part: Part, unit: u64) -> Option<One> {
        let is_it = self.of.get(&(run, part)).is_some_and(|one| one.begun.unit == unit);
        is_it.then(|| self.of.remove(&(run, part))).flatten()
    }

    fn others_of(&mut self, unit: u64) -> Vec<One> {
        let keys = self.of.iter().filter(|(_, one)| one.begun.unit == unit);
        let keys: Vec<_> = keys.map(|(key, _)| *key).collect();
        keys.into_iter().filter_map(|key| self.of.remove(&key)).collect()
    }
}

/// What of the notes is put again. What was put before and made this program crash is not put just
/// so a second time: first what anybody wished or said is left out, then all.
pub(crate) fn heeded(past: &Past) -> Vec<Note> {
    let is_fact = |note: &&Note| match note.what {
        What::Ended(_) | What::Begun(_) | What::Opened(_) => true,
        What::Heard(_) | What::Wished(_) | What::Seen(_) => false,
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

/// It has become its program; or it never will do anything as that, for it is stopped before the
/// program's first instruction: whoever asks ends it then.
fn has_its_program(pid: Pid) -> bool {
    if process::has_executed(pid) {
        return true;
    }
    // No way out of the kernel leads past a pending stop: an exec that ends from now on has begun
    // nothing. Looked at without it, the program could begin between the look and the end.
    let stopped = wait::is_child(pid) && signal::kill(pid, STOP).is_ok();
    let has_begun = stopped && process::has_executed(pid);
    if has_begun {
        let _ = signal::kill(pid, GO_ON);
    }
    has_begun
}

/// Before all other lines of a run.
const FIRST: Part = Part::Condition(0);

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
        self.tracker.knows_begun(self.lineage.started.living());
        self.kill_what_nobody_noted();
        self.number_as_before();
        self.now = notes.iter().map(|note| note.at).find(is_known).unwrap_or(self.now);
        let notify = self.notify.as_mut();
        // Heard in the next turn, whatever else that did.
        let mut heard = notify.map(|notify| notify.take_waiting()).unwrap_or_default();
        let turns = turns::of(notes);
        let left_by = turns::left_by(&turns, |pid| self.tracker.is_known(pid));
        for (notes, by) in turns.into_iter().zip(left_by) {
            self.replay_turn(std::mem::take(&mut heard), notes, by);
        }
        self.hear_these(heard);
        self.settle();
        self.now = clock::now();
        self.machine.nothing_begun_before();
        self.kill_unclaimed();
        self.reconcile();
        self.look_at_reports(limit::CHILDREN_UNKNOWN_MOST);
        self.settle();
    }

    /// The machine gives the runs that were begun the numbers they had, whatever was not noted.
    fn number_as_before(&mut self) {
        let runs = self.lineage.started.runs();
        if runs.is_empty() {
            return;
        }
        let units = &self.machine.generation().units;
        let named: BTreeMap<u64, UnitId> = units
            .iter()
            .zip(0..)
            .map(|(unit, number)| (notes::unit(unit.name.as_str()), UnitId(number)))
            .collect();
        let known = runs.iter().filter_map(|(unit, run)| Some((*named.get(unit)?, *run)));
        let known: Vec<(UnitId, RunId)> = known.collect();
        self.machine.begun_before(known);
    }

    /// One turn of the loop, with what it took from the notes; what those who ended in it had left had begun
    /// `by` then. What nobody has read yet is left where it is: it may be by somebody who is still to be taken up.
    fn replay_turn(&mut self, mut heard: Vec<Datagram>, notes: Vec<Note>, by: u64) {
        let latest = notes.iter().map(|note| note.at).max();
        self.now = latest.filter(is_known).unwrap_or(self.now);
        let (mut ends, mut seen, mut wished) = (Vec::new(), Vec::new(), Vec::new());
        let mut opened = Vec::new();
        for note in notes {
            match note.what {
                What::Heard(bytes) => heard.push(Datagram::again(note.pid, &bytes)),
                What::Ended(exit) => ends.push(Ended { pid: Pid::from_raw(note.pid), exit }),
                What::Seen(run) => seen.push(run),
                What::Wished(wish) => match *wish {
                    Wished::Event(event @ Event::Fire(_)) => self.facts.push_back(event),
                    // That there was this turn is all it says: what is due follows.
                    Wished::Event(Event::Tick) => {}
                    wish @ (Wished::Event(_) | Wished::End(_) | Wished::Haste(_)) => {
                        wished.push(wish);
                    }
                },
                What::Opened(note) => opened.push(note.run),
                What::Begun(_) => {}
            }
        }
        self.settle();
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
        seen.into_iter().for_each(|run| self.ready(run));
        self.settle();
        let ends = ends.into_iter().map(|ended| {
            wait::reaped_before(ended.pid);
            self.let_go_of(ended)
        });
        let ends = ends.collect();
        self.tracker.adopt_left(Some(by));
        self.tell_ends(ends, false);
        self.emptied();
        self.settle();
        for wish in wished {
            match wish {
                // It was granted then; refused now, it has no effect.
                Wished::Event(event) => drop(self.wish(event)),
                Wished::End(how) => self.shut_down(how),
                Wished::Haste(haste) => _ = self.hasten(haste),
            }
        }
        self.look_at_reports(limit::CHILDREN_UNKNOWN_MOST);
        self.settle();
        self.runs_due();
        if self.machine.next_deadline().is_some_and(|at| at <= self.now) {
            self.facts.push_back(Event::Tick);
        }
        self.settle();
    }

    /// The line was begun by the image before this one: its process is the run's. False: it was not,
    /// and nothing of what was begun for the unit instead is left beside it.
    pub(crate) fn take_up(&mut self, run: RunId, part: Part) -> bool {
        if self.lineage.started.of.is_empty() {
            return false;
        }
        let Some(running) = self.runs.get(run) else { return false };
        let (name, unit) = (running.name.clone(), notes::unit(running.name.as_str()));
        let found = self.lineage.started.take(run, part, unit);
        let is_clear = found.as_ref().is_some_and(|one| self.is_clear(one));
        let (spec, targets) = (running.spec(), running.targets.clone());
        let (true, Some(spec)) = (is_clear, spec) else {
            let others = self.lineage.started.others_of(unit);
            found.into_iter().chain(others).for_each(|one| self.kill_one(&one));
            return false;
        };
        let Some(mut one) = found else { return false };
        if let Some(running) = self.runs.get_mut(run) {
            running.begun = true;
            if part == Part::Start(spec.exec_start.len().saturating_sub(1)) {
                (running.output, running.spec) = (None, None);
            }
        }
        let others = self.lineage.started.of.values();
        let others: BTreeSet<String> = others.filter_map(|one| one.cgroup(&self.tracker)).collect();
        self.tracker.take_up(run, one.pid, name.as_str(), &others);
        for aside in &one.begun.asides {
            if let Some(logger) = &mut self.logger {
                let told = run_log(aside.run, &name, &targets, &spec, aside.log);
                logger.take_up(told, one.asides.remove(&aside.run));
            }
        }
        let child = if one.ended {
            self.tracker.had_started(run, one.pid, one.begun.born);
            self.spawner.take_up_gone(one.pid, one.begun.slot, name.as_str())
        } else {
            self.spawner.take_up(one.pid, one.begun.slot, name.as_str())
        };
        self.keep(run, part, &spec, child);
        true
    }

    /// It has become its program, or has ended: before that, it is ended and begun anew, and
    /// the program is started once all the same. A program that is to say that it is ready by a
    /// descriptor, and has not, says it to nobody any more.
    fn is_clear(&self, one: &One) -> bool {
        let spec = self.runs.get(one.begun.run).and_then(|running| running.spec());
        let by_descriptor = spec.is_some_and(|spec| {
            spec.particular.as_ref().is_some_and(|particular| particular.ready_fd.is_some())
        });
        let is_heard = !by_descriptor || self.lineage.started.seen.contains(&one.begun.run);
        let has_ended = one.ended || process::stat(one.pid).is_some_and(|stat| stat.ended);
        has_ended || (is_heard && has_its_program(one.pid))
    }

    /// Of what was begun since the state was kept, what nobody noted: it is of no run.
    fn kill_what_nobody_noted(&mut self) {
        let noted = self.lineage.started.of.keys().map(|(run, _)| *run).collect();
        let noted = self.tracker.unknown_cgroups_of(&noted);
        self.kill_unknown_cgroups(&noted);
    }

    /// What was noted as started, and the machine did not order again.
    fn kill_unclaimed(&mut self) {
        let left = std::mem::take(&mut self.lineage.started.of);
        left.values().for_each(|one| self.kill_one(one));
        self.lineage.started = Started::default();
        self.tracker.knows_begun(BTreeSet::new());
    }

    fn kill_one(&mut self, one: &One) {
        if one.ended {
            return;
        }
        let run = one.begun.run;
        let is_its_units = self.runs.get(run).is_some_and(|running| {
            notes::unit(running.name.as_str()) == one.begun.unit && !running.lines.is_empty()
        });
        let what = format!("process {} (run {}) was begun in the crash", one.pid, run.0);
        self.say(Level::Warning, format_args!("{what} and can not be taken up: it is killed"));
        let since = self.lineage.killed_since.get_or_insert(one.begun.born);
        *since = one.begun.born.min(*since);
        if is_its_units {
            // What it has left in the run's cgroup can not be told from the rest of it.
            self.tracker.kill(run);
        } else if let Some(name) = one.cgroup(&self.tracker) {
            self.tracker.kill_unknown(&name);
        }
        self.spawner.give_up(one.pid, one.begun.slot);
        if wait::is_child(one.pid) {
            // Not reaped, so the pid is its own.
            let _ = signal::kill(one.pid, KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::spec::Exit;

    fn note(pid: i32, what: What) -> Note {
        Note { what, pid, at: Time::from_nanos(1), turn: 1, reaped: None }
    }

    fn begun(run: u64) -> What {
        What::Begun(Begun {
            run: RunId(run),
            part: Part::Start(0),
            slot: u32::MAX,
            output: (-1, 0),
            unit: notes::unit("web"),
            ahead: None,
            asides: Vec::new(),
            born: 0,
        })
    }

    #[test]
    fn who_got_the_pid_of_one_that_had_ended_has_not_ended() {
        let ended = || note(42, What::Ended(Exit::Code(0)));
        let living = |notes: &[Note]| {
            let of = Started::among(notes).of;
            of.values().filter(|one| !one.ended).map(|one| one.begun.run.0).collect::<Vec<u64>>()
        };
        assert_eq!(living(&[ended(), note(42, begun(7))]), [7]);
        assert_eq!(living(&[note(42, begun(7)), ended()]), [0; 0]);
        assert_eq!(living(&[ended(), note(42, begun(7)), ended()]), [0; 0]);
        assert_eq!(living(&[note(42, begun(7)), ended(), note(42, begun(9))]), [9]);
    }
}
