//! How often a test repeats its work: in `tests/run` as often as time permits; in `tests/soak rows`
//! a tenth of what a release promises, or more. The soak sets GROUNDSTATE_SOAK=1 and finds the
//! tests by their calls of [`turns`]. The unit tests of init include this file, too.

use std::io::Write;

/// Set to 1 by `tests/soak rows`.
const SOAK: &str = "GROUNDSTATE_SOAK";
/// The file to which each call of [`turns`] adds the number it returns. The soak requires it.
const REPORT: &str = "GROUNDSTATE_TURNS";

/// Returns true in a soak.
#[must_use]
pub fn is_soak() -> bool {
    std::env::var_os(SOAK).is_some_and(|word| word == "1")
}

/// The first number, or in a soak the second.
///
/// # Panics
/// If the report cannot be written.
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
