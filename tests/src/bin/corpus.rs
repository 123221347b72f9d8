//! Reads the unit files of Debian packages, as `tests/corpus` laid them out, through the
//! importer: `initctl convert --json` for each, so that what is measured is what is shipped.
//! With `--oracle` the arguments, the environment and the implicit dependencies of each
//! service are compared with what `systemd --test` says of the same files.
//!
//! What is printed: a line for each file, the sums, and `ok` or `FAIL` for each aim.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a tool")]

use groundstate_tests::corpus::{oracle, report, sample};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut packages = Vec::new();
    let mut with_oracle = false;
    for word in std::env::args().skip(1) {
        match word.as_str() {
            "--oracle" => with_oracle = true,
            _ => packages.push(std::path::PathBuf::from(word)),
        }
    }
    let files = sample::files(&packages);
    let mut good = report::report(packages.len(), &files);
    if with_oracle {
        good &= oracle::compare(&files);
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
