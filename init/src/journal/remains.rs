//! All notes that are left in the ring, whatever the state knew of: for an init that has lost its state
//! ([`crate::anew`]). What is noted, and how it is read entry by entry, is [`super::notes`]'s.

use super::done;
use super::doors::Doors;
use super::intent::Meant;
use super::notes::{self, BYTES, Begun, ENTRIES, Hand, Note, Past, What};
use super::standing::{Standing, Standings};
use crate::cgroup::mark;
use crate::process;
use crate::run::procedure::Part;
use crate::sys::Pid;
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Exit;
use std::collections::{BTreeMap, BTreeSet};

/// Numbers above this are no note's: a damaged entry must not use up those that come.
const HIGHEST: u64 = u64::MAX / 2;

/// What is left.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    /// All of it, in order, and behind what a next image notes.
    pub(crate) past: Past,
    /// Processes that were begun and of which no end is known, by pid.
    pub(crate) alive: BTreeMap<i32, Begun>,
    /// By unit: the line that was begun last and has ended, and how.
    pub(crate) ended: BTreeMap<u64, (Begun, Exit)>,
    /// Scripts that are done, by unit ([`done`]). None of a unit of which a later run was begun.
    pub(crate) done: BTreeMap<u64, (RunId, Exit)>,
    /// How far each unit is.
    pub(crate) standings: Standings,
    /// How these processes have ended.
    pub(crate) ends: BTreeMap<i32, Exit>,
    /// What the machine was at.
    pub(crate) meant: Option<Meant>,
    /// Whose each socket is. None: nobody knows.
    pub(crate) doors: Option<Doors>,
    /// The highest number of a run that is noted.
    pub(crate) highest: u64,
    /// Bit n-1: signal n was not dealt with.
    pub(crate) rung: u64,
    /// Nothing was noted over what was noted before, and nothing is missing: who is not in it was not
    /// begun, and who has ended is noted so.
    pub(crate) is_whole: bool,
    /// An image before this one had its first units, or that can not be told.
    pub(crate) was_booted: bool,
    /// Pids of processes that were begun, and are another's by now; their units.
    pub(crate) others: BTreeMap<i32, u64>,
}

impl Remains {
    /// Total: any bytes may be there.
    pub(crate) fn read(bytes: &[u8]) -> Remains {
        let numbers = (1..=ENTRIES).filter_map(|place| {
            let seq = notes::number_at(bytes, place)?;
            (seq > 0 && seq < HIGHEST && notes::place(seq) == notes::place(place)).then_some(seq)
        });
        let mut found: BTreeMap<u64, Note> = BTreeMap::new();
        let (mut first, mut last, mut count) = (u64::MAX, 0, 0);
        for seq in numbers {
            (first, last, count) = (first.min(seq), last.max(seq), count + 1);
            if let Some((Some(note), _)) = notes::one(bytes, seq) {
                found.insert(seq, note);
            }
        }
        let rung = notes::rung(bytes);
        let hand = Hand::of(bytes);
        let mut standings = Standings::read(bytes.get(notes::STANDING..).unwrap_or_default());
        for (seq, note) in &found {
            if let What::Begun(begun) = &note.what {
                standings.begun(*seq, note.pid, begun);
            }
        }
        let notes: Vec<Note> = found.into_values().chain(hand.as_notes()).collect();
        let done = done::read(bytes.get(notes::DONE..).unwrap_or_default());
        let highest = done.values().map(|(run, _)| run.0).fold(standings.highest(), u64::max);
        let is_there = bytes.len() >= BYTES && !notes::is_missing(bytes);
        let is_whole = is_there && (last == 0 || (first == 1 && count == last));
        let was_booted = !is_there || last > 0 || !done.is_empty();
        let meant = Meant::read(bytes.get(notes::INTENT..).unwrap_or_default());
        let doors = Doors::read(bytes.get(notes::DOORS..).unwrap_or_default());
        let remains = Remains { done, standings, meant, highest, rung, ..Remains::default() };
        let mut remains = Remains { doors, is_whole, was_booted, ..remains };
        for note in &notes {
            match &note.what {
                What::Begun(begun) => remains.begun(note.pid, begun),
                What::Opened(opened) => remains.highest = remains.highest.max(opened.run.0),
                What::Ended(exit) => remains.has_ended(note.pid, *exit),
                What::Heard(_) | What::Wished(_) | What::Seen(_) | What::Learnt(_) => {}
            }
        }
        remains.past = Past { notes, known: last, last, hand, ..Past::default() };
        remains
    }

    fn begun(&mut self, pid: i32, begun: &Begun) {
        self.highest = self.highest.max(begun.run.0);
        if begun.more.refused.is_some() {
            return;
        }
        self.ended.remove(&begun.unit);
        if self.done.get(&begun.unit).is_some_and(|(run, _)| *run < begun.run) {
            self.done.remove(&begun.unit);
        }
        if pid > 0 {
            self.ends.remove(&pid);
            self.alive.insert(pid, begun.clone());
        }
    }

    /// This process has ended so.
    pub(crate) fn has_ended(&mut self, pid: i32, exit: Exit) {
        self.ends.insert(pid, exit);
        if let Some(begun) = self.alive.remove(&pid) {
            self.ended.insert(begun.unit, (begun, exit));
        }
    }

    /// Their ends were not noted: nobody takes what has their pids now for what was begun.
    pub(crate) fn tell_others(&mut self) {
        let is_another = |pid: i32, begun: &Begun| {
            process::stat(Pid::from_raw(pid)).is_some_and(|stat| !begun.may_be(stat.began))
        };
        for (pid, begun) in self.alive.extract_if(.., |pid, begun| is_another(*pid, begun)) {
            self.others.insert(pid, begun.unit);
        }
    }

    /// Why nobody knows without cgroups whose everything is that lives. None: it is known.
    pub(crate) fn unknown(&self) -> Option<String> {
        if !self.is_whole && !process::is_proc_ours() {
            return Some("what lives is neither noted nor shown by a /proc".to_string());
        }
        self.stranger().map(|pid| format!("process {pid} lives"))
    }

    /// A child of init that is neither noted nor one of its own helpers, nor marked as a run that is known, where some
    /// notes are lost.
    fn stranger(&self) -> Option<i32> {
        let mut standing: BTreeSet<i32> =
            self.standings.of.values().flat_map(Standing::pids).collect();
        let mut marked = mark::children();
        let runs = self.standings.of.values().map(|standing| standing.run);
        standing.extend(runs.filter_map(|run| marked.remove(&run)).flatten());
        // Of such a run nobody is noted.
        let is_headless = self.standings.of.values().any(|it| it.course.is_headless());
        let is_whole = self.is_whole && !is_headless;
        let is_known =
            |pid: &i32| is_whole || self.alive.contains_key(pid) || standing.contains(pid);
        let lives = |pid: Pid| process::stat(pid).is_some_and(|stat| !stat.ended);
        process::children().into_iter().filter(|pid| !is_known(pid)).find(|pid| {
            let pid = Pid::from_raw(*pid);
            lives(pid) && !process::runs_this_program(pid)
        })
    }

    /// Since the last start of this unit was over, who had this pid has ended: a pid file that names it still
    /// is of a daemon that is gone, and whoever has the pid now is another.
    pub(crate) fn is_over(&self, unit: u64, pid: i32) -> bool {
        let notes = &self.past.notes;
        let is_start = |begun: &Begun| {
            let is_it = begun.unit == unit && begun.more.refused.is_none();
            is_it && matches!(begun.part, Part::Start(_))
        };
        let launched =
            notes.iter().rposition(|it| matches!(&it.what, What::Begun(begun) if is_start(begun)));
        let Some((launcher, rest)) = launched.and_then(|at| notes.get(at..)?.split_first()) else {
            return false;
        };
        let has_ended =
            |of: i32| move |note: &Note| note.pid == of && matches!(note.what, What::Ended(_));
        let mut rest = rest.iter();
        rest.by_ref().any(has_ended(launcher.pid)) && rest.any(has_ended(pid))
    }

    /// What has been noted of this process since it was begun.
    pub(crate) fn of(&self, pid: i32) -> impl Iterator<Item = &What> {
        let notes = &self.past.notes;
        let began = |note: &Note| note.pid == pid && matches!(note.what, What::Begun(_));
        // Noted over by now: all that is left came after it.
        let from = notes.iter().rposition(began).unwrap_or(0);
        let is_its = move |note: &&Note| note.pid == pid || matches!(note.what, What::Seen(_));
        notes.iter().skip(from).filter(is_its).map(|note| &note.what)
    }
}

#[cfg(test)]
mod tests {
    use super::super::notes::tests::written;
    use super::super::notes::{Kind, place};
    use super::*;
    use crate::found::{asked_end, asked_haste};
    use crate::journal::notes::{More, Wished};
    use crate::shutdown::Haste;
    use crate::sys::notes as writer;
    use groundstate_units::machine::event::Shutdown;
    use groundstate_units::time::Time;

    #[test]
    fn an_end_is_known_and_how_little_it_was_to_be_waited_for() {
        let wishes = [
            Wished::End(Shutdown::Halt),
            Wished::Haste(Haste::Kill),
            Wished::End(Shutdown::Reboot),
        ];
        let noted = |count: usize| {
            let bytes = written(|| {
                for wish in wishes.iter().take(count) {
                    writer::put_text(Kind::Wished, &postcard::to_allocvec(wish).unwrap());
                }
            });
            let remains = Remains::read(&bytes);
            (asked_end(&remains), asked_haste(&remains))
        };
        assert_eq!(noted(0), (None, None));
        assert_eq!(noted(1), (Some(Shutdown::Halt), None));
        assert_eq!(noted(3), (Some(Shutdown::Reboot), Some(Haste::Kill)));
    }

    #[test]
    fn all_that_the_ring_holds_is_read() {
        let few = written(|| {
            writer::put_text(Kind::Seen, &9u64.to_ne_bytes());
            writer::known(1);
            writer::put_text(Kind::Seen, &8u64.to_ne_bytes());
        });
        let read = Remains::read(&few);
        assert_eq!((read.past.notes.len(), read.past.last, read.is_whole), (2, 2, true));
        let many = written(|| {
            for _ in 0..ENTRIES {
                writer::put_text(Kind::Seen, &1u64.to_ne_bytes());
            }
            writer::known(ENTRIES);
            writer::put_text(Kind::Seen, &2u64.to_ne_bytes());
        });
        let read = Remains::read(&many);
        assert_eq!(read.past.notes.len() as u64, ENTRIES);
        assert_eq!((read.past.last, read.is_whole), (ENTRIES + 1, false));
        // A number that no entry there can have is no note's.
        let mut damaged = few;
        damaged[place(2)] = 9;
        let read = Remains::read(&damaged);
        assert_eq!((read.past.notes.len(), read.past.last), (1, 1));
        for length in [0, 1, place(1) + 3] {
            assert!(Remains::read(&damaged[..length]).past.notes.is_empty());
        }
        assert!(Remains::read(&vec![255; BYTES]).past.notes.is_empty());
    }

    #[test]
    fn what_was_not_noted_is_missing_for_ever() {
        let seen = || writer::put_text(Kind::Seen, &1u64.to_ne_bytes());
        let full = || (0..ENTRIES).for_each(|_| seen());
        assert!(Remains::read(&written(full)).is_whole);
        let more = || {
            full();
            seen();
            writer::known(ENTRIES);
        };
        assert!(!Remains::read(&written(more)).is_whole);
        assert!(!Remains::read(&written(writer::are_missing)).is_whole);
        let mut damaged = written(|| (0..3).for_each(|_| seen()));
        damaged[place(2)] = 0;
        assert!(!Remains::read(&damaged).is_whole);
    }

    #[test]
    fn a_pid_that_has_ended_since_its_unit_was_started_is_not_the_one_that_was_left() {
        let begun = |unit, part| {
            let (run, output) = (RunId(1), (-1, 0));
            let (ahead, asides) = (None, Vec::new());
            What::Begun(Begun {
                run,
                part,
                slot: 0,
                output,
                unit,
                ahead,
                asides,
                born: 0,
                more: More::default(),
            })
        };
        let ended = || What::Ended(Exit::Code(0));
        let is_over = |all: Vec<(i32, What)>| {
            let note = |(pid, what)| Note { what, pid, at: Time::ZERO, turn: 0, reaped: None };
            let past = Past { notes: all.into_iter().map(note).collect(), ..Past::default() };
            Remains { past, ..Remains::default() }.is_over(7, 50)
        };
        let start = || (40, begun(7, Part::Start(0)));
        assert!(is_over(vec![start(), (40, ended()), (50, ended())]));
        // Before the daemon was there, of another unit's start, or of a line beside it, it says nothing.
        assert!(!is_over(vec![(50, ended()), start(), (40, ended())]));
        assert!(!is_over(vec![start(), (50, ended()), (40, ended())]));
        assert!(!is_over(vec![(40, begun(8, Part::Start(0))), (40, ended()), (50, ended())]));
        assert!(!is_over(vec![(40, begun(7, Part::Pre(0))), (40, ended()), (50, ended())]));
        assert!(!is_over(vec![start(), (40, ended())]) && !is_over(Vec::new()));
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn a_process_that_began_at_another_time_is_another() {
        let begun = crate::clock::ticks();
        let child = crate::sys::process::fork_whole(|| {
            nix::unistd::pause();
            0
        });
        let child = child.unwrap();
        let others = |born: u64| {
            let (run, part, slot, output, unit) = (RunId(1), Part::Start(0), 0, (-1, 0), 7);
            let (ahead, asides) = (None, Vec::new());
            let begun =
                Begun { run, part, slot, output, unit, ahead, asides, born, more: More::default() };
            let mut remains = Remains::default();
            remains.begun(child.as_raw(), &begun);
            remains.tell_others();
            (remains.alive.len(), remains.others)
        };
        assert_eq!(others(begun), (1, BTreeMap::new()));
        let is_another = (0, BTreeMap::from([(child.as_raw(), 7)]));
        assert_eq!(others(begun.saturating_sub(crate::limit::BEING_BORN + 100)), is_another);
        assert_eq!(others(begun + 100), is_another);
        crate::sys::signal::kill(child, 9).unwrap();
        crate::sys::wait::await_end(child).unwrap();
    }
}
