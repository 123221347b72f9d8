//! Searches small worlds exhaustively, without randomness.
//!
//! - `exhaust --commit C` takes three sets of graphs: all graphs of up to three units over
//!   depends-on, depends-ms, waits-for and after × {foreground-supervised, oneshot, virtual}; all
//!   graphs of two units over the other kinds; and all graphs of up to two units that report their
//!   progress, with all reports and at every due time.
//! - It runs every sequence of events to a depth of `--depth` (5) for up to two units, at most 4 for
//!   two units that report, and `--depth3` (3) for three units. Machine and oracle are compared after
//!   every event.
//! - `--part K/N` takes each N-th graph from the K-th on.
//!
//! Build with `cargo run --profile test-fast -p groundstate-tests --bin exhaust --`. The search is
//! in [`groundstate_units::simulator::exhaust`].
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints a report")]

use groundstate_units::simulator::exhaust::{self, Counts, ORDERING, OTHERS, SPEAKING, TYPES};
use groundstate_units::simulator::unit_model::UnitModel;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

struct Options {
    depth: usize,
    depth3: usize,
    /// The part, from 0, and the number of parts.
    part: (usize, usize),
    commit: String,
}

impl Options {
    /// Returns the invalid words as an error.
    fn read(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options =
            Options { depth: 5, depth3: 3, part: (0, 1), commit: "unknown".to_string() };
        while let Some(word) = words.next() {
            let value = words.next().unwrap_or_default();
            let wrong = || format!("{word} {value}");
            let number = |text: &str| text.parse().map_err(|_| wrong());
            match word.as_str() {
                "--depth" => options.depth = number(&value)?,
                "--depth3" => options.depth3 = number(&value)?,
                "--part" => {
                    let (part, of) = value.split_once('/').ok_or_else(wrong)?;
                    let (part, of) = (number(part)?, number(of)?);
                    options.part =
                        (part.checked_sub(1).filter(|part| *part < of).ok_or_else(wrong)?, of);
                }
                "--commit" => options.commit = value,
                _ => return Err(wrong()),
            }
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    let Options { depth, depth3, part, commit } = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(word) => {
            eprintln!("exhaust: {word}: --depth N, --depth3 N, --part K/N, --commit C");
            return ExitCode::from(64);
        }
    };
    let start = Instant::now();
    let mut whole = Counts::default();
    let mut failed = 0;
    // Two units that report have nearly as many events as three that do not.
    for (name, units, kinds, types, depth) in [
        ("one unit", 1, &ORDERING, &TYPES[..], depth),
        ("one unit that speaks", 1, &ORDERING, &SPEAKING[..], depth),
        ("two units, ordering kinds", 2, &ORDERING, &TYPES[..], depth),
        ("two units, other kinds", 2, &OTHERS, &TYPES[..], depth),
        ("two units that speak", 2, &ORDERING, &SPEAKING[..], depth.min(4)),
        ("three units, ordering kinds", 3, &ORDERING, &TYPES[..], depth3),
    ] {
        let mut worlds = exhaust::worlds(units, kinds, types);
        let mut nth = 0..;
        worlds.retain(|_| nth.next().is_some_and(|nth: usize| nth % part.1 == part.0));
        let (counts, failures) = all(&worlds, depth);
        for what in failures.iter().take(3) {
            println!("FAILED {name}\n{what}");
        }
        println!(
            "{name}: {} graphs, {} states, {} events, depth {depth}, {} differ",
            counts.graphs,
            counts.states,
            counts.events,
            failures.len()
        );
        failed += failures.len();
        whole.graphs += counts.graphs;
        whole.states += counts.states;
        whole.events += counts.events;
    }
    println!(
        "exhaust: {} graphs, {} states, {} events, commit {commit}, {:.1} s",
        whole.graphs,
        whole.states,
        whole.events,
        start.elapsed().as_secs_f64()
    );
    println!("{} passed, {failed} failed", whole.graphs - failed as u64);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Checks every world, on all cores.
fn all(worlds: &[UnitModel], depth: usize) -> (Counts, Vec<String>) {
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut counts, mut failures) = (Counts::default(), Vec::new());
        while let Some(world) = worlds.get(next.fetch_add(1, Ordering::Relaxed)) {
            failures.extend(exhaust::search(world, depth, &mut counts).err());
        }
        (counts, failures)
    };
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let mut whole = (Counts::default(), Vec::new());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            let Ok((counts, failures)) = thread.join() else {
                whole.1.push("a thread panicked".to_string());
                continue;
            };
            whole.0.graphs += counts.graphs;
            whole.0.states += counts.states;
            whole.0.events += counts.events;
            whole.1.extend(failures);
        }
    });
    whole
}
