//! What happened since the state was kept last: notes, one after the other in a ring that the
//! next image reads after a crash. They are about what is lost when it is read, and about what must
//! not be done twice: what a service said, how a process ended, which process was started, what
//! was wished. Each is there before it has an effect (see [`crate::sys::notes`], which writes
//! them, and [`crate::replay`], which puts them to an init that has gone back).
//!
//! The file: a page for the handler of a fault and for what the kernel itself writes, the
//! [`MESSAGE`] being read, then the ring. An entry is [`ENTRY`] bytes: `seq: u64, kind: u16, length: u16,
//! pid: i32, at: u64, turn: u32`, then [`TEXT`] bytes; all of the machine's byte order.
//! What is longer goes on in the next entries. An entry is there when its number is; the number is
//! written last. Reading is total: any bytes may be there.

pub(crate) use super::begun::{Aside, Begun, More};
use super::learnt::Learnt;
pub(crate) use super::opened::Opened;
use super::turns;
use crate::limit;
use crate::shutdown::Haste;
use groundstate_units::machine::event::{Event, RunId, Shutdown};
use groundstate_units::spec::Exit;
use groundstate_units::text::time::Time;
use groundstate_units::unit::assembly::hash;
use serde::{Deserialize, Serialize};

/// Signal and signals not dealt with, by the handler of a fault.
pub(crate) const FAULT: usize = 0;
/// How often the notes were begun to be put again, and that came to no end.
pub(crate) const TRIES: usize = 16;
/// The present time: u64.
pub(crate) const AT: usize = 24;
/// The number of the present turn, and of that in which the message being read is heard: u32.
pub(crate) const TURN: usize = 32;
/// See [`TURN`].
pub(crate) const HEARD_IN: usize = 36;
/// What tells the unit whose event is in hand, as [`unit`] has it: u64; 0: none.
pub(crate) const ABOUT: usize = 40;
/// Not 0: since the state was kept last something found no room: u64.
pub(crate) const GAP: usize = 56;
/// The siginfo_t of the child being reaped.
pub(crate) const END: usize = 64;
/// Of those whose end is noted up to this one it is found out, and noted, what they have left: u64.
pub(crate) const LOOKED: usize = 192;
/// The mmsghdr of the message being read.
pub(crate) const HEADER: usize = 256;
/// Where its length stands; 0: none is being read.
pub(crate) const LENGTH: usize = HEADER + 56;
/// Its iovec.
pub(crate) const PART: usize = 384;
/// Its credentials, and descriptors.
pub(crate) const CONTROL: usize = 512;
/// Bytes of these.
pub(crate) const CONTROL_ROOM: usize = 4096 - CONTROL;
/// Its bytes.
pub(crate) const MESSAGE: usize = 4096;
/// The ring.
pub(crate) const RING: usize = MESSAGE + limit::NOTIFICATION;
/// Bytes of an entry.
pub(crate) const ENTRY: usize = 64;
/// Entries of the ring. Miri has fewer: it is a thousand times as slow.
pub(crate) const ENTRIES: u64 = if cfg!(miri) { 64 } else { 4096 };
/// Of those, what others say may take no more: beyond the half with which the state is kept.
pub(crate) const HEARD: u64 = ENTRIES / 4 * 3;
/// And this is as far as goes what they leave to init.
pub(crate) const LEFT: u64 = ENTRIES / 8 * 7;
/// Bytes of all.
pub(crate) const BYTES: usize = RING + ENTRY * ENTRIES as usize;
/// Bytes of text in one entry.
pub(crate) const TEXT: usize = ENTRY - 28;
/// Where the pid of an entry stands.
pub(crate) const PID: usize = 12;

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Kind {
    /// A datagram of the notify socket.
    Heard = 1,
    /// A child was reaped.
    Ended,
    /// A child was cloned; the kernel wrote its pid. 0: there is none.
    Begun,
    /// [`Wished`].
    Wished,
    /// The logger, or init by a `ready-fd`, has seen the line by which a run is ready.
    Seen,
    /// More of the one before.
    More,
    /// [`Opened`].
    Opened,
    /// [`Learnt`].
    Learnt,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::Heard,
        Kind::Ended,
        Kind::Begun,
        Kind::Wished,
        Kind::Seen,
        Kind::More,
        Kind::Opened,
        Kind::Learnt,
    ];
}

/// What was wished.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Wished {
    /// Of the machine.
    Event(Event),
    /// The end of everything.
    End(Shutdown),
    /// That one sooner.
    Haste(Haste),
}

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// Of the notify socket: the bytes.
    Heard(Vec<u8>),
    /// How.
    Ended(Exit),
    /// See there.
    Begun(Begun),
    /// See there.
    Wished(Box<Wished>),
    /// Of this run.
    Seen(RunId),
    /// See there.
    Opened(Opened),
    /// See there.
    Learnt(Learnt),
}

/// One of them, with when it was.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Note {
    /// What.
    pub(crate) what: What,
    /// Of which process, where it is about one.
    pub(crate) pid: i32,
    /// When its turn of the loop was.
    pub(crate) at: Time,
    /// The number of that turn.
    pub(crate) turn: u32,
    /// Of an end; None: the kernel alone has written that.
    pub(crate) reaped: Option<Reaped>,
}

/// What is noted with an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reaped {
    /// When, as [`crate::clock::ticks`] has it: what it had left had begun by then.
    pub(crate) by: u64,
    /// Whose that is was found out.
    pub(crate) is_looked_after: bool,
}

/// What tells a unit from another, in a note; never 0.
pub(crate) fn unit(name: &str) -> u64 {
    hash(name.as_bytes()).max(1)
}

/// Where the entry with this number stands.
pub(crate) fn place(seq: u64) -> usize {
    let index = usize::try_from(seq.wrapping_sub(1) % ENTRIES).unwrap_or(0);
    RING + index * ENTRY
}

/// What is noted as the pid and the length of so many bytes of text: of a wish, which is of no process,
/// what is more than 64 KiB stands in the place of the pid. None: they are too many.
pub(crate) fn length_as_noted(kind: Kind, pid: i32, length: usize) -> Option<(i32, u16)> {
    if kind != Kind::Wished {
        return Some((pid, u16::try_from(length).ok()?));
    }
    Some((i32::try_from(length >> 16).ok()?, u16::try_from(length & 0xffff).ok()?))
}

/// Entries that so many bytes take.
pub(crate) fn entries(length: usize) -> u64 {
    length.div_ceil(TEXT).max(1) as u64
}

/// What an image has left of these.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// Those the kept state does not know of, in order, and what the kernel wrote last.
    pub(crate) notes: Vec<Note>,
    /// The number of the last the state knows of.
    pub(crate) known: u64,
    /// The number of the last there is.
    pub(crate) last: u64,
    /// See [`TRIES`].
    pub(crate) tries: u64,
    /// See [`ABOUT`].
    pub(crate) about: u64,
    /// See [`GAP`].
    pub(crate) has_gap: bool,
    /// What the kernel had handed over and nobody had noted.
    pub(crate) hand: Hand,
}

impl Past {
    /// All notes after this one.
    pub(crate) fn read(bytes: &[u8], after: u64) -> Past {
        let mut notes = Vec::new();
        let mut seq = after.saturating_add(1);
        while seq.saturating_sub(after) <= ENTRIES && seq < u64::MAX {
            let Some((note, taken)) = one(bytes, seq) else { break };
            notes.extend(note);
            seq = seq.saturating_add(taken);
        }
        let hand = Hand::of(bytes);
        notes.extend(hand.as_notes());
        let tries = word(bytes, TRIES).unwrap_or(0);
        let about = word(bytes, ABOUT).unwrap_or(0);
        let has_gap = word(bytes, GAP) != Some(0);
        Past { notes, known: after, last: seq.saturating_sub(1), tries, about, has_gap, hand }
    }

    /// Time and turn of the last one.
    pub(crate) fn end(&self) -> (Time, Option<u32>) {
        let at = self.notes.iter().map(|note| note.at).max();
        let turn = self.notes.iter().map(|note| note.turn).reduce(turns::later);
        (at.unwrap_or(Time::ZERO), turn)
    }
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

fn int(bytes: &[u8], at: usize) -> Option<i32> {
    number(bytes, at).map(i32::from_ne_bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    number(bytes, at).map(u64::from_ne_bytes)
}

/// The note that begins with this entry, where it can be understood, and how many entries it has.
pub(super) fn one(bytes: &[u8], seq: u64) -> Option<(Option<Note>, u64)> {
    let at = place(seq);
    let kind = |at: usize| {
        let number = number(bytes, at + 8).map(u16::from_ne_bytes)?;
        Kind::ALL.into_iter().find(|kind| *kind as u16 == number)
    };
    if word(bytes, at)? != seq {
        return None;
    }
    let first = kind(at)?;
    let length = usize::from(number(bytes, at + 10).map(u16::from_ne_bytes)?);
    let (mut pid, when) = (int(bytes, at + PID)?, Time::from_nanos(word(bytes, at + 16)?));
    let turn = number(bytes, at + 24).map(u32::from_ne_bytes)?;
    let is_wish = first == Kind::Wished;
    let high = if is_wish { usize::try_from(std::mem::take(&mut pid)).unwrap_or(0) } else { 0 };
    let length = high.saturating_mul(1 << 16).saturating_add(length);
    let mut text = Vec::new();
    let count = entries(length);
    for more in 0..count {
        let at = place(seq.wrapping_add(more));
        let is_there = word(bytes, at)? == seq.wrapping_add(more);
        if !is_there || (more > 0 && kind(at)? != Kind::More) {
            return None;
        }
        text.extend_from_slice(bytes.get(at + ENTRY - TEXT..at + ENTRY)?);
    }
    text.truncate(length);
    let is_looked_after = word(bytes, LOOKED).is_some_and(|looked| seq <= looked);
    let by = (first == Kind::Ended).then(|| word(&text, 8)).flatten();
    let reaped = by.map(|by| Reaped { by, is_looked_after });
    let what = what(first, text);
    Some((what.map(|what| Note { what, pid, at: when, turn, reaped }), count))
}

fn what(kind: Kind, text: Vec<u8>) -> Option<What> {
    match kind {
        Kind::Heard => Some(What::Heard(text)),
        Kind::Ended => {
            let (code, status) = (int(&text, 0)?, int(&text, 4)?);
            Some(What::Ended(crate::sys::wait::exit(code, status)))
        }
        Kind::Begun => Begun::of_text(&text).map(What::Begun),
        Kind::Wished => postcard::from_bytes(&text).ok().map(|it| What::Wished(Box::new(it))),
        Kind::Seen => word(&text, 0).map(|run| What::Seen(RunId(run))),
        Kind::Opened => Opened::of_text(&text).map(What::Opened),
        Kind::Learnt => postcard::from_bytes(&text).ok().map(What::Learnt),
        Kind::More => None,
    }
}

/// What the kernel had handed over and nobody had noted yet.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    /// Pid and text of a message.
    pub(crate) heard: Option<(i32, Vec<u8>)>,
    /// The turn in which it is heard.
    pub(crate) heard_in: u32,
    /// Pid, code and status of an end, as in siginfo_t.
    pub(crate) ended: Option<(i32, i32, i32)>,
    /// Its turn.
    pub(crate) turn: u32,
    /// The time of that.
    pub(crate) at: Time,
}

impl Hand {
    pub(super) fn of(bytes: &[u8]) -> Hand {
        let length = number(bytes, LENGTH).map_or(0, u32::from_ne_bytes) as usize;
        let text = bytes.get(MESSAGE..MESSAGE.saturating_add(length).min(RING));
        let heard = text.filter(|_| length > 0).map(<[u8]>::to_vec);
        let part = |at: usize| int(bytes, END + at);
        let ended = part(16).zip(part(8)).zip(part(24));
        let turn = |at: usize| number(bytes, at).map_or(0, u32::from_ne_bytes);
        Hand {
            heard: speaker(bytes).zip(heard),
            heard_in: turn(HEARD_IN),
            turn: turn(TURN),
            at: Time::from_nanos(word(bytes, AT).unwrap_or(0)),
            ended: ended.map(|((pid, code), status)| (pid, code, status)).filter(|it| it.0 > 0),
        }
    }

    /// Of their own turns: what is noted last may be of one before, which the unit whose they are was
    /// only begun in.
    pub(super) fn as_notes(&self) -> Vec<Note> {
        let heard =
            self.heard.iter().map(|(pid, text)| (*pid, What::Heard(text.clone()), self.heard_in));
        let exit = |code, status| What::Ended(crate::sys::wait::exit(code, status));
        let ended = self.ended.map(|(pid, code, status)| (pid, exit(code, status), self.turn));
        let all = heard.chain(ended);
        let note = |(pid, what, turn)| Note { what, pid, at: self.at, turn, reaped: None };
        all.map(note).collect()
    }
}

/// The pid in the credentials, which come before all else: struct cmsghdr, struct ucred.
fn speaker(bytes: &[u8]) -> Option<i32> {
    let (level, kind) = (int(bytes, CONTROL + 8)?, int(bytes, CONTROL + 12)?);
    let is_it = level == libc::SOL_SOCKET && kind == libc::SCM_CREDENTIALS;
    is_it.then(|| int(bytes, CONTROL + 16)).flatten().filter(|pid| *pid > 0)
}

#[cfg(test)]
pub(super) mod tests;
