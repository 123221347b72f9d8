//! Runs that exit successfully in units without `remain`: the unit is inactive, and nothing of the
//! run is left.

use super::crash::has_survived;
use super::imported::systemd;
use super::systemctl_shim::systemctl;
use groundstate_tests::boot::Boot;
use groundstate_tests::crash::crash;
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use std::path::Path;

fn order(files: &Sandbox) -> Vec<String> {
    let text = std::fs::read_to_string(files.path("order")).unwrap_or_default();
    text.lines().map(str::to_string).collect()
}

#[test]
fn service_that_exits_with_zero_is_inactive_and_start_runs_it_again() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual\nwaits-for: web.service");
    let script = "echo $1 >>DIR/order; echo $SERVICE_RESULT${MAINPID:+ $MAINPID} >DIR/$1";
    files.put("do.sh", &script.replace("DIR", &files.at("")));
    let main = "echo start >>DIR/order; echo $RUNTIME_DIRECTORY >DIR/where; sleep 1000 & until [ -e DIR/end ]; do :; done; rm DIR/end";
    files.put("main.sh", &main.replace("DIR", &files.at("")));
    let text = "[Service]\nRuntimeDirectory=web\n\
        ExecStart=/bin/sh DIR/main.sh\n\
        ExecStop=/bin/sh DIR/do.sh stop\nExecStopPost=/bin/sh DIR/do.sh post\n";
    systemd(&files, "web.service", text);
    let init = Boot::new(files).start("multi-user");
    init.when_state("web.service", "running");
    let shown = |state: &str| {
        let words = ["show", "-p", "ActiveState", "-p", "SubState", "--value", "web"];
        assert_eq!(systemctl(&init, &words), (state.to_string(), 0));
    };
    shown("active\nrunning");
    for round in 1..=2 {
        let left = until("its child", || {
            let all = init.processes_of("web.service");
            let comm =
                |process: &Process| process.read("comm").is_some_and(|comm| comm.trim() == "sleep");
            all.into_iter().find(comm)
        });
        init.sandbox.put("end", "");
        let status = init.when_state("web.service", "exited");
        assert_eq!(status.unit("web.service")["remains"], false);
        shown("inactive\ndead");
        assert_eq!(order(&init.sandbox).len(), 3 * round, "{:?}", order(&init.sandbox));
        assert_eq!(order(&init.sandbox)[3 * round - 3..], ["start", "stop", "post"]);
        assert_eq!(init.sandbox.read("post").trim(), "success");
        assert!(!left.is_alive(), "its leftover process is ended");
        let directory = init.sandbox.read("where");
        assert!(!Path::new(directory.trim()).exists(), "{directory} is removed");
        if round == 1 {
            assert_eq!(systemctl(&init, &["try-restart", "web"]).1, 0);
            shown("inactive\ndead");
            assert_eq!(systemctl(&init, &["start", "web"]).1, 0);
            shown("active\nrunning");
        }
    }
    init.finish();
}

#[test]
fn service_that_remains_after_exit_stays_active() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual\nwaits-for: web.service");
    let text =
        "[Service]\nRemainAfterExit=yes\nExecStart=/bin/true\nExecStop=/bin/touch DIR/stopped\n";
    systemd(&files, "web.service", text);
    let init = Boot::new(files).start("multi-user");
    let status = init.when_state("web.service", "exited");
    assert_eq!(status.unit("web.service")["remains"], true);
    assert_eq!(systemctl(&init, &["is-active", "web"]), ("active".to_string(), 0));
    assert!(!init.sandbox.path("stopped").exists());
    assert_eq!(systemctl(&init, &["stop", "web"]).1, 0);
    assert!(init.sandbox.path("stopped").exists());
    init.finish();
}

#[test]
fn daemon_ended_by_sigterm_is_inactive_and_is_not_started_by_a_crash_of_init() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual\nwaits-for: web.service");
    let text = "[Service]\nExecStart=/bin/sh -c 'echo start >>DIR/order; exec sleep 1000'\n\
        ExecStopPost=/bin/sh -c 'echo post >>DIR/order'\n";
    systemd(&files, "web.service", text);
    let mut init = Boot::new(files).start("multi-user");
    init.when_state("web.service", "running");
    init.main_of("web.service").signal(Signal::SIGTERM);
    init.when_state("web.service", "exited");
    assert_eq!(systemctl(&init, &["is-active", "web"]), ("inactive".to_string(), 3));
    init.expect_crashes();
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    init.when_state("web.service", "exited");
    assert_eq!(order(&init.sandbox), ["start", "post"]);
    assert_eq!(systemctl(&init, &["start", "web"]).1, 0);
    until("it runs again", || (order(&init.sandbox) == ["start", "post", "start"]).then_some(()));
    init.finish_after_crash();
}
