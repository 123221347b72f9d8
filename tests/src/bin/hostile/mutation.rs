//! What is done to bytes before they are read: one thing after the other, drawn from a seed. What
//! they are taken from is in [`super::bases`].

use groundstate_units::sim::chance::Chance;

/// Bytes that an input may have at most: more would only be slower.
const MOST: usize = 8192;
/// Things that are done to one input at most.
const CHANGES: usize = 6;
/// Numbers at which something may be different.
const NUMBERS: [u64; 12] = [
    0,
    1,
    127,
    128,
    255,
    256,
    16_383,
    65_535,
    i32::MAX as u64,
    u32::MAX as u64,
    i64::MAX as u64,
    u64::MAX,
];

/// One of them.
#[derive(Clone, Copy, Debug)]
pub enum Mutation {
    Flipped { at: usize, bit: u8 },
    Byte { at: usize, is: u8 },
    Cut { at: usize },
    Removed { at: usize, length: usize },
    Doubled { at: usize, length: usize },
    Overwritten { at: usize, length: usize },
    Inserted { at: usize, length: usize },
    Number { at: usize, is: u64, fixed: usize },
    Spliced { at: usize, other: usize, from: usize },
}

/// The same at places alone that are said to bear it, and of the same length but for numbers.
pub fn mutate_gently(chance: &mut Chance, bytes: &mut Vec<u8>, places: &[usize]) -> Vec<Mutation> {
    let mut done = Vec::with_capacity(CHANGES);
    // From behind: what becomes longer moves no place that is still to come.
    let mut at = bytes.len();
    while let Some(place) = chance.pick(places).filter(|place| *place < at) {
        at = place;
        done.push(match chance.below(4) {
            0 => {
                let is = chance.draw() as u8 & 127;
                bytes[at] = is;
                Mutation::Byte { at, is }
            }
            1 => number(chance, bytes, at, 0),
            _ => {
                let bit = chance.below(7) as u8;
                bytes[at] ^= 1 << bit;
                Mutation::Flipped { at, bit }
            }
        });
        if done.len() >= CHANGES || chance.percent(60) {
            break;
        }
    }
    done
}

/// Bytes become others. Gives what was done.
pub fn mutate(chance: &mut Chance, bytes: &mut Vec<u8>, others: &[&[u8]]) -> Vec<Mutation> {
    let mut done = Vec::with_capacity(CHANGES);
    loop {
        done.push(one(chance, bytes, others));
        if done.len() >= CHANGES || chance.percent(60) {
            bytes.truncate(MOST);
            return done;
        }
    }
}

fn one(chance: &mut Chance, bytes: &mut Vec<u8>, others: &[&[u8]]) -> Mutation {
    if bytes.is_empty() {
        return insert(chance, bytes, 0);
    }
    let at = chance.below(bytes.len());
    let length = 1 + chance.below(16).min(bytes.len() - at - 1);
    match chance.weighted(&[30, 12, 2, 6, 6, 6, 6, 20, 4]) {
        0 => {
            let bit = chance.below(8) as u8;
            bytes[at] ^= 1 << bit;
            Mutation::Flipped { at, bit }
        }
        1 => {
            let is = chance.draw() as u8;
            bytes[at] = is;
            Mutation::Byte { at, is }
        }
        2 => {
            bytes.truncate(at);
            Mutation::Cut { at }
        }
        3 => {
            bytes.drain(at..at + length);
            Mutation::Removed { at, length }
        }
        4 => {
            bytes.extend_from_within(at..at + length);
            bytes[at..].rotate_right(length);
            Mutation::Doubled { at, length }
        }
        5 => {
            bytes[at..at + length].fill_with(|| chance.draw() as u8);
            Mutation::Overwritten { at, length }
        }
        6 => insert(chance, bytes, at),
        7 => {
            let fixed = [0, 0, 4, 8][chance.below(4)];
            number(chance, bytes, at, fixed)
        }
        _ => {
            let other = chance.below(others.len());
            let from = chance.below(others[other].len() + 1);
            bytes.truncate(at);
            bytes.extend_from_slice(&others[other][from..]);
            Mutation::Spliced { at, other, from }
        }
    }
}

fn insert(chance: &mut Chance, bytes: &mut Vec<u8>, at: usize) -> Mutation {
    let length = 1 + chance.below(8);
    let more: Vec<u8> = (0..length).map(|_| chance.draw() as u8).collect();
    bytes.splice(at..at, more);
    Mutation::Inserted { at, length }
}

/// As a varint in the place of one byte, or in so many bytes.
fn number(chance: &mut Chance, bytes: &mut Vec<u8>, at: usize, fixed: usize) -> Mutation {
    let is = chance.pick(&NUMBERS).unwrap_or(0);
    if fixed == 0 {
        bytes.splice(at..=at, varint(is));
    } else {
        let end = bytes.len().min(at + fixed);
        bytes[at..end].copy_from_slice(&is.to_le_bytes()[..end - at]);
    }
    Mutation::Number { at, is, fixed }
}

/// Seven bits a byte, the lowest first.
pub fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(10);
    while number > 127 {
        bytes.push(number as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
