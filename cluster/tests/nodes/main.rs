//! Several machines for real: the functional cases of fleet, and ours, on nodes that are
//! namespaces of this machine. Needs root, etcd, the real init and initctl.
//!
//! `nodes` runs the sample; `nodes --all` every case; `nodes WORD…` those whose names have one
//! of the words; `nodes tour [--one]` is contrib/cluster-demo. Prints as the test harness does.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that can not go on has failed, and says so"
)]

#[path = "../authority/mod.rs"]
#[allow(dead_code, reason = "wrong certificates are looked at elsewhere")]
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
use std::time::Instant;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "tour") {
        return tour::run(words.iter().any(|word| word == "--one"));
    }
    let all = words.iter().any(|word| word == "--all");
    let words: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let chosen = |case: &&Case| match words.is_empty() {
        true => all || case.sample,
        false => words.iter().any(|word| case.name.contains(word)),
    };
    let cases: Vec<&Case> = CASES.iter().copied().flatten().filter(chosen).collect();
    if std::env::args().any(|word| word == "--list") {
        cases.iter().for_each(|case| println!("{}: test", case.name));
        return ExitCode::SUCCESS;
    }
    if !nix::unistd::geteuid().is_root() {
        println!("nodes: left out, namespaces of machines need root");
        return ExitCode::SUCCESS;
    }
    println!("running {} tests", cases.len() + 1);
    let mut ready: Option<Cluster> = None;
    let strays = case::strays();
    let mut failed = u32::from(!strays.is_empty());
    let like = if strays.is_empty() { "ok".to_string() } else { format!("FAILED: {strays:?}") };
    println!("test every_functional_test_of_fleet_has_its_case ... {like}");
    for case in cases {
        let began = Instant::now();
        let fine = run(case, &mut ready);
        println!("# {} took {:.1} s", case.name, began.elapsed().as_secs_f64());
        println!("test {} ... {}", case.name, if fine { "ok" } else { "FAILED" });
        failed += u32::from(!fine);
    }
    if let Some(cluster) = &mut ready {
        cluster.pass();
    }
    println!("test result: {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}

/// One case on the cluster that the last one left, where that is of the right kind and was left
/// in good order.
fn run(case: &Case, ready: &mut Option<Cluster>) -> bool {
    let mut cluster = None;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let fits = |kept: &Cluster| kept.count() == case.nodes && kept.conf == case.conf;
        match ready.take() {
            Some(kept) if fits(&kept) => cluster = Some(kept),
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
        (Err(_), cluster) => {
            if let Some(mut cluster) = cluster {
                println!("{}", cluster.last_words());
                cluster.pass();
            }
            false
        }
    }
}
