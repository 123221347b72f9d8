//! Notes as the pages of an image before this one hold them: whole, cut short, overwritten, or of
//! any bytes.

use super::*;
use crate::sys::{notes as writer, process, wait};

fn read(bytes: &[u8], after: u64) -> Vec<Note> {
    Past::read(bytes, after).notes
}

/// What a process of its own notes.
pub(in crate::journal) fn written(work: impl FnOnce()) -> Vec<u8> {
    noted_on(None, || {
        writer::turn(7, 5000);
        work();
    })
}

/// The same behind what another one has left, in that turn.
#[cfg(not(miri))]
fn noted_on(before: Option<(&[u8], &Past, u32)>, work: impl FnOnce()) -> Vec<u8> {
    use crate::sys::memfd;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    let file = std::fs::File::from(memfd::create(c"notes").unwrap());
    let child = process::fork_whole(|| {
        match before {
            Some((bytes, past, turn)) => {
                file.write_all_at(bytes, 0).unwrap();
                writer::go_on(file.as_fd(), past, turn).unwrap();
            }
            None => writer::begin(file.as_fd()).unwrap(),
        }
        work();
        0
    });
    assert_eq!(wait::await_end(child.unwrap()).unwrap(), Exit::Code(0));
    let mut bytes = vec![0; BYTES];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[cfg(miri)]
use crate::sys::notes::tests::noted as noted_on;

/// A child of this process ends with status 3, and is reaped.
fn one_ends() {
    if cfg!(miri) {
        writer::ended(77, libc::CLD_EXITED, 3);
    } else {
        let child = process::fork_whole(|| 3).unwrap();
        wait::await_end(child).unwrap();
    }
}

fn wish() -> Wished {
    Wished::Event(Event::Unwant("a-name".parse().unwrap()))
}

fn three() -> Vec<u8> {
    written(|| {
        writer::put_text(Kind::Seen, &9u64.to_ne_bytes());
        one_ends();
        writer::put_text(Kind::Wished, &postcard::to_allocvec(&wish()).unwrap());
    })
}

#[test]
fn what_is_noted_is_read_by_the_next_image() {
    let notes = read(&three(), 0);
    let what: Vec<&What> = notes.iter().map(|note| &note.what).collect();
    let wished = What::Wished(Box::new(wish()));
    assert_eq!(what, [&What::Seen(RunId(9)), &What::Ended(Exit::Code(3)), &wished]);
    let when = notes.iter().map(|note| (note.at, note.turn));
    assert!(when.into_iter().all(|when| when == (Time::from_nanos(5000), 7)));
    assert!(notes[1].pid > 0 && notes[1].reaped.is_some_and(|it| !it.is_looked_after && it.by > 0));
    assert_eq!(read(&three(), 2).len(), 1, "the rest is in the state");
}

#[test]
fn what_is_long_has_several_entries_and_counts_as_a_whole() {
    let event = Event::Restart(vec!["a-long-name".parse().unwrap(); 20]);
    let text = postcard::to_allocvec(&Wished::Event(event.clone())).unwrap();
    let mut bytes = written(|| writer::put_text(Kind::Wished, &text));
    let noted = read(&bytes, 0);
    assert_eq!(noted[0].what, What::Wished(Box::new(Wished::Event(event))));
    bytes[place(entries(text.len()))] = 0;
    assert_eq!(read(&bytes, 0), []);
}

#[test]
fn a_wish_of_more_than_64_kib_is_noted_too() {
    let event = Event::Restart(vec!["a-long-name-of-a-unit".parse().unwrap(); 5000]);
    let text = postcard::to_allocvec(&Wished::Event(event.clone())).unwrap();
    assert!(text.len() > 100_000);
    let bytes = written(|| {
        // What other tests have lost is nothing of this one's.
        writer::known(writer::last());
        writer::put_text(Kind::Wished, &text);
        writer::put_text(Kind::Seen, &9u64.to_ne_bytes());
        // There is room for one of these alone.
        writer::put_text(Kind::Wished, &text);
    });
    let noted = read(&bytes, 0);
    let what: Vec<&What> = noted.iter().map(|note| &note.what).collect();
    assert_eq!(what, [&What::Wished(Box::new(Wished::Event(event))), &What::Seen(RunId(9))]);
    assert_eq!(noted[0].pid, 0);
}

#[test]
fn what_has_no_room_is_not_noted_and_old_notes_are_no_new_ones() {
    let bytes = written(|| {
        for _ in 0..ENTRIES + 5 {
            writer::put_text(Kind::Seen, &1u64.to_ne_bytes());
        }
        assert!(writer::last() == ENTRIES);
        writer::known(ENTRIES);
        writer::put_text(Kind::Seen, &2u64.to_ne_bytes());
    });
    assert_eq!(read(&bytes, ENTRIES).len(), 1);
    assert_eq!(read(&bytes, ENTRIES)[0].what, What::Seen(RunId(2)));
    assert_eq!(read(&bytes, ENTRIES + 1), []);
}

#[test]
fn what_others_say_leaves_room_for_what_init_does() {
    let bytes = written(|| {
        for _ in 0..ENTRIES {
            writer::heard(1, b"x", false);
        }
        assert!(writer::last() == HEARD);
        writer::put_text(Kind::Seen, &9u64.to_ne_bytes());
    });
    let noted = read(&bytes, 0);
    assert_eq!(noted.last().unwrap().what, What::Seen(RunId(9)));
}

/// Whose an orphan is.
fn left() -> Learnt {
    postcard::from_bytes(&[5, 7, 1, 84, 9, 0]).unwrap()
}

#[test]
fn what_services_leave_to_init_leaves_room_for_what_it_does_and_is_looked_for_where_it_has_none() {
    let bytes = written(|| {
        // What other tests have lost is nothing of this one's.
        writer::known(writer::last());
        one_ends();
        left().note();
        writer::looked();
        one_ends();
        for _ in 0..ENTRIES {
            left().note();
        }
        writer::looked();
        assert!(writer::last() == LEFT);
        one_ends();
        // There was nothing to be noted.
        writer::looked();
    });
    let noted = read(&bytes, 0);
    assert_eq!(noted.iter().filter(|it| it.what == What::Learnt(left())).count() as u64, LEFT - 2);
    let looked = |notes: &[Note]| {
        let reaped = notes.iter().filter_map(|note| note.reaped);
        reaped.map(|it| it.is_looked_after).collect::<Vec<_>>()
    };
    assert_eq!(looked(&noted), [true, false, false]);
    assert!(!Past::read(&bytes, 0).has_gap, "all that was begun is in it");
}

#[test]
fn what_nobody_may_say_takes_no_room_from_those_who_may() {
    let long = [b'x'; TEXT + 1];
    let bytes = written(|| {
        for _ in 0..ENTRIES {
            writer::heard(1, &long, false);
            writer::unheard();
        }
        writer::heard(7, b"READY=1", false);
        writer::put_text(Kind::Seen, &9u64.to_ne_bytes());
        // Neither is what was noted last a message, nor one that is heard later yet.
        writer::unheard();
        writer::heard(8, b"a", true);
        writer::unheard();
        writer::heard(9, &long, false);
        writer::unheard();
    });
    let noted = read(&bytes, 0).into_iter().map(|note| note.what);
    let heard = |text: &[u8]| What::Heard(text.to_vec());
    assert_eq!(noted.collect::<Vec<_>>(), [heard(b"READY=1"), What::Seen(RunId(9)), heard(b"a")]);
}

/// As the kernel writes it, of process 77.
fn in_hand(bytes: &mut [u8], text: &[u8]) {
    bytes[LENGTH] = u8::try_from(text.len()).unwrap();
    let head = [libc::SOL_SOCKET, libc::SCM_CREDENTIALS, 77].map(i32::to_ne_bytes).concat();
    bytes[CONTROL + 8..CONTROL + 20].copy_from_slice(&head);
    bytes[MESSAGE..MESSAGE + text.len()].copy_from_slice(text);
}

#[test]
fn what_the_kernel_wrote_last_counts_too() {
    let mut bytes = three();
    bytes[END + 16..END + 20].copy_from_slice(&42i32.to_ne_bytes());
    bytes[END + 8..END + 12].copy_from_slice(&libc::CLD_KILLED.to_ne_bytes());
    bytes[END + 24..END + 28].copy_from_slice(&15i32.to_ne_bytes());
    let last = read(&bytes, 0).pop().unwrap();
    assert_eq!(last.what, What::Ended(Exit::Signal { signal: 15, core: false }));
    assert_eq!((last.pid, last.turn), (42, 7));
    // A message without its sender is nobody's.
    bytes[LENGTH] = 3;
    assert_eq!(read(&bytes, 0).len(), 4);
    in_hand(&mut bytes, b"A=1");
    assert!(read(&bytes, 0).iter().any(|n| n.what == What::Heard(b"A=1".into()) && n.pid == 77));
}

#[test]
fn what_the_kernel_wrote_last_is_of_its_own_turn() {
    let said = |ahead: bool| {
        let mut bytes = written(|| {
            writer::put_text(Kind::Seen, &9u64.to_ne_bytes());
            writer::turn(8, 6000);
            assert!(writer::message_in_hand(ahead).is_some());
        });
        in_hand(&mut bytes, b"READY=1");
        bytes
    };
    for (ahead, turn) in [(false, 8), (true, 9)] {
        let last = read(&said(ahead), 0).pop().unwrap();
        assert_eq!(last.what, What::Heard(b"READY=1".into()));
        assert_eq!((last.turn, last.at), (turn, Time::from_nanos(6000)));
    }
}

#[test]
fn the_next_image_notes_on_behind_what_it_has_found() {
    let mut bytes = three();
    // Reaped, and nobody had noted it.
    bytes[END + 16..END + 20].copy_from_slice(&42i32.to_ne_bytes());
    bytes[END + 8..END + 12].copy_from_slice(&libc::CLD_EXITED.to_ne_bytes());
    let past = Past::read(&bytes, 1);
    assert_eq!((past.notes.len(), past.last), (3, 3));
    let bytes = noted_on(Some((&bytes, &past, 8)), || {
        writer::put_text(Kind::Seen, &1u64.to_ne_bytes());
        writer::while_quiet(|| writer::put_text(Kind::Seen, &2u64.to_ne_bytes()));
    });
    let again = Past::read(&bytes, 1);
    let what = |notes: &[Note]| notes.iter().map(|note| note.what.clone()).collect::<Vec<_>>();
    assert_eq!(what(&again.notes[..3]), what(&past.notes), "what was in hand is noted for good");
    assert_eq!((again.notes[2].pid, again.notes[2].at), (42, past.notes[2].at));
    assert!(past.notes[2].reaped.is_none() && again.notes[2].reaped.is_some_and(|it| it.by > 0));
    assert_eq!((&again.notes[3].what, again.notes[3].turn), (&What::Seen(RunId(1)), 8));
    assert_eq!((again.notes.len(), again.last, again.tries), (4, 5, 1));
    assert!(again.hand.ended.is_none());
}

#[test]
fn of_whom_all_that_was_left_is_noted_is_known_and_what_is_noted_late_is_of_its_turn() {
    let bytes = written(|| {
        one_ends();
        writer::looked();
        writer::turn(8, 6000);
        one_ends();
        let found = || postcard::to_allocvec(&Learnt::Found(RunId(9), 42)).unwrap();
        writer::while_quiet(|| writer::put_left(Kind::Learnt, Some(7), &found()));
    });
    let notes = read(&bytes, 0);
    let looked = notes.iter().map(|note| note.reaped.map(|it| it.is_looked_after));
    assert_eq!(looked.collect::<Vec<_>>(), [Some(true), Some(false), None]);
    assert_eq!(notes[2].what, What::Learnt(Learnt::Found(RunId(9), 42)));
    assert_eq!(notes.iter().map(|note| note.turn).collect::<Vec<_>>(), [7, 8, 7]);
}

#[test]
fn what_a_look_tells_too_takes_no_room_from_what_nothing_else_does() {
    let seen = || writer::put_text(Kind::Seen, &1u64.to_ne_bytes());
    let bytes = written(|| {
        writer::last();
        for _ in 0..ENTRIES {
            Learnt::Executed(42).note();
            Learnt::Emptied(RunId(7)).note();
        }
        (1..ENTRIES / 2).for_each(|_| seen());
    });
    let past = Past::read(&bytes, 0);
    let of = |kind: fn(&What) -> bool| past.notes.iter().filter(|it| kind(&it.what)).count() as u64;
    let learnt = of(|what| matches!(what, What::Learnt(Learnt::Executed(_) | Learnt::Emptied(_))));
    let unnoted = of(|what| matches!(what, What::Learnt(Learnt::Unnoted)));
    let seen = of(|what| matches!(what, What::Seen(_)));
    assert_eq!((learnt, unnoted, seen), (ENTRIES / 2, 1, ENTRIES / 2 - 1));
    assert!(!past.has_gap);
}

#[test]
#[cfg_attr(miri, ignore = "safe code alone, thousands of times")]
fn any_bytes_are_read() {
    let whole = three();
    for at in (0..RING + 5 * ENTRY).filter(|at| *at < 512 || *at >= RING) {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            assert!(read(&bytes, 0).len() <= 5);
        }
    }
    for length in [0, 1, END + 3, RING, RING + 70] {
        read(&whole[..length], u64::MAX);
        read(&whole[..length], 0);
    }
    assert_eq!(read(&vec![255; BYTES], 0).len(), 0);
}
