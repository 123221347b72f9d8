//! PID 1 survives its own crash and its own replacement: the same pid, the same
//! services, nothing started twice.

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::{Sandbox, program};
use serde_json::json;
use std::process::Command;

fn services() -> Init {
    let files = Sandbox::new();
    files.unit("db", "type: foreground-notified\nexec-start: DAEMON --notify --trace DIR/db");
    files.unit(
        "web",
        "depends-on: db\nready-grep: here\nexec-start: DAEMON --say here --trace DIR/web",
    );
    files.unit("slow", "type: foreground-notified\nexec-start: DAEMON --notify --ready-on-order --control DIR/slow --trace DIR/slow.trace");
    files.unit("all", "type: virtual\nwaits-for: web, slow");
    let init = Boot::new(files).start("all");
    init.when("two run, one starts", |s| {
        s.state("web") == "running" && s.state("slow") == "starting"
    });
    init
}

/// What must be as before after a resume; `slow` gets ready under the new image.
fn goes_on(init: Init, before: &groundstate_tests::status::Status) {
    for unit in ["db", "web", "slow"] {
        assert_eq!(init.status().main_pid(unit), before.main_pid(unit), "{unit}");
    }
    init.sandbox.order("slow", "ready");
    init.when_system("running");
    init.main_of("db").signal(nix::sys::signal::Signal::SIGKILL);
    init.when("db was replaced", |s| {
        s.system() == "running" && s.main_pid("db") != before.main_pid("db")
    });
    let starts =
        |name: &str| init.sandbox.trace(name).iter().filter(|w| w.starts_with("start")).count();
    assert_eq!((starts("db"), starts("web"), starts("slow.trace")), (2, 2, 1));
    init.finish();
}

#[test]
fn an_upgrade_keeps_every_service() {
    let init = services();
    let before = init.status();
    init.tell("upgrade", &json!({"binary": program("GROUNDSTATE_INIT", "init")}));
    until("it answers again", || init.client()?.ask("ping", &json!({})).ok());
    assert!(init.status().0["resumed"].is_string());
    goes_on(init, &before);
}

#[test]
fn a_crash_keeps_every_service() {
    let mut init = services();
    init.expect_crashes();
    let before = init.status();
    let trace = init.sandbox.at("strace");
    let mut strace = Command::new("strace")
        .args(["-qq", "-o", &trace, "-p", &init.process().0.to_string()])
        .args(["-e", "trace=epoll_wait,epoll_pwait", "-e"])
        .arg("inject=epoll_wait,epoll_pwait:signal=SEGV:when=2")
        .spawn()
        .expect("strace runs");
    until("strace is attached", || init.process().status("TracerPid").filter(|pid| pid != "0"));
    until("it has crashed and answers again", || {
        let stats = init.client()?.ask("stats", &json!({})).ok()?;
        (stats["crashes"].as_u64() >= Some(1)).then_some(())
    });
    let pid = nix::unistd::Pid::from_raw(i32::try_from(strace.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    strace.wait().unwrap();
    goes_on(init, &before);
}

#[test]
fn an_upgrade_to_something_that_is_no_init_is_refused() {
    let init = services();
    let before = init.status();
    let refused = init.ask("upgrade", &json!({"binary": "/bin/true"}));
    assert!(refused.is_err(), "{refused:?}");
    goes_on(init, &before);
}

#[test]
fn a_fault_signal_sent_by_somebody_is_no_crash() {
    let init = services();
    let before = init.status();
    init.process().signal(nix::sys::signal::Signal::SIGSEGV);
    init.check();
    goes_on(init, &before);
}
