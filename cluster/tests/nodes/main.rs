//! Tests of several machines: fleet's functional cases and ours. The nodes are namespaces of this
//! machine. Needs root, etcd, the real init and initctl.
//!
//! - `nodes` runs the sample; `nodes --all` runs every case.
//! - `nodes WORD…` runs the cases with one of the words in their name; with `--exact` the word is
//!   the name.
//! - `nodes tour [--one] [--keep]` is contrib/cluster-demo.
//!
//! The output has the form of the test harness, because the stages parse it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a panic fails the test with a message"
)]

#[path = "../authority/mod.rs"]
#[allow(dead_code, reason = "other tests use wrong certificates")]
mod authority;
#[path = "../browser/mod.rs"]
mod browser;
mod case;
mod stand;
mod terminal;
mod tour;
#[path = "../wire/mod.rs"]
mod wire;

use case::{CASES, Case};
use stand::Cluster;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let given = |flag: &str| words.iter().any(|word| word == flag);
    if words.first().is_some_and(|word| word == "tour") {
        return tour::run(given("--one"), given("--keep"));
    }
    let (all, exact) = (given("--all"), given("--exact"));
    let names: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let chosen = |case: &&Case| match names.is_empty() {
        true => all || case.sample,
        false if exact => names.contains(&case.name),
        false => names.iter().any(|name| case.name.contains(name)),
    };
    let cases: Vec<&'static Case> = CASES.iter().copied().flatten().filter(chosen).collect();
    if given("--list") {
        cases.iter().for_each(|case| println!("{}: test", case.name));
        return ExitCode::SUCCESS;
    }
    if !nix::unistd::geteuid().is_root() {
        println!("nodes: left out, namespaces of machines need root");
        return ExitCode::SUCCESS;
    }
    let count = cases.len() + 1;
    println!("running {count} tests");
    let (began, failed) = (Instant::now(), Mutex::new(Vec::new()));
    let unmatched_tests = case::unmatched_tests();
    print_result(EACH_HAS_ITS_CASE, unmatched_tests.is_empty(), &failed);
    if !unmatched_tests.is_empty() {
        println!("---- {EACH_HAS_ITS_CASE} stdout ----\n{unmatched_tests:?}");
    }
    let queue = Mutex::new(cases);
    std::thread::scope(|scope| {
        for _ in 0..STANDS {
            scope.spawn(|| work(&queue, &failed));
        }
    });
    let failed = failed.into_inner().unwrap();
    println!("\nfailures:");
    failed.iter().for_each(|name| println!("    {name}"));
    println!(
        "\ntest result: {}. {} passed; {} failed; 0 ignored; 0 measured; 0 filtered out; finished in {:.2}s",
        if failed.is_empty() { "ok" } else { "FAILED" },
        count - failed.len(),
        failed.len(),
        began.elapsed().as_secs_f64()
    );
    ExitCode::from(u8::from(!failed.is_empty()))
}

const EACH_HAS_ITS_CASE: &str = "every_functional_test_of_fleet_has_its_case";

/// Clusters in parallel: a case mostly waits.
const STANDS: usize = 2;

/// Prints a result like the test harness, for the runner of the stages.
fn print_result(name: &'static str, fine: bool, failed: &Mutex<Vec<&'static str>>) {
    println!("test {name} ... {}", if fine { "ok" } else { "FAILED" });
    if !fine {
        failed.lock().unwrap().push(name);
    }
}

/// Runs cases until none is left, preferring those that fit the present cluster.
fn work(queue: &Mutex<Vec<&'static Case>>, failed: &Mutex<Vec<&'static str>>) {
    let mut ready = None::<Cluster>;
    let next = |ready: &Option<Cluster>| {
        let mut queue = queue.lock().unwrap();
        let fitting =
            queue.iter().position(|case| ready.as_ref().is_some_and(|kept| fits(kept, case)));
        (!queue.is_empty()).then(|| queue.remove(fitting.unwrap_or(0)))
    };
    while let Some(case) = next(&ready) {
        let began = Instant::now();
        let fine = run(case, &mut ready);
        println!("# {} took {:.1} s", case.name, began.elapsed().as_secs_f64());
        print_result(case.name, fine, failed);
    }
    if let Some(cluster) = &mut ready {
        cluster.pass();
    }
}

fn fits(kept: &Cluster, case: &Case) -> bool {
    kept.count() == case.nodes && kept.conf == case.conf
}

/// Runs a case on the previous cluster if that fits and is in good order.
fn run(case: &Case, ready: &mut Option<Cluster>) -> bool {
    let mut cluster = None;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        match ready.take() {
            Some(kept) if fits(&kept, case) => cluster = Some(kept),
            Some(mut other) => other.pass(),
            None => {}
        }
        let cluster = cluster.get_or_insert_with(|| Cluster::boot(case.nodes, case.conf));
        (case.run)(cluster);
        cluster.mend();
    }));
    match (outcome, cluster) {
        (Ok(()), cluster) => {
            *ready = cluster;
            true
        }
        (Err(why), mut cluster) => {
            let words = why.downcast_ref::<String>().map(String::as_str);
            let words = words.or(why.downcast_ref::<&str>().copied()).unwrap_or_default();
            let last = cluster.as_ref().map(Cluster::last_words).unwrap_or_default();
            println!("---- {} stdout ----\n{words}\n{last}", case.name);
            cluster.iter_mut().for_each(Cluster::pass);
            false
        }
    }
}
