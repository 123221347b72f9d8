//! What stands of each unit, written and read back, whatever was noted since.

use super::super::notes::tests::written;
use super::super::notes::{ENTRIES as NOTES, Kind, More, STANDING};
use super::table::{AROUND, ENTRIES, ENTRY, HEAD};
use super::*;
use crate::journal::frame::crc;
use crate::sys::notes as writer;
use groundstate_units::machine::there::Ends;
use std::collections::BTreeSet;

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
        (standing.run.0, standing.ahead, standing.lines, course.line(), course.ends() == Ends::Told)
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
    let said =
        |count: u64| (0..count).filter(|n| !stands(7 + n * ENTRIES as u64, &standing(1))).count();
    let around = AROUND as u64;
    written(|| assert_eq!((said(around), said(around + 3)), (0, 1)));
}
