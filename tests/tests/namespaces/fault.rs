//! What is no crash of PID 1 does it no harm: the same pid, the same services, nothing
//! started twice.

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::sandbox::Sandbox;

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

/// What must be as before; `slow` gets ready only now.
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
fn a_fault_signal_sent_by_somebody_is_no_crash() {
    let init = services();
    let before = init.status();
    init.process().signal(nix::sys::signal::Signal::SIGSEGV);
    init.check();
    goes_on(init, &before);
}
