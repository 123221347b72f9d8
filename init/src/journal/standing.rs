//! How far each unit is: for every unit with a run one place, written over as the run goes on, so that
//! it is known however much was noted since. Behind the scripts that are done
//! ([`super::notes::STANDING`]); for an init whose state is lost ([`crate::anew`]).
//!
//! It is written at the end of whatever a run's course does ([`crate::run`]), with the number of the last
//! note there was then. What is noted of the same unit after that is newer: the line just begun at most.
//! Of others nothing follows: the course of one may be under way as that of another is written.
//! Who has no place has no run, unless some found none: that stands in the head, for good.
//!
//! The head is `form: u64, lost: u64, forgotten: u64`: of a unit without a place notes up to that number say
//! nothing. A place is `check: u32, length: u32, unit: u64, newest: u64`, then one postcard value;
//! without a length it is nobody's any more, and all zeroes never was anybody's. Reading is total:
//! any bytes may be there.

use super::frame::crc;
use super::notes::Begun;
use crate::clock;
use crate::process;
use crate::run::procedure::{Course, Part};
use crate::sys::{Pid, notes as writer, wait};
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Exit;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes before the first place.
const HEAD: usize = 64;
/// What begins it; 0: nothing was written yet.
const FORM: u64 = u64::from_ne_bytes(*b"gs-stnd\x02");
/// Of the head: a place was to be had for not all.
const LOST: usize = 8;
/// Of the head: the highest number that stood in a place which another unit has now, or found none.
const FORGOTTEN: usize = 16;
/// Bytes of a place.
pub(crate) const ENTRY: usize = 144;
/// Places. Units beyond are not known after a lost state.
const ENTRIES: usize = if cfg!(miri) { 128 } else { 2048 };
/// Bytes of all.
pub(crate) const BYTES: usize = HEAD + ENTRY * ENTRIES;
/// Places one unit may have.
const AROUND: usize = 64;
/// Before the value.
const BEFORE: usize = 24;
/// Where its length stands.
const LENGTH: usize = 4;
/// Where its unit does.
const UNIT: usize = 8;
/// Where the number of the last note does.
const NEWEST: usize = 16;
/// Lines of one run that are known of: its main process, and what is run beside that.
const LINES: usize = 6;

/// How far one is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Standing {
    pub(crate) run: RunId,
    /// When it was written, as [`crate::clock::ticks`] has it: a process that began later has only got
    /// the pid of one.
    pub(crate) at: u64,
    /// Its cgroup was made ahead, as this one.
    pub(crate) ahead: Option<u64>,
    /// The main process; 0: there is none.
    pub(crate) main: i32,
    /// Lines that init has begun.
    pub(crate) lines: Vec<(i32, Part)>,
    pub(crate) course: Course,
    /// The inode of the pipe of its `ready-fd`, while that is read.
    pub(crate) ready: Option<u64>,
}

impl Standing {
    /// Processes that are known of.
    pub(crate) fn pids(&self) -> impl Iterator<Item = i32> {
        let lines = self.lines.iter().map(|(pid, _)| *pid);
        lines.chain([self.main]).filter(|pid| *pid > 0)
    }

    /// Those that live, or were not reaped: no others that have got their pids.
    pub(crate) fn living(&self) -> impl Iterator<Item = i32> {
        self.pids().filter(|pid| {
            let of = Pid::from_raw(*pid);
            let stat = process::stat(of);
            match stat {
                Some(stat) if stat.began > self.at => false,
                Some(stat) => !stat.ended || wait::is_child(of),
                None => wait::is_child(of),
            }
        })
    }

    /// The same, looked at now: its processes are those that have these pids.
    pub(crate) fn seen(&self, now: u64) -> Standing {
        Standing { at: self.at.min(now), ..self.clone() }
    }

    /// It goes on though nothing of it lives: the line it was at has ended, or its end is not over yet.
    pub(crate) fn goes_on_alone(&self, ends: &BTreeMap<i32, Exit>) -> bool {
        let has_ended = |(pid, part): &(i32, Part)| {
            let is_it = self.course.line() == Some(*part);
            is_it && (!self.course.has_main() || ends.contains_key(pid))
        };
        self.course.is_to_go_on() || self.lines.iter().any(has_ended)
    }

    /// The same with as many lines as there is room for: what its course hangs on comes first, and a reload
    /// last, for of these there may be any number at once.
    fn shortened(&self) -> Standing {
        let mut lines = self.lines.clone();
        lines.sort_by_key(|(pid, part)| {
            let is_awaited = *pid == self.main || self.course.line() == Some(*part);
            (!is_awaited, matches!(part, Part::Reload(_)))
        });
        lines.truncate(LINES);
        Standing { lines, ..self.clone() }
    }

    /// One more line was begun since.
    fn goes_on(&mut self, pid: i32, begun: &Begun) {
        let line = (pid, begun.part);
        if let Some(before) = self.course.line_before(begun.part) {
            self.lines.retain(|(_, part)| *part != before);
        }
        if !self.lines.contains(&line) {
            self.lines.push(line);
        }
        // Who gets its pid from now on is another.
        self.at = clock::ticks();
        self.ahead = begun.ahead.or(self.ahead);
        self.course.goes_on(begun.part);
    }
}

/// Where this unit may stand, behind the head.
fn places(unit: u64) -> impl Iterator<Item = usize> {
    let first = usize::try_from(unit % ENTRIES as u64).unwrap_or(0);
    (0..AROUND).map(move |next| HEAD + first.wrapping_add(next) % ENTRIES * ENTRY)
}

/// What is written of it. None: it is too long.
fn entry(unit: u64, newest: u64, standing: &Standing) -> Option<[u8; ENTRY]> {
    let mut bytes = [0; ENTRY];
    let (head, body) = bytes.split_first_chunk_mut::<BEFORE>()?;
    let length = match standing.lines.len() <= LINES {
        true => postcard::to_slice(standing, body).ok()?.len(),
        false => postcard::to_slice(&standing.shortened(), body).ok()?.len(),
    };
    let length = u32::try_from(length).ok()?.to_ne_bytes();
    let fields = [&[0; 4][..], &length, &unit.to_ne_bytes(), &newest.to_ne_bytes()];
    put(head, &fields.concat());
    let check = crc(bytes.get(4..)?).to_ne_bytes();
    put(&mut bytes, &check);
    Some(bytes)
}

/// The unit is as far as this, by all that was noted so far. False: there was no place, for the first time.
pub(crate) fn stands(unit: u64, standing: &Standing) -> bool {
    let mut is_written = true;
    writer::with_standings(|table, last| {
        write_word(table, 0, FORM);
        let at = place_of(table, unit, true);
        let before = at.and_then(|at| Place::of(table.get(at..)?).left());
        if let Some((_, newest)) = before.filter(|(of, _)| *of != unit) {
            forget(table, newest);
        }
        match (at.and_then(|at| table.get_mut(at..)), entry(unit, last, standing)) {
            (Some(there), Some(entry)) => put(there, &entry),
            (_, _) => {
                is_written = word(table, LOST) != Some(0);
                forget(table, last);
                write_word(table, LOST, 1);
            }
        }
    });
    is_written
}

/// Of something that has a run it is not known.
pub(crate) fn are_lost() {
    writer::with_standings(|table, last| {
        forget(table, last);
        write_word(table, LOST, 1);
    });
}

/// What was noted so far is of no unit that has no place.
fn forget(table: &mut [u8], newest: u64) {
    let highest = word(table, FORGOTTEN).unwrap_or(0).max(newest);
    write_word(table, FORGOTTEN, highest);
}

fn write_word(table: &mut [u8], at: usize, value: u64) {
    table.get_mut(at..).into_iter().for_each(|to| put(to, &value.to_ne_bytes()));
}

/// It has no run any more.
pub(crate) fn stands_no_more(unit: u64) {
    writer::with_standings(|table, last| match place_of(table, unit, false) {
        Some(at) => leave(table, at, last),
        None if word(table, LOST) != Some(0) => forget(table, last),
        None => {}
    });
}

/// Nobody else has a run: of what was done again of the past nothing was written.
pub(crate) fn stand_alone(units: &BTreeSet<u64>) {
    writer::with_standings(|table, last| {
        for at in (0..ENTRIES).map(|place| HEAD + place * ENTRY) {
            let place = table.get(at..).map(Place::of);
            if matches!(place, Some(Place::Of(unit)) if !units.contains(&unit)) {
                leave(table, at, last);
            }
        }
    });
}

/// It is nobody's any more.
fn leave(table: &mut [u8], at: usize, last: u64) {
    write_word(table, at + NEWEST, last);
    table.get_mut(at + LENGTH..).into_iter().for_each(|to| put(to, &[0; 4]));
}

fn put(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

/// The place of this unit, or the first that it may have.
fn place_of(table: &[u8], unit: u64, may_be_new: bool) -> Option<usize> {
    let mut free = None;
    for at in places(unit) {
        match Place::of(table.get(at..)?) {
            Place::Of(of) | Place::Left(of, _) if of == unit => return Some(at),
            Place::Of(_) => {}
            Place::Left(..) => free = free.or(Some(at)),
            Place::Empty => {
                free = free.or(Some(at));
                break;
            }
        }
    }
    free.filter(|_| may_be_new)
}

/// Whose a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It never was anybody's: nobody has one behind it in vain.
    Empty,
    /// It was this unit's, up to that note.
    Left(u64, u64),
    /// It is this unit's.
    Of(u64),
}

impl Place {
    /// Of its first bytes.
    fn of(bytes: &[u8]) -> Place {
        match (word(bytes, UNIT).unwrap_or(0), number(bytes, LENGTH).unwrap_or(0)) {
            (0, 0) => Place::Empty,
            (unit, 0) => Place::Left(unit, word(bytes, NEWEST).unwrap_or(0)),
            (unit, _) => Place::Of(unit),
        }
    }

    fn left(self) -> Option<(u64, u64)> {
        match self {
            Place::Left(unit, newest) => Some((unit, newest)),
            Place::Empty | Place::Of(_) => None,
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk::<8>().map(|bytes| u64::from_ne_bytes(*bytes))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk::<4>().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn read_one(bytes: &[u8]) -> Option<(u64, u64, Standing)> {
    let (unit, newest) = (word(bytes, UNIT)?, word(bytes, NEWEST)?);
    let length = number(bytes, LENGTH)?;
    if crc(bytes.get(4..)?) != number(bytes, 0)? {
        return None;
    }
    let end = BEFORE.checked_add(usize::try_from(length).ok()?)?;
    let standing: Standing = postcard::from_bytes(bytes.get(BEFORE..end)?).ok()?;
    (standing.run.0 > 0 && standing.run.0 < u64::MAX / 2).then_some((unit, newest, standing))
}

/// All of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Standings {
    pub(crate) of: BTreeMap<u64, Standing>,
    /// Who is not among them has no run.
    pub(crate) is_whole: bool,
    /// The last note that is known of each; of those too that have no run any more.
    #[serde(skip)]
    newest: BTreeMap<u64, u64>,
    /// The same of all others.
    #[serde(skip)]
    forgotten: u64,
}

impl Standings {
    /// Total: any bytes may be there.
    pub(crate) fn read(bytes: &[u8]) -> Standings {
        let is_ours = matches!(word(bytes, 0), Some(0 | FORM)) && bytes.len() >= BYTES;
        if !is_ours {
            return Standings { forgotten: u64::MAX, ..Standings::default() };
        }
        let forgotten = word(bytes, FORGOTTEN).unwrap_or(0);
        let is_whole = word(bytes, LOST) == Some(0);
        let mut standings = Standings { is_whole, forgotten, ..Standings::default() };
        let places = bytes.get(HEAD..).unwrap_or_default();
        for place in places.chunks_exact(ENTRY).take(ENTRIES) {
            match (Place::of(place), read_one(place)) {
                (Place::Of(_), Some((unit, newest, standing))) => {
                    standings.of.insert(unit, standing);
                    standings.newest.insert(unit, newest);
                }
                // Whose it is nobody knows.
                (Place::Of(_), None) => {
                    (standings.is_whole, standings.forgotten) = (false, u64::MAX);
                }
                (Place::Left(unit, newest), _) => _ = standings.newest.insert(unit, newest),
                (Place::Empty, _) => {}
            }
        }
        standings
    }

    /// Its own place says that it has no run any more, whatever is not known of others.
    pub(crate) fn is_over(&self, unit: u64) -> bool {
        !self.of.contains_key(&unit) && self.newest.contains_key(&unit)
    }

    /// This was noted.
    pub(crate) fn begun(&mut self, seq: u64, pid: i32, begun: &Begun) {
        let newest = self.newest.get(&begun.unit).copied().unwrap_or(self.forgotten);
        if seq <= newest || pid <= 0 {
            return;
        }
        let first = || Standing {
            run: begun.run,
            at: 0,
            ahead: None,
            main: 0,
            lines: Vec::new(),
            course: Course::default(),
            ready: None,
        };
        let standing = self.of.entry(begun.unit).or_insert_with(first);
        if standing.run != begun.run {
            *standing = first();
        }
        standing.goes_on(pid, begun);
    }

    /// The highest number of a run.
    pub(crate) fn highest(&self) -> u64 {
        self.of.values().map(|standing| standing.run.0).fold(0, u64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::super::notes::tests::written;
    use super::super::notes::{ENTRIES as NOTES, Kind, More, STANDING};
    use super::*;
    use groundstate_units::machine::there::Ends;

    fn standing(run: u64) -> Standing {
        let lines = vec![(1 << 22, Part::Start(usize::from(u16::MAX))); LINES];
        let run = RunId(run);
        Standing {
            run,
            at: u64::MAX,
            ahead: Some(u64::MAX),
            main: i32::MAX,
            lines,
            course: Course::default(),
            ready: Some(u64::from(u32::MAX)),
        }
    }

    fn read(bytes: &[u8]) -> (Vec<(u64, u64)>, bool) {
        let read = Standings::read(&bytes[STANDING..]);
        (read.of.iter().map(|(unit, standing)| (*unit, standing.run.0)).collect(), read.is_whole)
    }

    #[test]
    fn how_far_each_is_is_known_however_much_was_noted_since() {
        let mut bytes = written(|| {
            for (unit, run) in [(0, 30), (8, 31), (9, 32), (9, 33), (7, 1)] {
                stands(unit, &standing(run));
            }
            for seq in 0..NOTES * 2 {
                writer::put_text(Kind::Seen, &1u64.to_ne_bytes());
                writer::known(seq + 1);
            }
            stands_no_more(8);
            stands_no_more(10);
            writer::while_quiet(|| stands_no_more(9));
        });
        assert_eq!(read(&bytes), (vec![(0, 30), (7, 1), (9, 33)], true));
        assert_eq!(Standings::read(&bytes[STANDING..]).of[&9], standing(33));
        bytes[STANDING + HEAD + 7 * ENTRY + 40] ^= 1;
        assert_eq!(read(&bytes), (vec![(0, 30), (9, 33)], false));
        for damaged in [&[][..], &[255; BYTES], &[0; BYTES - 1], &bytes[STANDING..][..700]] {
            assert!(!Standings::read(damaged).is_whole);
        }
        assert!(Standings::read(&[0; BYTES]).is_whole);
    }

    #[test]
    fn where_there_is_no_place_it_is_said_for_good() {
        let beside = u64::try_from(ENTRIES).unwrap();
        let all = |count: u64| {
            written(move || {
                (0..count).for_each(|n| _ = stands(7 + n * beside, &standing(1)));
                stands_no_more(7);
                stands(7 + count * beside, &standing(2));
            })
        };
        let around = u64::try_from(AROUND).unwrap();
        let (of, is_whole) = read(&all(around));
        assert_eq!((of.len(), is_whole), (AROUND, true));
        assert!(!read(&all(around + 1)).1);
    }

    #[test]
    fn of_many_lines_those_stand_that_its_course_hangs_on() {
        let mut long = standing(3);
        long.lines = (1..).zip([Part::Reload(0); LINES * 2]).collect();
        long.lines.extend([(50, Part::Post(0)), (60, Part::Stop(0)), (70, Part::Start(0))]);
        (long.main, long.at) = (70, 9);
        long.course.goes_on(Part::Stop(0));
        let bytes = written(|| {
            stands(7, &standing(2));
            assert!(stands(7, &long));
        });
        let read = Standings::read(&bytes[STANDING..]);
        let it = &read.of[&7];
        assert!(read.is_whole && it.lines.len() == LINES);
        let first = [(60, Part::Stop(0)), (70, Part::Start(0)), (50, Part::Post(0))];
        assert_eq!((it.run, it.main, &it.lines[..3]), (RunId(3), 70, &first[..]));
    }

    #[test]
    fn who_has_ended_in_what_was_done_again_has_no_place_any_more() {
        let bytes = written(|| {
            writer::put_text(Kind::Seen, &1u64.to_ne_bytes());
            for (unit, run) in [(7, 1), (8, 2)] {
                stands(unit, &standing(run));
            }
            writer::while_quiet(|| stands_no_more(7));
            stand_alone(&BTreeSet::from([8, 9]));
        });
        assert_eq!(read(&bytes), (vec![(8, 2)], true));
        let mut read = Standings::read(&bytes[STANDING..]);
        read.begun(1, 40, &begun(7, 1, Part::Start(0)));
        assert!(!read.of.contains_key(&7), "that was noted before");
    }

    #[test]
    fn who_stands_nowhere_by_its_own_place_is_over_though_others_are_not_known() {
        let bytes = written(|| {
            seen();
            stands(7, &standing(1));
            stands_no_more(7);
            are_lost();
        });
        let mut read = Standings::read(&bytes[STANDING..]);
        assert_eq!((read.is_whole, read.is_over(7), read.is_over(8)), (false, true, false));
        // It has been begun anew since.
        read.begun(1, 40, &begun(7, 2, Part::Start(0)));
        assert!(read.is_over(7), "that was noted before");
        read.begun(2, 40, &begun(7, 2, Part::Start(0)));
        assert!(!read.is_over(7));
    }

    fn begun(unit: u64, run: u64, part: Part) -> Begun {
        let (run, output) = (RunId(run), (-1, 0));
        let (ahead, asides) = (Some(5), Vec::new());
        Begun { run, part, slot: 0, output, unit, ahead, asides, born: 0, more: More::default() }
    }

    /// By the table, and the notes after that.
    fn told(bytes: &[u8], unit: u64, notes: &[(u64, Begun)]) -> Option<Standing> {
        let mut read = Standings::read(&bytes[STANDING..]);
        notes.iter().for_each(|(seq, begun)| read.begun(*seq, 40, begun));
        read.of.remove(&unit)
    }

    fn seen() {
        writer::put_text(Kind::Seen, &1u64.to_ne_bytes());
    }

    #[test]
    fn a_line_that_was_begun_last_is_known_from_its_note() {
        let bytes = written(|| {
            seen();
            stands(7, &Standing { lines: Vec::new(), ahead: None, ..standing(3) });
        });
        let told = |seq, begun: Begun| {
            let standing = told(&bytes, 7, &[(seq, begun.clone()), (seq, begun)]).unwrap();
            assert!(standing.at == u64::MAX || standing.at <= clock::ticks());
            let course = standing.course;
            (
                standing.run.0,
                standing.ahead,
                standing.lines,
                course.line(),
                course.ends() == Ends::Told,
            )
        };
        let part = Part::Pre(0);
        assert_eq!(told(1, begun(7, 3, part)), (3, None, Vec::new(), None, false));
        let line = |run, part, ends| (run, Some(5), vec![(40, part)], Some(part), ends);
        let part = Part::Pre(1);
        assert_eq!(told(2, begun(7, 3, part)), line(3, part, false));
        assert_eq!(told(2, begun(7, 4, part)), line(4, part, false));
        let stop = Part::Stop(0);
        assert_eq!(told(2, begun(7, 3, stop)), line(3, stop, true));
    }

    #[test]
    fn the_line_before_the_one_that_was_begun_last_is_over() {
        let bytes = written(|| _ = stands(7, &Standing { lines: Vec::new(), ..standing(3) }));
        let lines = |parts: &[Part]| {
            let notes: Vec<(u64, Begun)> =
                (1..).zip(parts).map(|(seq, part)| (seq, begun(7, 3, *part))).collect();
            let lines = told(&bytes, 7, &notes).unwrap().lines;
            lines.into_iter().map(|(_, part)| part).collect::<Vec<Part>>()
        };
        let (pre, start, post, stop) = (Part::Pre(0), Part::Start(0), Part::Post(0), Part::Stop(0));
        assert_eq!(lines(&[Part::Condition(0), pre]), [pre]);
        assert_eq!(lines(&[pre, start]), [start]);
        assert_eq!(lines(&[stop, Part::Stop(1)]), [Part::Stop(1)]);
        assert_eq!(lines(&[stop, Part::StopPost(0)]), [Part::StopPost(0)]);
        // But for what may be the main process, and what is run beside it.
        assert_eq!(lines(&[start, post]), [start, post]);
        assert_eq!(lines(&[start, post, Part::Post(1)]), [start, Part::Post(1)]);
        assert_eq!(lines(&[start, Part::Reload(0), stop]), [start, Part::Reload(0), stop]);
    }

    #[test]
    fn a_note_is_older_or_newer_than_what_is_written_of_its_own_unit_alone() {
        let start = |unit| begun(unit, 3, Part::Start(0));
        let bytes = written(|| {
            (0..3).for_each(|_| seen());
            stands(8, &standing(1));
            seen();
            stands(9, &standing(2));
            stands_no_more(9);
        });
        // The course of one was under way as the others were written.
        assert_eq!(told(&bytes, 7, &[(2, start(7))]).unwrap().lines, [(40, Part::Start(0))]);
        // Who had a run then has none by that.
        assert_eq!(told(&bytes, 9, &[(4, start(9))]), None);
        assert!(told(&bytes, 9, &[(5, start(9))]).is_some());
        // Nor if its place is another's by now, or what is there nobody knows.
        let beside = 9 + ENTRIES as u64;
        let mut bytes = written(|| {
            stands(9, &standing(2));
            (0..4).for_each(|_| seen());
            stands_no_more(9);
            stands(beside, &standing(3));
        });
        assert_eq!(told(&bytes, 9, &[(4, start(9))]), None);
        assert!(told(&bytes, 9, &[(5, start(9))]).is_some());
        bytes[STANDING + HEAD + 9 * ENTRY + 40] ^= 1;
        assert_eq!(told(&bytes, 9, &[(5, start(9))]), None);
        // Of another form nothing is known.
        bytes[STANDING] ^= 1;
        assert_eq!(read(&bytes), (Vec::new(), false));
    }

    #[test]
    fn units_whose_names_have_one_checksum_have_a_place_each() {
        let [one, other] = ["plumless", "buckeroo"].map(super::super::notes::unit);
        assert_eq!(crc(b"plumless"), crc(b"buckeroo"));
        let bytes = written(move || {
            stands(one, &standing(1));
            stands(other, &standing(2));
            stands_no_more(other);
        });
        assert_eq!(read(&bytes), (vec![(one, 1)], true));
    }

    #[test]
    fn what_was_decided_about_an_end_stands_as_it_did_when_it_was_told_or_not_at_all() {
        let bytes = [false, true].map(|told| postcard::to_allocvec(&told).unwrap());
        assert_eq!([Ends::No, Ends::Told].map(|ends| postcard::to_allocvec(&ends).unwrap()), bytes);
        let mut due = Standing { lines: Vec::new(), ..standing(3) };
        due.course.is_due();
        let bytes = written(|| _ = stands(7, &due));
        let read = Standings::read(&bytes[STANDING..]).of.remove(&7).unwrap();
        assert_eq!((read.course.ends(), read.course.is_to_go_on()), (Ends::Due, false));
        // Its exec-stop was begun since.
        let told = told(&bytes, 7, &[(9, begun(7, 3, Part::Stop(0)))]).unwrap();
        assert_eq!(told.course.ends(), Ends::Told);
    }

    #[test]
    fn it_is_said_once_that_there_is_no_place() {
        let said = |count: u64| {
            (0..count).filter(|n| !stands(7 + n * ENTRIES as u64, &standing(1))).count()
        };
        let around = AROUND as u64;
        written(|| assert_eq!((said(around), said(around + 3)), (0, 1)));
    }
}
