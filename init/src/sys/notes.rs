//! The notes of [`crate::journal::notes`], written where they survive a crash: into memory that
//! is a memfd's too. Where the kernel hands over what is then gone from it (the end of a child, a
//! datagram, the pid of a clone), it writes into that memory itself: there is no moment at which
//! it is nowhere, and no call more than without. mmap(2), waitid(2), recvmmsg(2), clone3(2).
//!
//! One in a process, and for PID 1 alone: children that are forked do not inherit it
//! (MADV_DONTFORK) and forget it. All pages are there from the start.

mod message;

use crate::clock;
use crate::journal::notes::{self, ENTRY, Kind, Past, TEXT};
pub(crate) use message::{
    heard, message_in_hand, put_if_few, put_late_of_others, put_left, put_of_others, unheard,
};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// Where they are; null: there are none.
static BASE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// Number of the last one.
static LAST: AtomicU64 = AtomicU64::new(0);
/// Number of the last one that the kept state knows of.
static KNOWN: AtomicU64 = AtomicU64::new(0);
/// Something found no room since.
static LOST: AtomicBool = AtomicBool::new(false);
/// Whose what somebody has left is found no room since: that is to be found out again.
static UNTOLD: AtomicBool = AtomicBool::new(false);
/// What is noted where there are few is not, and that is noted.
static SKIPPED: AtomicBool = AtomicBool::new(false);
/// The present turn of the loop, and its time.
static TURN: AtomicU32 = AtomicU32::new(0);
static AT: AtomicU64 = AtomicU64::new(0);
/// What is wished and seen was noted before.
static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on they are written into this memfd. ENOMEM, ENOSPC.
pub(crate) fn begin(file: BorrowedFd<'_>) -> io::Result<()> {
    map(file).map(|base| stand_at(base, 0, 0))
}

/// The same behind what an image before this one has noted there; these are of this turn. One try
/// more is under way, until [`known`] says otherwise: should this image crash before it has kept
/// its state, the next one finds all notes there were, and this one's.
pub(crate) fn go_on(file: BorrowedFd<'_>, past: &Past, turn_now: u32) -> io::Result<()> {
    map(file).map(|base| go_on_at(base, past, turn_now))
}

fn go_on_at(base: *mut u8, past: &Past, turn_now: u32) {
    let (at, _) = past.end();
    let hand = &past.hand;
    stand_at(base, past.last, past.known);
    if let Some((pid, text)) = &hand.heard {
        turn(u64::from(hand.heard_in), hand.at.as_nanos());
        heard(*pid, text, false);
    }
    if let Some((pid, code, status)) = hand.ended {
        turn(u64::from(hand.turn), hand.at.as_nanos());
        ended(pid, code, status);
    }
    if let Some(hand) = message_in_hand(false) {
        // SAFETY: the header lies in the mapping.
        unsafe { (*hand.header).msg_len = 0 };
    }
    about(0);
    turn(u64::from(turn_now), at.as_nanos());
    word(notes::TRIES, past.tries.saturating_add(1));
}

/// One of the words before [`notes::END`], or the one behind it.
fn word(at: usize, value: u64) {
    let base = BASE.load(Ordering::SeqCst);
    if !base.is_null() && (at < notes::END || at == notes::LOOKED) {
        // SAFETY: within the mapping; all of them are aligned.
        unsafe { base.add(at).cast::<u64>().write_volatile(value) };
    }
}

/// What was noted is put again: it is there already.
pub(crate) fn while_quiet(work: impl FnOnce()) {
    QUIET.store(true, Ordering::Relaxed);
    work();
    QUIET.store(false, Ordering::Relaxed);
}

/// What happens now was noted before.
pub(crate) fn are_put_again() -> bool {
    QUIET.load(Ordering::Relaxed)
}

fn map(file: BorrowedFd<'_>) -> io::Result<*mut u8> {
    let fd = file.as_raw_fd();
    let length = libc::off_t::try_from(notes::BYTES).unwrap_or(0);
    // SAFETY: numbers only. What is allocated now can not be missing when it is written to.
    super::check(unsafe { libc::fallocate(fd, 0, 0, length) })?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping where the kernel likes; the file is our own and never gets shorter.
    let base =
        unsafe { libc::mmap(ptr::null_mut(), notes::BYTES, protection, libc::MAP_SHARED, fd, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: exactly the mapping just made. Refused: children have it too, and forget it.
    unsafe { libc::madvise(base, notes::BYTES, libc::MADV_DONTFORK) };
    Ok(base.cast())
}

/// They stand in the [`notes::BYTES`] from `base` on, where nobody else knows of them yet.
fn stand_at(base: *mut u8, last: u64, known: u64) {
    // SAFETY: within the mapping, aligned.
    unsafe { prepare(base) };
    LAST.store(last, Ordering::SeqCst);
    KNOWN.store(known, Ordering::SeqCst);
    BASE.store(base, Ordering::SeqCst);
}

/// The header of messages points at its parts, whatever an image before this one has left there.
unsafe fn prepare(base: *mut u8) {
    // SAFETY: by the places of the format all of this lies in the mapping, apart and aligned.
    unsafe {
        let part: *mut libc::iovec = base.add(notes::PART).cast();
        (*part).iov_base = base.add(notes::MESSAGE).cast();
        (*part).iov_len = notes::RING - notes::MESSAGE;
        let header: *mut libc::mmsghdr = base.add(notes::HEADER).cast();
        ptr::write_bytes(&raw mut (*header).msg_hdr, 0, 1);
        (*header).msg_hdr.msg_iov = part;
        (*header).msg_hdr.msg_iovlen = 1;
        (*header).msg_hdr.msg_control = base.add(notes::CONTROL).cast();
    }
}

const _: () = assert!(size_of::<libc::msghdr>() == notes::LENGTH - notes::HEADER);
const _: () = assert!(size_of::<libc::siginfo_t>() <= notes::LOOKED - notes::END);
const _: () = assert!(notes::LOOKED + size_of::<u64>() <= notes::HEADER);
const _: () = assert!(notes::HEADER + size_of::<libc::mmsghdr>() <= notes::PART);

/// This process is a child of the one that writes them.
pub(super) fn forget() {
    BASE.store(ptr::null_mut(), Ordering::SeqCst);
}

/// A turn of the loop begins.
pub(crate) fn turn(number: u64, at: u64) {
    let number = u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0);
    TURN.store(number, Ordering::Relaxed);
    AT.store(at, Ordering::Relaxed);
    let base = BASE.load(Ordering::SeqCst);
    if !base.is_null() {
        // SAFETY: within the mapping, aligned.
        unsafe {
            base.add(notes::AT).cast::<u64>().write_volatile(at);
            base.add(notes::TURN).cast::<u32>().write_volatile(number);
        }
    }
}

/// An event of this unit ([`notes::unit`]; 0: of none) is in hand. Gives which was before.
pub(crate) fn about(unit: u64) -> u64 {
    let base = BASE.load(Ordering::SeqCst);
    if base.is_null() {
        return 0;
    }
    // SAFETY: within the mapping, aligned.
    unsafe {
        let place = base.add(notes::ABOUT).cast::<u64>();
        let before = place.read_volatile();
        place.write_volatile(unit);
        before
    }
}

/// The number of the last note.
pub(crate) fn last() -> u64 {
    LAST.load(Ordering::SeqCst)
}

/// A state is committed that knows of all notes up to this one.
pub(crate) fn known(seq: u64) {
    KNOWN.store(seq, Ordering::SeqCst);
    for (lost, word_at) in [(&LOST, Some(notes::GAP)), (&UNTOLD, None), (&SKIPPED, None)] {
        if lost.swap(false, Ordering::SeqCst)
            && let Some(at) = word_at
        {
            word(at, 0);
        }
    }
    word(notes::TRIES, 0);
}

fn lose() {
    LOST.store(true, Ordering::SeqCst);
}

/// One more; nothing where there is no room. Gives where its pid stands.
fn put(kind: Kind, pid: i32, later: u32, text: &[u8]) -> *mut i32 {
    let base = BASE.load(Ordering::SeqCst);
    let (last, kept) = (LAST.load(Ordering::SeqCst), KNOWN.load(Ordering::SeqCst));
    let count = notes::entries(text.len());
    let length = notes::length_as_noted(kind, pid, text.len());
    let fits = last.saturating_add(count).saturating_sub(kept) <= notes::ENTRIES;
    let Some((pid, length)) = length.filter(|_| fits && !base.is_null()) else {
        lose();
        word(notes::GAP, 1);
        return ptr::null_mut();
    };
    let turn = TURN.load(Ordering::Relaxed).wrapping_add(later);
    let at = AT.load(Ordering::Relaxed);
    let none: &[u8] = &[];
    let parts = text.chunks(TEXT).chain(text.is_empty().then_some(none));
    let mut seq = last;
    for part in parts {
        seq = seq.wrapping_add(1);
        let kind = if seq == last.wrapping_add(1) { kind } else { Kind::More };
        let mut entry = [0u8; ENTRY];
        let fields = [
            &(kind as u16).to_ne_bytes()[..],
            &length.to_ne_bytes(),
            &pid.to_ne_bytes(),
            &at.to_ne_bytes(),
            &turn.to_ne_bytes(),
            part,
        ];
        let bytes = fields.into_iter().flatten();
        entry.iter_mut().skip(8).zip(bytes).for_each(|(to, from)| *to = *from);
        // SAFETY: places of entries lie in the mapping, aligned to 64; one thread writes.
        unsafe {
            let to = base.add(notes::place(seq));
            to.cast::<u64>().write_volatile(0);
            fence(Ordering::SeqCst);
            ptr::copy_nonoverlapping(entry.as_ptr().add(8), to.add(8), ENTRY - 8);
            fence(Ordering::SeqCst);
            to.cast::<u64>().write_volatile(seq);
        }
    }
    LAST.store(seq, Ordering::SeqCst);
    // SAFETY: as above.
    unsafe { base.add(notes::place(last.wrapping_add(1)) + notes::PID).cast() }
}

/// A wish, or what the logger has seen.
pub(crate) fn put_text(kind: Kind, text: &[u8]) {
    if !QUIET.load(Ordering::Relaxed) {
        put(kind, 0, 0, text);
    }
}

/// What belongs to that turn, which is being put again, and could not be noted in it any more.
pub(crate) fn put_late(kind: Kind, turn: u32, text: &[u8]) {
    put(kind, 0, turn.wrapping_sub(TURN.load(Ordering::Relaxed)), text);
}

/// Of all whose end is noted it is found out, and noted, what they have left; but where that found no room.
pub(crate) fn looked() {
    if !UNTOLD.load(Ordering::SeqCst) {
        word(notes::LOOKED, LAST.load(Ordering::SeqCst));
    }
}

/// What happens while what was noted is put again.
pub(crate) fn put_meanwhile(kind: Kind, text: &[u8]) {
    put(kind, 0, 0, text);
}

/// A child is about to be cloned: the address the kernel is to write its pid to
/// (CLONE_PARENT_SETTID). Null: nobody wants to know.
pub(crate) fn begun(text: &[u8]) -> *mut i32 {
    if text.is_empty() { ptr::null_mut() } else { put(Kind::Begun, 0, 0, text) }
}

/// Where the kernel is to write how a child ended; null: nowhere in particular.
pub(super) fn end_in_hand() -> *mut libc::siginfo_t {
    let base = BASE.load(Ordering::SeqCst);
    // SAFETY: within the mapping.
    if base.is_null() { base.cast() } else { unsafe { base.add(notes::END).cast() } }
}

/// What was written there is noted for good.
pub(crate) fn ended(pid: i32, code: i32, status: i32) {
    let (code, status) = (code.to_ne_bytes(), status.to_ne_bytes());
    let by = clock::ticks().to_ne_bytes();
    put(Kind::Ended, pid, 0, &[&code[..], &status, &by].concat());
    let hand = end_in_hand();
    if !hand.is_null() {
        // SAFETY: the siginfo_t in the mapping, which is plain data.
        unsafe { ptr::write_bytes(hand.cast::<u8>(), 0, size_of::<libc::siginfo_t>()) };
    }
}

#[cfg(test)]
pub(crate) mod tests;
