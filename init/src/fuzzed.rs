//! Runs the fuzz targets that need init's own readers on their corpora. The other targets are in
//! `tests/tests/fuzzed.rs`. Each input runs in a child, because descriptors are taken over by
//! number.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "these are tests"
)]

#[path = "../../tests/fuzz/src/composed.rs"]
mod composed;
#[path = "../../tests/fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../tests/fuzz/src/inbox.rs"]
mod inbox;
#[path = "../../tests/fuzz/src/notification.rs"]
mod notification;
#[path = "../../tests/fuzz/src/parcel.rs"]
mod parcel;
#[path = "../../tests/fuzz/src/state_records.rs"]
mod state_records;

use crate::sys::{process, wait};
use corpus::{Target, targets};
use groundstate_units::spec::Exit;

const TARGETS: &[(&str, Target)] = targets!(inbox, state_records, notification, parcel);

/// Asserts that the work ends normally in a child.
fn survived(target: &str, work: impl FnOnce()) {
    let child = process::fork(&[], || {
        work();
        0
    });
    assert_eq!(wait::await_end(child.unwrap()).unwrap(), Exit::Code(0), "{target}");
}

#[test]
fn corpus_of_inits_own_readers_is_survived_and_a_fifth_of_it_is_parsed() {
    for (target, run) in TARGETS {
        let files = corpus::files(target);
        survived(target, || {
            let past = files.iter().filter(|bytes| run(bytes)).count();
            corpus::assert_varied(target, past, files.len());
        });
    }
}

#[test]
fn truncated_and_bit_flipped_inputs_of_inits_own_readers_are_survived() {
    for (target, run) in TARGETS {
        let damaged: Vec<_> =
            corpus::files(target).iter().flat_map(|bytes| corpus::damaged(bytes)).collect();
        survived(target, || {
            for bytes in &damaged {
                run(bytes);
            }
        });
    }
}
