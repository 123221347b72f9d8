//! Golden screens: each text that `initctl` prints for a fixed answer, at 80 and 120 columns.
//! `GROUNDSTATE_SCREENS=write cargo test` rewrites the files.

use super::{blame, doctor, events, explain, plan, stats, status, tree, trigger, why};
use crate::arguments;
use crate::connection;
use crate::exit::Error;
use crate::report;
use crate::resources::Resources;
use crate::session;
use crate::style::Style;
use groundstate_units::control::answer::{Blame, Failure, Graph, Report, Status, Timers, Why};
use groundstate_units::control::answer::{Event, Plan, Sockets, Stats, UnitStatus};
use groundstate_units::text::wall_clock::WallTime;
use groundstate_units::unit::key_table;
use serde::de::DeserializeOwned;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens")
}

fn answer<T: DeserializeOwned>(name: &str) -> T {
    let path = folder().join(format!("answers/{name}.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn now() -> WallTime {
    WallTime::parse(&answer::<Status>("status").now).unwrap()
}

/// Returns all screens of this width.
fn screens(style: &Style) -> Vec<(&'static str, String)> {
    let columns = style.width.unwrap();
    let whole = arguments::command();
    let help = |verb: &str| {
        let command = whole.find_subcommand(verb).unwrap_or(&whole).clone();
        command.term_width(columns).render_help().to_string()
    };
    let key = |name: &str| explain::full(key_table::find(name).unwrap(), style);
    let (title, keys) = explain::key_group("timer").unwrap();
    let why = |name: &str, tail: &[&str]| {
        let tail: Vec<String> = tail.iter().map(ToString::to_string).collect();
        why::render(&answer::<Why>(name), &tail, now(), style)
    };
    let tail = |unit: &str| match unit {
        "mailer" => vec!["connecting to smtp.example.org".to_string()],
        _ => Vec::new(),
    };
    let used = |unit: &UnitStatus| {
        let used = |memory, tasks, cpu_ms| Resources {
            memory: Some(memory),
            tasks: Some(tasks),
            cpu: Some(Duration::from_millis(cpu_ms)),
            ..Resources::default()
        };
        match unit.unit.as_str() {
            "ntpd" => used(1_300_000, 1, 20),
            "networkd" => used(2_500_000_000, 3, 725_000),
            "database" => used(48_300_000, 12, 1_240),
            "worker@mail" => Resources { tasks: None, ..used(812_000, 1, 3) },
            _ => Resources::default(),
        }
    };
    let refused = Failure {
        report: Some(answer("reload")),
        ..Failure::new(Failure::REFUSED, "unknown key `depend-ms`", "did you mean `depends-ms`?")
    };
    let missing = std::io::Error::from_raw_os_error(2);
    let Error::Failed(_, no_init) =
        connection::connect_error("/run/groundstate/control.sock", &missing)
    else {
        panic!("another error");
    };
    let events: Vec<Event> = answer("events");
    let graph: Graph = answer("graph");
    let blamed: Blame = answer("blame");
    vec![
        ("help", help("")),
        ("help-status", help("status")),
        ("help-set-target", help("set-target")),
        ("help-doctor", help("doctor")),
        ("status", status::render(&answer("status"), now(), style, false, true, &used)),
        ("status-all", status::render(&answer("status"), now(), style, true, true, &used)),
        ("status-unit", status::details(&answer("status-unit"), now(), style, &tail, &used)),
        ("why", why("why", &["eth0 has no carrier", "timed out"])),
        ("why-failed", why("why-failed", &["connecting to smtp.example.org"])),
        ("why-idle", why("why-idle", &[])),
        ("why-degraded", why("why-degraded", &["connecting to smtp.example.org"])),
        ("plan", plan::render(&answer::<Plan>("plan"), style)),
        ("plan-reload", plan::render(&answer::<Plan>("plan-reload"), style)),
        ("check", report::render(&answer::<Report>("check"), style)),
        ("doctor", doctor::render(&answer("doctor"), false, style)),
        ("doctor-all", doctor::render(&answer("doctor"), true, style)),
        ("reload-refused", session::complaint(&refused, style)),
        ("no-init", session::complaint(&no_init, style)),
        ("explain-restart", key("restart")),
        ("explain-depends-ms", key("depends-ms")),
        ("explain-timer", explain::short(&title, &keys, style)),
        ("explain", explain::list(style)),
        ("tree", tree::render(&graph, &graph.goal, false, style)),
        ("timers", trigger::render_timers(&answer::<Timers>("timers"), style)),
        ("sockets", trigger::render_sockets(&answer::<Sockets>("sockets"), style)),
        ("events", events.iter().map(|event| events::render(event, style)).collect()),
        ("blame", blame::list(&blamed.units, style)),
        ("critical-chain", blame::chain(&blamed.units, &graph, &graph.goal, style)),
        ("stats", stats::render(&answer::<Stats>("stats"))),
    ]
}

#[test]
fn printed_screens_equal_the_golden_files() {
    let writes = std::env::var_os("GROUNDSTATE_SCREENS").is_some_and(|how| how == "write");
    let mut different = Vec::new();
    for width in [80, 120] {
        let style = Style { colour: false, width: Some(width) };
        for (name, text) in screens(&style) {
            let path = folder().join(format!("{name}.{width}.txt"));
            if writes {
                fs::write(&path, &text).unwrap();
            } else if fs::read_to_string(&path).unwrap_or_default() != text {
                different.push(format!("{}:\n{text}", path.display()));
            }
        }
    }
    let how = "GROUNDSTATE_SCREENS=write cargo test writes them";
    assert!(different.is_empty(), "{how}; now different: {}", different.join("\n"));
}
