//! A machine whose clocks are near the end of their range: time_namespaces(7).

use groundstate_tests::boot::Boot;
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::json;
use std::process::{Command, Stdio};

/// A clock time in seconds, a day before half of the range of 63 bits of nanoseconds. The kernel
/// refuses an offset that moves a clock past that half (`proc_timens_set_offset` in the kernel's
/// time/namespace.c).
const LATE: u64 = 4_611_600_000;

/// The offset that moves this machine's clocks to `LATE`: a machine may have been up for days.
fn offset() -> String {
    let uptime = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).unwrap();
    (LATE - uptime.tv_sec() as u64).to_string()
}

#[test]
fn clocks_near_the_end_of_their_range_change_nothing() {
    let offset = offset();
    let far = ["unshare", "-T", "--monotonic", &offset, "--boottime", &offset];
    let mut there = Command::new(far[0]);
    there.args(&far[1..]).arg("true").stderr(Stdio::null());
    if !there.status().is_ok_and(|status| status.success()) {
        return groundstate_tests::not_run!("no time namespaces here");
    }
    let files = Sandbox::new();
    files.unit("web", "restart-delay: 50ms\nexec-start: DAEMON");
    files.unit(
        "late",
        "type: foreground-notified\nstart-timeout: 300ms\nrestart: never\nexec-start: DAEMON",
    );
    files.unit("deaf", "stop-timeout: 300ms\nexec-start: DAEMON --ignore TERM");
    files.unit("other", "exec-start: DAEMON");
    files.unit("again", "type: timer\ntimer-active: 100ms\nactivates: fired");
    files.unit("fired", "type: oneshot\nexec-start: /bin/sh -c 'cat /proc/uptime >DIR/uptime'");
    files.unit("all", "type: virtual\nwaits-for: web, late, deaf, again");
    let init = Boot::new(files).through(&far).start("all");
    let failed = init.when_state("late", "failed");
    assert_eq!(failed.reason("late"), "start-timeout", "{}", failed.table());
    let uptime = until("the timer fires", || {
        Some(init.sandbox.read("uptime")).filter(|uptime| uptime.ends_with('\n'))
    });
    assert!(uptime.starts_with("46116"), "its clock says {uptime}");
    // The unit is restarted after its delay.
    let first = init.main_of("web");
    first.signal(Signal::SIGKILL);
    until("web is restarted", || (init.main_of("web") != first).then_some(()));
    // The stop ends by its timeout; the request ends by its time limit.
    let deaf = init.main_of("deaf");
    init.tell("set-target", &json!({"targets": ["web"]}));
    until("it is killed", || (!deaf.is_alive()).then_some(()));
    init.tell("want", &json!({"target": "other", "for-ms": 3000}));
    init.when_state("other", "running");
    init.when_state("other", "disabled");
    init.finish();
}
