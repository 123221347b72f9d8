//! Converts the unit files of Debian packages, as `tests/corpus` laid them out, with `initctl
//! convert --json`, so that the shipped program is measured. With `--oracle` the arguments, the
//! environment and the implicit dependencies of each service are compared with the result of
//! `systemd --test` for the same files. `--tricky FOLDER` checks a few of the packages below that
//! folder in detail, and texts of our own.
//!
//! Prints a line for each file, the sums, and `ok` or `FAIL` for each aim.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a tool")]

use groundstate_tests::corpus::{oracle, report, sample, tricky};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut packages = Vec::new();
    let mut with_oracle = false;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--oracle" => with_oracle = true,
            "--tricky" => {
                return looked_at_closely(&PathBuf::from(words.next().unwrap_or_default()));
            }
            _ => packages.push(PathBuf::from(word)),
        }
    }
    let files = sample::files(&packages);
    let mut good = report::report(packages.len(), &files);
    if with_oracle {
        good &= oracle::compare(&files);
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn looked_at_closely(corpus: &Path) -> ExitCode {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = here.join("fuzz/corpus/import");
    let good = tricky::check(&here.join("corpus.d/tricky.yaml"), corpus, &own);
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
