//! The layout of the inbox, and how it is written into a mapped memfd, which survives a crash. The
//! kernel writes the exit of a child and a datagram directly into it, so that a crash at any moment
//! loses neither. mmap(2), waitid(2), recvmmsg(2).
//!
//! There is one inbox, for PID 1 only: forked children do not inherit the mapping (MADV_DONTFORK)
//! and forget it. All its pages are allocated at the start.

use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Exit;
use groundstate_units::unit::assembly::hash;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
use std::{io, ptr};

/// The mapping, or null.
static BASE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// Number of the last entry.
static LAST: AtomicU64 = AtomicU64::new(0);
/// Number of the last entry that the committed state knows.
static COMMITTED: AtomicU64 = AtomicU64::new(0);

/// Maps an empty inbox in this memfd. ENOMEM, ENOSPC.
pub(crate) fn begin(file: BorrowedFd<'_>) -> io::Result<()> {
    map(file).map(|base| use_memory(base, 0, 0))
}

/// Maps the inbox of a crashed image. Its inputs stay until the next commit.
pub(crate) fn resume(file: BorrowedFd<'_>, found: &Inbox, committed: u64) -> io::Result<()> {
    map(file).map(|base| resume_at(base, found, committed))
}

fn resume_at(base: *mut u8, found: &Inbox, committed: u64) {
    use_memory(base, found.last, committed);
    for input in &found.in_hand {
        match input {
            Input::Message { pid, bytes } => record_message(*pid, bytes),
            Input::Ended { pid, .. } => {
                // SAFETY: the siginfo_t in the mapping, as the kernel wrote it.
                let (code, status) = unsafe {
                    let info = end_in_hand();
                    ((*info).si_code, (*info).si_status())
                };
                record_exit(*pid, code, status);
            }
            Input::Ready(_) => {}
        }
    }
    if let Some(hand) = message_in_hand() {
        // SAFETY: the header lies in the mapping.
        unsafe { (*hand.header).msg_len = 0 };
    }
    record_unit(0);
}

fn map(file: BorrowedFd<'_>) -> io::Result<*mut u8> {
    let fd = file.as_raw_fd();
    let length = libc::off_t::try_from(BYTES).unwrap_or(0);
    // SAFETY: numbers only. Pages allocated here cannot be missing at a later write.
    super::check(unsafe { libc::fallocate(fd, 0, 0, length) })?;
    let base = super::map(BYTES, libc::MAP_SHARED, Some(file))?.as_ptr();
    // SAFETY: exactly the mapping just made. If this fails, children inherit the mapping and forget
    // it.
    unsafe { libc::madvise(base.cast(), BYTES, libc::MADV_DONTFORK) };
    Ok(base)
}

/// Uses the [`BYTES`] bytes from `base` on as the inbox.
fn use_memory(base: *mut u8, last: u64, committed: u64) {
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
        let part: *mut libc::iovec = base.add(PART).cast();
        (*part).iov_base = base.add(MESSAGE).cast();
        (*part).iov_len = RING - MESSAGE;
        let header: *mut libc::mmsghdr = base.add(HEADER).cast();
        ptr::write_bytes(&raw mut (*header).msg_hdr, 0, 1);
        (*header).msg_hdr.msg_iov = part;
        (*header).msg_hdr.msg_iovlen = 1;
        (*header).msg_hdr.msg_control = base.add(CONTROL).cast();
    }
}

const _: () = assert!(size_of::<libc::msghdr>() == LENGTH - HEADER);
const _: () = assert!(size_of::<libc::siginfo_t>() <= HEADER - END);
const _: () = assert!(HEADER + size_of::<libc::mmsghdr>() <= PART);

/// Forgets the mapping in a child of PID 1.
pub(super) fn forget() {
    BASE.store(ptr::null_mut(), Ordering::SeqCst);
}

/// Records the unit whose event is processed ([`unit`]; 0 for none). Returns the previous
/// one.
pub(crate) fn record_unit(unit: u64) -> u64 {
    let base = BASE.load(Ordering::SeqCst);
    if base.is_null() {
        return 0;
    }
    // SAFETY: within the mapping, aligned.
    unsafe {
        let place = base.add(ABOUT).cast::<u64>();
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
pub(crate) fn note_commit(seq: u64) {
    COMMITTED.store(seq, Ordering::SeqCst);
}

/// Returns true if there is room for one more input of any kind. Without room, inputs stay in the
/// kernel until the next commit.
pub(crate) fn has_room() -> bool {
    BASE.load(Ordering::SeqCst).is_null() || fits(if cfg!(miri) { 0 } else { MESSAGE_ROOM })
}

fn fits(length: usize) -> bool {
    let after = LAST.load(Ordering::SeqCst).saturating_add(entries(length));
    after.saturating_sub(COMMITTED.load(Ordering::SeqCst)) <= ENTRIES
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
            let to = base.add(place(seq));
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
pub(crate) fn record_ready(run: RunId) {
    put(Kind::Ready, 0, &run.0.to_ne_bytes());
}

/// The place where the kernel writes the exit of a child; null without an inbox.
pub(super) fn end_in_hand() -> *mut libc::siginfo_t {
    let base = BASE.load(Ordering::SeqCst);
    // SAFETY: within the mapping.
    if base.is_null() { base.cast() } else { unsafe { base.add(END).cast() } }
}

/// Turns the exit that the kernel wrote there into an entry.
pub(crate) fn record_exit(pid: i32, code: i32, status: i32) {
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
    /// mmsghdr, iovec, control data and bytes, from [`HEADER`] on.
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
    unsafe { Some(Hand { header: base.add(HEADER).cast(), bytes: base.add(MESSAGE) }) }
}

/// Turns the message that the kernel wrote there into an entry.
pub(crate) fn record_message(pid: i32, bytes: &[u8]) {
    put(Kind::Message, pid, bytes);
}

// The inbox: inputs that init has taken from the kernel and not committed yet. The kernel writes
// most of them into it directly, so that a crash loses none of these ([`mod@crate::sys::inbox`]).
// After a crash they are the inputs of the first turn.
//
// Layout: a page for the fault handler and the kernel, the bytes of the message being received,
// then a ring of entries. An entry has [`ENTRY`] bytes: `seq: u64, kind: u16, length: u16, pid:
// i32`, then [`TEXT`] bytes, in native byte order. A longer text continues in the following
// entries. The number is written last and makes an entry valid. Reading is total: any bytes can be
// read.

/// The signal of the fault, and the signals not handled: two u64 written by the fault handler.
pub(crate) const FAULT: usize = 0;
/// The unit whose event is processed, by [`fn@unit`]: u64, 0 for none.
pub(crate) const ABOUT: usize = 40;
/// The siginfo_t of the child that is being reaped.
pub(crate) const END: usize = 64;
/// The mmsghdr of the message that is being received.
pub(crate) const HEADER: usize = 256;
/// Its length; 0 if no message is being received.
pub(crate) const LENGTH: usize = HEADER + 56;
/// Its iovec.
pub(crate) const PART: usize = 384;
/// Its control data.
pub(crate) const CONTROL: usize = 512;
/// Bytes of the control data.
pub(crate) const CONTROL_ROOM: usize = 4096 - CONTROL;
/// Its bytes.
pub(crate) const MESSAGE: usize = 4096;
/// Bytes of one datagram; longer ones are dropped.
pub(crate) const MESSAGE_ROOM: usize = 8192;
/// The ring of entries.
pub(crate) const RING: usize = MESSAGE + MESSAGE_ROOM;
/// Bytes of an entry.
pub(crate) const ENTRY: usize = 64;
/// Entries of the ring. Miri has fewer, because it is a thousand times slower.
pub(crate) const ENTRIES: u64 = if cfg!(miri) { 64 } else { 4096 };
/// Bytes of the file.
pub(crate) const BYTES: usize = RING + ENTRY * ENTRIES as usize;
/// Bytes of text in an entry.
pub(crate) const TEXT: usize = ENTRY - 16;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Kind {
    /// A datagram of the notify socket.
    Message = 1,
    /// The end of a child.
    Ended,
    /// The line by which a run is ready.
    Ready,
    /// More text of the previous entry.
    More,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Message, Kind::Ended, Kind::Ready, Kind::More];
}

/// One input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A datagram of the notify socket.
    Message {
        pid: i32,
        /// Its bytes. Its descriptors are lost.
        bytes: Vec<u8>,
    },
    /// A reaped child.
    Ended { pid: i32, exit: Exit },
    /// The readiness line of this run, read by the logger or from a `ready-fd`.
    Ready(RunId),
}

/// The number of a unit in the inbox; never 0.
pub(crate) fn unit(name: &str) -> u64 {
    hash(name.as_bytes()).max(1)
}

/// The offset of the entry with this number.
pub(crate) fn place(seq: u64) -> usize {
    let index = usize::try_from(seq.wrapping_sub(1) % ENTRIES).unwrap_or(0);
    RING + index * ENTRY
}

/// The number of entries for a text of this length.
pub(crate) fn entries(length: usize) -> u64 {
    length.div_ceil(TEXT).max(1) as u64
}

/// The content of the inbox of a crashed image.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Inputs that the committed state does not include, in order.
    pub(crate) inputs: Vec<Input>,
    /// The number of the last entry.
    pub(crate) last: u64,
    /// See [`ABOUT`].
    pub(crate) about: u64,
    /// The signal of the fault; 0 for a panic.
    pub(crate) signal: u64,
    /// Signals that were not handled: bit n-1 for signal n.
    pub(crate) arrived: u64,
    /// Inputs that the kernel wrote and init had not turned into entries: the last of `inputs`.
    pub(crate) in_hand: Vec<Input>,
}

impl Inbox {
    /// Reads all inputs after the entry with the number `committed`.
    pub(crate) fn read(bytes: &[u8], committed: u64) -> Inbox {
        let mut inputs = Vec::new();
        let mut seq = committed.saturating_add(1);
        while seq.saturating_sub(committed) <= ENTRIES && seq < u64::MAX {
            let Some((input, taken)) = entry(bytes, seq) else { break };
            inputs.extend(input);
            seq = seq.saturating_add(taken);
        }
        let in_hand = in_hand(bytes);
        inputs.extend(in_hand.iter().cloned());
        Inbox {
            inputs,
            last: seq.saturating_sub(1),
            about: word(bytes, ABOUT).unwrap_or(0),
            signal: word(bytes, FAULT).unwrap_or(0),
            arrived: word(bytes, FAULT + 8).unwrap_or(0),
            in_hand,
        }
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

/// The input of the entry with this number, if it is valid, and its number of entries.
fn entry(bytes: &[u8], seq: u64) -> Option<(Option<Input>, u64)> {
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
    let pid = int(bytes, at + 12)?;
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
    Some((input(first, pid, text), count))
}

fn input(kind: Kind, pid: i32, text: Vec<u8>) -> Option<Input> {
    match kind {
        Kind::Message => Some(Input::Message { pid, bytes: text }),
        Kind::Ended => {
            let (code, status) = (int(&text, 0)?, int(&text, 4)?);
            Some(Input::Ended { pid, exit: exit(code, status) })
        }
        Kind::Ready => word(&text, 0).map(|run| Input::Ready(RunId(run))),
        Kind::More => None,
    }
}

/// The exit described by si_code and si_status of waitid(2).
pub(crate) fn exit(code: i32, status: i32) -> Exit {
    let low = u8::try_from(status & 0xff).unwrap_or(u8::MAX);
    match code {
        libc::CLD_EXITED => Exit::Code(low),
        libc::CLD_DUMPED => Exit::Signal { signal: low, core: true },
        _ => Exit::Signal { signal: low, core: false },
    }
}

fn in_hand(bytes: &[u8]) -> Vec<Input> {
    let length = number(bytes, LENGTH).map_or(0, u32::from_ne_bytes) as usize;
    let text = bytes.get(MESSAGE..MESSAGE.saturating_add(length).min(RING));
    let text = text.filter(|_| length > 0).map(<[u8]>::to_vec);
    let message = sender(bytes).zip(text).map(|(pid, bytes)| Input::Message { pid, bytes });
    // siginfo_t: si_code at 8, si_pid at 16, si_status at 24.
    let part = |at: usize| int(bytes, END + at);
    let end = part(16).filter(|pid| *pid > 0).zip(part(8)).zip(part(24));
    let end = end.map(|((pid, code), status)| {
        let exit = exit(code, status);
        Input::Ended { pid, exit }
    });
    message.into_iter().chain(end).collect()
}

/// The pid in the credentials, which come first in the control data: struct cmsghdr, struct ucred.
fn sender(bytes: &[u8]) -> Option<i32> {
    let (level, kind) = (int(bytes, CONTROL + 8)?, int(bytes, CONTROL + 12)?);
    let is_sender = level == libc::SOL_SOCKET && kind == libc::SCM_CREDENTIALS;
    is_sender.then(|| int(bytes, CONTROL + 16)).flatten().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::spec::Exit;
    use std::sync::{Mutex, PoisonError};

    /// Aligned like a mapping.
    #[repr(C, align(4096))]
    struct Memory([u8; super::BYTES]);

    /// The memory after `work` has written the inbox there.
    fn written(work: impl FnOnce()) -> Box<Memory> {
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut memory = Box::new(Memory([0; super::BYTES]));
        use_memory(memory.0.as_mut_ptr(), 0, 0);
        work();
        forget();
        memory
    }

    #[test]
    fn uncommitted_inputs_are_read_in_order() {
        let bytes = vec![b'x'; 3 * TEXT + 1];
        let mut committed_at = 0;
        let memory = written(|| {
            record_exit(41, libc::CLD_EXITED, 3);
            committed_at = last();
            note_commit(last());
            record_message(42, &bytes);
            record_ready(RunId(7));
            record_exit(43, libc::CLD_KILLED, 9);
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
    fn exit_written_only_by_the_kernel_is_an_input() {
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
    fn damaged_inbox_page_does_not_redirect_a_message() {
        let mut memory = written(|| {});
        memory.0.fill(0xff);
        let base = memory.0.as_mut_ptr();
        // SAFETY: the memory is this test's, and of the inbox's size.
        let (part, bytes, control) = unsafe {
            prepare(base);
            let header: *const libc::mmsghdr = base.add(super::HEADER).cast();
            let part = (*header).msg_hdr.msg_iov;
            (part, (*part).iov_base, (*header).msg_hdr.msg_control)
        };
        let at = |offset| base.wrapping_add(offset).addr();
        assert_eq!(part.addr(), at(super::PART));
        assert_eq!((bytes.addr(), control.addr()), (at(super::MESSAGE), at(super::CONTROL)));
    }

    #[test]
    fn no_entry_is_overwritten_before_a_commit() {
        // Above PID_MAX_LIMIT: the tests beside this one reap children of their own.
        const FIRST: i32 = 5_000_000;
        let memory = written(|| {
            for pid in (FIRST..).take(2 * super::ENTRIES as usize) {
                record_exit(pid, libc::CLD_EXITED, 0);
            }
            assert!(!has_room());
            note_commit(last());
            assert!(has_room());
        });
        let found = Inbox::read(&memory.0, 0);
        let pids: Vec<i32> = found
            .inputs
            .iter()
            .filter_map(
                |input| if let Input::Ended { pid, .. } = input { Some(*pid) } else { None },
            )
            .filter(|pid| *pid >= FIRST)
            .collect();
        assert!(pids.len() as u64 > super::ENTRIES / 2);
        assert!(pids.iter().zip(FIRST..).all(|(pid, expected)| *pid == expected), "{pids:?}");
    }
}
