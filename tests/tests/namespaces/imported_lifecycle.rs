//! Imported systemd units, as seen in the events: readiness, exit and restart of a service of each
//! type, and the units that a socket, a timer and a path activate.

use super::command::{drop_all, words};
use super::imported::{systemd, wants};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

/// A service that writes `start` to a file of its name and then runs `then`.
fn service_that(files: &Sandbox, name: &str, then: &str, service: &str) {
    let text = format!(
        "[Unit]\nStartLimitIntervalSec=1min\nStartLimitBurst=3\n[Service]\n{service}\n\
         ExecStart=/bin/sh -c 'echo start >>DIR/{name}; {then}'\n"
    );
    systemd(files, &format!("{name}.service"), &text);
}

fn starts(init: &Init, name: &str) -> usize {
    init.sandbox.read(name).lines().count()
}

#[test]
fn imported_service_is_restarted_as_its_file_says() {
    let files = Sandbox::new();
    service_that(&files, "never", "exit 1", "");
    service_that(&files, "failing", "exit 1", "Restart=on-failure\nRestartSec=80ms");
    service_that(&files, "done", "exit 0", "Restart=on-failure");
    service_that(&files, "fine", "exit 42", "Restart=on-failure\nSuccessExitStatus=42 SIGUSR1");
    service_that(&files, "kept-down", "exit 43", "Restart=always\nRestartPreventExitStatus=43");
    service_that(&files, "brought-up", "exit 44", "RestartForceExitStatus=44\nRestartSec=1ms");
    service_that(&files, "aborted", "kill -ABRT $$$$", "Restart=on-abort\nRestartSec=1ms");
    let longer = "Restart=on-failure\nRestartSec=100ms\nRestartMaxDelaySec=200ms\nRestartSteps=1";
    service_that(&files, "longer", "exit 1", longer);
    let names: Vec<String> =
        ["never", "failing", "done", "fine", "kept-down", "brought-up", "aborted", "longer"]
            .map(|name| format!("{name}.service"))
            .into();
    wants(&files, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let init = Boot::new(files).start("all");
    for (name, count) in [("failing", 3), ("brought-up", 3), ("aborted", 3), ("longer", 3)] {
        init.when("its limit of starts is reached", |s| {
            s.state(&format!("{name}.service")) == "failed" && starts(&init, name) == count
        });
    }
    for (name, state) in
        [("never", "failed"), ("kept-down", "failed"), ("done", "disabled"), ("fine", "disabled")]
    {
        let unit = format!("{name}.service");
        init.when(&format!("{name} is over"), |s| {
            s.state(&unit) == state || (state == "disabled" && s.state(&unit) == "exited")
        });
        assert_eq!(starts(&init, name), 1, "{name}");
    }
    let events = init.initctl_json_lines(&["events"]);
    let times = |unit: &str| -> Vec<u64> {
        let starting = events.iter().filter(|e| e["unit"] == unit && e["to"] == "starting");
        starting.filter_map(|e| e["mono-us"].as_u64()).collect()
    };
    let failing = times("failing.service");
    assert!(failing.len() >= 3 && failing[1] - failing[0] >= 80_000, "RestartSec: {failing:?}");
    let longer = times("longer.service");
    let second = longer.windows(2).nth(1).map(|pair| pair[1] - pair[0]);
    assert!(second.is_some_and(|gap| gap >= 200_000), "RestartMaxDelaySec: {longer:?}");
    init.finish();
}

#[test]
fn imported_service_has_the_timeouts_of_its_file() {
    let files = Sandbox::new();
    let service = |name: &str, text: &str| {
        systemd(&files, &format!("{name}.service"), &format!("[Service]\n{text}\n"));
    };
    service(
        "late",
        "Type=notify\nTimeoutStartSec=300ms\nExecStart=DAEMON --notify --ready-on-order --control DIR/late",
    );
    service("long", "RuntimeMaxSec=300ms\nExecStart=/bin/sleep 1000");
    service(
        "both",
        "Type=notify\nTimeoutSec=300ms\nExecStart=DAEMON --notify --ready-on-order --control DIR/both",
    );
    service("deaf", "TimeoutStopSec=2s\nExecStart=DAEMON --ignore TERM --trace DIR/deaf");
    service(
        "asked",
        "KillSignal=SIGINT\nExecStart=/bin/sh -c 'trap \"echo int >>DIR/signal; exit\" INT; trap \"echo term >>DIR/signal; exit\" TERM; echo up >DIR/up; while :; do sleep 0.05; done'",
    );
    service("dog", "Type=notify\nWatchdogSec=400ms\nTimeoutAbortSec=1s\nExecStart=DAEMON --notify");
    wants(
        &files,
        &[
            "late.service",
            "long.service",
            "both.service",
            "deaf.service",
            "asked.service",
            "dog.service",
        ],
    );
    let init = Boot::new(files).start("all");
    for (unit, reason) in
        [("late", "start-timeout"), ("both", "start-timeout"), ("dog", "watchdog")]
    {
        let unit = format!("{unit}.service");
        assert_eq!(init.when_state(&unit, "failed").reason(&unit), reason, "{unit}");
    }
    init.when_state("long.service", "failed");
    until("deaf is ready", || init.sandbox.read("deaf").contains("ready").then_some(()));
    until("the trap is set", || (!init.sandbox.read("up").is_empty()).then_some(()));
    drop_all(&init);
    assert_eq!(init.when_state("deaf.service", "failed").reason("deaf.service"), "stop-timeout");
    init.when_state("asked.service", "disabled");
    assert!(init.sandbox.read("deaf").contains("term"), "it got SIGTERM before SIGKILL");
    assert_eq!(init.sandbox.read("signal"), "int\n");
    init.finish();
}

#[test]
fn service_of_each_type_becomes_ready_as_under_systemd() {
    let files = Sandbox::new();
    let service = |name: &str, text: &str| {
        systemd(&files, &format!("{name}.service"), &format!("[Service]\n{text}\n"));
    };
    service("simple", "ExecStart=/bin/sleep 1000");
    service("exec", "Type=exec\nExecStart=/bin/sleep 1000");
    service("idle", "Type=idle\nExecStart=/bin/sleep 1000");
    service(
        "forking",
        "Type=forking\nPIDFile=DIR/run/forking.pid\nExecStart=DAEMON --pid-file DIR/run/forking.pid",
    );
    service("guessed", "Type=forking\nExecStart=DAEMON --pid-file DIR/run/guessed.pid");
    service("none", "Type=forking\nGuessMainPID=no\nExecStart=DAEMON --pid-file DIR/run/none.pid");
    service(
        "once",
        "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\nExecStart=/bin/sh -c 'echo two >DIR/two'",
    );
    service(
        "told",
        "Type=notify\nNotifyAccess=all\nExecStart=/bin/sh -c 'DAEMON --notify --control DIR/told & wait'",
    );
    // A program of the test stands in for dbus-send(1).
    std::fs::create_dir(files.path("bin")).unwrap();
    files.put(
        "bin/dbus-send",
        &format!(
            "#!/bin/sh\necho \"$*\" >{0}/asked; [ -e {0}/owned ] && echo boolean true\n",
            files.dir().display()
        ),
    );
    std::fs::set_permissions(files.path("bin/dbus-send"), PermissionsExt::from_mode(0o755))
        .unwrap();
    service(
        "bus",
        "Type=dbus\nBusName=org.example.Probe\nEnvironment=PATH=DIR/bin:/usr/bin:/bin\nExecStart=sleep 1000",
    );
    wants(
        &files,
        &[
            "bus.service",
            "simple.service",
            "exec.service",
            "idle.service",
            "forking.service",
            "guessed.service",
            "none.service",
            "once.service",
            "told.service",
        ],
    );
    let init = Boot::new(files).start("all");
    for name in ["simple", "exec", "idle", "forking", "guessed", "none", "told"] {
        init.when_state(&format!("{name}.service"), "running");
    }
    until("the bus is asked", || {
        init.sandbox.read("asked").contains("org.example.Probe").then_some(())
    });
    assert_eq!(init.status().state("bus.service"), "starting", "the bus name has no owner");
    init.sandbox.put("owned", "");
    init.when_state("bus.service", "running");
    let status = init.when_state("once.service", "exited");
    assert_eq!(init.sandbox.read("two"), "two\n");
    for name in ["forking", "guessed"] {
        let written: i32 = init.sandbox.read(&format!("run/{name}.pid")).trim().parse().unwrap();
        assert_eq!(status.main_pid(&format!("{name}.service")), Some(written));
    }
    assert_eq!(status.main_pid("none.service"), None);
    init.finish();
}

/// Triggers of each kind and the services they activate. Each service records in a file that it
/// ran, and removes the reason of its own activation.
fn triggers(files: &Sandbox) {
    systemd(
        files,
        "front.socket",
        "[Socket]\nListenStream=DIR/deep/front.sock\nSocketMode=0640\nDirectoryMode=0711\nFileDescriptorName=door\nRemoveOnStop=yes\nSymlinks=DIR/second.sock\nService=answers.service\n",
    );
    let listener = groundstate_tests::sandbox::program("GROUNDSTATE_LISTENER", "listener");
    systemd(
        files,
        "answers.service",
        &format!("[Unit]\nRequires=front.socket\n[Service]\nExecStart={listener}\n"),
    );
    systemd(
        files,
        "soon.timer",
        "[Timer]\nOnActiveSec=100ms\nOnUnitActiveSec=150ms\nAccuracySec=1ms\nUnit=job.service\n",
    );
    systemd(files, "again.timer", "[Timer]\nOnActiveSec=10ms\nOnUnitInactiveSec=50ms\n");
    systemd(files, "booted.timer", "[Timer]\nOnBootSec=1s\n");
    systemd(files, "ticks.timer", "[Timer]\nOnCalendar=*:*:*\n");
    systemd(files, "started.timer", "[Timer]\nOnStartupSec=200ms\nRandomizedDelaySec=1ms\n");
    systemd(files, "late.timer", "[Timer]\nOnActiveSec=1ms\nRandomizedDelaySec=10000h\n");
    for (name, reason) in [
        ("job", ""),
        ("again", ""),
        ("booted", ""),
        ("ticks", ""),
        ("started", ""),
        ("there", "DIR/flag"),
        ("many", "DIR/a.glob"),
        ("changed", ""),
        ("spool", "DIR/box/*"),
        ("modified", ""),
        ("late", ""),
    ] {
        systemd(
            files,
            &format!("{name}.service"),
            &format!(
                "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo x >>DIR/{name}; rm -f {reason}'\n"
            ),
        );
    }
    systemd(files, "there.path", "[Path]\nPathExists=DIR/flag\n");
    systemd(files, "many.path", "[Path]\nPathExistsGlob=DIR/*.glob\n");
    systemd(files, "changed.path", "[Path]\nPathChanged=DIR/watched\n");
    systemd(files, "modified.path", "[Path]\nPathModified=DIR/grown\n");
    systemd(
        files,
        "boxed.path",
        "[Path]\nDirectoryNotEmpty=DIR/box\nMakeDirectory=yes\nDirectoryMode=0710\nUnit=spool.service\n",
    );
    files.put("watched", "").put("grown", "");
}

#[test]
fn imported_sockets_timers_and_paths_activate_their_services() {
    let files = Sandbox::new();
    triggers(&files);
    wants(
        &files,
        &[
            "front.socket",
            "soon.timer",
            "again.timer",
            "booted.timer",
            "ticks.timer",
            "started.timer",
            "there.path",
            "many.path",
            "changed.path",
            "modified.path",
            "late.timer",
            "boxed.path",
        ],
    );
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let at = |name: &str| init.sandbox.path(name);
    until("the box is made", || at("box").is_dir().then_some(()));
    let mode = |name: &str| at(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("deep/front.sock"), mode("deep"), mode("box")), (0o640, 0o711, 0o710));
    assert!(at("second.sock").is_symlink());
    let mut client = UnixStream::connect(at("second.sock")).unwrap();
    client.write_all(b"hello\n").unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut client, &mut answer).unwrap();
    assert!(answer.contains(" door hello"), "{answer}");
    words(&init, "job", 2);
    words(&init, "again", 3);
    words(&init, "booted", 1);
    words(&init, "ticks", 1);
    words(&init, "started", 1);
    for (file, service) in [("flag", "there"), ("a.glob", "many"), ("box/one", "spool")] {
        init.sandbox.put(file, "x");
        words(&init, service, 1);
    }
    std::fs::write(at("watched"), "more").unwrap();
    words(&init, "changed", 1);
    let mut grown = std::fs::OpenOptions::new().append(true).open(at("grown")).unwrap();
    grown.write_all(b"more").unwrap();
    words(&init, "modified", 1);
    drop(grown);
    assert_eq!(init.status().state("late.service"), "disabled", "delayed by up to 10000 hours");
    assert!(!at("late").exists());
    drop_all(&init);
    until("the socket is removed", || (!at("deep/front.sock").exists()).then_some(()));
    init.finish();
}
