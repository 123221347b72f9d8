//! `ratios DIR [--all-must-start]`: prints the tables of `tests/bench/run`. Reads the JSON lines of
//! pbench and prints medians with their ratios to the physical floor (`floorn`).
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "its output is its work; an index into JSON gives null, not a panic"
)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        eprintln!("usage: ratios DIR [--all-must-start]");
        return ExitCode::from(64);
    };
    let strict = arguments.next().as_deref() == Some("--all-must-start");
    let rows = |name: &str| rows(&Path::new(&folder).join(name));
    let (boots, graphs) = (rows("boot.jsonl"), rows("graph.jsonl"));
    for count in [1, 10, 100, 500, 1000] {
        let title = format!("exec of PID 1 to the last of {count} services, ms");
        table(&title, &boots, |row| started(row).filter(|_| row["n"] == count));
    }
    for (kind, title) in [("chain", "a chain of 100, ms"), ("layer", "10 layers of 50, ms")] {
        table(title, &graphs, |row| started(row).filter(|_| row["kind"] == kind));
    }
    table("shutdown of 500 services, ms", &boots, |row| {
        row["shutdown"]["ms"].as_f64().filter(|_| row["shutdown"]["ok"] == 1)
    });
    for count in [0, 100, 1000] {
        let title = format!("memory with {count} services, PSS of all but them, KiB");
        table(&title, &boots, |row| {
            let memory = &row["mem"];
            let all = memory["pid1_pss"].as_f64()? + memory["sup_pss"].as_f64()?;
            (row["n"] == count).then_some(all)
        });
        let title = format!("memory with {count} services, RSS of PID 1, KiB");
        table(&title, &boots, |row| row["mem"]["pid1_rss"].as_f64().filter(|_| row["n"] == count));
    }
    let restarts = rows("restart.jsonl");
    for (key, title) in [
        ("restart_gap1300", "kill -9 to the replacement, after 1.3 s up, ms"),
        ("restart_gap20", "kill -9 to the replacement, after 20 ms up, ms"),
    ] {
        table(title, &restarts, |row| row[key]["med"].as_f64().filter(|_| row[key]["miss"] == 0));
    }
    table("wake-ups of PID 1 in 10 s with 100 services", &rows("idle.jsonl"), |row| {
        row["idle"]["pid1_vcs"].as_f64()
    });
    table("reaping 20,000 zombies, ms", &rows("zombies.jsonl"), |row| {
        row["zomb"]["reap_ms"].as_f64().filter(|_| row["zomb"]["ok"] == 1)
    });
    let short = |row: &&Value| row["got"] != row["n"];
    let incomplete: Vec<&Value> = boots.iter().chain(&graphs).filter(short).collect();
    for row in &incomplete {
        println!("not all started: {row}");
    }
    let measured = !boots.is_empty() && !graphs.is_empty();
    if strict && !(measured && incomplete.is_empty()) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// The JSON lines of a file; empty if the file is missing.
fn rows(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Milliseconds until all services had started. Returns `None` if one did not start.
fn started(row: &Value) -> Option<f64> {
    row["all_ms"].as_f64().filter(|ms| *ms >= 0.0 && row["got"] == row["n"])
}

/// Prints one table: contender, median, best, ratio of the medians to that of `floorn`.
fn table(title: &str, rows: &[Value], figure: impl Fn(&Value) -> Option<f64>) {
    let mut order = Vec::new();
    let mut figures: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for row in rows {
        let (Some(name), Some(value)) = (row["c"].as_str(), figure(row)) else { continue };
        if !order.contains(&name) {
            order.push(name);
        }
        figures.entry(name).or_default().push(value);
    }
    if order.is_empty() {
        return;
    }
    let floor = figures.get("floorn").map(|values| median(values));
    println!("\n{title}\n");
    println!("| contender | median | best | to floorn |\n|---|---|---|---|");
    for name in order {
        let values = &figures[name];
        let best = values.iter().copied().fold(f64::INFINITY, f64::min);
        let ratio = match floor {
            Some(floor) if floor > 0.0 => format!("{:.2}", median(values) / floor),
            _ => "-".to_owned(),
        };
        println!("| {name} | {:.2} | {best:.2} | {ratio} |", median(values));
    }
}

/// The middle value, or the mean of the two middle values.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(low), Some(high)) =
        (sorted.get((sorted.len().saturating_sub(1)) / 2), sorted.get(sorted.len() / 2))
    else {
        return f64::NAN;
    };
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_value() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }

    #[test]
    fn boot_without_all_services_has_no_time() {
        let row = serde_json::json!({"n": 2, "got": 1, "all_ms": -1});
        assert_eq!(started(&row), None);
    }
}
