//! `initctl upgrade`: init re-executes its program; services and clients do not notice.

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::client::Client;
use groundstate_tests::crash::{state_memory, wait_for_commit};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::{Sandbox, copy_of_init, program};
use groundstate_tests::silent::Silent;
use groundstate_tests::status::Status;
use groundstate_tests::storm::{Blow, Storm};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

const ROUNDS: usize = 20;

/// Units of all types: running, starting, stopping, and between two retries.
pub(crate) fn all_types() -> Sandbox {
    let files = Sandbox::new();
    files.put("data", "kept\n");
    for (name, text) in [
        (
            "notified",
            "type: foreground-notified\nfd-store-max: 2\nexec-start: DAEMON --notify --control DIR/notified --trace DIR/notified.trace",
        ),
        (
            "plain",
            "depends-on: notified\nexec-start: DAEMON --children 2 --trace DIR/plain.trace --control DIR/plain",
        ),
        (
            "grep",
            "ready-grep: ^here\nstart-timeout: 10m\nexec-start: DAEMON --ready-on-order --trace DIR/grep.trace --control DIR/grep",
        ),
        (
            "forked",
            "type: background-pidfile\npid-file: DIR/forked.pid\nexec-start: DAEMON --pid-file DIR/forked.pid --trace DIR/forked.trace",
        ),
        ("script", "type: background-scripted\nexec-start: /bin/sh -c 'sleep 1000 &'"),
        ("once", "type: oneshot\nexec-start: /bin/true"),
        ("group", "type: virtual\nwaits-for: once"),
        (
            "starting",
            "type: foreground-notified\nstart-timeout: 10m\nexec-start: DAEMON --notify --ready-on-order --control DIR/starting --trace DIR/starting.trace",
        ),
        (
            "pre",
            "type: oneshot\nstart-timeout: 10m\nexec-start-pre: /bin/sh -c 'while [ ! -e DIR/go ]; do sleep 0.05; done'\nexec-start: /bin/true",
        ),
        (
            "stubborn",
            "stop-timeout: 10m\nexec-start: DAEMON --ignore TERM --trace DIR/stubborn.trace --control DIR/stubborn",
        ),
        ("flapping", "restart-delay: 700ms\nrestart-delay-max: 700ms\nexec-start: /bin/false"),
        ("door", "type: socket\nlisten-stream: DIR/door.sock\nactivates: echo"),
        ("echo", "exec-start: LISTENER"),
        ("tick", "type: timer\ntimer-unit-active: 200ms\ntimer-active: 100ms\nactivates: job"),
        ("job", "type: oneshot\nexec-start: /bin/sh -c 'echo x >>DIR/job.trace'"),
        ("watch", "type: path\npath-exists: DIR/never\nactivates: once"),
        ("waiting", "type: oneshot\ndepends-on: starting, pre, grep\nexec-start: /bin/true"),
        (
            "all",
            "type: virtual\nwaits-for: notified, plain, grep, forked, script, once, group, starting, pre, flapping, door, tick, watch, waiting",
        ),
    ] {
        files.unit(name, text);
    }
    files
}

/// Starts all of them, with `stubborn` stopping. Starts in progress last as long as a test takes on
/// a slow machine.
pub(crate) fn at_work() -> Init {
    let init = Boot::new(all_types()).start("all");
    init.when_state("plain", "running");
    init.tell("want", &json!({"target": "stubborn"}));
    init.when_state("stubborn", "running");
    until("it ignores SIGTERM", || {
        (!init.sandbox.trace("stubborn.trace").is_empty()).then_some(())
    });
    init.tell("unwant", &json!({"target": "stubborn"}));
    init.when("all units are in their expected states", |s| {
        let up = ["notified", "plain", "forked", "door", "tick", "watch"];
        up.iter().all(|unit| s.state(unit) == "running")
            && ["script", "once"].iter().all(|unit| ["running", "exited"].contains(&s.state(unit)))
            && ["grep", "starting", "pre"].iter().all(|unit| s.state(unit) == "starting")
            && s.state("stubborn") == "stopping"
            && s.unit("flapping")["attempt"].as_u64() > Some(0)
    });
    let data = init.sandbox.at("data");
    init.sandbox.order("notified", &format!("store {data} FDSTORE=1\\nFDNAME=data"));
    init.sandbox.order("notified", "notify STATUS=left");
    until("init has read all messages", || {
        (init.status().unit("notified")["status"] == "left").then_some(())
    });
    wait_for_commit(&init);
    init
}

/// Facts that neither an upgrade nor a crash changes: state, main process and its start time.
pub(crate) fn fixed(status: &Status) -> Vec<Value> {
    let units = [
        "notified", "plain", "grep", "forked", "script", "once", "starting", "pre", "stubborn",
        "door", "tick",
    ];
    let of = |unit: &&str| {
        let unit = status.unit(unit);
        json!([unit["unit"], unit["state"], unit["main-pid"], unit["since"]])
    };
    units.iter().map(of).collect()
}

/// Checks that everything in progress completes as without an upgrade or crash.
pub(crate) fn assert_work_completes(init: &Init) {
    init.sandbox.order("starting", "ready");
    init.sandbox.order("grep", "say here");
    init.sandbox.put("go", "");
    init.when_state("waiting", "exited");
    init.sandbox.order("stubborn", "exit 0");
    init.when_state("stubborn", "disabled");
    let mut stream = UnixStream::connect(init.sandbox.path("door.sock")).unwrap();
    stream.write_all(b"hello\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("hello"), "{answer}");
    for trace in ["notified", "plain", "grep", "starting", "stubborn"] {
        let words = init.sandbox.trace(&format!("{trace}.trace"));
        let starts = words.iter().filter(|word| word.starts_with("start")).count();
        assert_eq!(starts, 1, "{trace} was started once: {words:?}");
    }
    // Init notices each exit, although an earlier image started the process.
    let before = init.status();
    for unit in ["notified", "forked"] {
        init.main_of(unit).signal(Signal::SIGKILL);
        init.when(&format!("{unit} was replaced"), |s| {
            s.state(unit) == "running" && s.main_pid(unit) != before.main_pid(unit)
        });
    }
    let environment = init.main_of("notified").environment();
    assert_eq!(environment.get("LISTEN_FDNAMES").map(String::as_str), Some("data"));
    let fired = init.sandbox.trace("job.trace").len();
    until("the timer still fires", || {
        (init.sandbox.trace("job.trace").len() > fired).then_some(())
    });
    init.check();
}

#[test]
fn twenty_upgrades_change_no_service_and_lose_no_event() {
    let init = at_work();
    let before = init.status();
    let mut follower = init.client().unwrap();
    follower.send("events", &json!({"follow": true, "after": 0}));
    let mut waiter = init.client().unwrap();
    waiter.send("wait", &json!({}));
    init.status();
    let files = init.process().files().len();
    for round in 0..ROUNDS {
        init.sandbox.order("plain", &format!("say round {round}"));
        init.tell("upgrade", &json!({}));
        assert_eq!(fixed(&init.status()), fixed(&before), "after upgrade {round}");
        assert_eq!(init.status().0["generation"], before.0["generation"]);
    }
    assert_eq!(init.tell("stats", &json!({}))["crashes"], 0);
    // The previous binary stays open for a while, so one descriptor more is allowed. Descriptors of
    // a start or a commit are closed again; a leak of each upgrade would stay.
    until("no file is left open", || (init.process().files().len() <= files + 1).then_some(()));
    let said = || {
        let log = init.initctl(&["logs", "plain", "-n", "100"]);
        String::from_utf8_lossy(&log.stdout).matches("round").count()
    };
    until("every line is in the log", || (said() == ROUNDS).then_some(()));
    assert_work_completes(&init);
    let flapping = init.status().unit("flapping")["attempt"].as_u64();
    assert!(flapping > before.unit("flapping")["attempt"].as_u64(), "it was tried again");
    assert!(
        waiter.answer().is_some_and(|answer| answer.is_ok()),
        "the waiting client gets an answer"
    );
    let last = init.tell("ping", &json!({}))["seq"].as_u64().unwrap();
    assert_eq!(numbers(&mut follower, last), (1..=last).collect::<Vec<u64>>());
    drop((follower, waiter));
    init.finish();
}

#[test]
fn upgrades_among_two_hundred_busy_services_change_no_service() {
    let mut storm = Storm::begin(1);
    let mut gaps: Vec<_> = (0..10).map(|_| storm.round(Blow::Upgrade)).collect();
    storm.end();
    gaps.sort();
    println!("no answer for: {gaps:?}");
}

/// The numbers of the events on this stream, up to this one.
pub(crate) fn numbers(follower: &mut Client, last: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.last() < Some(&last) {
        let event = follower.answer().expect("the stream goes on").expect("an event");
        numbers.extend(event["seq"].as_u64());
    }
    numbers
}

#[test]
fn unusable_binary_is_refused_and_changes_nothing() {
    let init = at_work();
    let before = init.status();
    let own = std::fs::read(program("GROUNDSTATE_INIT", "init")).unwrap();
    let mut header: [u8; 20] = *own.first_chunk().unwrap();
    let here = header;
    header[18..].copy_from_slice(&0xfeed_u16.to_le_bytes());
    let foreign = copy_of_init(&init.sandbox, "foreign", Some((&here, &header)));
    let cut = init.sandbox.at("cut");
    std::fs::write(&cut, &own[..8192]).unwrap();
    for (name, text) in [
        ("script.sh", "#!/bin/sh\nexit 0\n"),
        ("dies.sh", "#!/bin/sh\nkill -SEGV $$\n"),
        ("stranger.sh", "#!/none/such\n"),
        ("garbage", "\u{1}\u{2}garbage"),
        ("empty", ""),
    ] {
        init.sandbox.put(name, text);
    }
    let made = ["script.sh", "dies.sh", "stranger.sh", "garbage", "empty", "cut"];
    let made = made.map(|name| init.sandbox.at(name));
    for path in &made {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let others = ["absent", "units"].map(|name| init.sandbox.at(name));
    let binaries = ["/bin/true", "/bin/false", "/etc/passwd", "/bin/sh"].map(str::to_owned);
    for binary in binaries.iter().chain(&made).chain(&others).chain([&foreign]) {
        let refused = init.ask("upgrade", &json!({"binary": binary})).unwrap_err();
        assert_eq!(refused["kind"], "upgrade", "{binary}: {refused}");
        assert!(!refused["message"].as_str().unwrap_or_default().is_empty(), "{refused}");
    }
    assert_eq!(fixed(&init.status()), fixed(&before));
    assert_work_completes(&init);
    init.finish();
}

/// Fields of records, nested ones too, that are written whatever their value.
const FIELDS: [&str; 4] = ["wakeups", "on_the_wall", "latest", "rested_at"];

/// A record of the committed state holds this text (`init/src/state/store.rs` has the layout).
fn holds(init: &Init, text: &str) -> bool {
    wait_for_commit(init);
    let (word, mut file) = state_memory(init).expect("the state is stored");
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).expect("it can be read");
    let number =
        |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let half = usize::try_from(word >> 63).expect("a bit");
    let begin = 64 + half * ((bytes.len() - 64) / 2);
    let mut log = &bytes[begin..begin + number(&(word & !(1 << 63)).to_le_bytes())];
    let mut records = BTreeMap::new();
    while let Some((head, rest)) = log.split_first_chunk::<10>() {
        let (key, rest) = rest.split_at(number(&head[8..]));
        let (value, rest) = rest.split_at(number(&head[..4]));
        records.insert(key, value);
        log = rest;
    }
    records.values().any(|value| value.windows(text.len()).any(|it| it == text.as_bytes()))
}

#[test]
fn upgrade_to_a_binary_with_another_field_of_the_state_works_both_ways() {
    let init = at_work();
    let before = init.status();
    let tried = |status: &Status| status.unit("flapping")["attempt"].as_u64();
    let own = program("GROUNDSTATE_DEBUG_INIT", "init");
    for field in FIELDS {
        // The other binary misses this field, and skips the field that it does not know.
        let other_field = format!("{}X", &field[..field.len() - 1]);
        let renamed = Some((field.as_bytes(), other_field.as_bytes()));
        let other = copy_of_init(&init.sandbox, field, renamed);
        let both = [(&own, field, &*other_field), (&other, &other_field, field)];
        for (binary, written, unknown) in both.into_iter().chain([both[0]]) {
            let failures = tried(&init.status());
            init.tell("upgrade", &json!({"binary": binary}));
            assert!(holds(&init, written), "{binary} writes {written}");
            assert!(!holds(&init, unknown), "{binary} keeps {unknown}");
            assert_eq!(fixed(&init.status()), fixed(&before), "{binary}");
            assert!(tried(&init.status()) >= failures, "{binary} forgot failures");
        }
    }
    assert_work_completes(&init);
    // A binary without a field of a unit decides differently from the binary that replays the
    // record.
    init.finish_after_crash();
}

#[test]
fn record_of_another_version_loses_fields_that_the_new_binary_does_not_know() {
    let files = Sandbox::new();
    files.unit("all", "exec-start: DAEMON");
    let init = Boot::new(files).start("all");
    init.when_state("all", "running");
    if init.status().0["tracking"] != "cgroup2" {
        return groundstate_tests::not_run!("no cgroup v2 here");
    }
    // It is in the record of each run's cgroup, which changes with its processes only.
    let renamed: (&[u8], &[u8]) = (b"entered", b"entereX");
    let other = copy_of_init(&init.sandbox, "other", Some(renamed));
    assert!(holds(&init, "entered"));
    init.tell("upgrade", &json!({"binary": other}));
    assert!(!holds(&init, "entered"));
    init.finish();
}

/// The other binary does not know a key of the unit file, which does not change.
#[test]
fn first_reload_after_an_upgrade_parses_unchanged_files_again() {
    let files = Sandbox::new();
    files.unit("all", "restart-delay-max: 7s\nexec-start: DAEMON");
    let init = Boot::new(files).unrecorded().start("all");
    init.when_state("all", "running");
    init.tell("reload", &json!({}));
    let renamed: (&[u8], &[u8]) = (b"restart-delay-max", b"restart-delay-maX");
    let other = copy_of_init(&init.sandbox, "other", Some(renamed));
    init.tell("upgrade", &json!({"binary": other}));
    let told = init.ask("reload", &json!({}));
    assert!(format!("{told:?}").contains("restart-delay-max"), "{told:?}");
    init.finish();
}

#[test]
fn shutdown_continues_after_an_upgrade() {
    let files = Sandbox::new();
    files.unit("slow", "stop-timeout: 60s\nexec-start: DAEMON --ignore TERM --control DIR/slow");
    files.unit("base", "exec-start: DAEMON --trace DIR/base");
    files.unit("all", "type: virtual\ndepends-on: slow\nwaits-for: base");
    let mut init = Boot::new(files).arguments(&["--exit-with", "missing"]).start("all");
    init.when_system("running");
    // It reads orders once it ignores SIGTERM.
    init.sandbox.order("slow", "say here");
    init.tell("exit", &json!({"code": 7}));
    init.when_state("slow", "stopping");
    init.tell("upgrade", &json!({}));
    assert_eq!(init.status().system(), "stopping");
    init.sandbox.order("slow", "exit 0");
    assert_eq!(init.ended().code(), Some(7));
}

#[test]
fn upgrade_to_a_binary_on_an_unresponsive_file_system_is_given_up() {
    let files = Sandbox::new();
    files.unit("all", "exec-start: DAEMON");
    files.unit("short", "type: oneshot\nexec-start: /bin/sleep 0.3");
    std::fs::create_dir(files.path("silent")).unwrap();
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let Some(silent) = Silent::new(init.process(), &init.sandbox.path("silent")) else {
        groundstate_tests::not_run!("no FUSE here");
        return init.finish();
    };
    let path = init.sandbox.at("silent/never");
    let refused = init.ask("upgrade", &json!({"binary": path})).unwrap_err();
    assert!(refused.to_string().contains("in time"), "{refused}");
    // The child is still blocked; init does not poll for it.
    let turns = || init.tell("stats", &json!({}))["wakeups"].as_u64().unwrap();
    let before = turns();
    init.tell("want", &json!({"target": "short"}));
    init.when_state("short", "exited");
    assert!(turns() < before + 5_000, "it is busy");
    init.tell("upgrade", &json!({}));
    drop(silent);
    init.finish();
}
