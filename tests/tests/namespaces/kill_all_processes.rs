//! A privileged service that kills all processes below init, again and again: those of units and
//! the helpers of init.

use super::restricted_environments::after;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use serde_json::json;

/// A script that kills all processes but itself and PID 1, `$1` times, with a pause of `$2`
/// seconds.
const KILLER: &str =
    "for ((i = 0; i < $1; i++)); do kill -KILL -1; sleep $2; done; echo done >DIR/done\n";

/// Units of each kind, all restarted after a failure, and a unit that kills them all.
fn everything(each: usize) -> (Sandbox, Vec<String>) {
    let files = Sandbox::new();
    files.put("killer", &KILLER.replace("DIR", &files.at("")));
    let mut names = Vec::new();
    for number in 0..each {
        let mut unit = |kind: &str, text: &str| {
            let name = format!("{kind}{number}");
            files.unit(&name, text);
            names.push(name);
        };
        unit("plain", "exec-start: DAEMON --children 1 --orphans 1");
        unit("ready", "type: foreground-notified\nexec-start: DAEMON --notify");
        unit("said", "exec-start: DAEMON --say up\nready-grep: up");
        unit("before", "exec-start-pre: /bin/true\nexec-start: DAEMON\nexec-stop-post: /bin/true");
        // Init holds a descriptor of each such process, so the test has only some.
        if number % 5 == 0 {
            let pid_file = format!("DIR/forks{number}.pid");
            let line = format!("exec-start: DAEMON --pid-file {pid_file}");
            unit("forks", &format!("type: background-pidfile\npid-file: {pid_file}\n{line}"));
        }
        unit("after", &format!("exec-start: DAEMON\ndepends-on: plain{number}\nrestart: always"));
    }
    files.unit("watch", "type: path\npath-exists: DIR/there\nactivates: job");
    files.unit("job", "type: oneshot\nexec-start: /bin/touch DIR/job");
    files.unit("killer", "type: oneshot\nexec-start: /bin/bash DIR/killer 20 0.2");
    files.unit("all", &format!("type: virtual\nwaits-for: [{}, watch]", names.join(", ")));
    (files, names)
}

fn all_run(init: &Init, names: &[String]) {
    init.when("all units run", |status| names.iter().all(|name| status.state(name) == "running"));
    for name in names {
        assert!(init.main_of(name).is_alive(), "{name}");
    }
}

/// Checks that loads, logs and path watches work.
fn helpers_serve(init: &Init) {
    init.sandbox.unit("late", "exec-start: DAEMON --say here");
    assert!(init.initctl(&["reload"]).status.success());
    init.tell("want", &json!({"target": "late"}));
    init.when_state("late", "running");
    until("the logger has its line", || {
        let output = init.initctl(&["logs", "late"]);
        String::from_utf8_lossy(&output.stdout).contains("here").then_some(())
    });
    init.sandbox.put("there", "");
    until("the watcher sees the file", || init.sandbox.path("job").exists().then_some(()));
}

fn all_come_back(boot: impl FnOnce(Sandbox) -> Boot, each: usize) {
    let (files, names) = everything(each);
    let init = boot(files).unrecorded().start("all");
    all_run(&init, &names);
    init.tell("want", &json!({"target": "killer"}));
    // Loads start and are killed meanwhile.
    until("the killer is done", || {
        init.initctl(&["reload"]);
        init.sandbox.path("done").exists().then_some(())
    });
    all_run(&init, &names);
    helpers_serve(&init);
    init.finish();
}

#[test]
fn units_and_helpers_recover_from_repeated_kills_of_all_processes() {
    all_come_back(Boot::new, 14);
}

#[test]
fn units_and_helpers_recover_from_repeated_kills_of_all_processes_without_cgroups() {
    all_come_back(|files| after("umount -R -l /sys", files), 4);
}
