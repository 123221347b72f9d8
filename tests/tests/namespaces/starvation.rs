//! Init without processor time: an event that came in time counts although init reads it late, and
//! no running process is taken for dead.

use groundstate_tests::boot::Boot;
use groundstate_tests::deadline::{until, within};
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The start timeout of the unit `slow`.
const START_TIMEOUT: Duration = Duration::from_secs(3);

#[test]
fn readiness_sent_in_time_counts_although_it_is_read_late() {
    let files = Sandbox::new();
    files.unit(
        "slow",
        "type: foreground-notified\nstart-timeout: 3s\nrestart: never\n\
         exec-start: DAEMON --notify --ready-on-order --control DIR/slow",
    );
    let init = Boot::new(files).start("slow");
    init.when_state("slow", "starting");
    let before = Some(until("it has its program", || init.status().main_pid("slow")));
    init.process().signal(Signal::SIGSTOP);
    until("init is stopped", || (init.process().state() == Some('T')).then_some(()));
    init.sandbox.order("slow", "ready");
    assert!(within(START_TIMEOUT, || None::<()>).is_none(), "the timeout passes");
    init.process().signal(Signal::SIGCONT);
    let after = init.when("it has answered", |s| s.state("slow") != "starting");
    assert_eq!((after.state("slow"), after.main_pid("slow")), ("running", before));
    init.finish();
}

/// Keeps the first processor busy until the value is dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn new(count: usize) -> Busy {
        Busy::of(&[], count)
    }

    /// Started through this wrapper.
    fn of(way: &[&str], count: usize) -> Busy {
        let words = [way, &["taskset", "-c", "0", "sh", "-c", "while :; do :; done"]].concat();
        let start = |_| {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).stderr(Stdio::null()).spawn().expect("it runs")
        };
        Busy((0..count).map(start).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn init_on_a_busy_processor_answers_and_supervises() {
    let files = Sandbox::new();
    files.unit("quick", "exec-start: DAEMON");
    files.unit("steady", "type: foreground-notified\nexec-start: DAEMON --notify");
    files.unit("all", "type: virtual\nwaits-for: quick, steady");
    let init = Boot::new(files).through(&["taskset", "-c", "0"]).start("all");
    let before = init.when_system("running");
    let quick = init.main_of("quick");
    let busy = Busy::new(64);
    quick.signal(Signal::SIGKILL);
    init.tell("reload", &json!({}));
    init.when("it is replaced", |s| {
        s.system() == "running" && s.main_pid("quick") != before.main_pid("quick")
    });
    drop(busy);
    let after = init.status();
    assert_eq!(
        after.main_pid("steady"),
        before.main_pid("steady"),
        "no running service is taken for dead"
    );
    init.finish();
}

/// A cgroup with a hundredth of a processor.
struct Hundredth(PathBuf);

impl Hundredth {
    /// Returns `None` if no share of a processor can be set here.
    fn new() -> Option<Hundredth> {
        let name = format!("groundstate-test.{}", std::process::id());
        let (first, second) = (Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup"));
        let top = if first.is_dir() { first } else { second };
        let place = Hundredth(top.join(name));
        std::fs::create_dir(&place.0).ok()?;
        // Cgroup v1 or v2: microseconds of each tenth of a second.
        let quota = [("cpu.cfs_quota_us", "1000"), ("cpu.max", "1000 100000")];
        let set = |(file, text): (&str, &str)| {
            let file = place.0.join(file);
            file.exists() && std::fs::write(file, text).is_ok()
        };
        quota.into_iter().any(set).then_some(place)
    }

    fn take(&self, process: Process) {
        std::fs::write(self.0.join("cgroup.procs"), process.0.to_string())
            .expect("the write succeeds");
    }
}

impl Drop for Hundredth {
    fn drop(&mut self) {
        // Possible once its last process has exited.
        within(Duration::from_secs(10), || std::fs::remove_dir(&self.0).is_ok().then_some(()));
    }
}

#[test]
fn init_with_a_hundredth_of_a_processor_answers_and_supervises() {
    let Some(place) = Hundredth::new() else {
        return groundstate_tests::not_run!("no share of a processor can be given here");
    };
    let files = Sandbox::new();
    files.unit("quick", "exec-start: DAEMON");
    files.unit("steady", "type: foreground-notified\nexec-start: DAEMON --notify");
    files.unit("all", "type: virtual\nwaits-for: quick, steady");
    let init = Boot::new(files).start("all");
    let before = init.when_system("running");
    place.take(init.process());
    let throttled = || {
        let text = std::fs::read_to_string(place.0.join("cpu.stat")).unwrap_or_default();
        text.lines().any(|line| line.strip_prefix("nr_throttled ").is_some_and(|n| n != "0"))
    };
    init.main_of("quick").signal(Signal::SIGKILL);
    init.tell("reload", &json!({}));
    init.when("it is replaced", |s| {
        s.system() == "running" && s.main_pid("quick") != before.main_pid("quick")
    });
    until("it was throttled", || {
        init.tell("ping", &json!({}));
        throttled().then_some(())
    });
    assert_eq!(init.status().main_pid("steady"), before.main_pid("steady"));
    init.finish();
}

#[test]
fn real_time_hog_causes_no_false_timeout() {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if !nix::unistd::geteuid().is_root() || processors < 2 {
        groundstate_tests::not_run!("this needs root and two processors");
        return;
    }
    let files = Sandbox::new();
    files.unit(
        "slow",
        "type: foreground-notified\nstart-timeout: 3s\nrestart: never\ncpu-affinity: 1\n\
         exec-start: DAEMON --notify --ready-on-order --control DIR/slow",
    );
    files.unit("fed", "type: foreground-notified\nwatchdog: 2s\nrestart: never\ncpu-affinity: 1\nexec-start: DAEMON --notify --watchdog");
    files.unit("all", "type: virtual\nwaits-for: fed, slow");
    let init = Boot::new(files).through(&["taskset", "-c", "0"]).start("all");
    let before = init.when("one runs, one starts", |s| {
        s.state("fed") == "running" && s.state("slow") == "starting" && s.main_pid("slow").is_some()
    });
    let hog = Busy::of(&["chrt", "-f", "50"], 1);
    init.sandbox.order("slow", "ready");
    assert!(within(START_TIMEOUT, || None::<()>).is_none(), "the timeouts pass");
    assert_eq!(init.tell("ping", &json!({}))["pid"], 1);
    let after = init.when("it has answered", |s| s.state("slow") != "starting");
    drop(hog);
    for unit in ["slow", "fed"] {
        assert_eq!(
            (after.state(unit), after.main_pid(unit)),
            ("running", before.main_pid(unit)),
            "{unit}"
        );
    }
    init.finish();
}
