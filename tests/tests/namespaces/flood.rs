//! Output faster than the logger reads it: its cost, which units wait, and which lines are kept.
//! Other tests of output are in [`crate::log`].

use crate::log::{logger, logs, stored};
use groundstate_tests::boot::Boot;
use groundstate_tests::deadline::until;
use groundstate_tests::extent::turns;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;

#[test]
fn output_to_a_stopped_logger_is_dropped_or_blocks_but_not_forever() {
    const LINES: u64 = 100_000;
    let files = Sandbox::new();
    for (unit, key) in [("hasty", ""), ("patient", "log-overflow: block\n")] {
        let line = format!("seq {LINES}; echo end >>DIR/{unit}.end");
        files.unit(unit, &format!("{key}type: oneshot\nexec-start: /bin/sh -c '{line}'"));
    }
    files.unit("base", "exec-start: DAEMON");
    files.unit("talk", "type: virtual\nwaits-for: hasty, patient");
    let init = Boot::new(files).start("base");
    init.when_state("base", "running");
    // More than a pipe holds. Init replaces a logger that does not answer.
    logger(&init).signal(Signal::SIGSTOP);
    init.tell("want", &serde_json::json!({"target": "talk"}));
    init.when_state("hasty", "exited");
    init.when_state("patient", "exited");
    assert_eq!(init.sandbox.read("patient.end"), "end\n");
    let numbers = |unit: &str| {
        let text = stored(&init, unit);
        let number = |line: &str| line.rsplit(' ').next()?.parse::<u64>().ok();
        text.lines().filter_map(number).collect::<Vec<_>>()
    };
    until("the last line is in the file", || {
        (numbers("patient").last() == Some(&LINES)).then_some(())
    });
    assert!(numbers("patient").into_iter().eq(1..=LINES), "all lines, in order");
    assert!(!numbers("hasty").is_empty(), "lines that fit are logged");
    assert!(numbers("hasty").is_sorted_by(|a, b| a < b), "no line twice");
    init.finish();
}

#[test]
fn flood_of_output_takes_bounded_memory_and_other_units_are_logged() {
    // The logger has read all output of the unit except the content of the pipe.
    let much = turns(64, 4096) as u64 * 1024 * 1024;
    let files = Sandbox::new();
    files.put("init.yaml", "log-size: 1M\nlog-keep: 2\n");
    files.unit("flood", "exec-start: /usr/bin/yes all work and no play");
    files.unit("calm", "exec-start: DAEMON --name calm --control DIR/calm");
    files.unit("all", "type: virtual\nwaits-for: flood, calm");
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let logger = logger(&init);
    let flood = init.main_of("flood");
    let written = || {
        let io = flood.read("io").unwrap_or_default();
        io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse::<u64>().ok()).unwrap_or(0)
    };
    for turn in 1..=4 {
        let least = much / 4 * turn;
        until("it has written that much", || (written() >= least).then_some(()));
        init.sandbox.order("calm", &format!("say turn {turn}"));
        let told = format!("turn {turn}");
        until("other units are logged", || {
            logs(&init, "calm", 5).iter().any(|line| line.ends_with(&told)).then_some(())
        });
        init.check();
        let memory = logger.memory();
        assert!((1..8 * 1024).contains(&memory), "the logger has {memory} KiB");
    }
    init.finish();
}
