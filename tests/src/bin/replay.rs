//! `replay FILE…`: feeds the records of `init --record FILE` to the core again and compares the
//! actions. The comparison is in [`groundstate_tests::replay`].
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its output is its work")]

use groundstate_tests::replay::replay;
use std::process::ExitCode;

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!("usage: replay FILE…");
        return ExitCode::from(64);
    }
    let mut failed = 0;
    for file in &files {
        let result = std::fs::read_to_string(file).map_err(|e| e.to_string());
        match result.and_then(|text| replay(&text)) {
            Ok(events) => println!("ok {file}: {events} events gave the same actions"),
            Err(difference) => {
                println!("FAIL {file}: {difference}");
                failed += 1;
            }
        }
    }
    println!("{} passed, {failed} failed", files.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
