//! One real machine: etcd, this repository's init as its supervisor, fleetd and fleetctl. Several
//! machines and faults between them are tested elsewhere.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

mod original;
mod real_machine;
mod trust;

use original::Original;
use real_machine::{Manner, Node, Running, until};
use std::time::{Duration, Instant};

#[test]
fn unit_keeps_running_while_etcd_or_fleetd_is_down() {
    let node = Node::new();
    let mut etcd = node.etcd();
    let _init = node.init();
    let mut fleetd = node.fleetd();
    node.when_there();
    let unit = format!("[Service]\nExecStart={}\n", node.command("hello"));
    node.put("hello.service", &unit);
    node.fleetctl(&["start", "hello.service"]);
    let pid = until("hello runs", || node.pid("hello"));
    until("its state is published", || {
        let listed = node.fleetctl(&["list-units", "--no-legend"]);
        (listed.contains("active") && listed.contains("running")).then_some(())
    });

    etcd.kill();
    until("fleetd sees that etcd is away", || {
        let (fine, _) = node.try_fleetctl(&["list-units"]);
        (!fine).then_some(())
    });
    assert_eq!(node.pid("hello"), Some(pid));
    let _etcd = node.etcd();
    node.when_there();

    fleetd.kill();
    assert_eq!(node.pid("hello"), Some(pid));
    let _fleetd = node.fleetd();
    node.when_there();
    until("its state is published again", || {
        let (_, listed) = node.try_fleetctl(&["list-units", "--no-legend"]);
        listed.contains("running").then_some(())
    });
    assert_eq!((node.pid("hello"), node.begins("hello")), (Some(pid), 1));

    node.fleetctl(&["stop", "hello.service"]);
    until("hello is stopped", || node.pid("hello").is_none().then_some(()));
    node.fleetctl(&["start", "hello.service"]);
    until("hello runs again", || node.pid("hello").filter(|now| *now != pid));
    node.fleetctl(&["destroy", "hello.service"]);
    until("hello is gone", || node.pid("hello").is_none().then_some(()));
    until("and its state", || {
        let listed = node.fleetctl(&["list-units", "--no-legend"]);
        listed.trim().is_empty().then_some(())
    });

    let native = node.command("web");
    node.put(
        "web.yaml",
        &format!("unit: web\nexec-start: {native}\nx-fleet: {{MachineID: {}}}\n", node.id),
    );
    node.fleetctl(&["start", "web.yaml"]);
    until("a native unit runs", || node.pid("web"));
    node.fleetctl(&["destroy", "web.yaml"]);
    until("it is gone", || node.pid("web").is_none().then_some(()));
}

#[test]
fn kept_run_is_reported_by_the_file_it_was_started_from() {
    let node = Node::new();
    let _etcd = node.etcd();
    let _init = node.init();
    let _fleetd = node.fleetd();
    node.when_there();
    let native = node.command("web");
    let file = |sleeps: &str, line: &str| {
        let native = native.replace("100000", sleeps);
        format!("unit: web\nexec-start: {native}\n{line}\nx-fleet: {{Global: true}}\n")
    };
    let hash = || {
        let words = ["list-units", "--no-legend", "--full", "--fields=hash,sub"];
        node.fleetctl(&words).trim().to_string()
    };
    node.put("web.yaml", &file("100000", ""));
    node.fleetctl(&["start", "web.yaml"]);
    let pid = until("it runs", || node.pid("web"));
    node.when_running("web.service");
    let old = hash();
    for (sleeps, line) in [("200000", "on-change: keep"), ("300000", "essential: yes")] {
        node.put("web.yaml", &file(sleeps, line));
        let words = ["rollout", "--no-rollback", "--timeout=1", "web.yaml"];
        let (fine, printed) = node.try_fleetctl(&words);
        assert!(!fine && printed.contains("0 of 1 run the new file"), "{printed}");
        until("why names the older file", || {
            node.get("/fleet/v1/why/web.service").contains("an older file").then_some(())
        });
        assert_eq!((hash(), node.pid("web")), (old.clone(), Some(pid)));
    }
    node.initctl(&["restart", "web"]);
    until("its state is that of the new one", || {
        let now = hash();
        (now != old && now.ends_with("running")).then_some(())
    });
    assert!(!node.get("/fleet/v1/why/web.service").contains("an older file"));
    assert_ne!(node.pid("web"), Some(pid));
}

#[test]
fn rollout_stops_when_a_unit_dies_soon_after_it_was_active() {
    let node = Node::new();
    let _etcd = node.etcd();
    let _init = node.init();
    let _fleetd = node.fleetd();
    node.when_there();
    let old = "[Service]\nExecStart=/bin/sleep 100000\n";
    node.put("web.service", old);
    node.fleetctl(&["start", "web.service"]);
    node.when_running("web.service");
    let dies = "[Service]\nExecStart=/bin/sh -c 'sleep 1.5; exit 3'\n";
    let again = "Restart=always\nRestartSec=100ms\n";
    for (file, how) in [(dies.to_string(), "failed"), (format!("{dies}{again}"), "")] {
        node.put("web.service", &file);
        let (fine, printed) = node.try_fleetctl(&["rollout", "web.service"]);
        assert!(!fine && printed.contains("came up on") && printed.contains(how), "{printed}");
        assert!(printed.contains("restored the old file"), "{printed}");
        assert_eq!(node.fleetctl(&["cat", "web.service"]), old);
    }
    node.put("web.service", "[Service]\nExecStart=/bin/sleep 200000\n");
    let printed = node.fleetctl(&["rollout", "--healthy-for=1", "web.service"]);
    assert!(printed.contains("Rolled out 1 units"), "{printed}");
}

#[test]
fn logs_show_the_output_and_then_why_the_unit_does_not_run() {
    let node = Node::new();
    let _etcd = node.etcd();
    let _init = node.init();
    let _fleetd = node.fleetd();
    node.when_there();
    // A native file and a unit file, and the ends of both logs.
    let script = "/bin/sh -c 'echo said; exit 3'";
    let start = |command: &str| {
        (format!("exec-start: {command}"), format!("[Service]\nExecStart={command}"))
    };
    let with = |(native, service): (String, String), more: (&str, &str)| {
        (format!("{native}\n{}\n", more.0), format!("{service}\n{}\n", more.1))
    };
    let requires =
        ("depends-on: nowhere", "[Unit]\nRequires=nowhere.service\nAfter=nowhere.service");
    let sleep = || start("/bin/sleep 100000");
    let cases = [
        (
            with(start(script), ("restart: never", "")),
            "said\nfleetd: its process exited with status 3\n",
        ),
        (with(start("/no/such/program"), ("", "")), "No such file or directory\n"),
        (with(sleep(), requires), "no unit provides nowhere"),
        (with(sleep(), ("strange: yes", "Type=strange")), "strange"),
    ];
    for (at, ((native, service), expected)) in cases.into_iter().enumerate() {
        node.put(&format!("n{at}.yaml"), &format!("unit: n{at}\n{native}"));
        node.put(&format!("s{at}.service"), &service);
        for (file, unit) in [
            (format!("n{at}.yaml"), format!("n{at}")),
            (format!("s{at}.service"), format!("s{at}")),
        ] {
            node.fleetctl(&["start", "--no-block", &file]);
            // The command exits in any case, because it does not follow the log.
            until(&format!("{file}: {expected}"), || {
                let (fine, logs) = node.try_fleetctl(&["logs", &format!("{unit}.service")]);
                (fine && logs.contains(expected) && logs.contains("fleetd: ")).then_some(())
            });
        }
    }
    let text = "unit: another\nexec-start: /bin/sleep 9\n";
    node.put("misnamed.yaml", text);
    node.fleetctl(&["start", "--no-block", "misnamed.yaml"]);
    until("the log names the unit of the file", || {
        let (_, logs) = node.try_fleetctl(&["logs", "misnamed.service"]);
        logs.contains("for the unit \"another\", not \"misnamed\"").then_some(())
    });
}

#[test]
fn logs_that_init_does_not_let_fleetd_read_are_403_and_exit_1() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let node = Node::with(Manner { unprivileged: true, ..Manner::default() });
    let _etcd = node.etcd();
    let _init = node.init();
    let _fleetd = node.fleetd();
    node.when_there();
    node.put("hello.service", "[Service]\nExecStart=/bin/sh -c 'echo secret; exec sleep 1000'\n");
    node.fleetctl(&["start", "hello.service"]);
    for query in ["", "?follow=true"] {
        let answer = node.get(&format!("/fleet/v1/logs/hello.service{query}"));
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        assert!(answer.contains("\"code\":403") && answer.contains("log-readers"), "{answer}");
    }
    let (code, out, err) = node.streams(&["logs", "hello.service"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("Error 403") && err.contains("supplementary-groups"), "{err}");
}

#[test]
fn fleetctl_does_not_wait_for_a_unit_that_ran_to_its_end_or_was_skipped() {
    let node = Node::new();
    let _etcd = node.etcd();
    let _init = node.init();
    let _fleetd = node.fleetd();
    node.when_there();
    node.put("once.service", "[Service]\nType=oneshot\nExecStart=/bin/true\n");
    let unmet = "[Unit]\nConditionPathExists=/no/such\n[Service]\nExecStart=/bin/sleep 100000\n";
    node.put("unmet.service", unmet);
    let printed = node.fleetctl(&["start", "once.service", "unmet.service"]);
    assert!(printed.contains("Unit once.service launched on"), "{printed}");
    assert!(printed.contains("unit unmet.service does not run: it is on"), "{printed}");
    assert!(printed.contains("/no/such is not met (inactive dead)"), "{printed}");
    node.fleetctl(&["restart", "once.service"]);
}

#[test]
fn fleetctl_1_0_restarts_a_unit_on_a_real_machine() {
    let node = Node::new();
    let _etcd = node.etcd();
    let _init = node.init();
    let _fleetd = node.fleetd();
    node.when_there();
    node.put("hello.service", &format!("[Service]\nExecStart={}\n", node.command("hello")));
    node.fleetctl(&["submit", "hello.service"]);
    let mut fleetctl = Original::at(&node.folder.join("own/fleet.sock"));
    fleetctl.start("hello.service");
    let before = until("hello runs", || node.pid("hello"));
    fleetctl.restart("hello.service");
    until("hello runs again", || node.pid("hello").filter(|now| *now != before));
    assert_eq!(node.begins("hello"), 2);
    assert!(fleetctl.stop("hello.service"));
    until("hello is stopped", || node.pid("hello").is_none().then_some(()));
    fleetctl.restart("hello.service");
    until("hello runs again", || node.pid("hello"));
    fleetctl.unload("hello.service");
    let metrics = node.get("/metrics");
    let assert_line =
        |line: &str| assert!(metrics.lines().any(|one| one == line), "{line}: {metrics}");
    assert_line("fleet_engine_leads 1");
    assert_line("fleet_engine_task_count_total{type=\"attemptscheduleunit\"} 1");
    assert_line("fleet_engine_task_failure_count_total{type=\"attemptscheduleunit\"} 0");
    assert!(!metrics.contains("fleet_engine_leader_start_time 0\n"), "{metrics}");
    fleetctl.destroy("hello.service");
    until("hello is gone", || node.pid("hello").is_none().then_some(()));
}

#[test]
fn unit_that_cannot_be_enabled_is_not_loaded_and_why_says_so() {
    let node = Node::new();
    let _etcd = node.etcd();
    let _init = node.init();
    let _fleetd = node.fleetd();
    node.when_there();
    let unit = |install: &str| {
        format!("[Service]\nExecStart={}\n\n[Install]\n{install}\n", node.command("bad"))
    };
    node.put("bad.service", &unit("Alias=bad.socket"));
    let (fine, printed) = node.try_fleetctl(&["load", "bad.service"]);
    let why =
        "it cannot be enabled: in [Install] Alias=bad.socket is not a unit name of the same type";
    assert!(!fine && printed.contains(why), "{printed}");
    let columns = ["list-units", "--no-legend", "--fields=unit,load,active,sub"];
    let listed = node.fleetctl(&columns);
    let words: Vec<&str> = listed.split_whitespace().collect();
    assert_eq!(words, ["bad.service", "error", "inactive", "dead"]);
    assert!(node.fleetctl(&["why", "bad.service"]).contains(why));
    // Another file under its name is another unit.
    node.put("bad.service", &unit("Alias=good.service"));
    node.fleetctl(&["load", "--replace", "bad.service"]);
    let listed = node.fleetctl(&columns);
    let words: Vec<&str> = listed.split_whitespace().collect();
    assert_eq!(words, ["bad.service", "loaded", "inactive", "dead"]);
}

/// Revokes all leases, as an operator can. Returns their number.
fn end_leases(url: &str) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = etcd_client::Client::connect([url], None).await.unwrap();
        let leases = client.leases().await.unwrap();
        for lease in leases.leases() {
            client.lease_revoke(lease.id()).await.unwrap();
        }
        leases.leases().len()
    })
}

#[test]
fn revoked_lease_is_granted_again() {
    let node = Node::new();
    let _etcd = node.etcd();
    let _init = node.init();
    let _fleetd = node.fleetd();
    node.when_there();
    for (name, fleet) in [("here", ""), ("everywhere", "\n[X-Fleet]\nGlobal=true\n")] {
        let file = format!("{name}.service");
        node.put(&file, &format!("[Service]\nExecStart={}\n{fleet}", node.command(name)));
        node.fleetctl(&["start", &file]);
        until("it runs", || node.pid(name));
    }
    let registered = || {
        let log = std::fs::read_to_string(node.folder.join("fleetd.log")).unwrap();
        log.matches("is registered, lease").count()
    };
    for _ in 0..3 {
        let before = registered();
        let pid = node.pid("everywhere");
        assert!(end_leases(&node.url()) > 0, "no lease was revoked");
        until("it is registered again", || (registered() > before).then_some(()));
        until("both are listed as running", || {
            let (_, listed) = node.try_fleetctl(&["list-units", "--no-legend"]);
            (listed.matches("running").count() == 2).then_some(())
        });
        assert_eq!(node.pid("everywhere"), pid, "a global unit was stopped");
    }
    assert_eq!(node.begins("everywhere"), 1);
}

#[test]
fn memory_of_destroyed_units_is_returned_to_the_kernel() {
    let node = Node::new();
    let _etcd = node.etcd();
    let _init = node.init();
    let memory = |fleetd: &Running| -> u64 {
        let status = format!("/proc/{}/status", fleetd.child.id());
        let text = std::fs::read_to_string(status).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim_end_matches("kB").trim().parse().unwrap()
    };
    let when_it_leads = || {
        let leads = || node.get("/metrics").contains("fleet_engine_leads 1").then_some(());
        until("it leads", leads);
    };
    let mut fleetd = node.fleetd();
    node.when_there();
    when_it_leads();
    let before = memory(&fleetd);
    // Many small allocations, as of many small units; large ones are returned by malloc itself.
    let lines: String = (0..400).map(|n| format!("Environment=NUMBER_{n}={n:040}\n")).collect();
    let nowhere = "[X-Fleet]\nMachineMetadata=kind=none\n";
    let names: Vec<String> = (0..200).map(|n| format!("many{n:03}.service")).collect();
    for name in &names {
        node.put(name, &format!("[Service]\nExecStart=/bin/true\n{lines}{nowhere}"));
    }
    let words =
        |verb| [&[verb], &names.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat();
    node.fleetctl(&words("submit"));
    // A new leader reads all of them at once.
    fleetd.kill();
    let fleetd = node.fleetd();
    node.when_there();
    when_it_leads();
    let with = memory(&fleetd);
    assert!(with > before * 2, "the units are in memory: {before} KiB, then {with} KiB");
    node.fleetctl(&words("destroy"));
    let end = Instant::now() + Duration::from_secs(240);
    while memory(&fleetd) > before * 3 / 2 {
        let now = memory(&fleetd);
        assert!(Instant::now() < end, "{before} KiB, then {with} KiB, and now {now} KiB");
        std::thread::park_timeout(Duration::from_secs(1));
    }
}
