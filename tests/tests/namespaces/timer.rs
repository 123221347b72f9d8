//! Timer units: spans, calendars, missed times, a killed watcher.

use super::imported::{systemd, wants};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::{Call, crash_when};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::json;

fn starts(files: &Sandbox, trace: &str) -> usize {
    files.trace(trace).iter().filter(|line| line.starts_with("start")).count()
}

fn until_started(files: &Sandbox, trace: &str, times: usize) {
    until(&format!("{trace} was started {times} times"), || {
        (starts(files, trace) >= times).then_some(())
    });
}

#[test]
fn span_timers_fire_and_repeat() {
    let files = Sandbox::new();
    files.unit(
        "often",
        "type: timer\ntimer-active: 100ms\ntimer-unit-active: 150ms\nactivates: job",
    );
    files.unit("later", "type: timer\ntimer-startup: 300ms\nactivates: other");
    files.unit("job", "type: oneshot\nexec-start: DAEMON --exit 0 --trace DIR/job");
    files.unit("other", "type: oneshot\nexec-start: DAEMON --exit 0 --trace DIR/other");
    files.unit("all", "type: virtual\nwants: often, later");
    let init = Boot::new(files).start("all");
    until_started(&init.sandbox, "job", 3);
    until_started(&init.sandbox, "other", 1);
    init.when_state("other", "disabled");
    assert_eq!(init.status().state("often"), "running");
    init.finish();
}

#[test]
fn a_crash_after_a_firing_was_read_does_not_lose_the_firing() {
    let files = Sandbox::new();
    files.unit("once", "type: timer\ntimer-active: 2s\nactivates: job");
    files.unit("job", "type: oneshot\nexec-start: DAEMON --exit 0 --trace DIR/job");
    files.unit("all", "type: virtual\nwants: once");
    let mut init = Boot::new(files).start("all");
    init.when_system("running");
    init.expect_crashes();
    let process = init.process();
    let is_socket = |call: &Call| {
        let number = i32::try_from(call.first).unwrap_or(-1);
        process.files().get(&number).is_some_and(|file| file.starts_with("socket:"))
    };
    let receives = [libc::SYS_recvmsg, libc::SYS_recvfrom, libc::SYS_read];
    // No client is connected: the watcher of timers is the only sender.
    crash_when(
        &init,
        || {},
        |call| receives.contains(&call.number) && call.result > 0 && is_socket(call),
    );
    until_started(&init.sandbox, "job", 1);
    init.when_state("job", "disabled");
    assert_eq!(starts(&init.sandbox, "job"), 1);
    init.finish_after_crash();
}

// With doubling delays the last of these starts would come after minutes.
#[test]
fn imported_timer_starts_a_unit_that_fails_at_each_of_its_times() {
    let files = Sandbox::new();
    for (name, kind) in [("job", "oneshot"), ("plain", "simple")] {
        let trace = files.at(name);
        let line = format!("[Service]\nType={kind}\nExecStart=DAEMON --exit 1 --trace {trace}\n");
        systemd(&files, &format!("{name}.service"), &line);
        let timer = "[Timer]\nOnActiveSec=10ms\nOnUnitInactiveSec=10ms\nAccuracySec=1ms\n";
        systemd(&files, &format!("{name}.timer"), timer);
    }
    wants(&files, &["job.timer", "plain.timer"]);
    let init = Boot::new(files).start("all");
    until_started(&init.sandbox, "job", 13);
    until_started(&init.sandbox, "plain", 13);
    init.finish();
}

#[test]
fn initctl_shows_when_timers_fire_and_where_sockets_listen() {
    let files = Sandbox::new();
    files.unit("yearly", "type: timer\ntimer-calendar: yearly\nactivates: job");
    files.unit("front", "type: socket\nlisten-stream: DIR/front.sock\nactivates: job");
    files.unit("asleep", "type: timer\ntimer-boot: 1s\nactivates: job");
    files.unit("job", "type: oneshot\nexec-start: DAEMON --exit 0");
    files.unit("all", "type: virtual\nwants: yearly, front");
    let init = Boot::new(files).start("all");
    init.when_state("front", "running");
    let timers = until("init knows when the timer fires", || {
        let (_, timers) = init.initctl_json(&["timers"]);
        timers["timers"][1]["next"].is_string().then_some(timers)
    });
    let next = timers["timers"][1]["next"].as_str().unwrap();
    assert!(next.ends_with("Z") && next > timers["now"].as_str().unwrap(), "{timers}");
    assert_eq!(
        (&timers["timers"][0]["unit"], &timers["timers"][0]["next"]),
        (&json!("asleep"), &json!(null))
    );
    let waiting = until("the socket is polled", || {
        let (_, sockets) = init.initctl_json(&["sockets"]);
        (sockets["sockets"][0]["waits"] == true).then_some(sockets)
    });
    let listen = format!("listen-stream {}", init.sandbox.at("front.sock"));
    assert_eq!(waiting["sockets"][0]["listen"], json!([listen]));
    assert_eq!(waiting["sockets"][0]["activates"], "job");
    let why = String::from_utf8_lossy(&init.initctl(&["status", "front"]).stdout).into_owned();
    assert!(why.contains("waiting for a connection on"), "{why}");
    let why = String::from_utf8_lossy(&init.initctl(&["status", "yearly"]).stdout).into_owned();
    assert!(why.contains(&format!("next at {next}")), "{why}");
    init.finish();
}

#[test]
fn time_since_the_boot_of_a_container_counts_from_the_start_of_init() {
    let files = Sandbox::new();
    // The machine has been up for longer than that.
    files.unit("later", "type: timer\ntimer-boot: 2min\nactivates: job");
    files.unit("job", "type: oneshot\nexec-start: /bin/touch DIR/ran");
    files.unit("all", "type: virtual\nwants: later");
    let init = Boot::new(files).start("all");
    until("init knows when the timer fires", || {
        let (_, timers) = init.initctl_json(&["timers"]);
        timers["timers"][0]["next"].is_string().then_some(())
    });
    assert!(!init.sandbox.path("ran").exists());
    init.finish();
}

#[test]
fn calendar_timer_fires_at_its_seconds() {
    let files = Sandbox::new();
    files.unit("tick", "type: timer\ntimer-calendar: '*:*:*'\nactivates: job");
    files.unit("job", "type: oneshot\nexec-start: DAEMON --exit 0 --trace DIR/job");
    let init = Boot::new(files).start("tick");
    until_started(&init.sandbox, "job", 2);
    let events = init.initctl_json_lines(&["events"]);
    let started: Vec<&str> = events
        .iter()
        .filter(|e| e["unit"] == "job" && e["to"] == "starting")
        .filter_map(|e| e["time"].as_str())
        .collect();
    for time in started {
        let millis: u32 = time[20..23].parse().unwrap();
        assert!(millis < 500, "fired at {time}");
    }
    init.finish();
}

#[test]
fn persistent_timer_catches_up_once() {
    let files = Sandbox::new();
    files.put("init.yaml", &format!("state-dir: {}\n", files.at("state")));
    std::fs::create_dir_all(files.path("state/timers")).unwrap();
    files.put("state/timers/nightly", "1000000000000000\n");
    files.unit(
        "nightly",
        "type: timer\ntimer-calendar: yearly\ntimer-persistent: yes\nactivates: job",
    );
    files.unit(
        "fresh",
        "type: timer\ntimer-calendar: yearly\ntimer-persistent: yes\nactivates: never",
    );
    files.unit("job", "type: oneshot\nexec-start: DAEMON --exit 0 --trace DIR/job");
    files.unit("never", "type: oneshot\nexec-start: DAEMON --exit 0 --trace DIR/never");
    files.unit("all", "type: virtual\nwants: nightly, fresh");
    files.unit("none", "type: virtual");
    let init = Boot::new(files).start("all");
    until_started(&init.sandbox, "job", 1);
    init.when_state("job", "disabled");
    until("both stamps are of today", || {
        let stamp = |name: &str| {
            init.sandbox.read(&format!("state/timers/{name}")).trim().parse::<u64>().unwrap_or(0)
        };
        (stamp("nightly") > 1_700_000_000_000_000 && stamp("fresh") > 1_700_000_000_000_000)
            .then_some(())
    });
    init.tell("set-target", &json!({"targets": ["none"]}));
    init.when_state("nightly", "disabled");
    init.tell("set-target", &json!({"targets": ["all"]}));
    // A second timer that is due soon shows that the watcher has looked at the clock.
    init.sandbox.unit("soon", "type: timer\ntimer-active: 50ms\nactivates: other");
    init.sandbox.unit("other", "type: oneshot\nexec-start: DAEMON --exit 0 --trace DIR/other");
    init.tell("reload", &json!({}));
    init.tell("want", &json!({"target": "soon"}));
    until_started(&init.sandbox, "other", 1);
    assert_eq!((starts(&init.sandbox, "job"), starts(&init.sandbox, "never")), (1, 0));
    init.finish();
}

#[test]
fn unknown_time_zone_fails_the_timer_and_is_named() {
    let files = Sandbox::new();
    files.unit(
        "odd",
        "type: timer\ntimer-calendar: 08:00 Mars/Olympus\nrestart: never\nactivates: job",
    );
    files.unit("job", "type: oneshot\nexec-start: DAEMON --exit 0");
    let init = Boot::new(files).start("odd");
    init.when_state("odd", "failed");
    let said = String::from_utf8_lossy(&init.initctl(&["why", "odd"]).stdout).into_owned();
    assert!(said.contains("/usr/share/zoneinfo/Mars/Olympus"), "{said}");
    init.finish();
}

#[test]
fn killed_timer_watcher_is_replaced_and_its_timers_fire() {
    let files = Sandbox::new();
    files.unit("often", "type: timer\ntimer-active: 1ms\ntimer-unit-active: 300ms\nactivates: job");
    files.unit("job", "type: oneshot\nexec-start: DAEMON --exit 0 --trace DIR/job");
    let init = Boot::new(files).start("often");
    until_started(&init.sandbox, "job", 1);
    let lookout = init.process().children().into_iter().find(|process| {
        process.read("comm").is_some_and(|name| name.starts_with("groundstate-clk"))
    });
    lookout.expect("the watcher of timers").signal(Signal::SIGKILL);
    let before = starts(&init.sandbox, "job");
    until_started(&init.sandbox, "job", before + 2);
    init.finish();
}

/// The next time at which the timer fires.
fn next(init: &Init, timer: &str) -> Option<String> {
    let (_, timers) = init.initctl_json(&["timers"]);
    let one = timers["timers"].as_array()?.iter().find(|one| one["unit"] == timer)?;
    one["next"].as_str().map(str::to_owned)
}

#[test]
fn fixed_random_delay_is_the_same_each_time() {
    let files = Sandbox::new();
    let yearly = "[Timer]\nOnCalendar=yearly\nRandomizedDelaySec=200d\n";
    systemd(&files, "fixed.timer", &format!("{yearly}FixedRandomDelay=yes\n"));
    systemd(&files, "other.timer", &format!("{yearly}FixedRandomDelay=yes\n"));
    systemd(&files, "loose.timer", yearly);
    for name in ["fixed", "other", "loose"] {
        systemd(&files, &format!("{name}.service"), "[Service]\nExecStart=/bin/sleep 1000\n");
    }
    let timers = ["fixed.timer", "other.timer", "loose.timer"];
    wants(&files, &timers);
    let told = |init: &Init| {
        let all = || timers.iter().map(|timer| next(init, timer)).collect::<Option<Vec<_>>>();
        until("init knows when all timers fire", all)
    };
    let init = Boot::new(files).start("all");
    let before = told(&init);
    assert_ne!(before[0], before[1], "each unit has its own");
    let init = Boot::new(init.finish_and_keep()).start("all");
    let after = told(&init);
    assert_eq!(before[..2], after[..2], "each unit keeps its delay");
    assert_ne!(before[2], after[2], "the other delay is random");
    init.finish();
}

#[test]
fn inaccurate_timer_fires_together_with_the_next_accurate_one() {
    let files = Sandbox::new();
    systemd(&files, "early.timer", "[Timer]\nOnActiveSec=1s\nAccuracySec=1h\n");
    systemd(&files, "exact.timer", "[Timer]\nOnActiveSec=2500ms\nAccuracySec=1us\n");
    for name in ["early", "exact"] {
        systemd(&files, &format!("{name}.service"), "[Service]\nExecStart=/bin/sleep 1000\n");
    }
    wants(&files, &["early.timer", "exact.timer"]);
    let init = Boot::new(files).start("all");
    init.when_state("early.service", "running");
    let events = init.initctl_json_lines(&["events"]);
    let first = |unit: &str, to: &str| {
        let event = events.iter().find(|event| event["unit"] == unit && event["to"] == to);
        event.unwrap_or_else(|| panic!("{unit} was {to}"))["mono-us"].as_u64().unwrap()
    };
    let waited = first("early.service", "starting") - first("early.timer", "running");
    assert!(waited >= 2_400_000, "it fired {waited} us after its timer started");
    init.finish();
}
