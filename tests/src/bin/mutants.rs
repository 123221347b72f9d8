//! Checks that the simulator finds mistakes. A mutant (`units/src/machine/mutant.rs`) breaks one
//! rule of the machine, and the simulator must notice it within a bounded number of schedules.
//!
//! Each invariant must also kill its witness mutant alone, without the comparison with the oracle.
//!
//! `mutants --seed S --commit C [--schedules 20000] [--threads N]` prints a table of mutants, each
//! with the check that killed it and its seed. It exits with 1 when a mutant survives, or when an
//! invariant does not find its witness. Build with
//! `cargo run --profile test-fast -p groundstate-tests --bin mutants --`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints a report")]

use groundstate_units::machine::mutant::{ALL, Mutant};
use groundstate_units::simulator::coverage::Coverage;
use groundstate_units::simulator::invariant::witness::WITNESSES;
use groundstate_units::simulator::subject::Subject;
use groundstate_units::simulator::{invariant, run, schedule, shape};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

struct Options {
    schedules: u64,
    seed: u64,
    commit: String,
    threads: usize,
}

/// The check that found a mutant, its seed, and the number of schedules before it.
struct Kill {
    seed: u64,
    schedules: u64,
    by: String,
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(what) => {
            eprintln!("mutants: {what}");
            return ExitCode::from(64);
        }
    };
    let start = Instant::now();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        while let Some((mutant, rule)) = ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            found.push((*mutant, *rule, hunt(*mutant, &options)));
        }
        found
    };
    let mut table = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().for_each(|thread| table.extend(thread.join().unwrap_or_default()));
    });
    table.sort_by_key(|(mutant, ..)| ALL.iter().position(|(other, _)| other == mutant));
    let mut killed = 0;
    for (mutant, rule, kill) in &table {
        let name = format!("{mutant:?}");
        match kill {
            Some(Kill { seed, schedules, by }) => {
                killed += 1;
                println!("{name:26} killed by {by:24} seed {seed} ({schedules} schedules):{rule}");
            }
            None => println!("{name:26} SURVIVED {} schedules:{rule}", options.schedules),
        }
    }
    let blind = invariants(&options);
    println!(
        "mutants: {killed} of {} killed, seeds from {}, commit {}, {:.1} s",
        ALL.len(),
        options.seed,
        options.commit,
        start.elapsed().as_secs_f64()
    );
    let (all, seeing) = (ALL.len() + invariant::names().len(), killed + invariant::names().len());
    println!("{} passed, {} failed", seeing - blind, all + blind - seeing);
    if killed == ALL.len() && blind == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Checks that each invariant finds its witness. Returns the number that do not.
fn invariants(options: &Options) -> usize {
    let number = |name: &str| name.split(' ').next().unwrap_or_default().to_string();
    let mut blind = 0;
    for name in invariant::names() {
        let witness = WITNESSES.iter().find(|(invariant, _)| *invariant == number(name));
        let objects = |mutant: Mutant, seed: u64| {
            let (world, schedule) = (shape::draw(seed), schedule::draw(seed));
            run::objects(&world, &schedule, &Subject::planted(mutant), name)
        };
        let mut seeds = (0..options.schedules).map(|at| options.seed.wrapping_add(at));
        let found = witness.and_then(|(_, mutant)| seeds.find(|seed| objects(*mutant, *seed)));
        match (witness, found) {
            (Some((_, mutant)), Some(seed)) => {
                println!("{name:22} alone kills {mutant:?}, seed {seed}")
            }
            (witness, _) => {
                blind += 1;
                println!("{name:22} KILLS NOTHING, {witness:?} {} schedules", options.schedules);
            }
        }
    }
    blind
}

fn hunt(mutant: Mutant, options: &Options) -> Option<Kill> {
    (0..options.schedules).find_map(|at| {
        let seed = options.seed.wrapping_add(at);
        let (world, schedule) = (shape::draw(seed), schedule::draw(seed));
        let subject = Subject::planted(mutant);
        let failure =
            run::run(&world, &schedule, subject, &mut Coverage::default(), false).err()?;
        Some(Kill { seed, schedules: at + 1, by: failure.what })
    })
}

fn options() -> Result<Options, String> {
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let mut options =
        Options { schedules: 20_000, seed: 1, commit: "unknown".to_string(), threads };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} wants a value"))?;
        let number = || match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).map_err(|_| format!("{value}: no number")),
            None => value.parse::<u64>().map_err(|_| format!("{value}: no number")),
        };
        match word.as_str() {
            "--schedules" => options.schedules = number()?,
            "--seed" => options.seed = number()?,
            "--threads" => options.threads = (number()? as usize).max(1),
            "--commit" => options.commit = value,
            other => return Err(format!("{other} is no option")),
        }
    }
    Ok(options)
}
