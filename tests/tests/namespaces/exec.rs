//! Attributes across an exec of init: those that the exec resets, and those that init and its
//! children keep.

use super::crash::has_survived;
use super::saved_state::until_steady;
use groundstate_tests::boot::{Boot, Init, Way};
use groundstate_tests::crash::crash;
use groundstate_tests::deadline::{until, within};
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// SIGCHLD, as in /proc/PID/status.
const CHILD: u64 = 1 << (libc::SIGCHLD - 1);
/// Descriptors that init may have been started with beside the first three.
const INHERITED: usize = 4;

/// Attributes of a process that an exec may change, and whether its descriptors survive the next
/// exec.
fn outfit(process: Process) -> BTreeMap<String, String> {
    let status = [
        "Name",
        "Umask",
        "Uid",
        "Gid",
        "Groups",
        "SigBlk",
        "SigIgn",
        "SigCgt",
        "CapInh",
        "CapPrm",
        "CapEff",
        "CapBnd",
        "CapAmb",
        "NoNewPrivs",
        "Seccomp",
    ];
    let files =
        ["limits", "oom_score_adj", "comm", "coredump_filter", "personality", "timerslack_ns"];
    let of_status = status.map(|key| (key, process.status(key)));
    let of_files = files.map(|name| (name, process.read(name)));
    let links = ["cwd", "root"]
        .map(|name| (name, process.link(name).map(|path| path.to_string_lossy().into_owned())));
    let all = of_status.into_iter().chain(of_files).chain(links);
    let mut found: BTreeMap<String, String> =
        all.filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
    let stays_open = process.files().into_keys().filter(|number| *number > 2).filter(|number| {
        let text = process.read(&format!("fdinfo/{number}")).unwrap_or_default();
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & libc::O_CLOEXEC == 0)
    });
    // Descriptors that init was started with are not leaks of init.
    found
        .insert("inherits".into(), if stays_open.count() > INHERITED { "more" } else { "" }.into());
    // Init blocks it except while it waits.
    let blocked = found.get("SigBlk").and_then(|text| u64::from_str_radix(text, 16).ok());
    found.insert("SigBlk".into(), format!("{:x}", blocked.unwrap_or(0) & !CHILD));
    found
}

fn an_exec_changes_nothing(way: Way) {
    let is_root = nix::unistd::geteuid().is_root();
    let through: &[&str] =
        if is_root { &["setpriv", "--securebits=+keep_caps_locked"] } else { &[] };
    let files = Sandbox::new();
    files.unit("fork", "exec-start: DAEMON --control DIR/fork");
    files
        .unit("tick", "type: timer\ntimer-unit-active: 200ms\ntimer-active: 100ms\nactivates: job");
    files.unit("job", "type: oneshot\nexec-start: /bin/sh -c 'echo x >>DIR/job.trace'");
    // Attributes of init that /proc does not show are inherited by each of its children.
    files.unit(
        "heir",
        "type: oneshot\nexec-start: /bin/sh -c '{ setpriv --dump; echo /heir; } >DIR/heir'",
    );
    files.unit("all", "type: virtual\nwaits-for: fork, tick, heir");
    let mut init = Boot::new(files).way(way).through(through).start("all");
    init.expect_crashes();
    init.when_state("fork", "running");
    let heir = || {
        init.when_state("heir", "exited");
        fs::remove_file(init.sandbox.path("heir")).unwrap();
        init.tell("restart", &json!({"targets": ["heir"]}));
        until("heir has run", || Some(init.sandbox.read("heir")).filter(|t| t.ends_with("/heir\n")))
    };
    let inherited = heir();
    let bits =
        inherited.lines().find(|line| line.starts_with("Securebits:")).expect("its securebits");
    assert_eq!(bits.contains("keep_caps_locked"), !through.is_empty(), "{inherited}");
    // Init blocks all signals for a moment while it makes a child.
    let before =
        until("it waits", || Some(outfit(init.process())).filter(|outfit| outfit["SigBlk"] == "0"));
    assert_eq!(before["Name"], "init");
    let steps: [&dyn Fn(&Init); 2] =
        [&|init| drop(init.tell("upgrade", &json!({}))), &|init| crash(init, Signal::SIGSEGV)];
    for (number, exec) in (0..).zip(steps) {
        until_steady(&init);
        exec(&init);
        has_survived(&init, number);
        let same =
            within(Duration::from_secs(10), || (outfit(init.process()) == before).then_some(()));
        assert!(same.is_some(), "{:#?}\nbefore: {before:#?}", outfit(init.process()));
        assert_eq!(heir(), inherited);
        // Init still adopts orphans.
        let adopted = || {
            let main = init.main_of("fork");
            let of_it = init.processes_of("fork").into_iter().filter(|p| *p != main);
            of_it.filter(|p| p.stat_field(1) == Some(init.process().0)).count()
        };
        let had = adopted();
        init.sandbox.order("fork", "orphan 1");
        until("init adopts it", || (adopted() == had + 1).then_some(()));
    }
    init.finish_after_crash();
}

#[test]
fn exec_of_init_changes_no_attribute_of_the_process() {
    an_exec_changes_nothing(Way::best());
    an_exec_changes_nothing(Way::Supervisor);
}
