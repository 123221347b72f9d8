//! `systemctl` as packages and scripts call it, against a real init.

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::{Sandbox, program};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The path of the program.
pub(crate) fn program_path() -> PathBuf {
    PathBuf::from(program("GROUNDSTATE_INITCTL", "initctl")).with_file_name("systemctl")
}

/// Calls the program by one of its names.
pub(crate) fn shim(init: &Init, name: &str, words: &[&str]) -> Output {
    let mut command = Command::new(program_path());
    command.arg0(name).args(words).stdin(Stdio::null());
    command.env("GROUNDSTATE_SOCKET", init.sandbox.at("run/control.sock"));
    command.output().expect("systemctl runs")
}

/// Returns the output and the exit code.
pub(crate) fn systemctl(init: &Init, words: &[&str]) -> (String, i32) {
    let output = shim(init, "systemctl", words);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).trim().to_string();
    (text, output.status.code().unwrap_or(-1))
}

pub(crate) fn service(files: &Sandbox, name: &str, lines: &str) {
    let text = format!("[Service]\n{lines}\n[Install]\nWantedBy=multi-user.target\n");
    files.put(&format!("units/{name}.service"), &text);
}

#[test]
fn systemctl_reports_unit_states_like_systemd() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual");
    service(&files, "web", "ExecStart=/bin/sleep 1000\nExecReload=/bin/true");
    service(&files, "plain", "ExecStart=/bin/sleep 1000");
    service(&files, "once", "Type=oneshot\nExecStart=/bin/true");
    service(&files, "stays", "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true");
    std::os::unix::fs::symlink("/dev/null", files.path("units/gone.service")).unwrap();
    let init = Boot::new(files).start("multi-user");
    init.when_system("running");
    for (words, text, code) in [
        (&["is-active", "web"][..], "active", 0),
        (&["is-active", "once"], "inactive", 3),
        (&["is-active", "stays"], "active", 0),
        (&["show", "-p", "CanReload", "web"], "CanReload=yes", 0),
        (&["show", "-p", "CanReload", "plain"], "CanReload=no", 0),
        (&["is-enabled", "web"], "enabled", 0),
        (&["is-enabled", "gone"], "masked", 1),
        (&["show", "-p", "LoadState", "gone"], "LoadState=masked", 0),
        (&["show", "-p", "LoadState", "missing"], "LoadState=not-found", 0),
        (&["start", "gone"], "Failed to start gone.service: Unit gone.service is masked.", 1),
        (
            &["start", "missing"],
            "Failed to start missing.service: Unit missing.service not found.",
            5,
        ),
    ] {
        assert_eq!(systemctl(&init, words), (text.to_string(), code), "{words:?}");
    }
    init.finish();
}

#[test]
fn daemon_reexec_executes_the_installed_binary_and_reloads() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual");
    service(&files, "web", "ExecStart=/bin/sleep 1000");
    let init = Boot::new(files).start("multi-user");
    let before = init.main_of("web.service");
    service(&init.sandbox, "late", "ExecStart=/bin/sleep 1000");
    let executed = || init.output().matches("re-executing init").count();
    assert_eq!(systemctl(&init, &["daemon-reexec"]), (String::new(), 0));
    assert_eq!((executed(), init.main_of("web.service")), (1, before));
    init.when_state("late.service", "running");
    init.finish();
}

#[test]
fn systemctl_masks_disables_and_restores_units_of_the_unit_directory() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual");
    service(&files, "web", "ExecStart=/bin/sleep 1000");
    service(&files, "bad", "ExecStart=/bin/false");
    let timer = "[Timer]\nOnCalendar=yearly\n[Install]\nWantedBy=multi-user.target\n";
    files.put("units/web.timer", timer);
    let init = Boot::new(files).start("multi-user");
    init.when_state("bad.service", "failed");
    init.when_state("web.service", "running");
    let told = |words: &[&str]| systemctl(&init, words);
    let is = |words: &[&str], text: &str, code: i32| {
        assert_eq!(told(words), (text.to_string(), code), "{words:?}");
    };
    is(&["is-system-running"], "degraded", 1);
    is(&["is-failed", "bad"], "failed", 0);
    is(&["is-failed", "web"], "active", 1);
    is(&["is-failed", "missing"], "inactive", 4);
    is(&["is-active", "missing"], "inactive", 4);
    is(&["is-active"], "Too few arguments.", 1);
    is(&["show", "-p", "ActiveState", "-p", "SubState", "--value", "web"], "active\nrunning", 0);
    is(&["--failed", "--plain", "--no-legend"], "bad.service loaded failed failed bad.service", 0);
    is(&["mask", "web"], "", 0);
    is(&["is-enabled", "web"], "masked", 1);
    init.when_state("web.service", "disabled");
    assert_eq!(told(&["start", "web"]).1, 1, "it is masked");
    is(&["unmask", "web"], "", 0);
    init.when_state("web.service", "running");
    assert_eq!(told(&["disable", "web"]).1, 0);
    is(&["is-enabled", "web"], "disabled", 1);
    init.when_state("web.service", "disabled");
    is(&["preset", "web"], "", 0);
    is(&["is-enabled", "web"], "enabled", 0);
    init.when_state("web.service", "running");
    let (timers, code) = told(&["list-timers", "--no-legend"]);
    assert!(code == 0 && timers.ends_with("web.timer web.service"), "{timers}");
    is(&["isolate", "web.timer"], "the goal is web.timer now", 0);
    is(&["is-active", "web"], "inactive", 3);
    is(&["default"], "the goal is multi-user now", 0);
    is(&["is-active", "web"], "active", 0);
    init.finish();
}

#[test]
fn systemctl_start_reports_that_the_unit_is_wanted_until_the_next_boot() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual");
    for name in ["side", "job@"] {
        files.put(&format!("units/{name}.service"), "[Service]\nExecStart=/bin/sleep 1000\n");
    }
    let init = Boot::new(files).start("multi-user");
    init.when_system("running");
    for name in ["side", "job@x"] {
        let said =
            format!("{name}.service is wanted until the next boot (initctl want {name}.service)");
        assert_eq!(systemctl(&init, &["start", name]), (said, 0));
        assert_eq!(systemctl(&init, &["start", name]), (String::new(), 0), "it is wanted already");
        assert_eq!(systemctl(&init, &["is-active", name]), ("active".to_string(), 0));
    }
    init.finish();
}

#[test]
fn systemctl_reload_reports_a_failed_command() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual");
    service(&files, "web", "ExecStart=/bin/sleep 1000\nExecReload=/no/such/program");
    let init = Boot::new(files).start("multi-user");
    init.when_state("web.service", "running");
    let (told, code) = systemctl(&init, &["reload", "web"]);
    assert!(told.starts_with("Job for web.service failed: its reload command failed."), "{told}");
    assert_eq!((code, init.status().state("web.service")), (1, "running"));
    init.finish();
}

#[test]
fn journalctl_filters_lines_by_the_priority_of_their_prefix() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual");
    let says = |rest: &str| {
        format!(
            "ExecStart=/bin/sh -c 'printf \"<3>bad\\n<6>fine\\nplain\\n<9>odd\\n\"; printf \"<\"; sleep 0.1; printf \"4>in pieces\\n<2>last\"; exec sleep 1000'\n{rest}"
        )
    };
    service(&files, "usual", &says(""));
    service(&files, "raw", &says("SyslogLevelPrefix=no"));
    service(&files, "noted", &says("SyslogLevel=notice\nSyslogFacility=mail"));
    let init = Boot::new(files).start("multi-user");
    let journal = |words: &[&str]| {
        let output = shim(&init, "journalctl", words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let cat = |unit: &str, level: &str| {
        let text = journal(&["-u", unit, "-o", "cat", "-q", "-p", level]);
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for (unit, level, want) in [
        ("usual", "debug", &["bad", "fine", "plain", "<9>odd", "in pieces"][..]),
        ("usual", "err", &["bad"]),
        ("usual", "warning", &["bad", "in pieces"]),
        ("usual", "info..info", &["fine", "plain", "<9>odd"]),
        ("noted", "notice..notice", &["plain", "<9>odd"]),
        ("raw", "debug", &["<3>bad", "<6>fine", "plain", "<9>odd", "<4>in pieces"]),
        ("raw", "err", &[]),
    ] {
        until("the logger has the lines", || (cat(unit, "debug").len() >= 5).then_some(()));
        assert_eq!(cat(unit, level), want, "{unit} {level}");
    }
    let json = journal(&["-u", "usual", "-o", "json", "-q", "-p", "err"]);
    let line: serde_json::Value = serde_json::from_str(json.trim()).expect("an object");
    assert_eq!((&line["PRIORITY"], &line["MESSAGE"]), (&"3".into(), &"bad".into()));
    let native = init.initctl(&["logs", "usual.service", "-n", "5"]);
    let native = String::from_utf8_lossy(&native.stdout).into_owned();
    assert!(native.contains("err: bad") && native.contains(" plain"), "{native}");
    // The log file keeps the levels for readers without a logger.
    let stored = init.sandbox.read("log/usual.service.log");
    assert!(stored.contains("<3> bad\n") && stored.contains(" plain\n"), "{stored}");
    init.finish();
}
