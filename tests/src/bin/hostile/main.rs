//! Hostile bytes for the decoders of what PID 1 reads back after a crash or an upgrade, as many as
//! there is time for: `hostile --count N` makes N inputs from the bases ([`bases`]) by mutation
//! ([`input`], [`mutation`]) and holds of each what [`decoder`] says. It is no fuzzer: it looks at no
//! coverage, and for that is fast; the fuzzer has the same decoders (`tests/fuzz/fuzz_targets`), and
//! takes each that was taken through its life.
//!
//! `--from N` begins with that number (1); `--replay N` is that input alone, shown;
//! `--say` names each number before its input is read, for one that ends the process. Where bytes name
//! files or descriptors there are none: it runs in an empty directory that is its root, which takes
//! root or a user namespace. Last it prints `N passed, N failed`.
// The tests beside the files of init are init's.
#![cfg(not(test))]
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    missing_docs,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a program of the tests; of init a few readers are called"
)]

mod allocation;
mod bases;
mod decoder;
mod fuzzed;
mod input;
mod mutation;
mod report;

#[path = "../../../../init/src/begin.rs"]
mod begin;
#[path = "../../../../init/src/blockers.rs"]
mod blockers;
#[path = "../../../../init/src/boot/mod.rs"]
mod boot;
#[path = "../../../../init/src/caretaker.rs"]
mod caretaker;
#[path = "../../../../init/src/cgroup/mod.rs"]
mod cgroup;
#[path = "../../../../init/src/claim.rs"]
mod claim;
#[path = "../../../../init/src/clock.rs"]
mod clock;
#[path = "../../../../init/src/control/mod.rs"]
mod control;
#[cfg(debug_assertions)]
#[path = "../../../../init/src/crash_test.rs"]
mod crash_test;
#[path = "../../../../init/src/credentials.rs"]
mod credentials;
#[path = "../../../../init/src/drain.rs"]
mod drain;
#[path = "../../../../init/src/emergency.rs"]
mod emergency;
#[path = "../../../../init/src/event_loop.rs"]
mod event_loop;
#[path = "../../../../init/src/foreign.rs"]
mod foreign;
#[path = "../../../../init/src/hand_back.rs"]
mod hand_back;
#[path = "../../../../init/src/history.rs"]
mod history;
#[path = "../../../../init/src/insistence.rs"]
mod insistence;
#[path = "../../../../init/src/journal/mod.rs"]
mod journal;
#[path = "../../../../init/src/limit.rs"]
mod limit;
#[path = "../../../../init/src/lineage.rs"]
mod lineage;
#[path = "../../../../init/src/loader/mod.rs"]
mod loader;
#[path = "../../../../init/src/logger/mod.rs"]
mod logger;
#[path = "../../../../init/src/mounted.rs"]
mod mounted;
#[path = "../../../../init/src/new_root.rs"]
mod new_root;
#[path = "../../../../init/src/notify/mod.rs"]
mod notify;
#[path = "../../../../init/src/options.rs"]
mod options;
#[path = "../../../../init/src/outer.rs"]
mod outer;
#[path = "../../../../init/src/paths.rs"]
mod paths;
#[path = "../../../../init/src/process.rs"]
mod process;
#[path = "../../../../init/src/reconcile.rs"]
mod reconcile;
#[path = "../../../../init/src/record.rs"]
mod record;
#[path = "../../../../init/src/replay.rs"]
mod replay;
#[path = "../../../../init/src/rest.rs"]
mod rest;
#[path = "../../../../init/src/resume.rs"]
mod resume;
#[path = "../../../../init/src/run/mod.rs"]
mod run;
#[path = "../../../../init/src/scribe.rs"]
mod scribe;
#[path = "../../../../init/src/shutdown.rs"]
mod shutdown;
#[path = "../../../../init/src/signals.rs"]
mod signals;
#[path = "../../../../init/src/spawn/mod.rs"]
mod spawn;
#[path = "../../../../init/src/step.rs"]
mod step;
#[path = "../../../../init/src/store.rs"]
mod store;
#[path = "../../../../init/src/suspect.rs"]
mod suspect;
#[path = "../../../../init/src/sys/mod.rs"]
mod sys;
#[path = "../../../../init/src/timings.rs"]
mod timings;
#[path = "../../../../init/src/trial.rs"]
mod trial;
#[path = "../../../../init/src/trigger/mod.rs"]
mod trigger;
#[path = "../../../../init/src/unmount/mod.rs"]
mod unmount;
#[path = "../../../../init/src/upgrade.rs"]
mod upgrade;
#[path = "../../../../init/src/voice.rs"]
mod voice;
#[path = "../../../../init/src/watchdog.rs"]
mod watchdog;
#[path = "../../../../init/src/weight.rs"]
mod weight;

use bases::Bases;
use decoder::{Memory, Outcome, decode};
use input::Input;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{chdir, chroot, geteuid};
use report::Report;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

struct Options {
    from: u64,
    count: u64,
    replay: Option<u64>,
    says: bool,
}

impl Options {
    /// Errors with the word that is none, or wants another.
    fn read(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options { from: 1, count: 100_000, replay: None, says: false };
        while let Some(word) = words.next() {
            let mut number = || {
                let number = words.next().and_then(|value| value.parse().ok());
                number.ok_or(format!("{word} wants a number"))
            };
            match word.as_str() {
                "--from" => options.from = number()?,
                "--count" => options.count = number()?,
                "--replay" => options.replay = Some(number()?),
                "--say" => options.says = true,
                _ => return Err(format!("{word} is no option")),
            }
        }
        Ok(options)
    }
}

/// Whatever a path in hostile bytes names, it is not there.
fn confine() -> nix::Result<()> {
    if !geteuid().is_root() {
        unshare(CloneFlags::CLONE_NEWUSER)?;
    }
    let empty = std::env::temp_dir().join(format!("groundstate-hostile-{}", std::process::id()));
    std::fs::create_dir(&empty).expect("room for a directory");
    let entered = chdir(&empty);
    std::fs::remove_dir(&empty).expect("it is empty");
    entered.and_then(|()| chroot("."))
}

fn main() -> ExitCode {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(what) => {
            eprintln!("hostile: {what}");
            return ExitCode::from(64);
        }
    };
    let bases = Bases::found();
    if let Err(error) = confine() {
        eprintln!(
            "hostile: no root of its own: {error}; run it as root, or where users may have namespaces"
        );
        return ExitCode::from(2);
    }
    if let Some(number) = options.replay {
        let input = Input::of(number, &bases);
        println!("{input:?}");
        println!("{:?}", held(&input, &bases, &mut Memory::default()));
        return ExitCode::SUCCESS;
    }
    let report = run(&options, &bases);
    print!("{report}");
    if report.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn run(options: &Options, bases: &Bases) -> Report {
    report::hear_panics();
    let (mut report, mut memory) = (Report::default(), Memory::default());
    for at in 0..options.count {
        let number = options.from.wrapping_add(at);
        if options.says {
            println!("{number}");
        }
        one(number, bases, &mut memory, &mut report);
    }
    report
}

fn one(number: u64, bases: &Bases, memory: &mut Memory, report: &mut Report) {
    let input = Input::of(number, bases);
    match catch_unwind(AssertUnwindSafe(|| held(&input, bases, memory))) {
        Ok(outcome) => report.count(&input, outcome),
        Err(_) => {
            // What it was at may be in it still.
            *memory = Memory::default();
            report.count_failure(number, &input);
        }
    }
}

fn held(input: &Input, bases: &Bases, memory: &mut Memory) -> Outcome {
    let outcome = decode(input.decoder, &input.bytes, bases, memory);
    if outcome.is_taken && input.goes_on {
        decoder::go_on(input.decoder, &input.bytes);
    }
    outcome
}
