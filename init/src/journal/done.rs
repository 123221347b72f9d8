//! Scripts that are done: units that stand as exited, each with its run and how that ended. An init
//! whose state is lost does not run them again. Written behind the notes ([`super::notes::DONE`]),
//! in places of their own: nothing that is noted later takes one, however long ago it was.
//!
//! The law, for one of which nothing lives: it is done where that is written here, or where the good
//! end of the last line of its start is noted, which nobody had the time to write here. In all other
//! cases (it has failed, it was stopped, it was skipped, nobody knows) it is run as at a boot. What
//! is not known is never shown as done.
//!
//! An entry is `unit: u64, check: u32, exit: u32, run: u64` and room; all of the machine's byte
//! order. A unit has one of [`AROUND`] places; where all of them are others' it is not written.
//! Reading is total: any bytes may be there.

use super::frame::crc;
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Exit;
use std::collections::BTreeMap;

/// Bytes of an entry.
pub(crate) const ENTRY: usize = 32;
/// Entries.
const ENTRIES: usize = if cfg!(miri) { 16 } else { 1024 };
/// Bytes of all.
pub(crate) const BYTES: usize = ENTRY * ENTRIES;
/// Places one unit may have.
const AROUND: usize = 8;

/// Where this unit may stand.
pub(crate) fn places(unit: u64) -> impl Iterator<Item = usize> {
    let first = usize::try_from(unit).unwrap_or(0);
    (0..AROUND).map(move |next| first.wrapping_add(next) % ENTRIES * ENTRY)
}

/// What is written of it.
pub(crate) fn entry(unit: u64, run: RunId, exit: Exit) -> [u8; ENTRY] {
    let exit = match exit {
        Exit::Code(code) => u32::from(code),
        Exit::Signal { signal, core } => 1 << 8 | u32::from(core) << 9 | u32::from(signal) << 16,
    };
    let (unit, run, exit) = (unit.to_ne_bytes(), run.0.to_ne_bytes(), exit.to_ne_bytes());
    let check = crc(&[&unit[..], &exit, &run].concat()).to_ne_bytes();
    let mut bytes = [0; ENTRY];
    let fields = [&unit[..], &check, &exit, &run].concat();
    bytes.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
    bytes
}

/// The unit an entry is about; None: of none.
pub(crate) fn unit_in(bytes: &[u8]) -> Option<u64> {
    read_one(bytes).map(|(unit, _)| unit)
}

fn read_one(bytes: &[u8]) -> Option<(u64, (RunId, Exit))> {
    let (unit, rest) = bytes.split_first_chunk::<8>()?;
    let (check, rest) = rest.split_first_chunk::<4>()?;
    let (exit, rest) = rest.split_first_chunk::<4>()?;
    let (run, _) = rest.split_first_chunk::<8>()?;
    if crc(&[&unit[..], exit, run].concat()) != u32::from_ne_bytes(*check) {
        return None;
    }
    let exit = u32::from_ne_bytes(*exit);
    let byte = |shift: u32| u8::try_from(exit >> shift & 0xff).unwrap_or(0);
    let exit = match exit >> 8 & 1 {
        0 => Exit::Code(byte(0)),
        _ => Exit::Signal { signal: byte(16), core: exit >> 9 & 1 != 0 },
    };
    let run = RunId(u64::from_ne_bytes(*run));
    (run.0 > 0).then_some((u64::from_ne_bytes(*unit), (run, exit)))
}

/// All of them, by unit.
pub(crate) fn read(bytes: &[u8]) -> BTreeMap<u64, (RunId, Exit)> {
    bytes.chunks_exact(ENTRY).take(ENTRIES).filter_map(read_one).collect()
}

#[cfg(test)]
mod tests {
    use super::super::notes::tests::written;
    use super::super::notes::{DONE, ENTRIES as NOTES, Kind};
    use super::*;
    use crate::sys::notes as writer;

    #[test]
    fn what_is_done_is_known_however_much_was_noted_since() {
        let signal = Exit::Signal { signal: 15, core: true };
        let bytes = written(|| {
            writer::done(7, Some((RunId(30), Exit::Code(3))));
            writer::done(8, Some((RunId(31), Exit::Code(0))));
            writer::done(9, Some((RunId(32), Exit::Code(0))));
            writer::done(9, Some((RunId(33), signal)));
            for seq in 0..NOTES * 2 {
                writer::put_text(Kind::Seen, &1u64.to_ne_bytes());
                writer::known(seq + 1);
            }
            writer::done(8, None);
        });
        let done = read(&bytes[DONE..]);
        let expected = [(7, (RunId(30), Exit::Code(3))), (9, (RunId(33), signal))];
        assert_eq!(done, expected.into_iter().collect());
        // Where there is no place it is not known, and what is damaged is not either.
        let beside = ENTRIES as u64;
        let mut bytes = written(|| {
            for n in 0..=AROUND as u64 {
                writer::done(7 + n * beside, Some((RunId(1), Exit::Code(0))));
            }
        });
        assert_eq!(read(&bytes[DONE..]).len(), AROUND);
        bytes[DONE + 7 * ENTRY + 8] ^= 1;
        assert_eq!(read(&bytes[DONE..]).len(), AROUND - 1);
        assert!(read(&[255; BYTES]).is_empty() && read(&[0; BYTES]).is_empty());
        assert!(read(&bytes[..5]).is_empty());
    }
}
