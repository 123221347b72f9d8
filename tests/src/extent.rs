//! How often a test does what it does: in `tests/run` as often as there is time for, in
//! `tests/soak rows`, which sets GROUNDSTATE_SOAK=1 and finds the tests by their calls of [`turns`],
//! a tenth of what a release promises or more. The tests beside init's code take this file in, too.

use std::io::Write;

/// Set to 1 by `tests/soak rows`.
const SOAK: &str = "GROUNDSTATE_SOAK";
/// Gets a line for each number that was asked for: by that the soak knows that it was heard.
const REPORT: &str = "GROUNDSTATE_TURNS";

/// Whether it is the soak that runs this.
#[must_use]
pub fn is_soak() -> bool {
    std::env::var_os(SOAK).is_some_and(|word| word == "1")
}

/// The first number, or in a soak the second.
///
/// # Panics
/// Where the soak can not be told of it.
#[must_use]
pub fn turns(run: usize, soak: usize) -> usize {
    let turns = if is_soak() { soak } else { run };
    if let Some(report) = std::env::var_os(REPORT) {
        let mut report =
            std::fs::OpenOptions::new().append(true).create(true).open(report).unwrap();
        report.write_all(format!("{turns}\n").as_bytes()).unwrap();
    }
    turns
}
