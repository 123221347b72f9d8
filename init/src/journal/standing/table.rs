//! The table in memory that is kept for another image: a head, and a place for each unit that stands
//! ([`super`]). It is written here and nowhere else, and read a place at a time.
//!
//! The head is `form: u64, lost: u64, forgotten: u64`: of a unit without a place notes up to that number say
//! nothing. A place is `check: u32, length: u32, unit: u64, newest: u64`, then one postcard value;
//! without a length it is nobody's any more, and all zeroes never was anybody's. Reading is total:
//! any bytes may be there.

use super::super::frame::crc;
use super::{LINES, Standing};
use crate::sys::notes as writer;
use std::collections::BTreeSet;

/// Bytes before the first place.
pub(super) const HEAD: usize = 64;
/// What begins it; 0: nothing was written yet.
const FORM: u64 = u64::from_ne_bytes(*b"gs-stnd\x02");
/// Of the head: a place was to be had for not all.
const LOST: usize = 8;
/// Of the head: the highest number that stood in a place which another unit has now, or found none.
const FORGOTTEN: usize = 16;
/// Bytes of a place.
pub(crate) const ENTRY: usize = 144;
/// Places. Units beyond are not known after a lost state.
pub(super) const ENTRIES: usize = if cfg!(miri) { 128 } else { 2048 };
/// Bytes of all.
pub(crate) const BYTES: usize = HEAD + ENTRY * ENTRIES;
/// Places one unit may have.
pub(super) const AROUND: usize = 64;
/// Before the value.
const BEFORE: usize = 24;
/// Where its length stands.
const LENGTH: usize = 4;
/// Where its unit does.
const UNIT: usize = 8;
/// Where the number of the last note does.
const NEWEST: usize = 16;

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
pub(super) enum Place {
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

/// Of its head: up to which note it says nothing of a unit without a place, and whether none was refused
/// one. None: it is of another form.
pub(super) fn head(bytes: &[u8]) -> Option<(u64, bool)> {
    let is_ours = matches!(word(bytes, 0), Some(0 | FORM)) && bytes.len() >= BYTES;
    is_ours.then(|| (word(bytes, FORGOTTEN).unwrap_or(0), word(bytes, LOST) == Some(0)))
}

/// Whose each place is, and what stands there, if that can be read.
pub(super) fn each(bytes: &[u8]) -> impl Iterator<Item = (Place, Option<(u64, u64, Standing)>)> {
    let places = bytes.get(HEAD..).unwrap_or_default().chunks_exact(ENTRY);
    places.take(ENTRIES).map(|place| (Place::of(place), read_one(place)))
}
