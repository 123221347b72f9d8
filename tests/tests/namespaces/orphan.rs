//! What a service has left to init where there are no cgroups, in a crash: who is known of no unit was
//! begun by no init for that. How it is found whose one is, is in [`super::restricted_environments`].

use super::crash::{has_survived, starts, until_begun};
use super::crash_after_change::keeps_no_more;
use super::hierarchy::BARE;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::{commit_word, crash, crash_when};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::json;

/// Sends somebody away when it is told to.
const SENDS: &str = "exec-start: /bin/sh -c 'until test -e DIR/go; do sleep 0.01; done; setsid /bin/sh -c \"setsid sleep 1234 &\"; exec sleep 4321'";

/// Whom `web` sends away now.
fn sent_away(init: &Init) -> Process {
    init.sandbox.put("go", "");
    until("it is nobody's child any more", || {
        let all = init.processes_of("web").into_iter();
        let mut sent =
            all.filter(|p| p.read("cmdline").is_some_and(|c| c.contains("sleep\x001234")));
        sent.find(|p| p.stat_field(3) == Some(1) || init.process().children().contains(p))
    })
}

/// Up, without cgroups.
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
fn what_a_service_has_sent_away_long_after_its_start_outlives_a_crash_without_cgroups() {
    let init = at_work(SENDS);
    until("it is kept", || (commit_word(&init) != 0).then_some(()));
    // Nothing of this comes to init's ears, and nobody's end makes it look for whose a new child is.
    let sent = sent_away(&init);
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    init.when_state("web", "running");
    assert!(sent.is_alive(), "{}", init.output());
    assert!(!init.output().contains("is of no unit"), "{}", init.output());
    sent.end();
    init.finish_after_crash();
}

#[test]
fn what_became_its_program_in_a_crash_is_known_to_though_init_may_not_look_at_it() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("it takes root");
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
    // As in a container that gives its root no more than it needs.
    let bounded = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"];
    let mut init = Boot::new(files).through(&bounded).unrecorded().start("all");
    init.expect_crashes();
    // Until its units are taken it grants nothing, and nobody reads here what it answers.
    init.when_system("running");
    let begun =
        |call: &groundstate_tests::crash::Call| call.number == libc::SYS_clone3 && call.result > 0;
    let mut client = init.client().unwrap();
    crash_when(&init, || client.send("want", &json!({"target": "late"})), begun);
    has_survived(&init, 1);
    init.when_state("late", "running");
    until_begun(&init, "late");
    assert_eq!(starts(&init, "late"), 1, "{}", init.output());
    init.finish_after_crash();
}

#[test]
fn who_was_sent_away_after_another_had_ended_is_not_taken_for_what_that_left() {
    let files = Sandbox::new();
    files.unit("web", SENDS);
    files.unit("job", "restart: never\nexec-start: /bin/false");
    files.unit("all", "type: virtual\nwaits-for: web");
    let mut init = Boot::new(files).through(&["/bin/sh", "-c", BARE, "sh"]).start("all");
    init.expect_crashes();
    init.when_state("web", "running");
    keeps_no_more(&init);
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

/// A state that is too old, and notes that nobody heeds any more: what was sent away since is killed only where
/// nobody knows whose it is.
#[test]
fn what_a_service_has_sent_away_outlives_a_crash_in_which_nothing_is_heeded() {
    let init = at_work(SENDS);
    keeps_no_more(&init);
    let sent = sent_away(&init);
    let main = init.main_of("web");
    for crashes in 1..=3 {
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, crashes);
    }
    init.when_state("web", "running");
    assert_eq!(init.main_of("web"), main);
    assert!(sent.is_alive(), "{}", init.output());
    // It ends with its unit.
    init.tell("restart", &json!({"targets": ["web"]}));
    init.when("it is another", |s| s.state("web") == "running" && init.main_of("web") != main);
    assert!(!sent.is_alive(), "{}", init.output());
    init.finish_after_crash();
}
