//! The form of the journal: eight bytes that name it and its version, then frames. A frame is
//! `length: u32, crc: u32` (both little-endian), then `length` bytes of which the first is the
//! [`Kind`] and the rest one postcard value; the CRC is over these. Length-prefixed and binary:
//! no name and no text of a service can look like anything else.
//!
//! Reading is total: whatever the bytes are, it gives frames or says what is wrong.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The last byte is the version: another one is not understood. It changes whenever a type that
/// is kept does, and then `init/golden/make` writes a state of it. A variant at the end of an enum, and a
/// frame that is left out while there is nothing in it, change nothing: what was written before is
/// read, and an older binary refuses what it does not know.
const MAGIC: [u8; 8] = *b"gs-jrnl\x0b";
/// Bytes of a whole journal.
const MOST: usize = 1 << 30;

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// [`super::state::Head`].
    Head = 1,
    /// The machine.
    Machine,
    /// One run; there are many of these.
    Run,
    /// The cgroups, without the runs.
    Tracker,
    /// The memory shared with children.
    Ground,
    /// Descriptors services left.
    Store,
    /// The control socket and its connections.
    Control,
    /// The notify socket.
    Notify,
    /// The logger, without the runs.
    Logger,
    /// Loads under way.
    Loader,
    /// The event log.
    History,
    /// How long starts took.
    Timings,
    /// Triggers.
    Triggers,
    /// The end, asked for or not.
    Ending,
    /// Pid files that are being looked at; left out when there are none.
    Looks,
    /// Units whose event was in hand as an image crashed; left out when there are none.
    Suspects,
    /// The kernel kills who is cloned into a cgroup; left out where it does not.
    NoJoining,
    /// Where lookouts that have not ended are; left out when there are none.
    Places,
}

impl Kind {
    const ALL: [Kind; 18] = [
        Kind::Head,
        Kind::Machine,
        Kind::Run,
        Kind::Tracker,
        Kind::Ground,
        Kind::Store,
        Kind::Control,
        Kind::Notify,
        Kind::Logger,
        Kind::Loader,
        Kind::History,
        Kind::Timings,
        Kind::Triggers,
        Kind::Ending,
        Kind::Looks,
        Kind::Suspects,
        Kind::NoJoining,
        Kind::Places,
    ];
}

/// Why bytes are no journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Not what this version of the program writes.
    Version,
    /// They break off, or are not what was written.
    Form,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Damage::Version => "a state of another version of init",
            Damage::Form => "a state that is damaged",
        })
    }
}

/// A journal in the making.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// With nothing in it.
    pub(crate) fn new() -> Writer {
        Writer(MAGIC.to_vec())
    }

    /// One frame more. False: the value can not be written, and nothing was.
    pub(crate) fn put(&mut self, kind: Kind, value: &impl Serialize) -> bool {
        let begin = self.0.len();
        let Some(room) = begin.checked_add(9) else { return false };
        self.0.resize(room - 1, 0);
        self.0.push(kind as u8);
        let Ok(bytes) = postcard::to_extend(value, std::mem::take(&mut self.0)) else {
            return false;
        };
        self.0 = bytes;
        let Some((head, payload)) =
            self.0.get_mut(begin..).and_then(|frame| frame.split_first_chunk_mut::<8>())
        else {
            return false;
        };
        let Ok(length) = u32::try_from(payload.len()) else { return false };
        let crc = crc(payload);
        let [a, b, c, d] = length.to_le_bytes();
        let [e, f, g, h] = crc.to_le_bytes();
        *head = [a, b, c, d, e, f, g, h];
        true
    }

    /// All of it.
    pub(crate) fn bytes(self) -> Vec<u8> {
        self.0
    }
}

/// The frames in these bytes, in order.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<(Kind, &[u8])>, Damage> {
    let mut rest = bytes.strip_prefix(&MAGIC).ok_or(Damage::Version)?;
    if bytes.len() > MOST {
        return Err(Damage::Form);
    }
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let (&[a, b, c, d, e, f, g, h], after) =
            rest.split_first_chunk::<8>().ok_or(Damage::Form)?;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let payload = after.get(..length).ok_or(Damage::Form)?;
        if crc(payload) != u32::from_le_bytes([e, f, g, h]) {
            return Err(Damage::Form);
        }
        let (number, body) = payload.split_first().ok_or(Damage::Form)?;
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == *number);
        frames.push((kind.ok_or(Damage::Form)?, body));
        rest = after.get(length..).unwrap_or_default();
    }
    Ok(frames)
}

/// Two values as the text of a note, the one behind the other: who knows of no second one reads the first.
pub(super) fn behind(first: &impl Serialize, more: &impl Serialize) -> Vec<u8> {
    let first = postcard::to_allocvec(first).unwrap_or_default();
    postcard::to_extend(more, first).unwrap_or_default()
}

/// Both of them. Another image's may end before the second.
pub(super) fn both<T: DeserializeOwned, M: DeserializeOwned + Default>(
    text: &[u8],
) -> Option<(T, M)> {
    let (first, more) = postcard::take_from_bytes(text).ok()?;
    Some((first, postcard::from_bytes(more).unwrap_or_default()))
}

/// CRC-32 of IEEE 802.3, as in zlib and Ethernet.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        let index = usize::from(sum.to_le_bytes().first().copied().unwrap_or(0) ^ byte);
        TABLE.get(index).copied().unwrap_or(0) ^ (sum >> 8)
    })
}

static TABLE: [u32; 256] = table();

#[allow(clippy::indexing_slicing, reason = "done by the compiler, which would say so")]
const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let (mut value, mut bit) = (index as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Vec<u8> {
        let mut writer = Writer::new();
        assert!(writer.put(Kind::Head, &("a name\nwith=a newline\0", 7u32)));
        assert!(writer.put(Kind::Ending, &()));
        assert!(writer.put(Kind::Run, &vec![1u8; 300]));
        writer.bytes()
    }

    #[test]
    fn the_sum_is_the_one_everybody_has() {
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = written();
        let frames = read(&bytes).unwrap();
        let kinds: Vec<Kind> = frames.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [Kind::Head, Kind::Ending, Kind::Run]);
        let head: (String, u32) = postcard::from_bytes(frames[0].1).unwrap();
        assert_eq!(head, ("a name\nwith=a newline\0".to_string(), 7));
    }

    #[test]
    fn a_frame_that_only_a_later_program_knows_is_refused() {
        let mut bytes = written();
        let later = [u8::MAX, 1, 2, 3];
        bytes.extend(4u32.to_le_bytes());
        bytes.extend(crc(&later).to_le_bytes());
        bytes.extend(later);
        assert_eq!(read(&bytes), Err(Damage::Form));
    }

    #[test]
    fn each_bit_counts_and_so_does_each_byte_that_is_missing() {
        let bytes = written();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                let damage = if at < 8 { Damage::Version } else { Damage::Form };
                assert_eq!(read(&other), Err(damage), "byte {at}, bit {bit}");
            }
        }
        let ends = (0..bytes.len()).filter(|end| read(&bytes[..*end]).is_ok());
        // Whole frames alone: what is missing then is missed by who reads the state.
        assert_eq!(ends.count(), 3);
    }
}
