//! Descriptors that a service stores with init: kept across its restarts, and no longer.

use super::imported::{systemd, wants};
use super::scale::comes_to_rest;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::json;
use std::collections::BTreeSet;

/// The unit text of a service with a store of two descriptors.
fn unit(more: &str, flags: &str) -> String {
    format!(
        "type: foreground-notified\nfd-store-max: 2\n{more}\nrestart-delay: 50ms\n\
         exec-start: DAEMON --notify --control DIR/k.ctl {flags}"
    )
}

/// Starts such a service, which stores the file `data` and one end of a socket pair.
fn keeper(more: &str) -> Init {
    let files = Sandbox::new();
    files.unit("other", "exec-start: DAEMON");
    files.unit("keeper", &unit(more, ""));
    fill_store(Boot::new(files).start("keeper"))
}

/// Stores the file `data`, one end of a socket pair, and one file more than the store holds.
fn fill_store(init: Init) -> Init {
    init.sandbox.put("data", "kept\n");
    init.when_state("keeper", "running");
    let data = init.sandbox.at("data");
    init.sandbox.order("k.ctl", &format!("store {data} FDSTORE=1\\nFDNAME=data"));
    init.sandbox.order("k.ctl", "store - FDSTORE=1\\nFDNAME=pair\\nFDPOLL=0");
    init.sandbox.order("k.ctl", &format!("store {data} FDSTORE=1\\nFDNAME=toomuch"));
    // Messages are read in order, so this one comes last.
    init.sandbox.order("k.ctl", "notify STATUS=left");
    until("init has read all messages", || {
        (init.status().unit("keeper")["status"] == "left").then_some(())
    });
    init
}

/// Stores three files with an imported service.
fn imported(init: &Init, name: &str) {
    let unit = format!("{name}.service");
    init.when_state(&unit, "running");
    let data = init.sandbox.at("data");
    for left in ["one", "two", "three"] {
        init.sandbox.order(name, &format!("store {data} FDSTORE=1\\nFDNAME={left}"));
    }
    init.sandbox.order(name, "notify STATUS=left");
    until("init has read all messages", || {
        (init.status().unit(&unit)["status"] == "left").then_some(())
    });
}

#[test]
fn imported_service_has_the_store_that_its_file_sets() {
    let files = Sandbox::new();
    files.put("data", "kept\n");
    for (name, more) in [
        ("two", "FileDescriptorStoreMax=2"),
        ("none", ""),
        ("short", "FileDescriptorStoreMax=2\nFileDescriptorStorePreserve=no"),
    ] {
        let text = format!(
            "[Service]\nType=notify\nRestart=on-failure\nRestartSec=50ms\n{more}\n\
             ExecStart=DAEMON --notify --control DIR/{name}\n"
        );
        systemd(&files, &format!("{name}.service"), &text);
    }
    wants(&files, &["two.service", "none.service", "short.service"]);
    let init = Boot::new(files).start("all");
    for (name, kept) in [("two", Some("one:two")), ("none", None), ("short", None)] {
        imported(&init, name);
        let unit = format!("{name}.service");
        let before = init.status().main_pid(&unit);
        init.main_of(&unit).signal(Signal::SIGKILL);
        init.when("the next run", |s| s.state(&unit) == "running" && s.main_pid(&unit) != before);
        let names = init.main_of(&unit).environment().get("LISTEN_FDNAMES").cloned();
        assert_eq!(names.as_deref(), kept, "{name}");
    }
    init.finish();
}

/// The names of the descriptors that the current run received, and the file behind descriptor 3.
fn handed(init: &Init) -> (Option<String>, Option<String>) {
    let main = init.main_of("keeper");
    let names = main.environment().get("LISTEN_FDNAMES").cloned();
    (names, main.files().get(&3).cloned())
}

/// The sockets that init has open, by inode. The number of sockets alone varies.
fn sockets(init: &Init) -> BTreeSet<String> {
    let files = init.process().files().into_values();
    files.filter(|file| file.starts_with("socket:")).collect()
}

fn kill_keeper(init: &Init) {
    let before = init.status().main_pid("keeper");
    init.main_of("keeper").signal(Signal::SIGKILL);
    init.when("the next run", |s| s.state("keeper") == "running" && s.main_pid("keeper") != before);
}

#[test]
fn stored_descriptors_are_passed_to_the_next_run_after_a_crash_and_a_restart() {
    let init = keeper("");
    assert_eq!(handed(&init).0, None, "the first run has no descriptors");
    kill_keeper(&init);
    let data = init.sandbox.at("data");
    assert_eq!(handed(&init), (Some("data:pair".to_owned()), Some(data)));
    init.sandbox.order("k.ctl", "notify FDSTOREREMOVE=1\\nFDNAME=data\\nSTATUS=less");
    until("init has read the message", || {
        (init.status().unit("keeper")["status"] == "less").then_some(())
    });
    init.tell("restart", &json!({"targets": ["keeper"]}));
    until("only the pair is left", || {
        let names = init.status().main_pid("keeper").and_then(|_| handed(&init).0);
        (names.as_deref() == Some("pair")).then_some(())
    });
    let pair = handed(&init).1.expect("the pair was handed over");
    assert!(sockets(&init).contains(&pair), "{pair}");
    // Init keeps no store for a unit that is not needed.
    init.tell("set-target", &json!({"targets": ["other"]}));
    init.when_state("keeper", "disabled");
    init.tell("set-target", &json!({"targets": ["keeper"]}));
    init.when_state("keeper", "running");
    assert_eq!(handed(&init).0, None);
    assert!(!sockets(&init).contains(&pair), "{pair} is open still");
    init.finish();
}

#[test]
fn unit_without_preserve_keeps_no_store_and_a_hung_up_descriptor_is_closed() {
    let init = keeper("fd-store-preserve: no");
    let first = init.main_of("keeper");
    init.tell("restart", &json!({"targets": ["keeper"]}));
    init.when("the next run", |s| {
        s.state("keeper") == "running" && init.main_of("keeper") != first
    });
    assert_eq!(handed(&init).0, None, "kept only until the end of the run");
    let data = init.sandbox.at("data");
    init.sandbox.order("k.ctl", &format!("store {data} FDSTORE=1\\nFDNAME=data\\nSTATUS=again"));
    until("init has read the message", || {
        (init.status().unit("keeper")["status"] == "again").then_some(())
    });
    kill_keeper(&init);
    assert_eq!(handed(&init).0, None, "no stored descriptor is left");
    init.sandbox.unit(
        "keeper",
        "type: foreground-notified\nfd-store-max: 2\nrestart-delay: 50ms\n\
         exec-start: DAEMON --notify --control DIR/k.ctl",
    );
    let first = init.status().main_pid("keeper");
    init.tell("reload", &json!({}));
    init.when("the new definition", |s| {
        s.state("keeper") == "running" && s.main_pid("keeper") != first
    });
    // No client connects meanwhile, so a new socket is the stored one.
    let before = sockets(&init);
    init.sandbox.order("k.ctl", "store - FDSTORE=1\\nFDNAME=pair");
    let pair =
        until("init has stored the socket", || sockets(&init).difference(&before).next().cloned());
    // This order closes the other end of the pair.
    let data = init.sandbox.at("data");
    init.sandbox.order("k.ctl", &format!("store {data} STATUS=nothing"));
    until("it is closed", || (!sockets(&init).contains(&pair)).then_some(()));
    kill_keeper(&init);
    assert_eq!(handed(&init).0, None);
    init.finish();
}

#[test]
fn descriptors_of_a_removed_unit_are_kept_until_it_has_stopped() {
    for (keep, is_back, handed_on) in [
        ("yes", true, Some("data:pair")),
        ("yes", false, None),
        ("restart", true, Some("data:pair")),
        ("restart", false, None),
        ("no", true, None),
        ("no", false, None),
    ] {
        let files = Sandbox::new();
        let more = format!("fd-store-preserve: {keep}\nstop-timeout: 10min");
        files.unit("keeper", &unit(&more, "--ignore TERM"));
        files.unit("all", "type: virtual\nwants: keeper");
        let init = fill_store(Boot::new(files).start("all"));
        let data = init.sandbox.at("data");
        let is_kept = || init.process().files().values().any(|file| *file == data);
        let first = init.main_of("keeper");
        init.sandbox.remove_unit("keeper");
        init.tell("reload", &json!({}));
        init.when_state("keeper", "stopping");
        // Init closes descriptors at the end of a turn.
        init.tell("ping", &json!({}));
        init.tell("ping", &json!({}));
        assert!(is_kept() && first.is_alive(), "{keep}");
        if is_back {
            // The next run ends at SIGTERM.
            init.sandbox.unit("keeper", &unit(&more, ""));
            init.tell("reload", &json!({}));
            assert!(is_kept() && first.is_alive(), "{keep}");
        }
        init.sandbox.order("k.ctl", "exit 0");
        if is_back {
            init.when("it is running again", |s| {
                s.state("keeper") == "running" && init.main_of("keeper") != first
            });
            assert_eq!(handed(&init).0.as_deref(), handed_on, "{keep}");
        } else {
            init.when_state("keeper", "");
        }
        let expected = handed_on.is_some();
        until("descriptors without a future owner are closed", || {
            (is_kept() == expected).then_some(())
        });
        init.finish();
    }
}

#[test]
fn stored_descriptor_that_stays_readable_does_not_wake_init() {
    let init = keeper("");
    nix::unistd::mkfifo(&init.sandbox.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut options = std::fs::File::options();
    let mut end = options.read(true).write(true).open(init.sandbox.path("fifo")).unwrap();
    std::io::Write::write_all(&mut end, b"never read").unwrap();
    let fifo = init.sandbox.at("fifo");
    init.sandbox.order("k.ctl", "notify FDSTOREREMOVE=1\\nFDNAME=pair");
    init.sandbox.order("k.ctl", &format!("store {fifo} FDSTORE=1\\nFDNAME=fifo"));
    until("init has stored the FIFO", || {
        init.process().files().values().any(|file| *file == fifo).then_some(())
    });
    comes_to_rest(&init);
    // Init still watches it for a hangup.
    let main = init.main_of("keeper");
    assert!(main.is_alive());
    drop(end);
    until("it is closed", || {
        init.process().files().values().all(|file| *file != fifo).then_some(())
    });
    init.finish();
}

#[test]
fn descriptors_over_the_store_limit_are_closed() {
    let files = Sandbox::new();
    files.put("data", "kept\n");
    for (name, most) in [("keeper", 2), ("stranger", 0)] {
        files.unit(name, &format!("type: foreground-notified\nfd-store-max: {most}\nexec-start: DAEMON --notify --control DIR/{name}"));
    }
    files.unit("all", "type: virtual\nwaits-for: keeper, stranger");
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let data = init.sandbox.at("data");
    let kept = || init.process().files().into_values().filter(|file| *file == data).count();
    for name in ["keeper", "stranger"] {
        // Ten messages of 253 descriptors each, the kernel's limit (SCM_MAX_FD).
        init.sandbox.order(name, &format!("pass 10 253 {data}"));
        init.sandbox.order(name, "notify STATUS=left");
        until("init has read all messages", || {
            (init.status().unit(name)["status"] == "left").then_some(())
        });
        until("the rest is closed", || (kept() <= 2).then_some(()));
    }
    assert_eq!(init.tell("ping", &json!({}))["pid"], 1);
    init.finish();
}

#[test]
fn long_descriptor_names_are_kept_and_do_not_prevent_a_start() {
    let files = Sandbox::new();
    files.put("data", "kept\n");
    files.unit(
        "keeper",
        "type: foreground-notified\nfd-store-max: 512\nrestart-delay: 50ms\n\
         exec-start: DAEMON --notify --control DIR/k.ctl",
    );
    let init = Boot::new(files).start("keeper");
    init.when_state("keeper", "running");
    let data = init.sandbox.at("data");
    let name = "n".repeat(255);
    // As many at a time as fit into the control pipe of the service.
    for part in 0..8 {
        for _ in 0..64 {
            init.sandbox.order("k.ctl", &format!("store {data} FDSTORE=1\\nFDNAME={name}"));
        }
        init.sandbox.order("k.ctl", &format!("notify STATUS=part {part}"));
        until("init has read all messages", || {
            (init.status().unit("keeper")["status"] == format!("part {part}")).then_some(())
        });
    }
    kill_keeper(&init);
    let environment = init.main_of("keeper").environment();
    assert_eq!(environment.get("LISTEN_FDS").map(String::as_str), Some("256"));
    assert_eq!(environment["LISTEN_FDNAMES"].split(':').filter(|one| **one == name).count(), 256);
    let before = init.status().main_pid("keeper");
    // Stopping the unit closes all descriptors, so that the final check finds the initial number.
    init.sandbox.unit("other", "exec-start: DAEMON");
    init.tell("reload", &json!({}));
    init.tell("set-target", &json!({"targets": ["other"]}));
    init.when("it is down", |s| s.state("keeper") == "disabled" && before.is_some());
    init.finish();
}
