//! `tests/soak restarts`: many restarts (`groundstate_tests::flapping`) of services of a real init.
//!
//! `flapping [UNITS [ROUNDS]]` (default 1000, 10: a hundred thousand restarts) prints its
//! measurements, then `N passed, N failed`.
#![allow(clippy::print_stdout, reason = "a program of the tests")]

use groundstate_tests::flapping::{Size, storm};
use std::process::ExitCode;

fn main() -> ExitCode {
    let number = |at: usize, otherwise: usize| {
        std::env::args().nth(at).and_then(|word| word.parse().ok()).unwrap_or(otherwise)
    };
    let size = Size { units: number(1, 1000), rounds: number(2, 10) };
    let verdict = std::panic::catch_unwind(|| {
        let seen = storm(size);
        println!("{seen}");
        seen.verdict()
    });
    let failed = match verdict {
        Ok(Ok(())) => false,
        Ok(Err(why)) => {
            println!("FAIL {why}");
            true
        }
        Err(_) => {
            println!("FAIL the test panicked");
            true
        }
    };
    println!("{} passed, {} failed", u8::from(!failed), u8::from(failed));
    ExitCode::from(u8::from(failed))
}
