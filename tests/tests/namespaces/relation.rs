//! Imported systemd units: how the directives of `[Unit]` and `[Install]` make units affect each
//! other, as seen in the events.

use super::child_setup::{inside, is_root};
use super::command::{drop_all, words};
use super::imported::{reload, systemd, wants};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::{Sandbox, program};
use nix::sys::signal::Signal;
use serde_json::json;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// A oneshot that appends its name to the file `order` and stays active.
fn says(files: &Sandbox, name: &str, unit: &str) {
    let text = format!(
        "[Unit]\n{unit}\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'echo {name} >>DIR/order'\n"
    );
    systemd(files, &format!("{name}.service"), &text);
}

/// A daemon.
fn runs(files: &Sandbox, name: &str, unit: &str) {
    let text = format!(
        "[Unit]\n{unit}\n[Service]\nExecStart=/bin/sleep 1000\nExecReload=/bin/sh -c 'echo %N >>DIR/reloaded'\n"
    );
    systemd(files, &format!("{name}.service"), &text);
}

#[test]
fn imported_order_is_kept_and_starts_no_unit() {
    let files = Sandbox::new();
    systemd(
        &files,
        "gate.service",
        "[Unit]\nBefore=last.service\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
         ExecStart=/bin/sh -c 'until [ -e DIR/go ]; do sleep 0.05; done; echo gate >>DIR/order'\n",
    );
    says(&files, "second", "After=gate.service stranger.service");
    says(&files, "third", "Requires=second.service helper.service\nAfter=second.service");
    says(&files, "helper", "DefaultDependencies=no");
    says(&files, "last", "After=third.service\nWants=friend.service missing.service");
    runs(&files, "friend", "");
    says(&files, "stranger", "");
    wants(&files, &["gate.service", "last.service", "third.service"]);
    let init = Boot::new(files).start("all");
    let status = init.when_state("gate.service", "starting");
    assert_eq!(status.state("second.service"), "waiting");
    init.when_state("helper.service", "exited");
    init.sandbox.put("go", "");
    let said = words(&init, "order", 5);
    assert_eq!(said, ["helper", "gate", "second", "third", "last"]);
    init.when_state("friend.service", "running");
    assert_eq!(init.status().state("stranger.service"), "disabled", "After= starts no unit");
    init.finish();
}

#[test]
fn default_dependencies_wait_for_sysinit() {
    let files = Sandbox::new();
    files.unit(
        "early",
        "type: oneshot\nprovides: sysinit.target\nexec-start: /bin/sh -c 'until [ -e DIR/go ]; do sleep 0.05; done'",
    );
    runs(&files, "usual", "");
    runs(&files, "free", "DefaultDependencies=no");
    wants(&files, &["usual.service", "free.service", "early"]);
    let init = Boot::new(files).start("all");
    let status = init.when_state("free.service", "running");
    assert_eq!(status.state("usual.service"), "waiting");
    init.sandbox.put("go", "");
    init.when_state("usual.service", "running");
    init.finish();
}

#[test]
fn bound_unit_stops_with_its_dependency_and_requiring_unit_stays() {
    let files = Sandbox::new();
    runs(&files, "base", "");
    runs(&files, "bound", "BindsTo=base.service\nAfter=base.service");
    runs(&files, "requiring", "Requires=base.service\nAfter=base.service");
    runs(&files, "part", "PartOf=base.service\nAfter=base.service");
    runs(&files, "echo", "ReloadPropagatedFrom=base.service\nAfter=base.service");
    runs(&files, "stopped", "StopPropagatedFrom=base.service\nAfter=base.service");
    wants(
        &files,
        &["bound.service", "requiring.service", "part.service", "echo.service", "stopped.service"],
    );
    let init = Boot::new(files).start("all");
    let before = init.when("all run", |s| {
        ["bound", "requiring", "part", "echo", "stopped"]
            .iter()
            .all(|n| s.state(&format!("{n}.service")) == "running")
    });
    reload(&init, "base.service");
    let mut reloaded = words(&init, "reloaded", 2);
    reloaded.sort();
    assert_eq!(reloaded, ["base", "echo"]);
    let pid = |status: &groundstate_tests::status::Status, name: &str| {
        status.main_pid(&format!("{name}.service"))
    };
    // A requested stop also stops units that require it or are part of it.
    init.tell("restart", &serde_json::json!({"targets": ["base.service"]}));
    let again = init.when("all units are restarted", |s| {
        ["base", "bound", "requiring", "part", "stopped"]
            .iter()
            .all(|n| pid(s, n).is_some() && pid(s, n) != pid(&before, n))
    });
    assert_eq!(pid(&again, "echo"), pid(&before, "echo"));
    // A crash stops only bound units: Restart= is not set.
    init.main_of("base.service").signal(Signal::SIGKILL);
    let after = init.when("the bound unit is down", |s| pid(s, "bound").is_none());
    for name in ["requiring", "part", "echo"] {
        assert_eq!(pid(&after, name), pid(&again, name), "{name}");
    }
    init.finish();
}

#[test]
fn conflicts_requisite_on_failure_and_on_success_work_for_imported_units() {
    let files = Sandbox::new();
    runs(&files, "friend", "");
    runs(&files, "foe", "Conflicts=friend.service");
    runs(&files, "asks", "Requisite=foe.service\nAfter=foe.service");
    systemd(
        &files,
        "bad.service",
        "[Unit]\nOnFailure=alarm@%n.service\n[Service]\nExecStart=/bin/false\n",
    );
    says(&files, "alarm@", "Description=for %i");
    says(&files, "good", "OnSuccess=cheer.service");
    says(&files, "cheer", "");
    wants(&files, &["friend.service", "bad.service", "good.service", "asks.service"]);
    let init = Boot::new(files).start("all");
    let status = init.when_state("asks.service", "failed");
    assert_eq!(status.reason("asks.service"), "dependency");
    let mut said = words(&init, "order", 3);
    said.sort();
    assert_eq!(said, ["alarm@", "cheer", "good"]);
    let refused = init.initctl(&["want", "foe.service"]);
    assert!(!refused.status.success(), "a conflict");
    assert_eq!(init.status().state("friend.service"), "running");
    init.finish();
}

#[test]
fn unit_that_requires_a_mounted_path_starts_after_the_mount() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    let place = files.at("mnt");
    let name = place.trim_start_matches('/').replace('-', "\\x2d").replace('/', "-");
    systemd(
        &files,
        &format!("{name}.mount"),
        &format!(
            "[Mount]\nWhat=tmpfs\nWhere={place}\nType=tmpfs\nOptions=size=1M,mode=0711\nDirectoryMode=0710\n"
        ),
    );
    let holder = |key: &str| {
        format!(
            "[Unit]\n{key}={place}/below\n[Service]\nExecStart=/bin/sh -c 'grep {place} /proc/self/mounts >DIR/%N; exec sleep 1000'\n"
        )
    };
    systemd(&files, "requires.service", &holder("RequiresMountsFor"));
    systemd(&files, "prefers.service", &holder("WantsMountsFor"));
    wants(&files, &["requires.service", "prefers.service"]);
    let init = Boot::new(files).start("all");
    for name in ["requires", "prefers"] {
        let seen = until("it has looked", || {
            init.when_state(&format!("{name}.service"), "running");
            Some(init.sandbox.read(name)).filter(|seen| !seen.is_empty())
        });
        assert!(seen.contains("size=1024k") && seen.contains("mode=711"), "{name}: {seen}");
    }
    drop_all(&init);
    init.when_state("requires.service", "disabled");
    until("it is unmounted", || {
        let mounts = init.process().read("mounts")?;
        (!mounts.contains(&place)).then_some(())
    });
    let mode = std::fs::metadata(inside(&init, &place)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o710, "DirectoryMode=");
    init.finish();
}

#[test]
fn links_in_wants_and_requires_directories_start_units_by_name_and_alias() {
    let files = Sandbox::new();
    let many = "[Unit]\nDescription=Many\nWants=direct.service\nUpholds=upheld.service\n";
    systemd(&files, "many.target", many);
    for name in ["linked", "needed", "direct", "upheld"] {
        runs(&files, name, "");
    }
    systemd(
        &files,
        "each@.service",
        "[Service]\nExecStart=/bin/sh -c 'echo %i >>DIR/order; exec sleep 1000'\n[Install]\nDefaultInstance=usual\nWantedBy=many.target\n",
    );
    let link = |folder: &str, name: &str, file: &str| {
        let folder = files.path(&format!("units/{folder}"));
        std::fs::create_dir_all(&folder).unwrap();
        symlink(format!("../{file}"), folder.join(name)).unwrap();
    };
    link("many.target.wants", "linked.service", "linked.service");
    link("many.target.requires", "needed.service", "needed.service");
    link("many.target.wants", "each@one.service", "each@.service");
    symlink("linked.service", files.path("units/other-name.service")).unwrap();
    wants(&files, &["many.target"]);
    let init = Boot::new(files).start("all");
    for name in ["linked", "needed", "direct", "upheld", "each@one"] {
        init.when_state(&format!("{name}.service"), "running");
    }
    let mut said = words(&init, "order", 2);
    said.sort();
    assert_eq!(said, ["one", "usual"], "the instance of the link and the default instance");
    let told = init.initctl(&["status", "other-name.service"]);
    assert!(String::from_utf8_lossy(&told.stdout).contains("linked.service"));
    init.finish();
}

#[test]
fn enabled_unit_starts_as_its_install_section_says() {
    let files = Sandbox::new();
    let root = files.at("root");
    for folder in ["etc/systemd/system", "lib/systemd/system"] {
        std::fs::create_dir_all(files.path("root").join(folder)).unwrap();
    }
    files.put(
        "init.yaml",
        &format!("import-dirs: [{root}/etc/systemd/system, {root}/lib/systemd/system]\n"),
    );
    let install = |name: &str, unit: &str, text: &str| {
        let text = format!("{unit}[Service]\nExecStart=/bin/sleep 1000\n[Install]\n{text}\n");
        files.put(&format!("root/lib/systemd/system/{name}"), &text);
    };
    files.put("root/lib/systemd/system/many.target", "[Unit]\nDescription=Many\n");
    install(
        "wanted.service",
        "",
        "WantedBy=many.target\nAlias=another.service\nAlso=beside.service",
    );
    install("beside.service", "", "RequiredBy=many.target");
    install("each@.service", "", "WantedBy=many.target\nDefaultInstance=usual");
    install("off.service", "", "WantedBy=many.target");
    install("upheld.service", "", "UpheldBy=many.target");
    let systemctl =
        Path::new(&program("GROUNDSTATE_INITCTL", "initctl")).with_file_name("systemctl");
    let enabled = Command::new(systemctl)
        .args(["--root", &root, "enable", "wanted.service", "upheld.service", "each@.service"])
        .output()
        .expect("systemctl runs");
    assert!(enabled.status.success(), "{enabled:?}");
    wants(&files, &["many.target"]);
    let init = Boot::new(files).start("all");
    for name in ["wanted.service", "beside.service", "each@usual.service", "upheld.service"] {
        init.when_state(name, "running");
    }
    assert_ne!(init.status().state("off.service"), "running", "it is not enabled");
    let told = init.initctl(&["status", "another.service"]);
    assert!(String::from_utf8_lossy(&told.stdout).contains("wanted.service"));
    init.finish();
}

#[test]
fn imported_unit_can_be_excluded_from_the_goal_by_either_name() {
    let files = Sandbox::new();
    runs(&files, "imp", "");
    systemd(
        &files,
        "other.service",
        "[Service]\nExecStart=/bin/sleep 1000\n[Install]\nWantedBy=imp.service\n",
    );
    wants(&files, &["imp.service"]);
    let init = Boot::new(files).start("all");
    for name in ["-imp", "-imp.service"] {
        init.when("both run", |s| {
            s.state("imp.service") == "running" && s.state("other.service") == "running"
        });
        let output = init.initctl(&["set-target", "all", name]);
        assert_eq!(output.status.code(), Some(0), "{name}");
        init.when("the units that it pulls in stop too", |s| {
            s.state("imp.service") == "disabled" && s.state("other.service") == "disabled"
        });
        init.tell("set-target", &serde_json::json!({"targets": ["all"]}));
    }
    init.finish();
}

/// A handler that writes its instance and the result of the unit that triggered it.
const TELLS: &str = "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo %i $MONITOR_UNIT $MONITOR_SERVICE_RESULT $MONITOR_EXIT_CODE $MONITOR_EXIT_STATUS $${#MONITOR_INVOCATION_ID} >>DIR/told'\n";

fn told(init: &Init, of: &str) -> Vec<String> {
    let begins = |line: &&str| line.starts_with(of);
    init.sandbox.read("told").lines().filter(begins).map(str::to_owned).collect()
}

#[test]
fn each_failure_starts_its_handler_once_with_the_result_of_the_unit() {
    let files = Sandbox::new();
    systemd(&files, "mail@.service", TELLS);
    let ends = |unit: &str, service: &str| {
        let text = format!("[Unit]\nOnFailure=mail@%n.service\n[Service]\n{service}\n");
        systemd(&files, unit, &text);
    };
    ends("job.service", "Type=oneshot\nExecStart=/bin/sh -c 'echo >>DIR/ran; exit 3'");
    systemd(
        &files,
        "job.timer",
        "[Timer]\nOnActiveSec=0\nOnUnitInactiveSec=300ms\nAccuracySec=1ms\n",
    );
    ends("killed.service", "ExecStart=/bin/sh -c 'kill -KILL $$$$'");
    ends("late.service", "Type=notify\nTimeoutStartSec=300ms\nExecStart=/bin/sleep 1000");
    wants(&files, &["job.timer", "killed.service", "late.service"]);
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    let runs = || init.sandbox.read("ran").lines().count();
    for (of, want) in [
        ("killed", "killed.service killed.service signal killed KILL 32"),
        ("late", "late.service late.service timeout killed TERM 32"),
    ] {
        until("the handler has run", || (!told(&init, of).is_empty()).then_some(()));
        assert_eq!(told(&init, of), [want]);
    }
    until("it has failed some times", || (runs() >= 4).then_some(()));
    groundstate_tests::crash::crash(&init, Signal::SIGSEGV);
    init.when("the crash is survived", |_| init.tell("stats", &json!({}))["crashes"] == 1);
    let before = runs();
    until("it has failed some more times", || (runs() >= before + 3).then_some(()));
    // This is true between two runs.
    until("each failure has its mail", || (told(&init, "job").len() == runs()).then_some(()));
    let all = told(&init, "job");
    let want = "job.service job.service exit-code exited 3 32";
    assert!(all.iter().all(|line| line == want), "{all:?}");
    init.finish_after_crash();
}

#[test]
fn each_success_starts_its_handler_once_and_a_shared_handler_gets_no_result() {
    let files = Sandbox::new();
    systemd(&files, "cheer@.service", TELLS);
    systemd(&files, "both@.service", TELLS);
    let ends = |unit: &str, more: &str, service: &str| {
        systemd(&files, unit, &format!("[Unit]\n{more}\n[Service]\nType=oneshot\n{service}\n"));
    };
    ends("job.service", "OnSuccess=cheer@%n.service", "ExecStart=/bin/true");
    ends("one.service", "OnFailure=both@x.service", "ExecStart=/bin/false");
    ends("two.service", "OnFailure=both@x.service", "ExecStart=/bin/false");
    wants(&files, &["job.service", "one.service", "two.service"]);
    let init = Boot::new(files).start("all");
    for count in 1..=4 {
        until("the success is reported", || (told(&init, "job").len() == count).then_some(()));
        init.when_state("cheer@job.service.service", "exited");
        init.tell("restart", &json!({"targets": ["job.service"]}));
    }
    until("the last success is reported", || (told(&init, "job").len() == 5).then_some(()));
    let all = told(&init, "job");
    let want = "job.service job.service success exited 0 32";
    assert!(all.iter().all(|line| line == want), "{all:?}");
    until("the handler of both has run", || (!told(&init, "x").is_empty()).then_some(()));
    assert!(told(&init, "x").iter().all(|line| line == "x 0"), "{:?}", told(&init, "x"));
    init.finish();
}

#[test]
fn running_handler_is_not_stopped_when_its_cause_is_gone() {
    let files = Sandbox::new();
    systemd(
        &files,
        "web.service",
        "[Unit]\nOnFailure=mail.service pager.service sorry.service\n\
         [Service]\nExecStart=/bin/sh -c 'test -e DIR/well && exec sleep 1000'\n",
    );
    let mail =
        "echo >>DIR/starts; until test -e DIR/go; do sleep 0.05; done; echo sent >>DIR/mails";
    systemd(
        &files,
        "mail.service",
        &format!("[Service]\nType=oneshot\nExecStart=/bin/sh -c '{mail}'\n"),
    );
    systemd(&files, "pager.service", "[Service]\nExecStart=/bin/sleep 1000\n");
    systemd(&files, "sorry.service", "[Service]\nExecStart=/bin/sleep 1000\nRestart=always\n");
    wants(&files, &["web.service"]);
    files.unit("quiet", "type: virtual");
    let mut init = Boot::new(files).start("all");
    init.expect_crashes();
    for (handler, state) in [("mail", "starting"), ("pager", "running"), ("sorry", "running")] {
        init.when_state(&format!("{handler}.service"), state);
    }
    let pager = init.main_of("pager.service");
    init.sandbox.put("well", "");
    init.tell("retry", &json!({"targets": ["web.service"]}));
    init.when_state("web.service", "running");
    init.when_state("sorry.service", "disabled");
    groundstate_tests::crash::crash(&init, Signal::SIGSEGV);
    init.when("the crash is survived", |_| init.tell("stats", &json!({}))["crashes"] == 1);
    assert_eq!(init.main_of("pager.service"), pager);
    let why = init.initctl(&["why", "mail.service"]);
    let said = String::from_utf8_lossy(&why.stdout);
    assert!(said.contains("init lets it finish, although its trigger has ended"), "{said}");
    init.sandbox.put("go", "");
    init.when_state("mail.service", "disabled");
    assert_eq!(
        (init.sandbox.read("starts"), init.sandbox.read("mails")),
        ("\n".into(), "sent\n".into())
    );
    init.tell("set-target", &json!({"targets": ["quiet"]}));
    init.when_state("pager.service", "disabled");
    init.finish_after_crash();
}
