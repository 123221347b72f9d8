//! The input of a number: which decoder, which base, what is done to it. The same number is the
//! same input, for as long as the bases are. Half of what has sums, lengths or numbers of its own gets
//! them made right again: else almost nothing would come past them.

use super::bases::{Base, Bases, Frame, RING_AT};
use super::decoder::Decoder;
use super::mutation::{Mutation, mutate, mutate_gently, varint};
use crate::journal::notes;
use groundstate_units::sim::chance::Chance;

/// Of so many that were taken one is taken further.
const FURTHER: u64 = 1024;

/// Of a hundred whose sums are right so many are changed anywhere, and not where it is borne alone.
const HARSH: u32 = 25;

/// See the module.
#[derive(Debug)]
pub struct Input {
    pub decoder: Decoder,
    pub base: usize,
    /// Its sums were made right.
    pub is_right: bool,
    pub mutations: Vec<Mutation>,
    pub goes_on: bool,
    pub bytes: Vec<u8>,
}

impl Input {
    pub fn of(number: u64, bases: &Bases) -> Input {
        let mut chance = Chance::of(number, 0x686f_7374, 1);
        let decoder = Decoder::ALL[chance.weighted(&Decoder::SHARES)];
        let (is_right, goes_on) = (chance.percent(50), chance.draw().is_multiple_of(FURTHER));
        let input = Input { decoder, base: 0, is_right, mutations: vec![], goes_on, bytes: vec![] };
        match (decoder, is_right) {
            (Decoder::Journal, true) => input.framed(&mut chance, bases),
            (Decoder::Parcel, true) => input.parcel(&mut chance, bases),
            (_, _) => input.whole(&mut chance, bases),
        }
    }

    fn whole(mut self, chance: &mut Chance, bases: &Bases) -> Input {
        let all = bases.of(self.decoder);
        self.base = bases.pick(self.decoder, chance);
        let others = all.iter().map(|base| base.bytes.as_slice());
        self.bytes = self.changed(chance, &all[self.base], others);
        if self.is_right {
            make_right(self.decoder, &mut self.bytes);
        }
        self
    }

    /// The bytes of a base, mutated.
    fn changed<'a>(
        &mut self,
        chance: &mut Chance,
        base: &Base,
        others: impl Iterator<Item = &'a [u8]>,
    ) -> Vec<u8> {
        let mut bytes = base.bytes.clone();
        let is_gentle = self.is_right && !base.places.is_empty() && !chance.percent(HARSH);
        let done = match is_gentle {
            true => mutate_gently(chance, &mut bytes, &base.places),
            false => mutate(chance, &mut bytes, &others.collect::<Vec<_>>()),
        };
        self.mutations.extend(done);
        bytes
    }

    /// Some of its frames become others, or one is there twice or not at all.
    fn framed(mut self, chance: &mut Chance, bases: &Bases) -> Input {
        self.base = chance.below(bases.frames.len());
        let of = &bases.frames[self.base];
        let mut frames: Vec<Frame> =
            of.iter().map(|(kind, base)| (*kind, base.bytes.clone())).collect();
        let bear: Vec<usize> = (0..of.len()).filter(|at| !of[*at].1.places.is_empty()).collect();
        for _ in 0..1 + chance.below(2) {
            let any = chance.below(frames.len());
            let at = if chance.percent(85) { chance.pick(&bear).unwrap_or(any) } else { any };
            let kind = of[at].0;
            let of_kind = bases.frames.iter().flatten().filter(|frame| frame.0 == kind);
            frames[at].1 = self.changed(chance, &of[at].1, of_kind.map(|it| it.1.bytes.as_slice()));
        }
        let at = chance.below(frames.len());
        match chance.below(64) {
            0 => drop(frames.remove(at)),
            1 => frames.push(frames[at].clone()),
            2 => frames[at].0 = chance.draw() as u8,
            3 => frames.swap(0, at),
            _ => {}
        }
        self.bytes = bases.journal(&frames);
        self
    }

    /// The generation within becomes another, and its length is said.
    fn parcel(mut self, chance: &mut Chance, bases: &Bases) -> Input {
        self.base = chance.below(bases.parcels.len());
        let (head, body) = &bases.parcels[self.base];
        let others = bases.parcels.iter().map(|(_, body)| body.bytes.as_slice());
        let body = self.changed(chance, body, others);
        self.bytes = [&head[..], &varint(body.len() as u64), &body].concat();
        self
    }
}

/// Each entry of a ring has its number; nothing else has a sum of its own.
pub fn make_right(decoder: Decoder, bytes: &mut [u8]) {
    if decoder != Decoder::Notes {
        return;
    }
    let begin = bytes.len().min(RING_AT);
    for (entry, number) in bytes[begin..].chunks_exact_mut(notes::ENTRY).zip(1u64..) {
        entry[..8].copy_from_slice(&number.to_ne_bytes());
    }
}
