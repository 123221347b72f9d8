//! The decoders of what PID 1 reads back, and what is held of each: whatever the bytes are they are
//! refused or taken, with little memory and little work; what was taken is taken again as it is kept
//! again. A few of those that were taken are taken through what comes behind them: a machine through
//! its life, a state through all that `--resume` reads.

use super::allocation::measured;
use super::bases::{Bases, WINDOWS};
use crate::fuzzed::{generation, kept_machine, parcel};
use crate::journal::notes::{self, Past};
use crate::journal::state::{Parts, State};
use crate::loader::parcel as delivery;
use groundstate_units::generation::Generation;
use groundstate_units::machine::Machine;
use std::sync::Arc;

/// Bytes that a decoder may ask for at one time …
const ROOM: usize = 64 << 10;
/// … and for each byte of its input: a list may say that it has as many entries as there are bytes
/// left, and gets room for all of them at once; the largest entry, a unit's, takes so many.
const TIMES: usize = 512;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decoder {
    /// What init has kept of itself, and the machine within.
    Journal,
    /// The machine alone.
    Machine,
    /// What has happened since.
    Notes,
    /// A set of units.
    Generation,
    /// The same as the loader delivers it.
    Parcel,
}

impl Decoder {
    pub const ALL: [Decoder; 5] =
        [Decoder::Journal, Decoder::Machine, Decoder::Notes, Decoder::Generation, Decoder::Parcel];
    /// How often each gets an input, of a thousand.
    pub const SHARES: [u32; 5] = [300, 300, 150, 170, 80];

    /// Its bytes are one value: mostly a change leaves nothing of it.
    pub fn is_one_value(self) -> bool {
        matches!(self, Decoder::Machine | Decoder::Generation)
    }
}

/// What has become of an input.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub is_taken: bool,
    /// Bytes of memory.
    pub asked: usize,
}

/// Memory as the notes have it: all zeroes between two inputs.
#[derive(Default)]
pub struct Memory(Vec<u8>);

impl Memory {
    fn bytes(&mut self) -> &mut [u8] {
        self.0.resize(notes::BYTES, 0);
        &mut self.0
    }

    /// The work with these bytes in the windows.
    fn with<T>(&mut self, bytes: &[u8], work: impl FnOnce(&[u8]) -> T) -> T {
        let (memory, mut rest) = (self.bytes(), bytes);
        for (at, length) in WINDOWS {
            let (piece, after) = rest.split_at(length.min(rest.len()));
            memory[at..at + piece.len()].copy_from_slice(piece);
            rest = after;
        }
        let result = work(memory);
        for (at, length) in WINDOWS {
            memory[at..at + length].fill(0);
        }
        result
    }
}

/// Panics where one of the promises is broken.
pub fn decode(decoder: Decoder, bytes: &[u8], bases: &Bases, memory: &mut Memory) -> Outcome {
    let outcome = match decoder {
        Decoder::Journal => journal(bytes),
        Decoder::Machine => machine(bytes),
        Decoder::Notes => memory.with(bytes, notes),
        Decoder::Generation => generation(bytes),
        Decoder::Parcel => parcel(bytes),
    };
    let input = bytes.len() + if decoder == Decoder::Journal { bases.units.length } else { 0 };
    let most = ROOM + TIMES * input;
    let asked = outcome.asked;
    assert!(asked <= most, "{asked} bytes of memory, of {input}");
    outcome
}

/// Takes what was taken further.
pub fn go_on(decoder: Decoder, bytes: &[u8]) {
    match decoder {
        Decoder::Journal => {
            if let Ok((_, machine)) = Parts::read(bytes).and_then(|parts| parts.machine()) {
                kept_machine::live(machine);
                drop(State::read(bytes));
            }
        }
        Decoder::Machine => {
            let generation = kept_machine::at_work().0.clone();
            Machine::from_kept(bytes, generation).into_iter().for_each(kept_machine::live);
        }
        Decoder::Generation => {
            Generation::decode(bytes).iter().for_each(|it| generation::live(&Arc::new(it.clone())));
        }
        Decoder::Parcel => {
            delivery::decode(bytes).into_iter().for_each(|it| _ = parcel::packed_again(it));
        }
        Decoder::Notes => {}
    }
}

fn journal(bytes: &[u8]) -> Outcome {
    let read = || Parts::read(bytes).map(|parts| (parts.machine(), parts));
    let (parts, asked) = measured(read);
    let Ok((machine, parts)) = parts else { return Outcome { is_taken: false, asked } };
    drop(parts);
    if let Ok((generation, machine)) = machine {
        assert!(
            Machine::from_kept(&machine.keep(), generation).is_some(),
            "kept again it is refused"
        );
    }
    Outcome { is_taken: true, asked }
}

fn machine(bytes: &[u8]) -> Outcome {
    let generation = &kept_machine::at_work().0;
    let (machine, asked) = measured(|| Machine::from_kept(bytes, generation.clone()));
    let Some(machine) = machine else { return Outcome { is_taken: false, asked } };
    let kept = machine.keep();
    let again = Machine::from_kept(&kept, generation.clone()).map(|machine| machine.keep());
    assert_eq!(again, Some(kept), "kept again it is another");
    Outcome { is_taken: true, asked }
}

fn generation(bytes: &[u8]) -> Outcome {
    let (decoded, asked) = measured(|| Generation::decode(bytes));
    let Ok(decoded) = decoded else { return Outcome { is_taken: false, asked } };
    assert_eq!(Generation::decode(&decoded.encode()).as_ref(), Ok(&decoded));
    Outcome { is_taken: true, asked }
}

fn parcel(bytes: &[u8]) -> Outcome {
    let (delivered, asked) = measured(|| delivery::decode(bytes));
    let Ok(delivered) = delivered else { return Outcome { is_taken: false, asked } };
    assert_eq!(delivered.generation.prove(), Ok(()), "packed, it is another");
    Outcome { is_taken: true, asked }
}

fn notes(memory: &[u8]) -> Outcome {
    let (past, asked) = measured(|| Past::read(memory, 0));
    assert!(past.notes.len() as u64 <= notes::ENTRIES + 2 && past.last >= past.known);
    assert_eq!(Past::read(memory, 0).notes, past.notes, "read again it is another");
    Outcome { is_taken: past.last > 0, asked }
}
