//! Stops of processes that ignore signals, or are stopped or frozen. Each is gone within its unit's
//! timeout plus a second, by init's own clock (`lateness` allows for a busy machine). Processes
//! that survive SIGKILL are in [`super::process_endings`].

use super::process_endings::cgroup;
use super::restricted_environments::after;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::lateness::Lateness;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::json;
use std::time::Duration;

/// The time that a stop may take beyond the unit's timeout.
pub(super) const SPARE: Duration = Duration::from_secs(1);
/// The stop timeout of the units here, and its key.
const STOP: (Duration, &str) = (Duration::from_millis(500), "stop-timeout: 500ms");

#[test]
fn start_that_ignores_sigterm_fails_within_its_timeouts() {
    let files = Sandbox::new();
    files.unit(
        "deaf",
        "type: foreground-notified\nstart-timeout: 1s\nstop-timeout: 2s\nrestart: never\n\
         exec-start: DAEMON --notify --ready-on-order --ignore TERM --control DIR/deaf --trace DIR/trace",
    );
    files.unit("none", "type: virtual");
    let init = Boot::new(files).start("none");
    init.when_system("running");
    let late = Lateness::of(init.process());
    init.tell("set-target", &json!({"targets": ["deaf"]}));
    let status = init.when_state("deaf", "failed");
    assert!(init.processes_of("deaf").is_empty(), "it was killed before it had failed");
    assert_eq!(status.reason("deaf"), "start-timeout");
    assert!(init.sandbox.trace("trace").contains(&"term".to_owned()), "it got SIGTERM first");
    let (starting, stopping) = (init.time_in("deaf", "starting"), init.time_in("deaf", "stopping"));
    let most = Duration::from_secs(1) + Duration::from_secs(2) + SPARE;
    late.check("a start that never ends", starting + stopping, most);
    init.finish();
}

/// Changes the goal to `other`, which stops these units, and checks that each is gone in time.
fn go_down_in_time(init: &Init, units: &[&str], late: &Lateness) {
    let left: Vec<Process> = units.iter().flat_map(|unit| init.processes_of(unit)).collect();
    assert!(left.len() >= units.len(), "{left:?}");
    init.tell("set-target", &json!({"targets": ["other"]}));
    let is_down = |state: &str| ["disabled", "failed"].contains(&state);
    let status = init.when("all are down", |s| units.iter().all(|unit| is_down(s.state(unit))));
    let alive: Vec<&Process> = left.iter().filter(|process| process.is_alive()).collect();
    assert!(alive.is_empty(), "{alive:?} {}", status.table());
    for unit in units {
        // It was killed, so it ignored SIGTERM.
        assert_eq!(status.reason(unit), "stop-timeout", "{unit}");
        late.check(&format!("the end of {unit}"), init.time_in(unit, "stopping"), STOP.0 + SPARE);
    }
    assert_eq!(status.state("other"), "running");
}

/// An init with these units, each of which records in a trace of its name that it is ready.
fn at_work(taking: &str, units: &[(&str, &str)]) -> Init {
    let files = Sandbox::new();
    for (unit, flags) in units {
        let line =
            format!("exec-start: DAEMON --control DIR/{unit} --trace DIR/{unit}.trace {flags}");
        files.unit(unit, &format!("{}\n{line}", STOP.1));
    }
    files.unit("other", "exec-start: DAEMON");
    let names: Vec<&str> = units.iter().map(|(unit, _)| *unit).collect();
    files.unit("all", &format!("type: virtual\nwaits-for: {}, other", names.join(", ")));
    let init = after(taking, files).start("all");
    init.when_system("running");
    for unit in names {
        let is_up = || init.sandbox.trace(&format!("{unit}.trace")).contains(&"ready".to_owned());
        until("it is up", || is_up().then_some(()));
    }
    init
}

#[test]
fn process_that_ignores_sigterm_or_is_stopped_is_gone_after_its_stop_timeout() {
    for taking in ["true", "umount -R -l /sys"] {
        let units = [
            ("ignores", "--ignore TERM --children 2"),
            ("stops", ""),
            ("stopped", "--ignore TERM"),
        ];
        let init = at_work(taking, &units);
        init.sandbox.order("stops", "die STOP");
        init.main_of("stopped").signal(Signal::SIGSTOP);
        for unit in ["stops", "stopped"] {
            let main = init.main_of(unit);
            until("it is stopped", || (main.state() == Some('T')).then_some(()));
        }
        let late = Lateness::of(init.process());
        go_down_in_time(&init, &units.map(|(unit, _)| unit), &late);
        assert!(init.sandbox.trace("ignores.trace").contains(&"term".to_owned()), "{taking}");
        init.finish();
    }
}

#[test]
fn frozen_process_is_gone_after_its_stop_timeout() {
    let init = at_work("true", &[("frozen", ""), ("within", "")]);
    let main = init.main_of("within");
    let (Some(frozen), Some(within)) = (cgroup(init.main_of("frozen")), cgroup(main)) else {
        init.finish();
        return groundstate_tests::not_run!("no cgroup v2 here");
    };
    let below = format!("{within}/below");
    std::fs::create_dir(&below).expect("a cgroup below");
    std::fs::write(format!("{below}/cgroup.procs"), main.0.to_string())
        .expect("the write succeeds");
    for dir in [frozen, below] {
        std::fs::write(format!("{dir}/cgroup.freeze"), "1").expect("it can be frozen");
        let events = || std::fs::read_to_string(format!("{dir}/cgroup.events")).unwrap_or_default();
        until("it is frozen", || events().contains("frozen 1").then_some(()));
    }
    let late = Lateness::of(init.process());
    go_down_in_time(&init, &["frozen", "within"], &late);
    init.finish();
}
