//! Measures the cluster: a real etcd, one or two machines with the real init and fleetd, and
//! simulated machines that apply everything at once.
//! `bench [engine] [live]`; tests/bench/cluster runs it. Prints one table. Exits with 1 if a
//! measured value exceeds its limit.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a panic ends the measurement"
)]

mod agents;
mod engine;
mod live;
mod machine;
#[path = "../member/mod.rs"]
mod member;

use std::process::ExitCode;
use std::time::Duration;

/// A guarantee with its measurement.
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) measured: String,
    pub(crate) promised: &'static str,
    /// The value of fleet 1.0 on a similar machine; empty if not measured.
    pub(crate) fleet: &'static str,
    pub(crate) kept: bool,
}

impl Row {
    /// A measured time and its limit.
    pub(crate) fn time(what: &'static str, took: Duration, most: Duration) -> Row {
        let measured = format!("{:.1} ms", took.as_secs_f64() * 1e3);
        Row { what, measured, promised: "", fleet: "", kept: took < most }
    }

    pub(crate) fn promised(self, promised: &'static str, fleet: &'static str) -> Row {
        Row { promised, fleet, ..self }
    }
}

/// Returns the median.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let asked = |word: &str| words.is_empty() || words.iter().any(|one| one == word);
    let mut rows = Vec::new();
    if asked("engine") {
        rows.extend(engine::measure());
    }
    if asked("live") {
        rows.extend(live::measure());
    }
    println!("| what | measured | promised | fleet 1.0 |\n|---|---|---|---|");
    for row in &rows {
        let mark = if row.kept { "" } else { " (not kept)" };
        println!("| {} | {}{mark} | {} | {} |", row.what, row.measured, row.promised, row.fleet);
    }
    ExitCode::from(u8::from(rows.iter().any(|row| !row.kept)))
}
