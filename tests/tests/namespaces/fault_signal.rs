//! A fault signal sent by another process is ignored: PID 1, its services and their runs stay the
//! same. A fault signal of the kernel is a crash.

use super::crash::has_survived;
use super::saved_state::until_steady;
use super::upgrade::{at_work, fixed};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::FAULTS;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::tracer::Tracer;

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

/// Checks that nothing has changed; `slow` becomes ready only now.
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
fn fault_signal_sent_by_a_process_is_not_a_crash() {
    let init = services();
    let before = init.status();
    for fault in FAULTS {
        init.process().signal(fault);
        init.check();
    }
    goes_on(init, &before);
}

/// Every code that only the kernel can set counts, such as SI_KERNEL, which strace(1) causes.
#[test]
fn fault_signal_of_the_kernel_is_a_crash() {
    let mut init = at_work();
    init.expect_crashes();
    assert_eq!(init.process().status("Threads").as_deref(), Some("1"), "no other thread can fault");
    let before = init.status();
    for (survived, fault) in (1..).zip(FAULTS) {
        until_steady(&init);
        let calls = "epoll_wait,epoll_pwait";
        let inject = format!("inject={calls}:signal={}:when=1", fault.as_str());
        let arguments = ["-e", &format!("trace={calls}"), "-e", &inject];
        let tracer = Tracer::attach(init.process(), &init.sandbox.path("strace"), &arguments);
        has_survived(&init, survived);
        assert!(tracer.detach().iter().any(|line| line.contains("SI_KERNEL")), "{fault}");
        assert_eq!(fixed(&init.status()), fixed(&before), "after {fault}");
    }
    init.check();
}
