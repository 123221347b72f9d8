//! Output pipes across crashes of init: each has a number for the logger that no other pipe gets.

use super::crash::has_survived;
use super::log::logger;
use groundstate_tests::boot::Boot;
use groundstate_tests::crash::{Call, crash_when, wait_for_commit};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::stat::Mode;
use serde_json::json;
use std::cell::Cell;

/// A timer, so that init commits its state again and again.
const TICK: [(&str, &str); 2] = [
    ("tick", "type: timer\ntimer-unit-active: 50ms\ntimer-active: 50ms\nactivates: job"),
    ("job", "type: oneshot\nexec-start: /bin/true"),
];

#[test]
fn output_of_a_reload_command_is_read_across_a_crash_and_hides_no_other_output() {
    let files = Sandbox::new();
    nix::unistd::mkfifo(&files.path("go"), Mode::S_IRWXU).expect("a fifo");
    let slow = "echo one; read x <DIR/go; echo two; echo over >>DIR/web.trace";
    files.unit("web", &format!("exec-start: DAEMON\nexec-reload: /bin/sh -c '{slow}'"));
    // More than a pipe holds.
    let long = "seq 40000; echo three; echo over >>DIR/other.trace";
    files.unit(
        "other",
        &format!("stderr: console\nexec-start: DAEMON\nexec-reload: /bin/sh -c '{long}'"),
    );
    TICK.into_iter().for_each(|(name, text)| _ = files.unit(name, text));
    files.unit("all", "type: virtual\nwaits-for: web, other, tick");
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    init.when_state("other", "running");
    init.when_state("web", "running");
    let over = |unit: &str, times: usize| {
        let words = || init.sandbox.trace(&format!("{unit}.trace"));
        until(&format!("{unit} is reloaded"), || (words().len() >= times).then_some(()));
    };
    let said = |line: &str, times: usize| {
        let found = || init.output().lines().filter(|said| *said == line).count();
        until(line, || (found() >= times).then_some(()));
    };
    // Init crashes before it has sent the pipe, once the logger has it, or once the pipe keeper has
    // it too.
    for (round, sent) in [0, 1, 2].into_iter().enumerate() {
        wait_for_commit(&init);
        let (cloned, count) = (Cell::new(false), Cell::new(0));
        let come = |call: &Call| {
            let is_it = call.number == libc::SYS_clone3 && call.result > 0 && {
                let inner = i32::try_from(call.result).unwrap_or(0);
                let unit_or_exit = || {
                    let Some(process) = init.process().neighbour(inner) else { return Some(None) };
                    let unit = process.environment().get("GROUNDSTATE_UNIT").cloned();
                    unit.map(Some).or_else(|| (!process.is_alive()).then_some(None))
                };
                until("it executes its program or exits", unit_or_exit).as_deref() == Some("web")
            };
            cloned.set(cloned.get() || is_it);
            count.set(count.get() + usize::from(cloned.get() && call.number == libc::SYS_sendmsg));
            cloned.get() && count.get() == sent
        };
        let mut client = init.client().expect("it listens");
        crash_when(&init, || client.send("reload-unit", &json!({"targets": ["web"]})), come);
        has_survived(&init, round as u64 + 1);
        init.tell("reload-unit", &json!({"targets": ["other"]}));
        over("other", round + 1);
        said("other | three", round + 1);
        // The next logger gets the pipe as well.
        logger(&init).end();
        init.sandbox.order("go", "on");
        over("web", round + 1);
        said("web | two", round + 1);
    }
    init.finish_after_crash();
}
