//! Units that `systemctl stop` and `restart` of another unit reach, and triggers of masked units.

use super::imported::{systemd, wants};
use super::systemctl_shim::systemctl;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::sandbox::Sandbox;

fn service(files: &Sandbox, name: &str, unit: &str) {
    let text = format!("[Unit]\n{unit}\n[Service]\nExecStart=/bin/sleep 1000\n");
    systemd(files, &format!("{name}.service"), &text);
}

fn told(init: &Init, words: &[&str]) -> String {
    let (text, code) = systemctl(init, words);
    assert_eq!(code, 0, "{words:?}: {text}");
    text
}

fn state(init: &Init, name: &str) -> String {
    systemctl(init, &["is-active", name]).0
}

#[test]
fn stop_and_restart_reach_units_that_are_part_of_or_require_the_stopped_one() {
    let files = Sandbox::new();
    service(&files, "db", "");
    let followers = ["part", "requisite", "requires", "bound"];
    for (name, key) in followers.iter().zip(["PartOf", "Requisite", "Requires", "BindsTo"]) {
        service(&files, name, &format!("{key}=db.service\nAfter=db.service"));
    }
    service(&files, "free", "Wants=db.service\nAfter=db.service");
    wants(
        &files,
        &[
            "db.service",
            "part.service",
            "requisite.service",
            "requires.service",
            "bound.service",
            "free.service",
        ],
    );
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let before = followers.map(|name| init.main_of(&format!("{name}.service")));
    let free = init.main_of("free.service");
    told(&init, &["restart", "db"]);
    init.when_system("running");
    for (name, before) in followers.iter().zip(before) {
        assert_ne!(init.main_of(&format!("{name}.service")), before, "{name} is restarted");
    }
    let text = told(&init, &["stop", "db"]);
    for name in followers {
        assert_eq!(state(&init, name), "inactive", "{name}");
        assert!(text.contains(&format!("{name}.service is left out")), "{text}");
    }
    assert_eq!(init.main_of("free.service"), free);
    assert_eq!(state(&init, "db"), "inactive");
    let text = told(&init, &["start", "requires"]);
    assert!(text.contains("db.service is no longer left out"), "{text}");
    assert_eq!([state(&init, "db"), state(&init, "requires")], ["active", "active"]);
    assert_eq!([state(&init, "part"), state(&init, "requisite")], ["inactive", "inactive"]);
    told(&init, &["start", "part", "requisite"]);
    assert_eq!([state(&init, "part"), state(&init, "requisite")], ["active", "active"]);
    init.finish();
}

#[test]
fn requisite_of_an_inactive_unit_fails_the_start() {
    let files = Sandbox::new();
    service(&files, "db", "");
    service(&files, "web", "Requisite=db.service\nAfter=db.service");
    wants(&files, &["web.service"]);
    let init = Boot::new(files).start("all");
    let status = init.when_state("web.service", "failed");
    assert_eq!(status.reason("web.service"), "dependency");
    assert_eq!(state(&init, "db"), "inactive", "it is not started");
    init.finish();
}

#[test]
fn socket_of_a_masked_service_is_not_started_and_does_not_prevent_a_reload() {
    let files = Sandbox::new();
    files.unit("all", "type: virtual");
    for name in ["web", "late"] {
        systemd(
            &files,
            &format!("{name}.socket"),
            &format!("[Socket]\nListenStream=DIR/{name}.sock\n"),
        );
    }
    service(&files, "late", "");
    std::os::unix::fs::symlink("/dev/null", files.path("units/web.service")).unwrap();
    let init = Boot::new(files).start("all");
    let (text, code) = systemctl(&init, &["start", "web.socket"]);
    assert_ne!(code, 0, "{text}");
    assert!(!init.sandbox.path("web.sock").exists());
    told(&init, &["daemon-reload"]);
    told(&init, &["start", "late.socket"]);
    assert!(init.sandbox.path("late.sock").exists());
    told(&init, &["mask", "late.service"]);
    let status = init.when_state("late.socket", "failed");
    assert_eq!(status.reason("late.socket"), "masked");
    told(&init, &["daemon-reload"]);
    told(&init, &["unmask", "late.service"]);
    init.when_state("late.socket", "running");
    init.finish();
}
