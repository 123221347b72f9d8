//! The inbox: inputs that init has taken from the kernel and not committed yet. The kernel writes
//! most of them into it directly, so an input is never stored nowhere ([`mod@crate::sys::inbox`]
//! writes). After a crash they are the inputs of the first turn.
//!
//! Layout: a page for the fault handler and the kernel, the bytes of the message being received,
//! then a ring of entries. An entry has [`ENTRY`] bytes: `seq: u64, kind: u16, length: u16, pid:
//! i32`, then [`TEXT`] bytes, in native byte order. A longer text continues in the following
//! entries. The number is written last and makes an entry valid. Reading is total: any bytes can be
//! read.

use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Exit;
use groundstate_units::unit::assembly::hash;

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
    pub(crate) rung: u64,
    /// Inputs that the kernel wrote and init had not turned into entries; they end `inputs`.
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
            rung: word(bytes, FAULT + 8).unwrap_or(0),
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
