//! OOM score and nice. The kernel kills init and its logger last, where init may ask for that.
//! Their children get the OOM score and the nice value that init was started with. A machine and a
//! privileged supervisor are covered by the tests with virtual machines (`vm.rs`). The choice of
//! the kernel is covered by [`super::hierarchy`].

use super::crash::has_survived;
use super::saved_state::until_steady;
use groundstate_tests::boot::{Boot, Init, Way};
use groundstate_tests::crash::crash;
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::json;
use std::process::Command;

/// The score that a container runtime sets for its workload.
const SCORE: i32 = 300;
const NICER: i32 = 3;

pub(crate) fn score(process: Process) -> i32 {
    process.read("oom_score_adj").and_then(|text| text.trim().parse().ok()).expect("a number")
}

fn nice(process: Process) -> i32 {
    process.stat_field(16).expect("a number")
}

/// The nice value of init, which this process starts through nice(1).
fn as_nice() -> i32 {
    (nice(own()) + NICER).min(19)
}

pub(crate) fn own() -> Process {
    Process(i32::try_from(std::process::id()).expect("a pid"))
}

/// The lowest score that a process with this score can give itself. Without CAP_SYS_RESOURCE it is
/// the same score.
pub(crate) fn lowest(score: i32) -> i32 {
    let script = "echo -1000 >/proc/self/oom_score_adj; cat /proc/self/oom_score_adj";
    let words = ["-n", &score.to_string(), "--", "sh", "-c", script];
    let output = Command::new("choom").args(words).output().expect("choom runs");
    let last = String::from_utf8_lossy(&output.stdout);
    last.lines().last().and_then(|line| line.parse().ok()).expect("a number")
}

/// The expected scores of init and its logger.
#[derive(Clone, Copy)]
struct Own {
    init: i32,
    logger: i32,
}

/// Checks the scores of init, its logger, and their children.
fn assert_scores(init: &Init, own: Own, when: &str) {
    let logger = until("the logger has its name", || {
        let named = |p: &Process| p.read("comm").is_some_and(|n| n.starts_with("groundstate-log"));
        init.process().children().into_iter().find(named)
    });
    assert_eq!(score(init.process()), own.init, "{when}");
    until(&format!("{when}: the logger has its score"), || {
        (score(logger) == own.logger).then_some(())
    });
    // Init starts each of these in another way: the child of `thinks` reads a file before its exec,
    // and that of `meek` sets scores of its own.
    for unit in ["plain", "thinks", "meek"] {
        let before = init.main_of(unit);
        before.signal(Signal::SIGKILL);
        init.when(&format!("{when}: {unit} is replaced"), |s| {
            s.state(unit) == "running" && s.main_pid(unit) != before.inner_pid().or(Some(before.0))
        });
        let now = init.main_of(unit);
        let wanted = if unit == "meek" { (700, 7) } else { (SCORE, as_nice()) };
        assert_eq!((score(now), nice(now)), wanted, "{when}: {unit}");
    }
    let _ = std::fs::remove_file(init.sandbox.path("lines.trace"));
    let main = init.main_of("lines");
    init.tell("restart", &json!({"targets": ["lines"]}));
    init.when(&format!("{when}: the unit is restarted"), |s| {
        s.state("lines") == "running" && s.main_pid("lines") != main.inner_pid().or(Some(main.0))
    });
    init.tell("reload-unit", &json!({"targets": ["lines"]}));
    until(&format!("{when}: each line has been run"), || {
        let text = init.sandbox.read("lines.trace");
        let mut seen: Vec<&str> = text.lines().collect();
        seen.sort_unstable();
        let wanted = LINES.map(|line| format!("{line} {SCORE}"));
        (seen.len() == wanted.len()).then(|| assert_eq!(seen, wanted, "{when}"))
    });
}

/// Keys of commands that a unit may have, sorted.
const LINES: [&str; 7] = [
    "exec-condition",
    "exec-reload",
    "exec-start",
    "exec-start-post",
    "exec-start-pre",
    "exec-stop",
    "exec-stop-post",
];

fn files() -> Sandbox {
    let files = Sandbox::new();
    files.unit("plain", "restart-delay: 1ms\nexec-start: DAEMON");
    files.unit("thinks", "restart-delay: 1ms\nenv-file: DIR/env\nexec-start: DAEMON");
    files.put("env", "A=b\n");
    files.unit("meek", "restart-delay: 1ms\noom-score-adjust: 700\nnice: 7\nexec-start: DAEMON");
    // Each command records the score of a process that it forks.
    let says = |line: &str| {
        let rest = match line {
            "exec-start" => "; exec sleep 1000",
            "exec-stop" => "; kill $MAINPID",
            _ => "",
        };
        format!(
            "{line}: /bin/sh -c 'echo {line} $(cat /proc/self/oom_score_adj) >>DIR/lines.trace{rest}'\n"
        )
    };
    files.unit("lines", &LINES.map(says).concat());
    files
        .unit("tick", "type: timer\ntimer-unit-active: 200ms\ntimer-active: 100ms\nactivates: job");
    files.unit("job", "type: oneshot\nexec-start: /bin/sh -c 'echo x >>DIR/job.trace'");
    files.unit("all", "type: virtual\nwaits-for: plain, thinks, meek, lines, tick");
    files
}

/// Starts init with [`SCORE`] through these wrappers and with these arguments.
fn begin(way: Way, through: &[&str], arguments: &[&str]) -> Init {
    let (score, nice) = (SCORE.to_string(), NICER.to_string());
    let words = ["choom", "-n", &score, "--", "nice", "-n", &nice];
    let words = [&words[..], through].concat();
    let mut init = Boot::new(files()).way(way).through(&words).arguments(arguments).start("all");
    init.expect_crashes();
    init.when_system("running");
    init
}

/// Checks the scores after the start, upgrades and a crash. Returns init's output.
fn over_its_images(init: Init, own: Own) -> String {
    assert_scores(&init, own, "started");
    init.tell("upgrade", &json!({}));
    assert_scores(&init, own, "upgraded");
    until_steady(&init);
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    assert_scores(&init, own, "crashed");
    init.tell("upgrade", &json!({}));
    assert_scores(&init, own, "upgraded again");
    let said = init.output();
    init.finish_after_crash();
    said
}

/// With CAP_SYS_RESOURCE init is killed last; otherwise it has the score of its children.
fn check_scores_without_the_option(way: Way) {
    let last = lowest(SCORE);
    over_its_images(begin(way, &[], &[]), Own { init: last, logger: last });
}

#[test]
fn init_of_a_container_is_killed_last_and_its_children_keep_the_initial_score() {
    check_scores_without_the_option(Way::Namespace);
}

#[test]
fn supervisor_is_killed_last_and_its_children_keep_the_initial_score() {
    check_scores_without_the_option(Way::Supervisor);
}

/// A score that needs no capability: init returns to the score of this process.
fn check_scores_with_the_option(way: Way) {
    let own = score(own());
    let init = begin(way, &[], &["--oom-score", &own.to_string()]);
    over_its_images(init, Own { init: own, logger: lowest(own) });
}

#[test]
fn oom_score_option_of_a_container_sets_the_score_of_init_and_not_of_its_children() {
    check_scores_with_the_option(Way::Namespace);
}

#[test]
fn oom_score_option_of_a_supervisor_sets_its_score_and_not_that_of_its_children() {
    check_scores_with_the_option(Way::Supervisor);
}

#[test]
fn oom_score_keep_leaves_the_score_of_init_and_lowers_that_of_the_logger() {
    let init = begin(Way::Namespace, &[], &["--oom-score=keep"]);
    over_its_images(init, Own { init: SCORE, logger: lowest(SCORE) });
}

#[test]
fn oom_score_that_init_may_not_set_is_reported_once_and_init_keeps_its_score() {
    let bounded = ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource"];
    // Without the option init does not report the refusal, which is usual in containers.
    for (arguments, told) in [(&[][..], 0), (&["--oom-score", "-500"][..], 1)] {
        let init = begin(Way::Namespace, &bounded, arguments);
        let said = over_its_images(init, Own { init: SCORE, logger: SCORE });
        assert_eq!(said.matches("init's own OOM score: keeping 300").count(), told, "{said}");
    }
}
