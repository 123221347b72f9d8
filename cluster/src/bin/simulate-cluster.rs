//! Simulates many whole clusters; see [`cluster::sim`].
//! - `simulate-cluster --schedules 10000 --seed S --threads T --commit C`: seeds S, S+1, …;
//!   prints counts of what happened; exits 1 on a failure. From 1,000 schedules on, it also exits 1
//!   if a kind of fault occurred less than once in 100 schedules.
//! - `simulate-cluster --replay SEED`: one schedule; if it fails, it is shrunk and printed.
//! - `simulate-cluster --schedules 500000 --ledger FILE`: appends one line for each finished block
//!   of seeds; the next call continues at the end of the file.
//! - `simulate-cluster --mutants [--sample]`: each mutant must be found within its number of
//!   schedules; the sample has those that few schedules find.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints a report")]

use cluster::mutant::{self, Mutant};
use cluster::sim::coverage::Coverage;
use cluster::sim::plan::Plan;
use cluster::sim::{plan, run, shrink};
use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// Seeds per line of the ledger.
const BLOCK: u64 = 5_000;
/// From this number of schedules on, every kind of fault must have occurred.
const FLOORS_FROM: u64 = 1_000;
/// Required frequency: once in this many schedules.
const FLOOR: u64 = 100;
/// Mutants that need at most this many schedules are in the sample.
const FEW: u64 = 400;
/// One schedule in this many is played twice; both runs must be identical.
const TWICE: u64 = 64;

#[derive(Clone, Default)]
struct Options {
    schedules: u64,
    /// True if `--schedules` was given. `schedules` is then the limit for every mutant, instead of
    /// the mutant's own limit.
    overrides_limits: bool,
    seed: u64,
    replay: Option<u64>,
    ledger: Option<String>,
    commit: String,
    threads: u64,
    mutants: bool,
    sample: bool,
    only: Option<String>,
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(what) => {
            eprintln!("simulate-cluster: {what}");
            return ExitCode::from(64);
        }
    };
    cluster::log::silence();
    match &options {
        Options { replay: Some(seed), .. } => replay(*seed, &options),
        Options { mutants: true, .. } => mutants(&options),
        Options { ledger: Some(file), .. } => ledger(file, &options),
        _ => once(&options),
    }
}

fn options() -> Result<Options, String> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let commit = "unknown".to_string();
    let mut options =
        Options { schedules: 10_000, seed: 1, threads: cores, commit, ..Options::default() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--schedules" => {
                (options.schedules, options.overrides_limits) = (number(&value()?)?, true);
            }
            "--seed" => options.seed = number(&value()?)?,
            "--replay" => options.replay = Some(number(&value()?)?),
            "--ledger" => options.ledger = Some(value()?),
            "--commit" => options.commit = value()?,
            "--threads" => options.threads = number(&value()?)?.max(1),
            "--mutants" => options.mutants = true,
            "--sample" => options.sample = true,
            "--mutant" => options.only = Some(value()?),
            other => return Err(format!("unknown option {other}")),
        }
    }
    Ok(options)
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text} is not a number"))
}

/// Plays one seed. An error has the seed, the violated invariant and the details.
fn one(seed: u64, coverage: &mut Coverage) -> Result<(), String> {
    let plan = plan::draw(seed);
    let text = |failure: run::Failure| format!("seed {seed}: {}: {}", failure.what, failure.detail);
    let digest = run::run(&plan, coverage, false).map_err(text)?;
    if seed.is_multiple_of(TWICE) {
        let again = run::run(&plan, &mut Coverage::default(), false).map_err(text)?;
        if again != digest {
            return Err(format!("seed {seed}: C16 determinism: two runs of one seed differ"));
        }
    }
    Ok(())
}

/// Plays `count` seeds from `from` on, on all threads. Returns the coverage and the failures.
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
                report(&what);
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
                Err(_) => whole.1.push("a thread of the simulation panicked".to_string()),
            }
        }
    });
    whole
}

fn report(what: &str) {
    let seed = what.split([' ', ':']).nth(1).unwrap_or("?");
    println!("FAILED {what}\n       simulate-cluster --replay {seed}");
}

fn once(options: &Options) -> ExitCode {
    let start = Instant::now();
    let (coverage, failures) = many(options.seed, options.schedules, options.threads);
    print!("{coverage}");
    let short = match options.schedules >= FLOORS_FROM && failures.is_empty() {
        true => coverage.shortfalls(options.schedules / FLOOR),
        false => Vec::new(),
    };
    short.iter().for_each(|what| println!("BELOW ITS FLOOR {what}"));
    println!(
        "simulate-cluster: {} schedules, {} writes, {} polls, seeds {}..{}, commit {}, {:.1} s",
        options.schedules,
        coverage.writes,
        coverage.polls,
        options.seed,
        options.seed.wrapping_add(options.schedules),
        options.commit,
        start.elapsed().as_secs_f64()
    );
    let failed = failures.len() + short.len();
    println!("{} passed, {failed} failed", options.schedules - failures.len() as u64);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn replay(seed: u64, options: &Options) -> ExitCode {
    let planted = mutant::ALL.iter().find(|one| options.only == Some(format!("{one:?}")));
    mutant::plant(planted.copied());
    let Some((plan, failure)) = shrink::shrink(&plan::draw(seed)) else {
        println!("simulate-cluster: seed {seed}, commit {}: all holds", options.commit);
        println!("1 passed, 0 failed");
        return ExitCode::SUCCESS;
    };
    failure.log.iter().for_each(|line| println!("{line}"));
    println!("the smallest schedule with this failure:");
    let Plan { machines, ttl, interval, grace, .. } = &plan;
    println!("{machines} machines, ttl {ttl:?}, interval {interval:?}, grace {grace:?}");
    println!("drift {:?}, {:?}", plan.drift, plan.rates);
    plan.deeds.iter().for_each(|(at, deed)| println!("{:>10.4} {deed:?}", at.as_secs_f64()));
    println!("FAILED {}: {}", failure.what, failure.detail);
    println!("simulate-cluster: seed {seed}, commit {}", options.commit);
    println!("0 passed, 1 failed");
    ExitCode::from(1)
}

/// Plays block after block from the end of the ledger.
fn ledger(file: &str, options: &Options) -> ExitCode {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let counts =
        text.lines().filter_map(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok());
    let (mut at, mut failed) = (counts.sum::<u64>(), 0);
    while at < options.schedules {
        let count = BLOCK.min(options.schedules - at);
        let from = options.seed.wrapping_add(at);
        let (coverage, failures) = many(from, count, options.threads);
        failed += failures.len();
        let line = format!(
            "from {from} count {count} writes {} commit {} failed {}\n",
            coverage.writes,
            options.commit,
            failures.len()
        );
        let written = OpenOptions::new().create(true).append(true).open(file);
        if let Err(error) = written.and_then(|mut file| file.write_all(line.as_bytes())) {
            eprintln!("simulate-cluster: {file}: {error}");
            return ExitCode::from(1);
        }
        print!("{line}");
        at += count;
    }
    println!(
        "simulate-cluster: ledger {file}, {at} schedules from seed {}, commit {}",
        options.seed, options.commit
    );
    println!("{} passed, {failed} failed", at - failed as u64);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// The number of schedules allowed for a mutant.
fn allowed(mutant: Mutant, options: &Options) -> u64 {
    if options.overrides_limits { options.schedules } else { mutant::tries(mutant) }
}

/// Hunts a mutant. Returns the violated invariant, the seed, and the number of schedules it took.
fn hunt(mutant: Mutant, options: &Options) -> Option<(&'static str, u64, u64)> {
    mutant::plant(Some(mutant));
    let found = (0..allowed(mutant, options)).find_map(|at| {
        let seed = options.seed.wrapping_add(at);
        let failure = run::run(&plan::draw(seed), &mut Coverage::default(), false).err()?;
        Some((failure.what, seed, at + 1))
    });
    mutant::plant(None);
    found
}

fn print_verdict(mutant: Mutant, kill: Option<(&'static str, u64, u64)>, options: &Options) {
    let (name, allowed) = (format!("{mutant:?}"), allowed(mutant, options));
    match kill {
        Some((by, seed, tries)) => {
            println!("{name:22} killed by {by}, seed {seed} ({tries} schedules of {allowed})");
        }
        None => println!("{name:22} SURVIVED {allowed} schedules"),
    }
}

fn mutants(options: &Options) -> ExitCode {
    let start = Instant::now();
    let is_selected =
        |one: &&Mutant| options.only.as_ref().is_none_or(|only| *only == format!("{one:?}"));
    let few = |one: &&Mutant| !options.sample || mutant::tries(**one) <= FEW;
    let all: Vec<Mutant> = mutant::ALL.iter().filter(is_selected).filter(few).copied().collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        while let Some(mutant) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            let kill = hunt(*mutant, options);
            print_verdict(*mutant, kill, options);
            found.push((*mutant, kill));
        }
        found
    };
    let mut table = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().for_each(|thread| table.extend(thread.join().unwrap_or_default()));
    });
    let killed = table.iter().filter(|(_, found)| found.is_some()).count();
    println!(
        "simulate-cluster: {killed} of {} mutants killed, seeds from {}, commit {}, {:.1} s",
        all.len(),
        options.seed,
        options.commit,
        start.elapsed().as_secs_f64()
    );
    println!("{killed} passed, {} failed", all.len() - killed);
    if killed == all.len() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
