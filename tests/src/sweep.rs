//! A fixed script, repeated with a crash of a real init at another point each time: after the first
//! system call, after the second, and so on. Requests are applied once, or not at all and without
//! an answer; notifications are kept; each program starts once. The final state equals that without
//! a crash. [`crate::crash`] makes the crashes.

use crate::boot::{Boot, Init};
use crate::crash::Steps;
use crate::deadline::until;
use crate::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::json;
use std::time::{Duration, Instant};

/// The number of calls after which the script is complete.
pub const CALLS: usize = 420;

/// Starts the init.
pub fn begin() -> Init {
    begin_with(|boot| boot)
}

/// Starts an init with these options.
pub fn begin_with(options: impl FnOnce(Boot) -> Boot) -> Init {
    let files = Sandbox::new();
    for (name, text) in [
        (
            "killed",
            "type: foreground-notified\nrestart-delay: 10ms\nrestart-delay-max: 10ms\nrestart-reset: 1ms\nexec-start: DAEMON --notify --trace DIR/killed.trace",
        ),
        ("replaced", "ready-grep: ^here\nexec-start: DAEMON --say here --trace DIR/replaced.trace"),
        (
            "talker",
            "type: foreground-notified\nexec-start: DAEMON --notify --control DIR/talker --trace DIR/talker.trace",
        ),
        ("wanted", "type: oneshot\nexec-start: /bin/sh -c 'echo start >>DIR/wanted.trace'"),
        ("tick", "type: timer\ntimer-unit-active: 200ms\ntimer-active: 100ms\nactivates: job"),
        ("job", "type: oneshot\nexec-start: /bin/sh -c 'echo x >>DIR/job.trace'"),
        ("all", "type: virtual\nwaits-for: killed, replaced, talker, tick"),
    ] {
        files.unit(name, text);
    }
    let mut init = options(Boot::new(files)).start("all");
    init.expect_crashes();
    init.when_system("running");
    init
}

fn starts(init: &Init) -> [usize; 4] {
    ["killed", "replaced", "talker", "wanted"].map(|unit| {
        let words = init.sandbox.trace(&format!("{unit}.trace"));
        words.iter().filter(|word| word.starts_with("start")).count()
    })
}

/// Checks that the unit has one main process and no other.
fn assert_one_process(init: &Init, unit: &str) {
    init.when_state(unit, "running");
    until(&format!("{unit} has one process"), || {
        (init.processes_of(unit) == [init.main_of(unit)]).then_some(())
    });
}

fn crashes(init: &Init) -> u64 {
    until("init answers", || {
        let mut client = init.client()?;
        client.send("stats", &json!({}));
        client.answer()?.ok()?["crashes"].as_u64()
    })
}

/// Crashes init after this many calls. Returns how long init did not answer.
pub fn round(init: &Init, number: usize, calls: usize) -> Duration {
    let fired = init.sandbox.trace("job.trace").len();
    until("the last crash is some time ago", || {
        (init.sandbox.trace("job.trace").len() > fired + 2).then_some(())
    });
    let (before, survived) = (starts(init), crashes(init));
    let (victim, status) = (init.main_of("killed"), format!("round {number}"));
    let mut asked = ["restart", "want"].map(|_| init.client().expect("it listens"));
    let mut steps = Steps::of(init);
    victim.signal(Signal::SIGKILL);
    until("the process has exited", || (!victim.is_alive()).then_some(()));
    init.sandbox.order("talker", &format!("notify STATUS={status}"));
    asked[0].send("restart", &json!({"targets": ["replaced"]}));
    asked[1].send("want", &json!({"target": "wanted"}));
    (0..calls).for_each(|_| _ = steps.step());
    steps.crash();
    drop(steps);
    let crashed = Instant::now();
    until("init has recovered", || (crashes(init) == survived + 1).then_some(()));
    let gap = crashed.elapsed();
    until("the killed process is replaced", || (starts(init)[0] > before[0]).then_some(()));
    assert_one_process(init, "killed");
    assert_one_process(init, "replaced");
    init.when("the status is received", |s| s.unit("talker")["status"] == status.as_str());
    let answered = asked.map(|mut client| client.answer().is_some_and(|answer| answer.is_ok()));
    if answered[1] {
        init.when_state("wanted", "exited");
    }
    // Refused if the request was lost with its connection.
    let _ = init.ask("unwant", &json!({"target": "wanted"}));
    init.when_state("wanted", "disabled");
    assert_one_process(init, "replaced");
    let after = starts(init);
    let more = [0, 1, 2, 3].map(|at| after[at] - before[at]);
    assert_eq!((more[0], more[2]), (1, 0), "killed and talker, after {calls} calls");
    for (more, answered) in [(more[1], answered[0]), (more[3], answered[1])] {
        assert!(more == 1 || (more == 0 && !answered), "after {calls} calls: {more}");
    }
    gap
}
