//! The real init as PID 1 of a container (runc). A strict one has a read-only root, no
//! capabilities, no new privileges, and a uid without an entry in /etc/passwd. One with Docker's
//! defaults has root with some capabilities, and the default seccomp profile. The general
//! invariants of an init (`groundstate_tests::boot::teardown`) are checked from outside the
//! container.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod bundle;
mod docker;

use bundle::{Bundle, UID};
use groundstate_tests::deadline::until;

#[test]
fn container_has_the_output_and_exit_status_of_its_job() {
    let bundle = Bundle::new(&[
        (
            "job",
            "type: oneshot\nwaits-for: side\nexec-start: /bin/sh -c 'echo $$GREETING; echo aside >&2; exit 7'",
        ),
        ("side", "exec-start: /bin/daemon --name side"),
    ]);
    let mut container = bundle.start(&["--target", "job", "--exit-with", "job"], true);
    assert_eq!(container.ended(), 7, "{}", container.said());
    let out = container.said();
    assert!(out.lines().any(|line| line.ends_with("job | hello")), "{out}");
    assert!(out.lines().any(|line| line.ends_with("job | aside")), "{out}");
}

#[test]
fn services_are_restarted_and_a_stop_is_orderly() {
    let bundle = Bundle::new(&[
        ("db", "type: foreground-notified\nexec-start: /bin/daemon --name db --notify"),
        (
            "web",
            "depends-on: db\nready-grep: ^listening\nexec-start: /bin/daemon --name web --say listening --trace /tmp/trace",
        ),
        (
            "old",
            "type: background-pidfile\npid-file: /tmp/old.pid\nexec-start: /bin/daemon --name old --pid-file /tmp/old.pid",
        ),
        (
            "forks",
            "stop-timeout: 300ms\nexec-start: /bin/daemon --children 1 --orphans 2 --ignore TERM",
        ),
        ("all", "type: virtual\nwaits-for: web, old, forks"),
    ]);
    let mut container = bundle.start(&["--target", "all"], true);
    container.answers();
    container.init.when_system("running");
    let seen = container.status().expect("a client inside is answered too");
    let db = seen.main_pid("db").expect("db has a main pid");
    assert_eq!(container.init.status().main_pid("db"), Some(db));
    let output = container.exec(&["/bin/sh", "-c", &format!("kill -9 {db}")]);
    assert!(output.status.success(), "{output:?}");
    container.init.when("db is another process", |s| {
        s.system() == "running" && s.main_pid("db").is_some_and(|pid| pid != db)
    });
    until("its orphans are there", || {
        (container.init.processes_of("forks").len() == 4).then_some(())
    });
    // Once it is down, neither a process nor a zombie of it may exist.
    container.tell(&["set-target", "web", "old"]);
    let status = container.init.when_state("forks", "failed");
    assert_eq!(status.reason("forks"), "stop-timeout");
    container.init.check_at_rest();
    let output = container.runc(&["kill", &container.id, "TERM"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(container.ended(), 0, "{}", container.said());
}

#[test]
fn job_runs_with_nothing_writable() {
    let bundle = Bundle::new(&[
        ("job", "type: oneshot\ndepends-on: side\nexec-start: /bin/sh -c 'echo done; exit 3'"),
        ("side", "type: foreground-notified\nexec-start: /bin/daemon --notify"),
    ]);
    let mut container = bundle.start(&["--target", "job", "--exit-with", "job"], false);
    assert_eq!(container.ended(), 3, "{}", container.said());
    assert!(container.said().contains("job | done"), "{}", container.said());
}

#[test]
fn unknown_goal_ends_the_container_with_an_error() {
    let bundle = Bundle::new(&[("web", "exec-start: /bin/daemon")]);
    let mut container = bundle.start(&["--target", "wbe"], true);
    assert_ne!(container.ended(), 0, "{}", container.said());
    assert!(container.said().contains("goal"), "{}", container.said());
}

#[test]
fn service_has_the_uid_of_the_container() {
    let bundle = Bundle::new(&[("id", "type: oneshot\nexec-start: /bin/id -u")]);
    let mut container = bundle.start(&["--target", "id", "--exit-with", "id"], true);
    assert_eq!(container.ended(), 0, "{}", container.said());
    assert!(container.said().contains(&format!("id | {UID}")), "{}", container.said());
}

#[test]
fn shipped_bundle_starts_as_any_user_and_answers_initctl() {
    for user in [65_532, 0] {
        let (bundle, mut config) = Bundle::shipped();
        assert_eq!(config["process"]["user"]["uid"], 65_532, "as shipped");
        assert_eq!(config["root"]["readonly"], true);
        config["process"]["user"] = serde_json::json!({"uid": user, "gid": user});
        let mut container = bundle.run(&config, user, false);
        // The units are those of /etc/groundstate, and the root is read-only.
        let status = until("it runs what its files say", || {
            container.status().filter(|status| status.system() == "running")
        });
        assert_eq!(status.state("container"), "running", "{}", status.table());
        // Without cgroups init also signals the client, perhaps before it prints its answer: 143 is
        // SIGTERM.
        let output = container.exec(&["/sbin/poweroff"]);
        let answered = output.stdout.starts_with(b"all units are stopped");
        assert!(answered || output.status.code() == Some(143), "{output:?}");
        assert_eq!(container.ended(), 0, "{}", container.said());
    }
}

#[test]
fn shipped_bundle_runs_a_service_and_sigterm_ends_it_with_0() {
    let (bundle, config) = Bundle::shipped();
    let unit = "unit: web\nwanted-by: container\nexec-start: /bin/sleep 1000000\n";
    let units = bundle.sandbox.path("bundle/rootfs/etc/groundstate/units");
    std::fs::write(units.join("web.yaml"), unit).unwrap();
    let mut container = bundle.run(&config, 65_532, false);
    until("the service runs", || {
        container.status().filter(|status| status.state("web") == "running")
    });
    let shown = container.initctl(&["status", "web"]);
    assert!(shown.status.success(), "{shown:?}");
    let tries = container.exec(&["/bin/sh", "-c", "id -u; ! touch /etc/x /run/x"]);
    assert!(tries.status.success() && tries.stdout == b"65532\n", "{tries:?}");
    let output = container.runc(&["kill", &container.id, "TERM"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(container.ended(), 0, "{}", container.said());
}

#[test]
fn init_acts_like_tini_for_the_sole_command_of_the_shipped_bundle() {
    let script = "trap 'echo told; exit 7' TERM; id -u; while :; do sleep 0.05; done";
    let (bundle, mut config) = Bundle::shipped();
    config["process"]["args"] = serde_json::json!(["/sbin/init", "--", "/bin/sh", "-c", script]);
    let mut container = bundle.run(&config, 65_532, false);
    until("the command runs", || container.said().contains("65532").then_some(()));
    let shown = container.initctl(&["status", "command"]);
    assert!(shown.status.success(), "{shown:?}");
    let output = container.runc(&["kill", &container.id, "TERM"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(container.ended(), 7, "{}", container.said());
    assert_eq!(container.said(), "65532\ntold\n");
}

#[test]
fn image_names_all_missing_programs_at_once() {
    let image = concat!(env!("CARGO_MANIFEST_DIR"), "/../contrib/image");
    let lacks = |words: &[&str]| {
        let mut command = std::process::Command::new("/bin/bash");
        command.arg(image).args(words).env_clear();
        // No program is found; the boot directory has no kernel.
        command.env("PATH", "/none").env("GROUNDSTATE_BOOT", "/none");
        let output = command.env("GROUNDSTATE_INITCTL", "/none/initctl").output().expect("bash");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = lacks(&["boot"]);
    assert_eq!(code, Some(2), "{said}");
    for what in ["rustc", "/none/initctl", "busybox", "a kernel in /none"] {
        let line = said.lines().find(|line| line.contains(&format!("missing {what}")));
        let has_hint = |line: &str| line.contains("or name ") || line.contains("apt-get install");
        assert!(line.is_some_and(has_hint), "{what}: {said}");
    }
    assert!(!said.contains("not found"), "{said}");
    let (code, said) = lacks(&["bundle", "/none/bundle"]);
    assert!(
        code == Some(2) && said.contains("missing rustc") && !said.contains("kernel"),
        "{said}"
    );
    assert_eq!(lacks(&["disk"]).0, Some(64));
}
