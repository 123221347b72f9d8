//! The crash sweep ([`groundstate_tests::sweep`]) finds a mistake in each stage of a turn. Debug
//! builds of init make these mistakes on request (`init/src/base/crash_test.rs`). A control run
//! crashes the same init after the same calls, without the mistake; no round of it may fail.

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::with_patience;
use groundstate_tests::sandbox::program;
use groundstate_tests::sweep;
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// The timeout for facts that the mistake may prevent. A round without a failure takes 1 s.
const PATIENCE: Duration = Duration::from_secs(5);
/// The least number of rounds of a control run.
const CONTROL: usize = 10;

fn begin(options: impl FnOnce(Boot) -> Boot) -> Init {
    let binary = program("GROUNDSTATE_DEBUG_INIT", "init");
    sweep::begin_with(|boot| options(boot.binary(&binary)))
}

/// The error of a round with a crash after this many calls.
fn failure(init: &Init, number: usize, calls: usize) -> Option<String> {
    let round = || with_patience(PATIENCE, || sweep::round(init, number, calls));
    catch_unwind(AssertUnwindSafe(round)).err().map(|why| first_line(&*why))
}

fn first_line(why: &(dyn Any + Send)) -> String {
    let text = why.downcast_ref::<String>().map_or("", String::as_str);
    text.lines().next().unwrap_or_default().to_owned()
}

/// Crashes init after each number of calls of the script, `near` first, until a round fails.
/// Returns a line that names that round. Fails if there is none: the sweep misses this mistake.
fn found(mistake: &str, near: Range<usize>) -> String {
    let script: Vec<usize> = near.chain(1..=sweep::CALLS).collect();
    let mut rounds = script.iter().copied().enumerate();
    let faulty = begin(|boot| boot.variable("GROUNDSTATE_MISTAKE_IN_TURN", mistake));
    let first = rounds.find_map(|(number, calls)| {
        failure(&faulty, number, calls).map(|why| (number, calls, why))
    });
    drop(faulty);
    let (last, calls, why) = first.unwrap_or_else(|| panic!("the sweep does not find {mistake}"));
    let control = begin(|boot| boot);
    for (number, calls) in script.into_iter().enumerate().take(CONTROL.max(last + 1)) {
        sweep::round(&control, number, calls);
    }
    control.finish_after_crash();
    format!("{mistake}: found in round {}, after {calls} calls: {why}", last + 1)
}

#[test]
fn sweep_finds_effects_that_are_carried_out_before_their_commit() {
    println!("{}", found("act-before-commit", 140..170));
}

#[test]
fn sweep_finds_a_changed_unit_that_the_commit_omits() {
    println!("{}", found("record-not-written", 120..240));
}

#[test]
fn sweep_finds_inputs_that_are_discarded_before_their_commit() {
    println!("{}", found("finish-before-commit", 15..64));
}

#[test]
fn sweep_finds_effects_that_are_not_repeated_after_a_crash() {
    println!("{}", found("action-not-repeated", 83..110));
}

#[test]
fn sweep_finds_a_started_child_that_the_next_image_ignores() {
    println!("{}", found("slot-ignored", 144..174));
}

#[test]
fn sweep_finds_a_commit_before_the_inputs_are_processed() {
    println!("{}", found("commit-before-compute", 9..40));
}
