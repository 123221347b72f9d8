//! What the inputs of each decoder are made of: the fuzzer's corpora, what an init has kept once
//! (`init/golden`), and what the writers of the product write here and now.

use super::decoder::{Decoder, Memory, decode};
use super::input::make_right;
use crate::fuzzed::{generation, journal_notes, kept_init, kept_machine, parcel};
use crate::journal::frame::{self, Kind};
use crate::journal::notes;
use crate::journal::state::Parts;
use crate::sys::inherit;
use groundstate_units::generation::Generation;
use groundstate_units::sim::chance::Chance;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::Path;

/// Entries of the ring that are looked at.
const NOTES: usize = 40;
/// What of the memory of the notes is mutated: from where, and how many bytes. The rest is zeroes.
pub const WINDOWS: [(usize, usize); 3] =
    [(0, 640), (notes::MESSAGE, 64), (notes::RING, NOTES * notes::ENTRY)];
/// Where the ring begins in the windows, one behind the other.
pub const RING_AT: usize = WINDOWS[0].1 + WINDOWS[1].1;

/// Bytes, and where a change alone leaves them something that is taken.
#[derive(Clone, Default)]
pub struct Base {
    pub bytes: Vec<u8>,
    pub places: Vec<usize>,
}

/// A frame: its kind, and its body.
pub type Frame = (u8, Vec<u8>);

/// See the module.
#[derive(Default)]
pub struct Bases {
    of: BTreeMap<Decoder, Vec<Base>>,
    /// Those of them that are taken as they are.
    sound: BTreeMap<Decoder, Vec<usize>>,
    /// The frames of the journals that are taken.
    pub frames: Vec<Vec<(u8, Base)>>,
    /// Delivered generations: what stands before each, and its bytes.
    pub parcels: Vec<(Vec<u8>, Base)>,
    /// Those that a journal may name.
    pub units: Units,
}

/// Units in memory that is here as long as this is. What tells it differs from run to run: it takes the
/// place of what told that of the init which kept the state when all else is done, so that a number
/// stands for the same input always.
#[derive(Default)]
pub struct Units {
    pub length: usize,
    then: Vec<u8>,
    now: Vec<u8>,
    memory: Option<OwnedFd>,
}

impl Bases {
    pub fn of(&self, decoder: Decoder) -> &[Base] {
        self.of.get(&decoder).map_or(&[], Vec::as_slice)
    }

    /// Of all of them one, and mostly one that is taken as it is.
    pub fn pick(&self, decoder: Decoder, chance: &mut Chance) -> usize {
        let sound = self.sound.get(&decoder).map_or(&[][..], Vec::as_slice);
        let any = chance.below(self.of(decoder).len());
        if chance.percent(90) { chance.pick(sound).unwrap_or(any) } else { any }
    }

    /// Reads files and writes memory; nothing of the file system is needed any more behind it.
    pub fn found() -> Bases {
        let mut bases = Bases::default();
        let journals = bases.journals();
        bases.set(Decoder::Journal, journals.clone());
        bases.set_notes();
        bases.set(Decoder::Machine, meant("kept_machine", kept_machine::meant));
        bases.set(Decoder::Generation, meant("generation", generation::meant));
        let mut parcels = meant("parcel", parcel::meant);
        parcels.push(newest("generation"));
        bases.set(Decoder::Parcel, parcels.clone());
        let framed = journals.iter().filter_map(|it| framed(it));
        let frames: Vec<_> =
            framed.filter(|it| bases.takes(Decoder::Journal, &bases.journal(it))).collect();
        let last = frames.last().and_then(|frames| Parts::read(&bases.journal(frames)).ok());
        assert!(last.is_some_and(|it| it.machine().is_ok()), "what was kept once fits its units");
        bases.frames = frames.iter().map(|frames| bases.tried(frames)).collect();
        let halves = parcels.iter().filter_map(|it| halves(it));
        let halves: Vec<_> =
            halves.filter(|(_, body)| bases.takes(Decoder::Generation, body)).collect();
        let base = |body: Vec<u8>| bases.base(body, |body| bases.takes(Decoder::Generation, body));
        bases.parcels = halves.into_iter().map(|(head, body)| (head, base(body))).collect();
        bases
    }

    fn takes(&self, decoder: Decoder, bytes: &[u8]) -> bool {
        decode(decoder, bytes, self, &mut Memory::default()).is_taken
    }

    fn base(&self, bytes: Vec<u8>, is_taken: impl Fn(&[u8]) -> bool) -> Base {
        let mut changed = bytes.clone();
        let mut bears = |at: &usize| {
            changed[*at] ^= 1;
            let bears = is_taken(&changed);
            changed[*at] ^= 1;
            bears
        };
        let places = (0..bytes.len()).filter(|at| bears(at)).collect();
        Base { bytes, places }
    }

    fn set(&mut self, decoder: Decoder, all: Vec<Vec<u8>>) {
        let is_taken = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            make_right(decoder, &mut bytes);
            self.takes(decoder, &bytes)
        };
        let sound: Vec<usize> = (0..all.len()).filter(|at| is_taken(&all[*at])).collect();
        assert!(!sound.is_empty(), "{decoder:?} has no base that is taken");
        let is_one = |at: usize| sound.contains(&at) && decoder.is_one_value();
        let base = |(at, bytes): (usize, Vec<u8>)| match is_one(at) {
            true => self.base(bytes, is_taken),
            false => Base { bytes, places: vec![] },
        };
        let all: Vec<Base> = all.into_iter().enumerate().map(base).collect();
        self.sound.insert(decoder, sound);
        self.of.insert(decoder, all);
    }

    /// Each body with the places where the journal bears a change.
    fn tried(&self, frames: &[Frame]) -> Vec<(u8, Base)> {
        let tried = |at: usize| {
            let is_taken = |body: &[u8]| {
                let mut frames = frames.to_vec();
                frames[at].1 = body.to_vec();
                self.takes(Decoder::Journal, &self.journal(&frames))
            };
            (frames[at].0, self.base(frames[at].1.clone(), is_taken))
        };
        (0..frames.len()).map(tried).collect()
    }

    fn journals(&mut self) -> Vec<Vec<u8>> {
        let (state, units) = (newest("state"), newest("generation"));
        let memory = parcel::sealed(&units);
        // Whoever takes it over gets a duplicate.
        inherit::is_new(memory.as_fd());
        let number = memory.as_raw_fd();
        let frames = framed(&state).expect("it is one");
        let loader =
            frames.iter().find(|frame| frame.0 == Kind::Loader as u8).expect("there is one");
        // Nothing at work, nothing waiting; then the units in force: their number and their memory.
        let (_, _, _, _, then, identity_then): (u8, u8, u8, u32, RawFd, u64) =
            postcard::from_bytes(&loader.1).expect("it is as it was kept");
        let bytes = |pair: (RawFd, u64)| postcard::to_allocvec(&pair).expect("numbers");
        self.units = Units {
            length: units.len(),
            then: bytes((then, identity_then)),
            now: bytes((number, inherit::identity(number))),
            memory: Some(memory),
        };
        let mut journals = meant("kept_init", kept_init::meant);
        journals.extend([state, golden("state-10")]);
        journals
    }

    /// A journal of these, whose sums are right, with units that are there.
    pub fn journal(&self, frames: &[Frame]) -> Vec<u8> {
        let mut bytes = frame::Writer::new().bytes();
        for (kind, body) in frames {
            let begin = bytes.len();
            bytes.extend([0; 8]);
            bytes.push(*kind);
            let Units { then, now, .. } = &self.units;
            let is_then = |at: &usize| body[*at..].starts_with(then);
            match (0..body.len()).find(is_then).filter(|_| *kind == Kind::Loader as u8) {
                Some(at) => {
                    let rest = &body[at + then.len()..];
                    bytes.extend([&body[..at], now, rest].concat());
                }
                None => bytes.extend_from_slice(body),
            }
            let payload = &bytes[begin + 8..];
            let length = u32::try_from(payload.len()).expect("not so long").to_le_bytes();
            let sum = frame::crc(payload).to_le_bytes();
            bytes[begin..begin + 8].copy_from_slice(&[length, sum].concat());
        }
        bytes
    }

    fn set_notes(&mut self) {
        let mut memories = Vec::new();
        for mut input in corpus("journal_notes").into_iter().filter(|it| it.len() > 1) {
            // After no note: the ring is read from its begin.
            input[1] = 0;
            let (there, _) = journal_notes::meant(&input).expect("there are bytes");
            memories.push(flat(&there));
        }
        self.set(Decoder::Notes, memories);
    }
}

fn top() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(top().join("init/golden").join(name)).expect("a state that was kept once")
}

/// The golden file with the highest version, which ends its name.
fn newest(name: &str) -> Vec<u8> {
    let entries = std::fs::read_dir(top().join("init/golden")).expect("golden files");
    let version = |file: &str| file.strip_prefix(name)?.strip_prefix('-')?.parse::<u32>().ok();
    let versions = entries.filter_map(|entry| version(entry.ok()?.file_name().to_str()?));
    golden(&format!("{name}-{}", versions.max().expect("a golden file of that name")))
}

/// In order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let entries =
        std::fs::read_dir(top().join("tests/fuzz/corpus").join(target)).expect("a corpus");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a file")).collect()
}

/// What the inputs of a corpus stand for.
fn meant(target: &str, meant: fn(&[u8]) -> Option<Vec<u8>>) -> Vec<Vec<u8>> {
    corpus(target).iter().filter_map(|input| meant(input)).collect()
}

/// The frames of a journal, if it is one.
fn framed(journal: &[u8]) -> Option<Vec<Frame>> {
    let frames = frame::read(journal).ok()?;
    Some(frames.into_iter().map(|(kind, body)| (kind as u8, body.to_vec())).collect())
}

/// What stands before the generation in a delivery, and that, if it is one.
fn halves(parcel: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let delivery = crate::loader::parcel::decode(parcel).ok()?;
    let length = delivery.generation.encode().len();
    let (head, body) = parcel.split_at_checked(parcel.len().checked_sub(length)?)?;
    let before = super::mutation::varint(length as u64).len();
    Generation::decode(body).ok()?;
    Some((head[..head.len() - before].to_vec(), body.to_vec()))
}

/// The windows of a memory, one behind the other.
fn flat(memory: &[u8]) -> Vec<u8> {
    WINDOWS.iter().flat_map(|(at, length)| &memory[*at..at + length]).copied().collect()
}
