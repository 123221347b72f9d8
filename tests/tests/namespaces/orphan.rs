//! Processes that a service has left to init without cgroups, at a crash of init. Init must not
//! take them for processes of no unit. How init finds the unit of an orphan is in
//! [`super::restricted_environments`].

use super::crash::{has_survived, starts, until_traced};
use super::hierarchy::BARE;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::{Steps, commit_word, crash, crash_when, wait_for_commit};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::json;

/// A service that starts an orphan on request.
const SENDS: &str = "exec-start: /bin/sh -c 'until test -e DIR/go; do sleep 0.01; done; setsid /bin/sh -c \"setsid sleep 1234 &\"; exec sleep 4321'";

/// Makes `web` start its orphan and returns it.
fn sent_away(init: &Init) -> Process {
    init.sandbox.put("go", "");
    until("the orphan is init's child", || {
        let all = init.processes_of("web").into_iter();
        let mut sent =
            all.filter(|p| p.read("cmdline").is_some_and(|c| c.contains("sleep\x001234")));
        sent.find(|p| p.stat_field(3) == Some(1) || init.process().children().contains(p))
    })
}

/// An init without cgroups whose unit runs.
fn at_work(web: &str) -> Init {
    let files = Sandbox::new();
    files.unit("web", web);
    files.unit("all", "type: virtual\nwaits-for: web");
    let mut init = Boot::new(files).through(&["/bin/sh", "-c", BARE, "sh"]).start("all");
    init.expect_crashes();
    init.when_state("web", "running");
    init
}

#[test]
fn orphan_started_long_after_its_service_survives_a_crash_without_cgroups() {
    let init = at_work(SENDS);
    until("init has committed its state", || (commit_word(&init) != 0).then_some(()));
    // Init gets no event for this, and no exit makes it look for the unit of a new child.
    let sent = sent_away(&init);
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    init.when_state("web", "running");
    assert!(sent.is_alive(), "{}", init.output());
    sent.end();
    init.finish_after_crash();
}

#[test]
fn process_that_executes_during_a_crash_is_adopted_without_ptrace_rights() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    files.put("late.trace", "");
    std::fs::set_permissions(
        files.path("late.trace"),
        std::os::unix::fs::PermissionsExt::from_mode(0o666),
    )
    .unwrap();
    files.unit("late", "user: nobody\nexec-start: DAEMON --trace DIR/late.trace");
    files.unit("all", "type: virtual");
    // As in a container whose root has few capabilities.
    let bounded = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"];
    let mut init = Boot::new(files).through(&bounded).unrecorded().start("all");
    init.expect_crashes();
    // The client does not read answers, so the request must come after the first load.
    init.when_system("running");
    let is_clone =
        |call: &groundstate_tests::crash::Call| call.number == libc::SYS_clone3 && call.result > 0;
    let mut client = init.client().unwrap();
    crash_when(&init, || client.send("want", &json!({"target": "late"})), is_clone);
    has_survived(&init, 1);
    init.when_state("late", "running");
    until_traced(&init, "late");
    assert_eq!(starts(&init, "late"), 1, "{}", init.output());
    init.finish_after_crash();
}

#[test]
fn orphan_started_after_the_exit_of_another_unit_survives_a_crash() {
    let files = Sandbox::new();
    files.unit("web", SENDS);
    files.unit("job", "restart: never\nexec-start: /bin/false");
    files.unit("all", "type: virtual\nwaits-for: web");
    let mut init = Boot::new(files).through(&["/bin/sh", "-c", BARE, "sh"]).start("all");
    init.expect_crashes();
    init.when_state("web", "running");
    wait_for_commit(&init);
    init.tell("want", &json!({"target": "job"}));
    init.when_state("job", "failed");
    let sent = sent_away(&init);
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    init.when_state("web", "running");
    init.tell("ping", &json!({}));
    assert!(sent.is_alive(), "{}", init.output());
    sent.end();
    init.finish_after_crash();
}

/// Repeated crashes: an orphan started after the last commit is killed only if its unit is unknown.
#[test]
fn orphan_of_a_service_survives_repeated_crashes() {
    let init = at_work(SENDS);
    wait_for_commit(&init);
    let sent = sent_away(&init);
    let main = init.main_of("web");
    for crashes in 1..=3 {
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, crashes);
    }
    init.when_state("web", "running");
    assert_eq!(init.main_of("web"), main);
    assert!(sent.is_alive(), "{}", init.output());
    // The orphan ends with its unit.
    init.tell("restart", &json!({"targets": ["web"]}));
    init.when("it has another main process", |s| {
        s.state("web") == "running" && init.main_of("web") != main
    });
    assert!(!sent.is_alive(), "{}", init.output());
    init.finish_after_crash();
}

/// In one round init reaps the main process and then the loader, and starts the new unit. At the
/// crash the exit of the main process is committed, and no image has looked for its orphans.
#[test]
fn orphan_of_a_process_reaped_just_before_a_crash_belongs_to_its_unit() {
    let init = at_work(&format!("restart-delay: 10ms\n{SENDS}"));
    let sent = sent_away(&init);
    let main = init.main_of("web");
    init.sandbox.unit("next", "exec-start: DAEMON --trace DIR/next.trace");
    init.sandbox.unit("all", "type: virtual\nwaits-for: web, next");
    wait_for_commit(&init);
    let mut client = init.client().unwrap();
    let mut steps = Steps::of(&init);
    client.send("reload", &json!({}));
    let loader = steps.until_forked(|_| true);
    drop(steps);
    init.process().signal(Signal::SIGSTOP);
    until("init is stopped", || (init.process().state() == Some('T')).then_some(()));
    main.signal(Signal::SIGKILL);
    loader.signal(Signal::SIGCONT);
    for process in [main, loader] {
        until("it has exited", || (process.state() == Some('Z')).then_some(()));
    }
    let mut steps = Steps::of(&init);
    init.process().signal(Signal::SIGCONT);
    steps.until(|call| call.number == libc::SYS_clone3 && call.result > 0);
    steps.crash();
    // The exit of a helper would make the next image look for orphans.
    let helpers = [(); 2].map(|()| steps.until_forked(|_| true));
    drop(steps);
    has_survived(&init, 1);
    init.when("it has another main process", |s| {
        s.state("web") == "running" && init.main_of("web") != main
    });
    assert!(!sent.is_alive(), "{}", init.output());
    helpers.into_iter().for_each(|helper| helper.signal(Signal::SIGCONT));
    init.finish_after_crash();
}
