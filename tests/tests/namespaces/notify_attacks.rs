//! Attacks on the notify socket: floods, forged senders and pids, and text that would be harmful
//! where init stores or shows it.

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::crash;
use groundstate_tests::deadline::until;
use groundstate_tests::extent::turns;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};
use serde_json::json;
use std::io::IoSlice;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

/// A notified unit that follows orders.
fn notified_unit(files: &Sandbox, name: &str, more: &str) {
    let text = format!(
        "type: foreground-notified\n{more}\nexec-start: DAEMON --notify --control DIR/{name}.ctl \
         --trace DIR/{name}.trace"
    );
    files.unit(name, &text);
}

fn pair() -> Init {
    let files = Sandbox::new();
    notified_unit(&files, "web", "stop-timeout: 1s");
    notified_unit(&files, "other", "stop-timeout: 1s");
    files.unit("none", "type: virtual");
    files.unit("all", "type: virtual\nwaits-for: web, other");
    let init = Boot::new(files).start("all");
    init.when_system("running");
    init
}

/// Sends this status for a unit, and waits until init has it.
fn send_status(init: &Init, unit: &str, text: &str) {
    init.sandbox.order(&format!("{unit}.ctl"), &format!("notify STATUS={text}"));
    until("init has the status", || (init.status().unit(unit)["status"] == text).then_some(()));
}

/// The address of the notify socket.
fn address(init: &Init) -> String {
    init.main_of("web").environment()["NOTIFY_SOCKET"].clone()
}

#[test]
fn malformed_datagrams_do_not_block_the_next_one() {
    let init = pair();
    let path = address(&init);
    let stranger = UnixDatagram::unbound().unwrap();
    let lines = "READY=1\n".repeat(1000);
    let long = vec![b'x'; 64 * 1024];
    let bytes: [&[u8]; 10] = [
        b"",
        b"x",
        b"=",
        b"=x",
        b"READY",
        b"\0\0\0",
        b"\xff\xfe\xfd=\xff",
        b"MAINPID=\nMAINPID=\0",
        lines.as_bytes(),
        &long,
    ];
    for (round, datagram) in bytes.into_iter().enumerate() {
        stranger.send_to(datagram, &path).unwrap();
        init.sandbox.order("web.ctl", &format!("notify {}", ["", "x", "=", "=x"][round % 4]));
        send_status(&init, "web", &round.to_string());
    }
    let unusable = init.dropped("messages-unusable");
    assert!(unusable >= 1, "one message exceeds the limit: {unusable}");
    // From the unit itself, many times.
    init.sandbox.order("web.ctl", &format!("flood {} READY=1", turns(10_000, 1_000_000)));
    send_status(&init, "web", "flooded");
    assert_eq!(init.status().state("web"), "running");
    init.finish();
}

#[test]
fn notification_flood_of_one_unit_delays_no_other_unit() {
    let init = pair();
    let before = init.process().memory();
    init.sandbox.order("other.ctl", &format!("flood {} STATUS=flood", turns(200_000, 2_000_000)));
    // Init reads it when the flood is over.
    init.sandbox.order("other.ctl", "notify STATUS=over");
    let says = || init.status().unit("other")["status"].clone();
    until("the flood has started", || (says() == "flood").then_some(()));
    let mut took: Vec<Duration> = (0..9)
        .map(|round| {
            let begin = Instant::now();
            send_status(&init, "web", &round.to_string());
            begin.elapsed()
        })
        .collect();
    assert_eq!(says(), "flood", "the flood is not over yet");
    took.sort();
    assert!(took[4] < Duration::from_millis(500), "{took:?}");
    init.main_of("other").end();
    let after = init.process().memory();
    assert!(after < before + 4 * 1024, "PID 1 has grown from {before} to {after} KiB");
    init.when_system("running");
    init.finish();
}

#[test]
fn notification_flood_of_an_unknown_sender_has_a_bounded_share_of_init() {
    let init = pair();
    let path = address(&init);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (refused, seconds) = std::thread::scope(|scope| {
        let flood = || {
            let stranger = UnixDatagram::unbound().unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                stranger.send_to(b"READY=1", &path).unwrap();
            }
        };
        scope.spawn(flood);
        scope.spawn(flood);
        // Init reads a burst at once, and a continuous flood at a rate of 8,192 messages a second.
        let refused = || init.dropped("messages-refused");
        until("a burst has been read", || (refused() >= 8192).then_some(()));
        let (begin, before) = (Instant::now(), refused());
        for round in 0..9 {
            send_status(&init, "web", &format!("round {round}"));
        }
        until("init has read more of the flood", || (refused() > before + 16_384).then_some(()));
        let refused = refused() - before;
        let took = begin.elapsed();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        (refused, took.as_secs_f64())
    });
    // Allows for the unused part of a second's budget when the count began.
    let most = 8192.0 * (seconds + 1.0) + 1024.0;
    assert!((refused as f64) < most, "{refused} in {seconds} s, at most {most}");
    init.finish();
}

#[test]
fn descriptors_sent_by_an_unknown_sender_are_closed() {
    let init = pair();
    let path = address(&init);
    let files = init.process().files().len();
    let null = std::fs::File::open("/dev/null").unwrap();
    let fds = [null.as_raw_fd(); 253];
    let socket = UnixDatagram::unbound().unwrap();
    let to = UnixAddr::new(path.as_str()).unwrap();
    for text in ["FDSTORE=1\nFDNAME=x", "BARRIER=1", "READY=1"].repeat(30) {
        let rights = [ControlMessage::ScmRights(&fds)];
        let parts = [IoSlice::new(text.as_bytes())];
        sendmsg(socket.as_raw_fd(), &parts, &rights, MsgFlags::empty(), Some(&to)).unwrap();
    }
    send_status(&init, "web", "all");
    until("all are closed", || (init.process().files().len() <= files + 1).then_some(()));
    let messages = ["messages-refused", "messages-unusable"].map(|what| init.dropped(what));
    assert_eq!(messages.iter().sum::<u64>(), 90, "{messages:?}");
    assert!(init.dropped("descriptors-closed") > 0);
    init.finish();
}

#[test]
fn ready_sent_just_before_the_exit_is_never_lost() {
    let files = Sandbox::new();
    files.unit(
        "brief",
        "type: foreground-notified\nrestart: always\nrestart-delay: 1ms\nsuccess-status: [0]\n\
         exec-start: DAEMON --notify --exit 0 --trace DIR/trace",
    );
    let init = Boot::new(files).start("brief");
    let lives = turns(100, 10_000);
    let mut follower = init.client().expect("it listens");
    follower.send("events", &json!({"follow": true, "after": 0}));
    // The event history is shorter than the number of runs, so the events are followed.
    let mut events = Vec::new();
    let mut ready = 0;
    while ready <= lives {
        let event = follower.answer().expect("the stream goes on").expect("an event");
        ready += usize::from(event["unit"] == "brief" && event["to"] == "running");
        events.push(event);
    }
    let of = |to: &str| {
        let reached = events.iter().filter(|e| e["unit"] == "brief" && e["to"] == to);
        reached.map(|e| e["run"].as_u64()).collect::<std::collections::BTreeSet<_>>()
    };
    let (mut started, running) = (of("starting"), of("running"));
    // The last run may not be ready yet.
    started.pop_last();
    assert!(running.len() >= lives, "{} were ready", running.len());
    let lost: Vec<_> = started.difference(&running).collect();
    assert!(lost.is_empty(), "{lost:?} were never ready");
    assert!(events.iter().all(|e| e["unit"] != "brief" || e["to"] != "failed"));
    init.finish();
}

#[test]
fn unit_can_notify_only_for_itself() {
    let files = Sandbox::new();
    notified_unit(&files, "other", "");
    files.unit(
        "web",
        "type: foreground-notified\nexec-start: DAEMON --notify --ready-on-order --control DIR/web.ctl",
    );
    files.unit("all", "type: virtual\nwaits-for: web, other");
    let init = Boot::new(files).start("all");
    init.when("one is up", |s| s.state("other") == "running" && s.state("web") == "starting");
    let web = until("it has its program", || init.status().main_pid("web"));
    init.sandbox.order("other.ctl", &format!("notify READY=1\\nMAINPID={web}"));
    send_status(&init, "other", "said");
    let status = init.status();
    assert_eq!((status.state("web"), status.main_pid("web")), ("starting", Some(web)));
    assert_ne!(status.main_pid("other"), Some(web));
    assert_eq!(init.dropped("messages-refused"), 1, "its message about a process of another unit");
    init.sandbox.order("web.ctl", "ready");
    init.when_state("web", "running");
    init.finish();
}

#[test]
fn main_pid_of_another_unit_is_refused_and_never_signalled() {
    let init = pair();
    let before = init.status();
    let other = before.main_pid("other").unwrap();
    // Numeric pids are refused and counted; other values are ignored.
    let mut refused = 0;
    for (pid, is_number) in [
        ("1", true),
        ("0", true),
        ("-1", false),
        ("2147483647", true),
        ("2147483648", false),
        ("99999999999999999999", false),
        ("3", true),
        (&other.to_string(), true),
    ] {
        init.sandbox.order("web.ctl", &format!("notify MAINPID={pid}"));
        send_status(&init, "web", pid);
        refused += u64::from(is_number);
        assert_eq!(init.dropped("messages-refused"), refused, "MAINPID={pid}");
        assert_eq!(init.status().main_pid("web"), before.main_pid("web"), "MAINPID={pid}");
    }
    init.tell("set-target", &json!({"targets": ["other"]}));
    init.when_state("web", "disabled");
    assert_eq!(init.sandbox.trace("other.trace").len(), 2, "start and ready, no signal");
    assert_eq!(init.status().main_pid("other"), Some(other));
    init.finish();
}

#[test]
fn status_with_control_characters_is_shown_clean_and_survives_an_upgrade() {
    let init = pair();
    let evil = "up\u{1b}[2J\u{7}\rweb\tfailed\u{85}\u{202e} \\\"}],\\\"unit\\\"";
    init.sandbox.order("web.ctl", &format!("notify STATUS={evil}\\nfailed web"));
    let status = until("init has the status", || {
        init.status().unit("web")["status"].as_str().filter(|it| !it.is_empty()).map(str::to_owned)
    });
    assert!(!status.chars().any(|c| c.is_control() || c == '\u{202e}'), "{status:?}");
    let shown = init.initctl(&["status", "web"]).stdout;
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("up [2J"), "{shown:?}");
    assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
    init.tell("upgrade", &json!({}));
    assert_eq!(init.status().unit("web")["status"], status);
    init.finish();
}

#[test]
fn special_characters_in_environment_and_description_survive_a_crash() {
    let files = Sandbox::new();
    let odd = "a=b c=d \\\"q\\\" 'r' $$ %% \u{e9}\u{1f600} =";
    files.unit(
        "odd-name_1.x",
        &format!("description: \"{odd}\"\nenv: {{ODD: \"{odd}\", LINES: \"one\\ntwo=2\\n\"}}\nexec-start: DAEMON"),
    );
    let mut init = Boot::new(files).start("odd-name_1.x");
    init.expect_crashes();
    init.when_system("running");
    let has = || {
        let main = init.main_of("odd-name_1.x");
        let environment = until("the program has its own environment", || {
            Some(main.environment()).filter(|all| all.contains_key("ODD"))
        });
        let told = init.status().unit("odd-name_1.x")["description"].clone();
        (main, environment["ODD"].clone(), environment["LINES"].clone(), told)
    };
    let first = has();
    assert_eq!(first.2, "one\ntwo=2\n");
    crash(&init, Signal::SIGSEGV);
    until("init has recovered", || {
        init.output().contains("continuing with the saved state").then_some(())
    });
    assert_eq!(has(), first);
    first.0.signal(Signal::SIGKILL);
    until("another process is the main process", || {
        init.status().main_pid("odd-name_1.x").filter(|pid| *pid != first.0.0)
    });
    let second = has();
    assert_eq!((&second.1, &second.2, &second.3), (&first.1, &first.2, &first.3));
    init.finish_after_crash();
}

#[test]
fn every_notification_is_accepted_in_every_state() {
    let files = Sandbox::new();
    files.unit(
        "web",
        "type: foreground-notified\nstart-timeout: 60s\nstop-timeout: 60s\n\
         exec-start: DAEMON --notify --ready-on-order --ignore TERM --control DIR/web.ctl",
    );
    files.unit("none", "type: virtual");
    let init = Boot::new(files).start("web");
    let words = [
        "WATCHDOG=1",
        "EXTEND_TIMEOUT_USEC=18446744073709551616",
        "EXTEND_TIMEOUT_USEC=1000000",
        "ERRNO=2",
        "RELOADING=1",
        "FDSTORE=1",
        "FDSTOREREMOVE=1",
        "BARRIER=1",
        "MAINPID=1",
        "STOPPING=1",
    ];
    let all = |state: &str| {
        init.when_state("web", state);
        let pid = until("its process runs", || init.status().main_pid("web"));
        for word in words {
            init.sandbox.order("web.ctl", &format!("notify {word}"));
            send_status(&init, "web", &format!("{state} {word}"));
        }
        assert_eq!(init.status().main_pid("web"), Some(pid));
    };
    all("starting");
    assert_eq!(init.status().state("web"), "starting", "only READY ends a start");
    init.sandbox.order("web.ctl", "flood 2 READY=1");
    all("running");
    let state = init.status().state("web").to_owned();
    assert!(["running", "reloading"].contains(&state.as_str()), "{state}");
    init.sandbox.order("web.ctl", "notify READY=1");
    init.tell("set-target", &json!({"targets": ["none"]}));
    all("stopping");
    init.sandbox.order("web.ctl", "flood 2 READY=1");
    send_status(&init, "web", "late");
    assert_eq!(init.status().state("web"), "stopping", "READY does not end a stop");
    init.sandbox.order("web.ctl", "exit 0");
    init.when_state("web", "disabled");
    init.finish();
}

#[test]
fn unit_that_announces_its_stop_and_stays_is_stopped_after_its_stop_timeout() {
    let files = Sandbox::new();
    notified_unit(&files, "web", "stop-timeout: 1s\nrestart: never");
    files.unit("all", "type: virtual\nwaits-for: web");
    let init = Boot::new(files).start("all");
    let main = init.main_of("web");
    init.when_state("web", "running");
    init.sandbox.order("web.ctl", "notify STOPPING=1");
    let status = init.when_state("web", "failed");
    assert_eq!(status.unit("web")["reason"]["kind"], "protocol", "{}", status.table());
    assert!(!main.is_alive());
    init.finish();
}
