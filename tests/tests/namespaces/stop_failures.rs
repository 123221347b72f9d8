//! Stops and reloads that fail: commands that fail, processes that may not be killed, a daemon that
//! replaces itself.

use super::child_setup::{alone, inside, is_root};
use super::command::{drop_all, script};
use super::imported::{reload, systemd, wants};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use serde_json::json;
use std::fs;
use std::os::unix::fs::MetadataExt;

fn is_there(init: &Init, file: &str) -> bool {
    init.sandbox.path(file).exists()
}

fn await_file(init: &Init, file: &str) {
    until(&format!("{file} is written"), || is_there(init, file).then_some(()));
}

/// Starts the unit again after [`drop_all`].
fn want(init: &Init, unit: &str) {
    init.tell("set-target", &json!({"targets": [unit]}));
}

#[test]
fn unit_that_may_not_be_killed_has_no_second_run_beside_the_first() {
    let files = Sandbox::new();
    // Each run records whether it finds the previous one alive.
    script(
        &files,
        "stubborn",
        "trap '' TERM; old=$(cat DIR/$1.pid 2>/dev/null); [ -z \"$old\" ] || ! kill -0 $old 2>/dev/null || echo x >DIR/$1.beside; \
         echo $$ >DIR/$1.pid; echo x >>DIR/$1.lives; while ! [ -e DIR/$1.end ]; do sleep 0.05; done",
    );
    let modes = ["control-group", "mixed", "process"];
    for mode in modes {
        let text = format!(
            "[Service]\nKillMode={mode}\nSendSIGKILL=no\nTimeoutStopSec=0.3\nExecStart=/bin/sh DIR/stubborn.sh {mode}\n"
        );
        systemd(&files, &format!("{mode}.service"), &text);
    }
    let names = modes.map(|mode| format!("{mode}.service"));
    wants(&files, &names.each_ref().map(String::as_str));
    let init = Boot::new(files).start("all");
    for mode in modes {
        init.when_state(&format!("{mode}.service"), "running");
        await_file(&init, &format!("{mode}.lives"));
    }
    drop_all(&init);
    for name in &names {
        let status = init.when_state(name, "failed");
        assert_eq!(status.reason(name), "unkillable", "{name}");
    }
    want(&init, "all");
    for (mode, name) in modes.iter().zip(&names) {
        assert_eq!(init.status().state(name), "failed", "{name}");
        assert_eq!(init.sandbox.read(&format!("{mode}.lives")), "x\n", "{name}");
        init.sandbox.put(&format!("{mode}.end"), "");
        let two = || init.sandbox.read(&format!("{mode}.lives")).lines().count() >= 2;
        until("the next run has started", || two().then_some(()));
        assert!(!is_there(&init, &format!("{mode}.beside")), "{name}");
    }
    init.finish();
}

#[test]
fn daemon_that_replaces_itself_during_a_reload_stays_supervised() {
    let files = Sandbox::new();
    script(&files, "daemon", "sleep 1000 & echo $! >DIR/$1.pid");
    script(
        &files,
        "replace",
        "old=$(cat DIR/$1.pid); kill $old; while kill -0 $old 2>/dev/null; do sleep 0.02; done; \
         touch DIR/$1.gone; while ! [ -e DIR/$1.go ]; do sleep 0.02; done; [ $2 = ends ] || sh DIR/daemon.sh $1; exit $3",
    );
    for (unit, next, status) in [("new", "begins", 0), ("none", "ends", 0), ("fails", "begins", 1)]
    {
        let text = format!(
            "[Service]\nType=forking\nPIDFile=DIR/{unit}.pid\nExecStart=/bin/sh DIR/daemon.sh {unit}\n\
             ExecReload=/bin/sh DIR/replace.sh {unit} {next} {status}\n"
        );
        systemd(&files, &format!("{unit}.service"), &text);
    }
    wants(&files, &["new.service", "none.service", "fails.service"]);
    let init = Boot::new(files).start("all");
    for unit in ["new", "none", "fails"] {
        let name = format!("{unit}.service");
        init.when_state(&name, "running");
        let before = init.main_of(&name);
        reload(&init, &name);
        await_file(&init, &format!("{unit}.gone"));
        assert_eq!(init.status().state(&name), "reloading", "{unit}");
        init.sandbox.put(&format!("{unit}.go"), "");
        if unit == "none" {
            init.when("the process has exited", |status| {
                !matches!(status.state(&name), "running" | "reloading")
            });
            continue;
        }
        init.when_state(&name, "running");
        let now = init.main_of(&name);
        assert_ne!(now, before, "{unit}");
        now.end();
        init.when("its exit is noticed", |status| status.state(&name) != "running");
    }
    init.finish();
}

#[test]
fn failing_command_of_a_stop_skips_the_rest_and_fails_the_unit() {
    let files = Sandbox::new();
    let told = "'echo $SERVICE_RESULT $EXIT_CODE $EXIT_STATUS >DIR/NAME.told'";
    for (name, text) in [
        ("stop", "ExecStop=/bin/false\nExecStop=/bin/touch DIR/stop.second\n"),
        ("forgiven", "ExecStop=-/bin/false\nExecStop=/bin/touch DIR/forgiven.second\n"),
        ("missing", "ExecStop=/no/such/program\nExecStop=/bin/touch DIR/missing.second\n"),
        ("late", "KillSignal=KILL\nTimeoutStopSec=5\n"),
    ] {
        let post = format!("ExecStopPost=/bin/sh -c {}\n", told.replace("NAME", name));
        let text = format!("[Service]\nExecStart=/bin/sleep 1000\n{text}{post}");
        systemd(&files, &format!("{name}.service"), &text);
    }
    for (name, mark) in [("post", ""), ("post-forgiven", "-")] {
        let text = format!(
            "[Service]\nExecStart=/bin/sleep 1000\nExecStopPost={mark}/bin/false\nExecStopPost=/bin/touch DIR/{name}.second\n"
        );
        systemd(&files, &format!("{name}.service"), &text);
    }
    let names = ["stop", "forgiven", "missing", "late", "post", "post-forgiven"]
        .map(|name| format!("{name}.service"));
    wants(&files, &names.each_ref().map(String::as_str));
    let init = Boot::new(files).start("all");
    for name in &names {
        init.when_state(name, "running");
    }
    drop_all(&init);
    for (name, state, reason, second) in [
        ("stop", "failed", "exit", false),
        ("forgiven", "disabled", "", true),
        ("missing", "failed", "exec", false),
        ("late", "disabled", "", false),
        ("post", "failed", "exit", false),
        ("post-forgiven", "disabled", "", true),
    ] {
        let unit = format!("{name}.service");
        let status = init.when_state(&unit, state);
        if state == "failed" {
            assert_eq!(status.reason(&unit), reason, "{name}");
        }
        assert_eq!(is_there(&init, &format!("{name}.second")), second, "{name}");
    }
    for (name, told) in [
        ("stop", "exit-code killed TERM\n"),
        ("forgiven", "success killed TERM\n"),
        ("missing", "resources killed TERM\n"),
        ("late", "signal killed KILL\n"),
    ] {
        assert_eq!(init.sandbox.read(&format!("{name}.told")), told, "{name}");
    }
    want(&init, "all");
    for name in &names {
        init.when_state(name, "running");
    }
    init.finish();
}

#[test]
fn exec_stop_post_learns_how_the_start_or_the_stop_failed() {
    let files = Sandbox::new();
    script(&files, "deaf", "trap '' TERM; touch DIR/deaf.up; while :; do sleep 0.05; done");
    let sleep = "ExecStart=/bin/sleep 1000\n";
    for (name, text) in [
        ("pre", format!("ExecStartPre=/bin/sh -c 'exit 3'\n{sleep}")),
        ("post", format!("{sleep}ExecStartPost=/bin/sh -c 'exit 3'\n")),
        ("main", "ExecStart=/bin/sh -c 'exit 3'\n".to_string()),
        ("deaf", "TimeoutStopSec=0.3\nExecStart=/bin/sh DIR/deaf.sh\n".to_string()),
    ] {
        let text = format!(
            "[Service]\n{text}ExecStop=/bin/touch DIR/{name}.stop\n\
             ExecStopPost=/bin/sh -c 'echo $SERVICE_RESULT $EXIT_CODE $EXIT_STATUS >DIR/{name}.told'\n"
        );
        systemd(&files, &format!("{name}.service"), &text);
    }
    wants(&files, &["pre.service", "post.service", "main.service", "deaf.service"]);
    let init = Boot::new(files).start("all");
    for unit in ["pre.service", "post.service", "main.service"] {
        init.when_state(unit, "failed");
    }
    await_file(&init, "deaf.up");
    drop_all(&init);
    for (name, told) in [
        ("pre", "exit-code\n"),
        ("post", "exit-code killed TERM\n"),
        ("main", "exit-code exited 3\n"),
        ("deaf", "timeout killed KILL\n"),
    ] {
        let file = format!("{name}.told");
        until(name, || {
            fs::read_to_string(init.sandbox.path(&file))
                .is_ok_and(|text| text == told)
                .then_some(())
        });
    }
    assert!(!is_there(&init, "pre.stop") && !is_there(&init, "post.stop"));
    init.finish();
}

#[test]
fn imported_unit_signals_its_whole_control_group_at_once() {
    let files = Sandbox::new();
    // A shell runs its trap only after the command in the foreground has exited.
    let text = "[Service]\nTimeoutStopSec=60\nExecStart=/bin/sh -c 'trap \"echo x >DIR/told; exit\" TERM; touch DIR/up; sleep 1000'\n";
    systemd(&files, "shell.service", text);
    wants(&files, &["shell.service"]);
    let init = Boot::new(files).start("all");
    await_file(&init, "up");
    drop_all(&init);
    init.when_state("shell.service", "disabled");
    assert!(is_there(&init, "told"));
    init.finish();
}

#[test]
fn commands_of_a_delegated_unit_run_in_a_control_cgroup() {
    let files = Sandbox::new();
    let place = "sed -n s/^0:://p /proc/self/cgroup";
    script(&files, "say", &format!("{place} >DIR/$1.cgroup"));
    script(
        &files,
        "engine",
        &format!(
            "own=$({place}); cd /sys/fs/cgroup/unified$own 2>/dev/null || cd /sys/fs/cgroup$own; \
             mkdir inner && echo $$ >inner/cgroup.procs; echo $own >DIR/main.cgroup; exec sleep 1000"
        ),
    );
    files.unit(
        "engine",
        "cgroup-delegate: yes\nexec-start: /bin/sh DIR/engine.sh\nexec-reload: /bin/sh DIR/say.sh reload\n\
         exec-stop: [/bin/sh DIR/say.sh stop, /bin/sh -c 'sleep 1000 & kill $MAINPID']\n\
         exec-stop-post: /bin/sh DIR/say.sh stop-post",
    );
    let init = Boot::new(files).start("engine");
    if init.tell("stats", &json!({}))["tracking"] != "cgroup2" {
        init.finish();
        return groundstate_tests::not_run!("no cgroup v2 here");
    }
    init.when_state("engine", "running");
    await_file(&init, "main.cgroup");
    reload(&init, "engine");
    await_file(&init, "reload.cgroup");
    init.when_state("engine", "running");
    drop_all(&init);
    init.when_state("engine", "disabled");
    let own = init.sandbox.read("main.cgroup").trim().to_string();
    for name in ["reload", "stop", "stop-post"] {
        let text = init.sandbox.read(&format!("{name}.cgroup"));
        let place =
            text.trim().strip_suffix("/.control").unwrap_or_else(|| panic!("{name}: {text}"));
        assert_eq!(place.rsplit('/').next(), own.rsplit('/').next(), "{name}");
    }
    assert!(
        init.processes_of("engine").is_empty(),
        "a process left by a command ends with the unit"
    );
    init.finish();
}

#[test]
fn existing_directories_of_a_unit_get_its_owner_recursively() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    script(
        &files,
        "before",
        "for d in /run /var/lib /var/cache /var/log; do touch $d/canary; for u in roots users; do \
         mkdir -p $d/$u/sub; touch $d/$u/sub/file; ln -s $d/canary $d/$u/link; chown -hR 1234:1234 $d/$u; done; done",
    );
    systemd(
        &files,
        "before.service",
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh DIR/before.sh\n",
    );
    for (unit, user) in [("roots", ""), ("users", "User=nobody\n")] {
        let text = format!(
            "[Unit]\nRequires=before.service\nAfter=before.service\n[Service]\n{user}\
             RuntimeDirectory={unit}\nStateDirectory={unit}\nStateDirectoryMode=0750\nCacheDirectory={unit}\nLogsDirectory={unit}\n\
             ExecStart=/bin/sleep 1000\n"
        );
        systemd(&files, &format!("{unit}.service"), &text);
    }
    wants(&files, &["roots.service", "users.service"]);
    let init = alone(files).start("all");
    for (unit, uid) in [("roots", 0), ("users", 65534)] {
        init.when_state(&format!("{unit}.service"), "running");
        for directory in ["/run", "/var/lib", "/var/cache", "/var/log"] {
            for file in ["", "/sub", "/sub/file", "/link"] {
                let path = inside(&init, &format!("{directory}/{unit}{file}"));
                let there = until("the path belongs to the unit's user", || {
                    fs::symlink_metadata(&path).ok().filter(|there| there.uid() == uid)
                });
                assert_eq!(there.gid(), uid, "{}", path.display());
            }
            let canary = fs::metadata(inside(&init, &format!("{directory}/canary"))).unwrap();
            assert_eq!(canary.uid(), 0, "{directory}");
        }
        let state = fs::metadata(inside(&init, &format!("/var/lib/{unit}"))).unwrap();
        assert_eq!(state.mode() & 0o7777, 0o750);
    }
    init.finish();
}
