//! The corpora of the fuzz targets that read what only init reads, fed to the same functions; the
//! others are `tests/tests/fuzzed.rs`'s. In a child each: descriptors are taken over by number.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "these are tests"
)]

#[path = "../../fuzz/src/composed.rs"]
mod composed;
#[path = "../../fuzz/src/journal_notes.rs"]
mod journal_notes;
#[path = "../../fuzz/src/kept_init.rs"]
mod kept_init;
#[path = "../../fuzz/src/notification.rs"]
mod notification;
#[path = "../../fuzz/src/parcel.rs"]
mod parcel;

use crate::sys::{process, wait};
use groundstate_units::spec::Exit;
use std::path::Path;

/// A target: whether the input came past the parser.
type Target = fn(&[u8]) -> bool;

const TARGETS: [(&str, Target); 4] = [
    ("journal_notes", |bytes| journal_notes::journal_notes(bytes).is_some()),
    ("kept_init", |bytes| kept_init::kept_init(bytes).is_some()),
    ("notification", |bytes| notification::notification(bytes).is_some()),
    ("parcel", |bytes| parcel::parcel(bytes).is_some()),
];

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// The share of the inputs that came past the parser, in percent.
fn share(target: &str, run: Target, inputs: &[Vec<u8>]) -> u8 {
    let child = process::fork(&[], || {
        let past = inputs.iter().filter(|bytes| run(bytes)).count();
        u8::try_from(past * 100 / inputs.len()).unwrap()
    });
    let end = wait::await_end(child.unwrap()).unwrap();
    let Exit::Code(share @ 0..=100) = end else { panic!("{target}: {end:?}") };
    share
}

#[test]
fn what_only_init_reads_goes_through_its_targets_and_a_fifth_of_it_past_the_parser() {
    for (target, run) in TARGETS {
        let inputs = corpus(target);
        assert!((10..=100).contains(&inputs.len()), "{target}: {} files", inputs.len());
        let share = share(target, run, &inputs);
        assert!((20..100).contains(&share), "{target}: {share} % past the parser");
    }
}

#[test]
fn cuts_and_flipped_bits_of_what_only_init_reads_are_survived() {
    for (target, run) in TARGETS {
        let mut damaged = Vec::new();
        for bytes in corpus(target) {
            let step = bytes.len() / 16 + 1;
            for at in (0..bytes.len()).step_by(step) {
                damaged.push(bytes[..at].to_vec());
                let mut changed = bytes.clone();
                changed[at] ^= 1 << (at / step % 8);
                damaged.push(changed);
            }
        }
        share(target, run, &damaged);
    }
}
