//! What a service has left to init where there are no cgroups, in a crash: who is known of no unit was
//! begun by no init for that. How it is found whose one is, is in [`super::ways`]; what is there of an
//! init whose state is lost, in [`super::away`].

use super::away::BARE;
use super::crash::{has_survived, starts};
use groundstate_tests::boot::Boot;
use groundstate_tests::crash::{crash, crash_when, memories};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::json;
use std::time::Duration;

#[test]
fn what_a_service_has_sent_away_long_after_its_start_outlives_a_crash_without_cgroups() {
    let files = Sandbox::new();
    files.unit(
        "web",
        "exec-start: /bin/sh -c 'until test -e DIR/go; do sleep 0.01; done; setsid /bin/sh -c \"setsid sleep 1234 &\"; exec sleep 4321'",
    );
    files.unit("all", "type: virtual\nwaits-for: web");
    let mut init = Boot::new(files).through(&["/bin/sh", "-c", BARE, "sh"]).start("all");
    init.expect_crashes();
    init.when_state("web", "running");
    until("it is kept", || memories(&init).first().filter(|(epoch, _)| *epoch > 0).map(drop));
    // Nothing of this comes to init's ears, and nobody's end makes it look for whose a new child is.
    init.sandbox.put("go", "");
    let sent = until("it is nobody's child any more", || {
        let all = init.processes_of("web").into_iter();
        let mut sent =
            all.filter(|p| p.read("cmdline").is_some_and(|c| c.contains("sleep\x001234")));
        sent.find(|p| p.stat_field(3) == Some(1) || init.process().children().contains(p))
    });
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
    let begun =
        |call: &groundstate_tests::crash::Call| call.number == libc::SYS_clone3 && call.result > 0;
    let mut client = init.client().unwrap();
    crash_when(&init, || client.send("want", &json!({"target": "late"})), begun);
    has_survived(&init, 1);
    init.when_state("late", "running");
    assert_eq!(starts(&init, "late"), 1, "{}", init.output());
    init.finish_after_crash();
}

/// The processor time that init took to reap so many orphans that died all at once. One
/// look at its children for each of them would take four times as long for each, where they are four
/// times as many.
fn time_of_reaping(count: usize) -> Duration {
    let files = Sandbox::new();
    nix::unistd::mkfifo(&files.path("never"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    files.put(
        "leave.sh",
        "i=0; while [ $i -lt $1 ]; do i=$((i+1)); ( ( exec 3<$2/never ) & ); done; exec \"$3\"\n",
    );
    files.unit("parent", &format!("exec-start: /bin/sh DIR/leave.sh {count} DIR DAEMON"));
    let mut init = Boot::new(files).through(&["/bin/sh", "-c", BARE, "sh"]).start("parent");
    let children = || init.process().children();
    until("they are init's", || (children().len() > count).then_some(()));
    let main = init.main_of("parent");
    until("who left them is at work", || main.link("exe").filter(|exe| exe.ends_with("daemon")));
    let ours: Vec<_> = init.processes_of("parent");
    let crowd: Vec<_> = ours.into_iter().filter(|process| *process != main).collect();
    assert_eq!(crowd.len(), count);
    init.process().signal(Signal::SIGSTOP);
    crowd.iter().for_each(|process| process.signal(Signal::SIGKILL));
    until("all are dead", || crowd.iter().all(|process| !process.is_alive()).then_some(()));
    let before = init.process().processor_time();
    init.process().signal(Signal::SIGCONT);
    until("all are reaped", || (children().len() <= 3).then_some(()));
    let took = init.process().processor_time() - before;
    assert_eq!(init.status().state("parent"), "running");
    init.may_keep_this_much();
    init.finish();
    took
}

#[test]
fn a_crowd_of_orphans_takes_time_by_its_number_and_no_more_without_cgroups() {
    let (few, many) = (250, 1000);
    let each = |count: u32| time_of_reaping(count as usize) / count;
    let (of_few, of_many) = (each(few), each(many));
    assert!(of_many < of_few * 2, "{of_few:?} each of {few}, {of_many:?} each of {many}");
}
