//! Random schedules: the machine is compared with the oracle under every fault.
//!
//! - `simulate --schedules 50000 --seed S --commit C`: seeds S, S+1, … over all cores; prints the
//!   coverage table, enforces its floors, exits with 1 on a failure or below a floor.
//! - `simulate --replay SEED`: one schedule; if it fails, it is minimised and printed.
//! - `simulate --schedules 1000000 --ledger FILE`: one line for every finished block of seeds; a
//!   second call continues where the file ends.
//!
//! Build with `cargo run --profile test-fast -p groundstate-tests --bin simulate --`. The default
//! seed is fixed. To vary it, pass for example the first digits of the commit:
//! `--seed 0x$(git rev-parse --short=8 HEAD)`. The checks are in [`groundstate_units::simulator`].
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints a report")]

use groundstate_units::simulator::coverage::Coverage;
use groundstate_units::simulator::subject::Subject;
use groundstate_units::simulator::{run, schedule, shape, shrink};
use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Seeds of one line in the ledger.
const BLOCK: u64 = 10_000;
/// The number of schedules from which the coverage floors apply.
const FLOORS_FROM: u64 = 50_000;
/// The minimum count of every cell.
const FLOOR: u64 = 50;

struct Options {
    schedules: u64,
    seed: u64,
    replay: Option<u64>,
    ledger: Option<String>,
    commit: String,
    threads: u64,
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(what) => {
            eprintln!("simulate: {what}");
            return ExitCode::from(64);
        }
    };
    if let Some(seed) = options.replay {
        return replay(seed, &options.commit);
    }
    match &options.ledger {
        Some(file) => ledger(file, &options),
        None => once(&options),
    }
}

fn options() -> Result<Options, String> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let mut options = Options {
        schedules: 50_000,
        seed: 1,
        replay: None,
        ledger: None,
        commit: "unknown".to_string(),
        threads: cores,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} wants a value"));
        match word.as_str() {
            "--schedules" => options.schedules = number(&value()?)?,
            "--seed" => options.seed = number(&value()?)?,
            "--replay" => options.replay = Some(number(&value()?)?),
            "--ledger" => options.ledger = Some(value()?),
            "--commit" => options.commit = value()?,
            "--threads" => options.threads = number(&value()?)?.max(1),
            other => return Err(format!("{other} is no option")),
        }
    }
    Ok(options)
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text} is no number"))
}

/// Runs one seed; the error message has all that a report needs.
fn one(seed: u64, coverage: &mut Coverage) -> Result<(), String> {
    let (world, schedule) = (shape::draw(seed), schedule::draw(seed));
    let subject = Subject::default();
    let what = |failure: run::Failure| format!("seed {seed}: {}: {}", failure.what, failure.detail);
    run::run(&world, &schedule, subject.clone(), coverage, false).map_err(what)?;
    if seed.is_multiple_of(64) {
        run::twice(&world, &schedule, &subject).map_err(what)
    } else {
        Ok(())
    }
}

/// Runs the seeds from, from+1, … on all threads. Returns the coverage and the failures.
fn many(from: u64, count: u64, threads: u64) -> (Coverage, Vec<String>) {
    let next = AtomicU64::new(0);
    let work = || {
        let (mut coverage, mut failures) = (Coverage::default(), Vec::new());
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return (coverage, failures);
            }
            if let Err(what) = one(from.wrapping_add(at), &mut coverage) {
                failures.push(what);
            }
        }
    };
    let mut whole = (Coverage::default(), Vec::new());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            match thread.join() {
                Ok((coverage, failures)) => {
                    whole.0.add(&coverage);
                    whole.1.extend(failures);
                }
                Err(_) => whole.1.push("a thread of the simulator panicked".to_string()),
            }
        }
    });
    whole
}

fn report(failures: &[String]) {
    for what in failures.iter().take(20) {
        println!("FAILED {what}");
        let seed = what.split([' ', ':']).nth(1).unwrap_or("?");
        println!("       simulate --replay {seed}");
    }
    if failures.len() > 20 {
        println!("… and {} more", failures.len() - 20);
    }
}

fn once(options: &Options) -> ExitCode {
    let start = Instant::now();
    let (coverage, failures) = many(options.seed, options.schedules, options.threads);
    report(&failures);
    print!("{coverage}");
    let shortfalls = if options.schedules >= FLOORS_FROM && failures.is_empty() {
        coverage.shortfalls(FLOOR)
    } else {
        Vec::new()
    };
    for what in &shortfalls {
        println!("BELOW ITS FLOOR {what}");
    }
    println!(
        "simulate: {} schedules, {} events, seeds {}..{}, commit {}, {:.1} s",
        options.schedules,
        coverage.events,
        options.seed,
        options.seed.wrapping_add(options.schedules),
        options.commit,
        start.elapsed().as_secs_f64()
    );
    println!("{} passed, {} failed", coverage.schedules, failures.len() + shortfalls.len());
    if failures.is_empty() && shortfalls.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn replay(seed: u64, commit: &str) -> ExitCode {
    let (world, schedule) = (shape::draw(seed), schedule::draw(seed));
    let Some((world, schedule, failure)) = shrink::shrink(&world, &schedule, &Subject::default())
    else {
        println!("simulate: seed {seed}, commit {commit}: every invariant holds");
        println!("1 passed, 0 failed");
        return ExitCode::SUCCESS;
    };
    println!("units of the smallest failing world:");
    for (unit, entry) in &world.model.units {
        println!("  u{unit:02} {:?} provides {:?}", entry.kind, entry.provides);
        println!("      edges {:?} activates {:?}", entry.edges, entry.activates);
        if !entry.wanted_by.is_empty() || !entry.required_by.is_empty() {
            println!("      wanted-by {:?} required-by {:?}", entry.wanted_by, entry.required_by);
        }
        println!("      ready {:?} exec-stop {}", entry.readiness, entry.has_exec_stop);
        println!("      {:?}", entry.live);
    }
    println!("max-starting {}, top u{:02}", world.model.settings.max_starting, world.top);
    println!("wishes: {:?}", schedule.wishes.iter().map(|wish| wish.kind).collect::<Vec<_>>());
    for line in &failure.log {
        println!("{line}");
    }
    println!("FAILED at event {}: {}: {}", failure.event, failure.what, failure.detail);
    println!("simulate: seed {seed}, commit {commit}");
    println!("0 passed, 1 failed");
    ExitCode::from(1)
}

/// Runs block after block, from where the file ends.
fn ledger(file: &str, options: &Options) -> ExitCode {
    let done: u64 = std::fs::read_to_string(file)
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok())
        .sum();
    let mut at = done;
    let mut failed = 0;
    while at < options.schedules {
        let count = BLOCK.min(options.schedules - at);
        let from = options.seed.wrapping_add(at);
        let (coverage, failures) = many(from, count, options.threads);
        report(&failures);
        failed += failures.len();
        let line = format!(
            "from {from} count {count} events {} commit {} failed {}\n",
            coverage.events,
            options.commit,
            failures.len()
        );
        let written = OpenOptions::new().create(true).append(true).open(file);
        if let Err(error) = written.and_then(|mut file| file.write_all(line.as_bytes())) {
            eprintln!("simulate: {file}: {error}");
            return ExitCode::from(1);
        }
        print!("{line}");
        at += count;
    }
    println!(
        "simulate: ledger {file}, {at} schedules from seed {}, commit {}",
        options.seed, options.commit
    );
    println!("{} passed, {failed} failed", at - failed as u64);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
