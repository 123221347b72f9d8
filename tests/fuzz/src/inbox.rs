//! Checks of the fuzz target `inbox` for any bytes where the next image of init looks for inputs
//! that its state does not have: it finds no more than the capacity, the same each time, and no
//! duplicates. A first byte above 127: the rest chooses entries, some of them broken.

use super::composed::Composed;
use crate::sys::inbox::{
    BYTES, CONTROL, END, ENTRIES, ENTRY, Inbox, Input, LENGTH, MESSAGE, RING, TEXT, place,
};

/// The number of inputs, if there are any. Panics if a promise is broken.
pub fn inbox(bytes: &[u8]) -> Option<usize> {
    let (memory, after) = meant(bytes)?;
    let found = Inbox::read(&memory, after);
    assert!(found.inputs.len() as u64 <= ENTRIES + 2 && found.last >= after);
    for input in &found.inputs {
        if let Input::Message { bytes, .. } = input {
            assert!(bytes.len() <= usize::from(u16::MAX));
        }
    }
    assert_eq!(Inbox::read(&memory, after).inputs, found.inputs);
    // After the last entry there is only the entry that the kernel was writing.
    assert!(Inbox::read(&memory, found.last).inputs.len() <= 2);
    (!found.inputs.is_empty()).then_some(found.inputs.len())
}

/// The memory of an input, and the entry after which it is read.
pub fn meant(input: &[u8]) -> Option<(Vec<u8>, u64)> {
    let (first, rest) = input.split_first()?;
    let mut memory = vec![0; BYTES];
    let mut from = Composed::of(rest);
    let after = u64::from(from.byte()) * (ENTRIES / 200);
    if *first < 128 {
        let there = &mut memory[RING..];
        let length = rest.len().min(there.len());
        there[..length].copy_from_slice(&rest[..length]);
    } else {
        compose(&mut memory, after, &mut from);
    }
    Some((memory, after))
}

fn compose(memory: &mut [u8], after: u64, from: &mut Composed<'_>) {
    let mut seq = after + 1;
    while !from.is_over() && seq < after + 64 {
        let text = text(from);
        let kind = 1 + u16::from(from.byte() % 4);
        let length = if from.one_in(16) { usize::from(from.byte()) } else { text.len() };
        for (more, piece) in text.chunks(TEXT).enumerate() {
            let kind = if more == 0 || from.one_in(32) { kind } else { 4 };
            let entry = &mut memory[place(seq)..][..ENTRY];
            entry[..8].copy_from_slice(&seq.to_ne_bytes());
            entry[8..10].copy_from_slice(&kind.to_ne_bytes());
            entry[10..12].copy_from_slice(&(length as u16).to_ne_bytes());
            entry[12] = from.byte();
            entry[ENTRY - TEXT..][..piece.len()].copy_from_slice(piece);
            seq += 1 + u64::from(from.one_in(64));
        }
    }
    for at in
        [LENGTH, END + 8, END + 16, END + 24, CONTROL + 8, CONTROL + 12, CONTROL + 16, MESSAGE]
    {
        memory[at] = from.byte();
    }
}

/// The text of an entry.
fn text(from: &mut Composed<'_>) -> Vec<u8> {
    match from.byte() % 2 {
        0 => vec![from.byte(); 8],
        _ => [&[0], from.raw(255)].concat(),
    }
}
