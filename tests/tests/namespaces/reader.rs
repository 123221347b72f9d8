//! Whoever writes to the logger has a reader, when the state of init is lost too: one line without one
//! would be the end of a service (SIGPIPE). What else is found again then is in [`super::beside`].

use super::beside::{begins_anew, is_steady, loses_its_state, with};
use super::crash::has_survived;
use super::log::logger;
use super::survival::memories_at_rest;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::crash;
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::program;
use nix::sys::signal::Signal;
use std::fs;

/// Says each word it is told in both of its streams, and writes it down once it has.
fn speaker(name: &str) -> String {
    format!(
        "mkfifo DIR/{name}; while read word; do echo $word; echo $word >&2; echo $word >>DIR/{name}.said; done <>DIR/{name}"
    )
}

fn unit(name: &str) -> String {
    format!("exec-start: /bin/sh -c '{}'", speaker(name))
}

/// It can say that, and goes on.
fn says(init: &Init, name: &str, word: &str) {
    init.sandbox.order(name, word);
    until(&format!("{name} has said {word}"), || {
        init.sandbox.trace(&format!("{name}.said")).iter().any(|said| said == word).then_some(())
    });
}

/// Its words are in the log of this unit.
fn is_read(init: &Init, unit: &str, word: &str) {
    until(&format!("{word} is in the log of {unit}"), || {
        let log = init.initctl(&["logs", unit, "-n", "100"]);
        String::from_utf8_lossy(&log.stdout).contains(word).then_some(())
    });
}

fn speakers(init: &Init, names: &[&str]) -> Vec<Process> {
    for name in names {
        until(&format!("{name} listens"), || init.sandbox.path(name).exists().then_some(()));
    }
    names.iter().map(|name| init.main_of(name)).collect()
}

#[test]
fn who_is_not_taken_up_can_write_on_and_so_can_who_has_two_pipes_or_a_child_with_one() {
    let units = [
        ("broken", unit("broken")),
        ("gone", unit("gone")),
        ("two", format!("{}\nstderr: syslog", unit("two"))),
        (
            "daemon",
            format!(
                "exec-start: /bin/sh -c '({}) & exec >/dev/null 2>&1; exec sleep 1000'",
                speaker("daemon")
            ),
        ),
    ];
    let names = units.each_ref().map(|(name, _)| *name);
    let units = units.each_ref().map(|(name, text)| (*name, text.as_str()));
    let mut init = Boot::new(with(&units)).start("all");
    init.expect_crashes();
    let mains = speakers(&init, &names);
    names.iter().for_each(|name| says(&init, name, "before"));
    init.sandbox.put("units/broken.yaml", "unit: broken\nexec-start: [\n");
    init.sandbox.remove_unit("gone");
    for round in ["once", "twice"] {
        begins_anew(&init);
        is_steady(&init);
        for name in names {
            says(&init, name, &format!("{round}-{name}"));
        }
        assert!(mains.iter().all(|main| main.is_alive()), "{}", init.output());
        for name in ["two", "broken", "daemon"] {
            is_read(&init, name, &format!("{round}-{name}"));
        }
    }
    // A crash with a whole state ends nothing that was left alone.
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 3);
    names.iter().for_each(|name| says(&init, name, "last"));
    assert!(mains.iter().all(|main| main.is_alive()), "{}", init.output());
    mains.iter().for_each(|main| main.signal(Signal::SIGKILL));
    init.finish_after_crash();
}

#[test]
fn a_logger_that_ends_with_the_state_leaves_nobody_without_a_reader() {
    let mut init = Boot::new(with(&[("web", &unit("web"))])).start("all");
    init.expect_crashes();
    let main = speakers(&init, &["web"]);
    is_steady(&init);
    let logger = logger(&init);
    let (mut steps, kept) = memories_at_rest(&init);
    kept.iter().for_each(|(_, state)| state.set_len(0).unwrap());
    logger.signal(Signal::SIGKILL);
    until("it is dead", || (!logger.is_alive()).then_some(()));
    steps.crash();
    drop(steps);
    has_survived(&init, 1);
    init.when_state("web", "running");
    says(&init, "web", "after");
    assert_eq!(init.main_of("web"), main[0]);
    is_read(&init, "web", "after");
    init.finish_after_crash();
}

#[test]
fn crashes_before_the_boot_leave_nobody_without_a_reader() {
    let files = with(&[("web", &unit("web"))]);
    let there = format!("loader {}", files.at("now"));
    let binary = program("GROUNDSTATE_DEBUG_INIT", "init");
    let boot = Boot::new(files).binary(&binary).variable("GROUNDSTATE_CRASH_IN", &there);
    let mut init = boot.unrecorded().start("all");
    init.expect_crashes();
    let main = speakers(&init, &["web"]);
    is_steady(&init);
    init.sandbox.put("now", "");
    let anew = |times: usize| {
        until("it begins anew, and has no units", || {
            let output = init.output();
            let (_, last) = output.rsplit_once("begins anew").unwrap_or_default();
            let begun = output.matches("begins anew").count();
            (begun == times && last.contains("the loader ended")).then_some(())
        });
    };
    loses_its_state(&init);
    anew(1);
    // More than a pipe holds.
    (0..20).for_each(|n| says(&init, "web", &format!("{n}{}", "x".repeat(4000))));
    crash(&init, Signal::SIGSEGV);
    anew(2);
    fs::remove_file(init.sandbox.path("now")).unwrap();
    has_survived(&init, 2);
    init.when_state("web", "running");
    says(&init, "web", "after");
    assert_eq!(init.main_of("web"), main[0]);
    is_read(&init, "web", "after");
    init.finish_after_crash();
}
