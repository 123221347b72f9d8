//! Runs the fuzz corpora of the cluster's parsers; the others are in `tests/tests/fuzzed.rs`.
#![allow(
    clippy::expect_used,
    clippy::wildcard_enum_match_arm,
    unreachable_pub,
    missing_docs,
    dead_code,
    reason = "these are tests"
)]

#[path = "../../../tests/fuzz/src/api_request.rs"]
mod api_request;
#[path = "../../../tests/fuzz/src/composed.rs"]
mod composed;
#[path = "../../../tests/fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../../tests/fuzz/src/fleet.rs"]
mod fleet;
#[path = "../../../tests/fuzz/src/stored_value.rs"]
mod stored_value;
#[path = "../../../tests/fuzz/src/wire.rs"]
mod wire;
#[path = "../../../tests/fuzz/src/written.rs"]
mod written;

use corpus::{Target, damaged, files, targets};

const TARGETS: &[(&str, Target)] = targets!(api_request, stored_value);

#[test]
fn each_cluster_corpus_passes_its_target_and_a_fifth_passes_the_parser() {
    for (target, run) in TARGETS {
        let files = files(target);
        let past = files.iter().filter(|bytes| run(bytes)).count();
        corpus::assert_varied(target, past, files.len());
    }
}

#[test]
fn cuts_and_flipped_bits_of_each_corpus_of_the_cluster_are_survived() {
    for (target, run) in TARGETS {
        // Each passes through a whole cluster, so only a fifth is used.
        for bytes in files(target).iter().flat_map(|bytes| damaged(bytes)).step_by(5) {
            run(&bytes);
        }
    }
}
