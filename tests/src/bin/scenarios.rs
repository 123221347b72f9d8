//! `scenarios [--each] FILE…`: replays scenario files through the core. Prints the first difference
//! of each failed case and the totals. Exits with 1 when a case differs or a file cannot be read.
//! `--each` also names the cases that pass. `tests/scenarios/README.md` describes the files.

use groundstate_units::scenario;
use std::process::ExitCode;

#[allow(clippy::print_stdout, reason = "this is what the program is for")]
fn main() -> ExitCode {
    let (mut passed, mut failed, mut each) = (0, 0, false);
    for file in std::env::args().skip(1) {
        if file == "--each" {
            each = true;
            continue;
        }
        let results = match std::fs::read_to_string(&file) {
            Ok(text) => scenario::run(&text, &file),
            Err(error) => {
                let difference = Some(error.to_string());
                vec![scenario::CaseResult { case: "cannot be read".to_string(), difference }]
            }
        };
        for result in results {
            match result.difference {
                None => {
                    passed += 1;
                    if each {
                        println!("ok {file}::{}", result.case);
                    }
                }
                Some(difference) => {
                    failed += 1;
                    println!("FAIL {file}: {}\n     {difference}", result.case);
                }
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed > 0 || passed == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
