//! Init with fewer capabilities than root: units that need none run, units that need a missing one
//! fail, and processes of other users are still stopped.

use super::child_setup::is_root;
use super::restricted_environments::pair;
use super::shortage::supervises;
use groundstate_tests::boot::Boot;
use groundstate_tests::sandbox::Sandbox;
use serde_json::json;

/// Settings that need a capability, and the step that fails without it.
const BEYOND: [(&str, &str); 6] = [
    ("user: nobody", "group"),
    ("group: nogroup", "group"),
    ("root-dir: /", "chroot"),
    ("capabilities-ambient: [CAP_KILL]", "capabilities"),
    ("nice: -5", "scheduling"),
    ("io-class: realtime", "scheduling"),
];
/// Short-lived units with these settings, beside a pair without any.
fn asking() -> Sandbox {
    let files = pair();
    let names: Vec<String> = (0..BEYOND.len()).map(|number| format!("asks{number}")).collect();
    for (name, (asks, _)) in names.iter().zip(BEYOND) {
        files.unit(name, &format!("type: oneshot\n{asks}\nexec-start: /bin/true"));
    }
    files.unit("all", &format!("type: virtual\nwaits-for: web, {}", names.join(", ")));
    files
}

#[test]
fn unit_that_needs_a_missing_capability_never_runs_and_other_units_do() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let all: &[&str] = &[];
    let none: &[&str] = &["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"];
    for (with, state) in [(all, "exited"), (none, "failed")] {
        let init = Boot::new(asking()).through(with).start("all");
        let status = init.when("all units have been tried", |s| {
            let tried =
                |number: usize| ["exited", "failed"].contains(&s.state(&format!("asks{number}")));
            s.state("web") == "running" && (0..BEYOND.len()).all(tried)
        });
        for (number, (asks, step)) in BEYOND.into_iter().enumerate() {
            let name = format!("asks{number}");
            assert_eq!(status.state(&name), state, "{asks}: {}", status.unit(&name));
            let reason = &status.unit(&name)["reason"];
            let told = (&reason["kind"], &reason["stage"]);
            if state == "failed" {
                assert_eq!(told, (&json!("exec"), &json!(step)), "{asks}: {reason}");
            }
        }
        init.finish();
    }
}

#[test]
fn init_without_one_capability_supervises_and_stops_a_unit_of_another_user() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let without =
        |right: &str| vec![format!("--bounding-set=-{right}"), format!("--inh-caps=-{right}")];
    let each = ["sys_admin", "sys_resource", "kill"].map(without).into_iter();
    for words in each.chain([vec!["--no-new-privs".to_owned()]]) {
        let files = pair();
        files.unit("foreign", "user: nobody\nstop-timeout: 500ms\nexec-start: /bin/sleep 1000");
        files.unit("all", "type: virtual\ndepends-on: web, foreign");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let init = Boot::new(files).through(&["setpriv"]).through(&words).start("all");
        supervises(&init);
        // Init reaches a process that it may not signal only through its cgroup.
        if init.status().0["tracking"] != "cgroup2" {
            return groundstate_tests::not_run!("no cgroup v2 here");
        }
        let main = init.main_of("foreign");
        init.tell("set-target", &json!({"targets": ["web"]}));
        init.when("it is down", |s| {
            s.main_pid("foreign").is_none() && ["disabled", "failed"].contains(&s.state("foreign"))
        });
        assert!(!main.is_alive(), "{words:?}");
        init.finish();
    }
}
