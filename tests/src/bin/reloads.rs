//! `tests/soak reload`: many reloads (`groundstate_tests::reloads`) of a real init.
//!
//! `reloads [SECONDS [UNITS [CRASHING]]]` (default 600, 2000, 1000) prints its measurements, then
//! `N passed, N failed`. 99 of 100 pings must be answered within a quarter of a second.
#![allow(clippy::print_stdout, reason = "a program of the tests")]

use groundstate_tests::reloads::{Size, storm};
use std::process::ExitCode;
use std::time::Duration;

/// The promised answer time of 99 of 100 pings during the reloads.
const PING_P99: Duration = Duration::from_millis(250);

fn main() -> ExitCode {
    let number = |at: usize, otherwise: usize| {
        std::env::args().nth(at).and_then(|word| word.parse().ok()).unwrap_or(otherwise)
    };
    let time = Duration::from_secs(number(1, 600) as u64);
    let size = Size { units: number(2, 2_000), crashing: number(3, 1_000), time, recorded: false };
    let verdict = std::panic::catch_unwind(|| {
        let seen = storm(size);
        println!("{seen}");
        seen.verdict(PING_P99)
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
