//! Writes the inbox of [`crate::sys::inbox_layout`] into a mapped memfd, which survives a crash.
//! The kernel writes the exit of a child and a datagram directly into it, so that neither is ever
//! stored nowhere. mmap(2), waitid(2), recvmmsg(2).
//!
//! There is one inbox, for PID 1 only: forked children do not inherit the mapping (MADV_DONTFORK)
//! and forget it. All its pages are allocated at the start.

use crate::sys::inbox_layout as form;
use crate::sys::inbox_layout::{ENTRY, Inbox, Input, Kind, TEXT};
use groundstate_units::machine::event::RunId;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

/// The mapping, or null.
static BASE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// Number of the last entry.
static LAST: AtomicU64 = AtomicU64::new(0);
/// Number of the last entry that the committed state knows.
static COMMITTED: AtomicU64 = AtomicU64::new(0);

/// Maps an empty inbox in this memfd. ENOMEM, ENOSPC.
pub(crate) fn begin(file: BorrowedFd<'_>) -> io::Result<()> {
    map(file).map(|base| stand_at(base, 0, 0))
}

/// Maps the inbox of a crashed image. Its inputs stay until the next commit.
pub(crate) fn resume(file: BorrowedFd<'_>, found: &Inbox, committed: u64) -> io::Result<()> {
    map(file).map(|base| resume_at(base, found, committed))
}

fn resume_at(base: *mut u8, found: &Inbox, committed: u64) {
    stand_at(base, found.last, committed);
    for input in &found.in_hand {
        match input {
            Input::Message { pid, bytes } => received(*pid, bytes),
            Input::Ended { pid, .. } => {
                // SAFETY: the siginfo_t in the mapping, as the kernel wrote it.
                let (code, status) = unsafe {
                    let info = end_in_hand();
                    ((*info).si_code, (*info).si_status())
                };
                ended(*pid, code, status);
            }
            Input::Ready(_) => {}
        }
    }
    if let Some(hand) = message_in_hand() {
        // SAFETY: the header lies in the mapping.
        unsafe { (*hand.header).msg_len = 0 };
    }
    about(0);
}

fn map(file: BorrowedFd<'_>) -> io::Result<*mut u8> {
    let fd = file.as_raw_fd();
    let length = libc::off_t::try_from(form::BYTES).unwrap_or(0);
    // SAFETY: numbers only. Pages allocated here cannot be missing at a later write.
    super::check(unsafe { libc::fallocate(fd, 0, 0, length) })?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address chosen by the kernel; the file belongs to init and never
    // shrinks.
    let base =
        unsafe { libc::mmap(ptr::null_mut(), form::BYTES, protection, libc::MAP_SHARED, fd, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: exactly the mapping just made. If this fails, children inherit the mapping and forget
    // it.
    unsafe { libc::madvise(base, form::BYTES, libc::MADV_DONTFORK) };
    Ok(base.cast())
}

/// Uses the [`form::BYTES`] bytes from `base` on as the inbox.
fn stand_at(base: *mut u8, last: u64, committed: u64) {
    // SAFETY: within the mapping, aligned.
    unsafe { prepare(base) };
    LAST.store(last, Ordering::SeqCst);
    COMMITTED.store(committed, Ordering::SeqCst);
    BASE.store(base, Ordering::SeqCst);
}

/// Makes the message header point at its parts.
unsafe fn prepare(base: *mut u8) {
    // SAFETY: by the layout's offsets, all of this lies in the mapping, disjoint and aligned.
    unsafe {
        let part: *mut libc::iovec = base.add(form::PART).cast();
        (*part).iov_base = base.add(form::MESSAGE).cast();
        (*part).iov_len = form::RING - form::MESSAGE;
        let header: *mut libc::mmsghdr = base.add(form::HEADER).cast();
        ptr::write_bytes(&raw mut (*header).msg_hdr, 0, 1);
        (*header).msg_hdr.msg_iov = part;
        (*header).msg_hdr.msg_iovlen = 1;
        (*header).msg_hdr.msg_control = base.add(form::CONTROL).cast();
    }
}

const _: () = assert!(size_of::<libc::msghdr>() == form::LENGTH - form::HEADER);
const _: () = assert!(size_of::<libc::siginfo_t>() <= form::HEADER - form::END);
const _: () = assert!(form::HEADER + size_of::<libc::mmsghdr>() <= form::PART);

/// Forgets the mapping in a child of PID 1.
pub(super) fn forget() {
    BASE.store(ptr::null_mut(), Ordering::SeqCst);
}

/// Records the unit whose event is processed ([`form::unit`]; 0 for none). Returns the previous
/// one.
pub(crate) fn about(unit: u64) -> u64 {
    let base = BASE.load(Ordering::SeqCst);
    if base.is_null() {
        return 0;
    }
    // SAFETY: within the mapping, aligned.
    unsafe {
        let place = base.add(form::ABOUT).cast::<u64>();
        let before = place.read_volatile();
        place.write_volatile(unit);
        before
    }
}

/// The number of the last entry.
pub(crate) fn last() -> u64 {
    LAST.load(Ordering::SeqCst)
}

/// Records that the committed state includes all entries up to this one.
pub(crate) fn committed(seq: u64) {
    COMMITTED.store(seq, Ordering::SeqCst);
}

/// Returns true if there is room for one more input of any kind. Without room, inputs stay in the
/// kernel until the next commit.
pub(crate) fn has_room() -> bool {
    BASE.load(Ordering::SeqCst).is_null() || fits(if cfg!(miri) { 0 } else { form::MESSAGE_ROOM })
}

fn fits(length: usize) -> bool {
    let after = LAST.load(Ordering::SeqCst).saturating_add(form::entries(length));
    after.saturating_sub(COMMITTED.load(Ordering::SeqCst)) <= form::ENTRIES
}

/// Adds an entry, unless the inbox is full.
fn put(kind: Kind, pid: i32, text: &[u8]) {
    let base = BASE.load(Ordering::SeqCst);
    let Ok(length) = u16::try_from(text.len()) else { return };
    if base.is_null() || !fits(text.len()) {
        return;
    }
    let last = LAST.load(Ordering::SeqCst);
    let none: &[u8] = &[];
    let parts = text.chunks(TEXT).chain(text.is_empty().then_some(none));
    let mut seq = last;
    for part in parts {
        seq = seq.wrapping_add(1);
        let kind = if seq == last.wrapping_add(1) { kind } else { Kind::More };
        let mut entry = [0u8; ENTRY];
        let fields =
            [&(kind as u16).to_ne_bytes()[..], &length.to_ne_bytes(), &pid.to_ne_bytes(), part];
        let bytes = fields.into_iter().flatten();
        entry.iter_mut().skip(8).zip(bytes).for_each(|(to, from)| *to = *from);
        // SAFETY: offsets of entries lie in the mapping, aligned to 64; one thread writes.
        unsafe {
            let to = base.add(form::place(seq));
            to.cast::<u64>().write_volatile(0);
            fence(Ordering::SeqCst);
            ptr::copy_nonoverlapping(entry.as_ptr().add(8), to.add(8), ENTRY - 8);
            fence(Ordering::SeqCst);
            to.cast::<u64>().write_volatile(seq);
        }
    }
    LAST.store(seq, Ordering::SeqCst);
}

/// Records that the readiness line of this run was seen and is about to be read.
pub(crate) fn ready(run: RunId) {
    put(Kind::Ready, 0, &run.0.to_ne_bytes());
}

/// The place where the kernel writes the exit of a child; null without an inbox.
pub(super) fn end_in_hand() -> *mut libc::siginfo_t {
    let base = BASE.load(Ordering::SeqCst);
    // SAFETY: within the mapping.
    if base.is_null() { base.cast() } else { unsafe { base.add(form::END).cast() } }
}

/// Turns the exit that the kernel wrote there into an entry.
pub(crate) fn ended(pid: i32, code: i32, status: i32) {
    let (code, status) = (code.to_ne_bytes(), status.to_ne_bytes());
    put(Kind::Ended, pid, &[code, status].concat());
    let hand = end_in_hand();
    if !hand.is_null() {
        // SAFETY: the siginfo_t in the mapping, which is plain data.
        unsafe { ptr::write_bytes(hand.cast::<u8>(), 0, size_of::<libc::siginfo_t>()) };
    }
}

/// The memory for the message that is being received.
#[derive(Clone, Copy)]
pub(crate) struct Hand {
    /// mmsghdr, iovec, control data and bytes, from [`form::HEADER`] on.
    pub(in crate::sys) header: *mut libc::mmsghdr,
    /// The place of the bytes.
    pub(in crate::sys) bytes: *mut u8,
}

/// The place for the next message. Returns `None` without an inbox.
pub(crate) fn message_in_hand() -> Option<Hand> {
    let base = BASE.load(Ordering::SeqCst);
    if base.is_null() {
        return None;
    }
    // SAFETY: both lie within the mapping, aligned.
    unsafe { Some(Hand { header: base.add(form::HEADER).cast(), bytes: base.add(form::MESSAGE) }) }
}

/// Turns the message that the kernel wrote there into an entry.
pub(crate) fn received(pid: i32, bytes: &[u8]) {
    put(Kind::Message, pid, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::spec::Exit;
    use std::sync::{Mutex, PoisonError};

    /// Aligned like a mapping.
    #[repr(C, align(4096))]
    struct Memory([u8; form::BYTES]);

    /// The memory after `work` has written the inbox there.
    fn written(work: impl FnOnce()) -> Box<Memory> {
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut memory = Box::new(Memory([0; form::BYTES]));
        stand_at(memory.0.as_mut_ptr(), 0, 0);
        work();
        forget();
        memory
    }

    #[test]
    fn inputs_are_read_in_order_and_those_of_a_commit_are_not() {
        let bytes = vec![b'x'; 3 * TEXT + 1];
        let mut committed_at = 0;
        let memory = written(|| {
            ended(41, libc::CLD_EXITED, 3);
            committed_at = last();
            committed(last());
            received(42, &bytes);
            ready(RunId(7));
            ended(43, libc::CLD_KILLED, 9);
        });
        let found = Inbox::read(&memory.0, committed_at);
        let killed = Exit::Signal { signal: 9, core: false };
        let all = [
            Input::Message { pid: 42, bytes },
            Input::Ready(RunId(7)),
            Input::Ended { pid: 43, exit: killed },
        ];
        assert_eq!(found.inputs, all);
        assert_eq!(Inbox::read(&memory.0, found.last).inputs, []);
    }

    #[test]
    fn an_end_that_the_kernel_has_written_and_init_has_not_is_an_input() {
        let memory = written(|| {
            let hand = end_in_hand().cast::<u8>();
            for (at, value) in [(8, libc::CLD_EXITED), (16, 42), (24, 5)] {
                // SAFETY: within the siginfo_t.
                unsafe { hand.add(at).cast::<i32>().write(value) };
            }
        });
        let found = Inbox::read(&memory.0, 0);
        assert_eq!(found.inputs, [Input::Ended { pid: 42, exit: Exit::Code(5) }]);
        assert_eq!(found.in_hand, found.inputs);
    }

    #[test]
    fn a_damaged_page_does_not_say_where_a_message_goes() {
        let mut memory = written(|| {});
        memory.0.fill(0xff);
        let base = memory.0.as_mut_ptr();
        // SAFETY: the memory is this test's, and of the inbox's size.
        let (part, bytes, control) = unsafe {
            prepare(base);
            let header: *const libc::mmsghdr = base.add(form::HEADER).cast();
            let part = (*header).msg_hdr.msg_iov;
            (part, (*part).iov_base, (*header).msg_hdr.msg_control)
        };
        let at = |offset| base.wrapping_add(offset).addr();
        assert_eq!(part.addr(), at(form::PART));
        assert_eq!((bytes.addr(), control.addr()), (at(form::MESSAGE), at(form::CONTROL)));
    }

    #[test]
    fn no_entry_is_overwritten_before_a_commit() {
        let memory = written(|| {
            for pid in 1..=i32::try_from(2 * form::ENTRIES).unwrap_or(0) {
                ended(pid, libc::CLD_EXITED, 0);
            }
            assert!(!has_room());
            committed(last());
            assert!(has_room());
        });
        let found = Inbox::read(&memory.0, 0);
        assert_eq!(found.inputs.len() as u64, form::ENTRIES);
        assert_eq!(found.inputs.first(), Some(&Input::Ended { pid: 1, exit: Exit::Code(0) }));
    }
}
