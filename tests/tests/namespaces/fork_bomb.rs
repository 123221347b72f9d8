//! Fork bombs that keep going: a stop ends them, both in a namespace with few pids and with
//! processes that live only for a moment.

use super::restricted_environments::after;
use groundstate_tests::boot::Init;
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use serde_json::json;
use std::collections::BTreeSet;

/// The number of pids, including those of init and its other units.
const PIDS: usize = 400;

/// Returns `None` if pid_max is that of the machine and not of the namespace.
fn few_pids() -> Option<Sandbox> {
    let name = nix::sys::utsname::uname().expect("uname");
    let release = name.release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map(|word| word.parse::<u32>().unwrap_or(0));
    let version = (numbers.next()?, numbers.next()?);
    (nix::unistd::geteuid().is_root() && version >= (6, 14)).then(Sandbox::new)
}

/// Units that must survive the bomb.
fn others(files: &Sandbox) {
    files.unit("base", "exec-start: DAEMON");
    files.unit("other", "exec-start: DAEMON");
}

fn starts_the_bomb(init: &Init) {
    init.when_system("running");
    init.tell("set-target", &json!({"targets": ["base"], "want": ["bomb"]}));
}

/// Runs a bomb that takes all pids, after the setup `taking`. The bomb replaces its processes that
/// are killed.
fn fills(files: Sandbox, taking: &str) -> Init {
    files.unit("bomb", "stop-timeout: 500ms\nexec-start: DAEMON --multiply");
    others(&files);
    let init = after(&format!("echo {PIDS} >/proc/sys/kernel/pid_max; {taking}"), files);
    let init = init.start("base");
    starts_the_bomb(&init);
    let all = || init.process().neighbours();
    until("the bomb has started", || (all().len() > PIDS / 2).then_some(()));
    // The kernel does not reuse lower pids here.
    let young = |process: &Process| process.inner_pid() > Some(300);
    let gone = until("enough processes of the bomb exist", || {
        let of_it = init.processes_of("bomb");
        let young: Vec<Process> = of_it.into_iter().filter(young).take(20).collect();
        (young.len() == 20).then_some(young)
    });
    let left = all().len() - gone.len();
    gone.iter().for_each(|process| process.end());
    until("it is as large as before", || {
        let is_gone = gone.iter().all(|process| !process.is_alive());
        (is_gone && all().len() > left + gone.len() / 2).then_some(())
    });
    init
}

/// Runs a bomb of processes that each start the next one and exit. Only SIGKILL ends them.
fn flees(files: Sandbox, taking: &str) -> Init {
    files.put("next.sh", "sh $0 & exit 0\n");
    files.put("first.sh", "trap '' TERM; for i in 1 2 3 4 5 6 7 8; do sh $1/next.sh & done\nwhile :; do sleep 1000000; done\n");
    files.unit("bomb", "stop-timeout: 500ms\nexec-start: /bin/sh DIR/first.sh DIR");
    others(&files);
    let init = after(taking, files).start("base");
    starts_the_bomb(&init);
    let mut seen = BTreeSet::new();
    until("many processes have run", || {
        seen.extend(init.processes_of("bomb"));
        (seen.len() > 100).then_some(())
    });
    init
}

/// Checks that the stop ends all processes within its timeout.
fn stop_ends_the_bomb(init: Init) {
    let base = init.status().main_pid("base");
    init.tell("set-target", &json!({"targets": ["base"]}));
    let status = init.when("it is down", |s| {
        s.main_pid("bomb").is_none() && ["disabled", "failed"].contains(&s.state("bomb"))
    });
    assert_eq!(status.reason("bomb"), "stop-timeout", "{}", status.table());
    let events = init.initctl_json_lines(&["events"]);
    let given_up = events.iter().find(|event| event["reason"]["kind"] == "unkillable");
    assert_eq!(given_up, None, "all processes are gone in time");
    assert!(init.processes_of("bomb").is_empty(), "a stopped unit has no process");
    until("no process of it is left", || (init.process().neighbours().len() < 10).then_some(()));
    init.tell("set-target", &json!({"targets": ["base", "other"]}));
    init.when_state("other", "running");
    assert_eq!(init.status().main_pid("base"), base);
    init.finish();
}

#[test]
fn stop_ends_a_fork_bomb_that_fills_the_pids() {
    let Some(files) = few_pids() else {
        return groundstate_tests::not_run!("the highest pid is the whole machine's here");
    };
    stop_ends_the_bomb(fills(files, "true"));
}

#[test]
fn stop_ends_a_fork_bomb_of_short_lived_processes() {
    let init = flees(Sandbox::new(), "true");
    if init.status().0["tracking"] != "cgroup2" {
        return groundstate_tests::not_run!("no cgroup v2 here");
    }
    stop_ends_the_bomb(init);
}

#[test]
fn stop_ends_a_fork_bomb_that_fills_the_pids_without_cgroups() {
    let Some(files) = few_pids() else {
        return groundstate_tests::not_run!("the highest pid is the whole machine's here");
    };
    let init = fills(files, "umount -R -l /sys");
    assert_eq!(init.status().0["tracking"], "process-group");
    stop_ends_the_bomb(init);
}

#[test]
fn stop_ends_a_fork_bomb_of_short_lived_processes_without_cgroups() {
    let init = flees(Sandbox::new(), "umount -R -l /sys");
    assert_eq!(init.status().0["tracking"], "process-group");
    stop_ends_the_bomb(init);
}
