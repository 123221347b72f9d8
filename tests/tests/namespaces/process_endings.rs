//! How processes end, or do not: init reports each exit exactly, and a process that does not exit
//! blocks no other unit.

use super::restricted_environments::pair;
use super::shutdown::two;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::extent::turns;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::silent::Silent;
use nix::sys::signal::Signal;
use serde_json::json;
use std::collections::BTreeSet;
use std::process::{Child, Command};

/// Signals whose default action does not end a process.
const HARMLESS: [i32; 8] = [17, 18, 19, 20, 21, 22, 23, 28];

#[test]
fn each_exit_code_and_signal_is_reported_exactly() {
    let files = Sandbox::new();
    let all = (0..=255).step_by(256 / turns(5, 256));
    let codes: BTreeSet<i32> = all.chain([1, 127, 255]).collect();
    let signals: Vec<i32> = (1..=64).filter(|signal| !HARMLESS.contains(signal)).collect();
    let mut names = Vec::new();
    for code in &codes {
        names.push(format!("code{code}"));
        let text = format!("type: oneshot\nexec-start: /bin/sh -c 'exit {code}'");
        files.unit(&format!("code{code}"), &text);
    }
    for signal in &signals {
        names.push(format!("signal{signal}"));
        let text = format!("restart: never\nexec-start: /bin/sh -c 'kill -{signal} $$$$'");
        files.unit(&format!("signal{signal}"), &text);
    }
    files.unit("all", &format!("type: virtual\nwaits-for: {}", names.join(", ")));
    let init = Boot::new(files).start("all");
    let status = init.when("all have ended", |s| {
        names.iter().all(|name| ["exited", "failed"].contains(&s.state(name)))
    });
    assert_eq!(status.state("code0"), "exited");
    for code in codes.into_iter().filter(|code| *code != 0) {
        let reason = &status.unit(&format!("code{code}"))["reason"];
        assert_eq!((&reason["kind"], &reason["code"]), (&json!("exit"), &json!(code)), "{reason}");
    }
    for signal in signals {
        let reason = &status.unit(&format!("signal{signal}"))["reason"];
        let told = (&reason["kind"], &reason["signal"]);
        assert_eq!(told, (&json!("signal"), &json!(signal)), "{reason}");
    }
    init.finish();
}

#[test]
fn unit_of_each_type_ends_as_its_main_process_does() {
    let ends = [
        ("exit 0", 0),
        ("exit 1", 1),
        ("exit 255", 255),
        ("die TERM", -15),
        ("die KILL", -9),
        ("die SEGV", -11),
    ];
    let files = Sandbox::new();
    let mut names = Vec::new();
    for kind in ["foreground-supervised", "foreground-notified", "background-pidfile"] {
        for (number, _) in ends.iter().enumerate() {
            let name = format!("{kind}-{number}");
            let how = match kind {
                "foreground-notified" => "--notify".to_owned(),
                "background-pidfile" => format!("--pid-file DIR/{name}.pid"),
                _ => String::new(),
            };
            let pid_file = if kind == "background-pidfile" {
                format!("pid-file: DIR/{name}.pid\n")
            } else {
                String::new()
            };
            files.unit(&name, &format!("type: {kind}\nrestart: never\n{pid_file}exec-start: DAEMON {how} --control DIR/{name}"));
            names.push(name);
        }
    }
    for (number, (order, _)) in ends.iter().enumerate() {
        let how = order.strip_prefix("die ").map(|signal| format!("kill -{signal} $$$$"));
        let how = how.unwrap_or(order.to_string());
        let text =
            format!("type: background-scripted\nrestart: never\nexec-start: /bin/sh -c '{how}'");
        files.unit(&format!("background-scripted-{number}"), &text);
    }
    files.unit("well", "restart: never\nsuccess-status: [0, 3]\nexec-start: DAEMON --exit 3");
    let scripts = (0..ends.len()).map(|number| format!("background-scripted-{number}"));
    let all: Vec<String> =
        names.iter().cloned().chain(scripts).chain(["well".to_owned()]).collect();
    files.unit("all", &format!("type: virtual\nwaits-for: {}", all.join(", ")));
    let init = Boot::new(files).start("all");
    for (name, (order, _)) in names.iter().zip(ends.iter().cycle()) {
        init.when_state(name, "running");
        init.sandbox.order(name, order);
    }
    let told = |name: &str, end: i32| {
        let status = init.when_state(name, "failed");
        let reason = &status.unit(name)["reason"];
        let (kind, field) = if end < 0 { ("signal", "signal") } else { ("exit", "code") };
        assert_eq!(
            (&reason["kind"], &reason[field]),
            (&json!(kind), &json!(end.abs())),
            "{name}: {reason}"
        );
    };
    for (name, (_, end)) in names.iter().zip(ends.iter().cycle()) {
        told(name, *end);
    }
    // For this type the exit of the script does not end the service.
    init.when_state("background-scripted-0", "running");
    for (number, (_, end)) in ends.into_iter().enumerate().skip(1) {
        told(&format!("background-scripted-{number}"), end);
    }
    init.when_state("well", "exited");
    init.finish();
}

#[test]
fn core_dump_is_reported() {
    let files = Sandbox::new();
    std::fs::create_dir(files.path("cores")).unwrap();
    for (name, most) in [("dumps", "infinity"), ("does-not", "0")] {
        files.unit(name, &format!("restart: never\nworking-dir: DIR/cores\nlimits: {{core: {most}}}\nexec-start: /bin/sh -c 'kill -ABRT $$$$'"));
    }
    files.unit("all", "type: virtual\nwaits-for: dumps, does-not");
    let init = Boot::new(files).start("all");
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    for (name, dumped) in [("dumps", true), ("does-not", false)] {
        let reason = init.when_state(name, "failed").unit(name)["reason"].clone();
        assert_eq!(reason["signal"], 6, "{reason}");
        // A program in core_pattern may get core dumps despite the limit.
        if !pattern.starts_with('|') {
            let text = reason["text"].as_str().unwrap();
            assert_eq!(text.contains("core dumped"), dumped, "{text}");
        }
    }
    init.finish();
}

/// The cgroup directory of a process, as the test sees it.
pub(crate) fn cgroup(process: Process) -> Option<String> {
    let text = process.read("cgroup")?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?.to_owned();
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    let dirs = roots.map(|root| format!("{root}{path}"));
    dirs.into_iter().find(|dir| std::path::Path::new(&format!("{dir}/cgroup.freeze")).exists())
}

/// A unit whose process blocks on a file system that does not answer: not even SIGKILL ends it.
fn stuck() -> (Init, Option<Silent>) {
    let files = Sandbox::new();
    std::fs::create_dir(files.path("silent")).unwrap();
    files.unit(
        "stuck",
        "stop-timeout: 300ms\nexec-start: /bin/sh -c 'exec 3<DIR/silent/file; echo x >>DIR/runs; exec 3<&-; exec sleep 1000'",
    );
    files.unit("base", "exec-start: DAEMON");
    files.unit("other", "exec-start: DAEMON");
    files.unit("both", "type: virtual\nwaits-for: stuck, other");
    let init = Boot::new(files).start("base");
    init.when_system("running");
    let silent = Silent::new(init.process(), &init.sandbox.path("silent"));
    (init, silent)
}

#[test]
fn unkillable_process_blocks_no_other_unit_and_gets_no_second_run() {
    let (init, silent) = stuck();
    let Some(silent) = silent else {
        groundstate_tests::not_run!("no FUSE here");
        return init.finish();
    };
    init.tell("set-target", &json!({"targets": ["stuck"]}));
    silent.until_closing(1);
    let main = init.main_of("stuck");
    init.tell("set-target", &json!({"targets": ["base"]}));
    let status = init.when("init gives up", |s| s.reason("stuck") == "unkillable");
    assert_eq!(status.state("stuck"), "failed");
    assert!(main.is_alive(), "the process still exists");
    // The goal needs both units: `other` starts, `stuck` does not.
    init.tell("set-target", &json!({"targets": ["both"]}));
    init.when_state("other", "running");
    init.tell("ping", &json!({}));
    assert_eq!(init.sandbox.trace("runs").len(), 1, "no second run");
    drop(silent);
    until("the process has exited", || (!main.is_alive()).then_some(()));
    // The FUSE server is gone, so the next start finds no file system.
    init.when("the unit can start again", |s| s.reason("stuck") != "unkillable");
    init.tell("set-target", &json!({"targets": ["base"]}));
    init.finish();
}

#[test]
fn unkillable_process_at_the_shutdown_of_a_container_is_reported() {
    let (mut init, silent) = stuck();
    let Some(silent) = silent else {
        groundstate_tests::not_run!("no FUSE here");
        return init.finish();
    };
    init.tell("set-target", &json!({"targets": ["stuck"]}));
    silent.until_closing(1);
    init.tell("exit", &json!({}));
    let told = || init.output().contains(") does not exit after SIGKILL: ");
    until("it is reported", || told().then_some(()));
    drop(silent);
    assert_eq!(init.ended().code(), Some(0));
}

/// Sends each of these signals to init this many times, from outside, or until init is gone.
fn storm(init: &Init, signals: &str, rounds: usize) -> Child {
    let script = format!(
        "i=0; while [ $i -lt {rounds} ]; do for s in {signals}; do kill -$s $0 2>/dev/null || exit; done; i=$((i+1)); done"
    );
    let pid = init.process().0.to_string();
    Command::new("/bin/sh").args(["-c", &script, &pid]).spawn().expect("a shell")
}

#[test]
fn flood_of_harmless_signals_acts_like_each_signal_once() {
    let init = Boot::new(pair()).start("web");
    let before = init.when_system("running");
    let db = init.main_of("db");
    let mut storm = storm(&init, HARMLESS_TO_INIT, turns(1_000, 100_000));
    db.signal(Signal::SIGKILL);
    assert!(storm.wait().expect("it ends").success());
    hears(&init);
    init.when("db was replaced, so its exit was not lost", |s| {
        s.system() == "running" && s.main_pid("db") != before.main_pid("db")
    });
    init.finish();
}

/// Signals that do not end init.
const HARMLESS_TO_INIT: &str = "HUP USR1 WINCH CHLD PIPE ALRM URG CONT 41 60";

/// Init recreates its sockets at SIGUSR1, so a new client may have to connect again.
fn hears(init: &Init) {
    until("init answers three times in a row", || {
        let heard = || {
            init.client().and_then(|mut client| {
                client.send("ping", &json!({}));
                client.answer()
            })
        };
        (0..3).all(|_| heard().is_some()).then_some(())
    });
}

/// Stops init while all these signals arrive, so that it sees them at once.
fn at_once(init: &Init, signals: &str, rounds: usize) {
    init.process().signal(Signal::SIGSTOP);
    until("init is stopped", || (init.process().state() == Some('T')).then_some(()));
    let sent = storm(init, signals, rounds).wait().expect("the sender has exited");
    assert!(sent.success(), "{signals}: all signals are sent");
}

/// The number of events of this kind that the state machine got.
fn recorded(init: &Init, kind: &str) -> usize {
    let start = format!("\"event\":{{\"{kind}\":");
    init.sandbox.read("record").lines().filter(|line| line.contains(&start)).count()
}

/// Checks that each stop command ran once.
fn ended_in_order(init: &mut Init, signal: &str) {
    assert_eq!(init.ended().code(), Some(0), "{signal}: {}", init.output());
    let web = init.sandbox.trace("web");
    assert_eq!(web.iter().filter(|word| *word == "term").count(), 1, "{signal}: {web:?}");
    assert_eq!(init.sandbox.trace("stopped"), ["x"], "{signal}");
}

/// Each signal that ends init; 37 to 39 are RTMIN+3 to RTMIN+5.
const ENDS: [&str; 7] = ["INT", "TERM", "PWR", "USR2", "37", "38", "39"];

#[test]
fn signal_sent_many_times_to_a_stopped_init_acts_once() {
    let often = turns(1_000, 100_000);
    let init = Boot::new(pair()).start("web");
    let before = init.when_system("running");
    let db = init.main_of("db");
    // CONT would continue init.
    at_once(&init, &HARMLESS_TO_INIT.replace(" CONT", ""), often);
    db.signal(Signal::SIGKILL);
    init.process().signal(Signal::SIGCONT);
    hears(&init);
    init.when("db was replaced, so its exit was not lost", |s| {
        s.system() == "running" && s.main_pid("db") != before.main_pid("db")
    });
    until("it has reloaded", || (recorded(&init, "Reload") > 0).then_some(()));
    // Any further reload of the flood would come before this one.
    init.tell("reload", &json!({}));
    init.tell("ping", &json!({}));
    assert_eq!(recorded(&init, "Reload"), 2, "one by signal, one by request");
    init.finish();
    for signal in ENDS {
        let mut init = two();
        at_once(&init, signal, often);
        init.process().signal(Signal::SIGCONT);
        ended_in_order(&mut init, signal);
        assert_eq!(recorded(&init, "Shutdown"), 1, "{signal}");
    }
}

#[test]
fn flood_of_an_end_signal_causes_one_orderly_shutdown() {
    // Repeated Ctrl-Alt-Del hastens the shutdown, so INT is left out.
    for signal in ENDS.into_iter().filter(|signal| *signal != "INT") {
        let mut init = two();
        let mut storm = storm(&init, signal, 1_000_000_000);
        ended_in_order(&mut init, signal);
        storm.wait().expect("the sender exits after init");
    }
}

#[test]
fn signals_sent_by_its_children_neither_end_nor_stop_pid_1() {
    let files = pair();
    files.unit(
        "foe",
        "type: oneshot\nexec-start: /bin/sh -c 'for s in KILL STOP SEGV BUS ILL FPE ABRT; do kill -$$s 1 || exit 1; done'",
    );
    files.unit("all", "type: virtual\ndepends-on: web, foe");
    let init = Boot::new(files).start("all");
    let status = init.when_system("running");
    assert_eq!(status.state("foe"), "exited", "all of them were sent");
    assert_ne!(init.process().state(), Some('T'));
    for number in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT] {
        let told = format!("signal {number}: sent by another process");
        until("it is reported", || init.output().contains(&told).then_some(()));
    }
    init.finish();
}
