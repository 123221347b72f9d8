//! Messages of the notify socket among the notes ([`super`]): where one is read to, and what of the room for
//! notes is left to those who send them, and to what they bring about.

use super::{BASE, KNOWN, LAST, QUIET, SKIPPED, TURN, UNTOLD, lose, put, put_late};
use crate::journal::notes::{self, Kind};
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of the last one before a message that was noted last, and behind it; none: 0 and 0.
static UNJUDGED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Where the message being read lies.
#[derive(Clone, Copy)]
pub(crate) struct Hand {
    /// [`notes::HEADER`] on: mmsghdr, iovec, control data and bytes.
    pub(in crate::sys) header: *mut libc::mmsghdr,
    /// Of the bytes.
    pub(in crate::sys) bytes: *mut u8,
}

/// Where a message is to be read to. None: nowhere in particular. `ahead`: as in [`heard`].
pub(crate) fn message_in_hand(ahead: bool) -> Option<Hand> {
    let base = BASE.load(Ordering::SeqCst);
    if base.is_null() {
        return None;
    }
    let turn = TURN.load(Ordering::Relaxed).wrapping_add(u32::from(ahead));
    // SAFETY: all of them lie within the mapping, aligned.
    unsafe {
        base.add(notes::HEARD_IN).cast::<u32>().write_volatile(turn);
        Some(Hand { header: base.add(notes::HEADER).cast(), bytes: base.add(notes::MESSAGE) })
    }
}

/// What anybody can bring about by what they say: it takes of the room they have.
pub(crate) fn put_of_others(kind: Kind, text: &[u8]) {
    if !QUIET.load(Ordering::Relaxed) && has_a_share(notes::HEARD, text.len()) {
        put(kind, 0, 0, text);
    }
}

/// What may be found out again, though not when it was: nothing else has less room for it. Where there is none
/// it is noted, once, that such a thing is not noted from here on.
pub(crate) fn put_if_few(kind: Kind, text: &[u8], no_more: &[u8]) {
    if is_within(notes::ENTRIES / 2, text.len()) {
        put(kind, 0, 0, text);
    } else if !SKIPPED.swap(true, Ordering::SeqCst) {
        put(kind, 0, 0, no_more);
    }
}

/// As [`put_of_others`], of that turn, which is being put again.
pub(crate) fn put_late_of_others(kind: Kind, turn: u32, text: &[u8]) {
    if has_a_share(notes::HEARD, text.len()) {
        put_late(kind, turn, text);
    }
}

/// Whose what somebody has left is: a service leaves as many as it likes. `turn`: which is being put again, and it
/// could not be noted in.
pub(crate) fn put_left(kind: Kind, turn: Option<u32>, text: &[u8]) {
    let later = turn.map_or(0, |turn| turn.wrapping_sub(TURN.load(Ordering::Relaxed)));
    if !has_a_share(notes::LEFT, text.len()) || put(kind, 0, later, text).is_null() {
        UNTOLD.store(true, Ordering::SeqCst);
    }
}

/// There is room for so many bytes more of others, who may fill so many entries. Else something is lost.
fn has_a_share(most: u64, length: usize) -> bool {
    let has = is_within(most, length);
    if !has {
        lose();
    }
    has
}

/// With so many bytes more there are no more than so many entries of which the kept state does not know.
fn is_within(most: u64, length: usize) -> bool {
    let after = LAST.load(Ordering::SeqCst).saturating_add(notes::entries(length));
    after.saturating_sub(KNOWN.load(Ordering::SeqCst)) <= most
}

/// What was read there is noted for good. `ahead`: it will be heard in the next turn.
/// Anybody may send: a part of the room is left to what init itself does.
pub(crate) fn heard(pid: i32, bytes: &[u8], ahead: bool) {
    let [before, behind] = &UNJUDGED;
    let last = LAST.load(Ordering::SeqCst);
    let after = last.saturating_add(notes::entries(bytes.len()));
    behind.store(0, Ordering::SeqCst);
    if !has_a_share(notes::HEARD, bytes.len()) {
        return;
    }
    put(Kind::Heard, pid, u32::from(ahead), bytes);
    if !ahead && LAST.load(Ordering::SeqCst) == after {
        before.store(last, Ordering::SeqCst);
        behind.store(after, Ordering::SeqCst);
    }
}

/// The message heard last was of nobody who may say anything: it takes no room from those who may.
pub(crate) fn unheard() {
    let base = BASE.load(Ordering::SeqCst);
    let [before, behind] = &UNJUDGED;
    let (before, behind) = (before.load(Ordering::SeqCst), behind.swap(0, Ordering::SeqCst));
    if base.is_null() || behind == 0 || LAST.load(Ordering::SeqCst) != behind {
        return;
    }
    for seq in before.saturating_add(1)..=behind {
        // SAFETY: places of entries lie in the mapping, aligned to 64; one thread writes.
        unsafe { base.add(notes::place(seq)).cast::<u64>().write_volatile(0) };
    }
    LAST.store(before, Ordering::SeqCst);
}
