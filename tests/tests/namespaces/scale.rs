//! Many units, ignored files, directory entries and log lines, and an idle init. A soak run has ten
//! times as many.

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::{until, within};
use groundstate_tests::extent::turns;
use groundstate_tests::sandbox::Sandbox;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::json;
use std::time::Duration;

/// Init must stay idle for this long.
const REST: Duration = Duration::from_secs(1);

/// The number of context switches of PID 1.
fn switches(init: &Init) -> u64 {
    let count = |key| init.process().status(key).and_then(|text| text.parse::<u64>().ok());
    let of = |key| count(key).expect("the kernel counts");
    of("voluntary_ctxt_switches") + of("nonvoluntary_ctxt_switches")
}

/// Waits until PID 1 has been idle for a while.
pub(crate) fn comes_to_rest(init: &Init) {
    until("init is idle", || {
        let before = switches(init);
        within(REST, || (switches(init) != before).then_some(())).is_none().then_some(())
    });
}

fn kib(init: &Init, key: &str) -> u64 {
    let line = init.process().status(key).unwrap_or_default();
    line.split(' ').next().and_then(|word| word.parse().ok()).expect("a number of KiB")
}

#[test]
fn many_units_and_log_lines_take_little_memory_and_an_idle_init_does_not_run() {
    let (defined, running) = (turns(1_000, 10_000), turns(100, 1_000));
    let files = Sandbox::new();
    let mut needed = Vec::new();
    for number in 0..defined {
        let name = format!("unit-{number}");
        if number < running {
            needed.push(name.clone());
        }
        files.unit(&name, "description: one of many\nexec-start: /bin/sleep 100000");
    }
    files.unit("loud", "exec-start: DAEMON --name loud --control DIR/loud");
    files.unit("all", &format!("type: virtual\nwaits-for: [{}, loud]", needed.join(", ")));
    let mut init = Boot::new(files).start("all");
    let up = |s: &groundstate_tests::status::Status| {
        s.system() == "running" && needed.iter().all(|unit| s.state(unit) == "running")
    };
    init.when("all run", up);
    comes_to_rest(&init);
    let lines = turns(20_000, 200_000);
    let (before, memory) = (switches(&init), kib(&init, "RssAnon"));
    init.sandbox.order("loud", &format!("lines {lines}"));
    init.sandbox.order("loud", "say the last of them");
    until("all lines are in the log", || {
        let said = init.initctl(&["logs", "loud", "-n", "3"]).stdout;
        String::from_utf8_lossy(&said).contains("the last of them").then_some(())
    });
    comes_to_rest(&init);
    let woken = switches(&init) - before;
    println!("{defined} units, {running} run: {memory} KiB; {lines} lines: {woken} switches");
    assert!(woken < lines as u64 / 100, "{woken} switches for {lines} lines");
    // Private memory, without the mapped program.
    let most = 4096 + 2 * defined as u64;
    assert!(memory <= most, "{memory} KiB for {defined} units");
    init.may_keep_this_much();
    assert!(kib(&init, "RssAnon") <= memory + 1024, "lines are not kept by init");
    init.finish();
}

#[test]
fn directory_full_of_ignored_files_is_read() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON");
    for number in 0..turns(10_000, 100_000) {
        std::fs::write(files.path(&format!("units/{number}.nonsense")), "").unwrap();
    }
    let init = Boot::new(files).start("web");
    init.when_system("running");
    init.sandbox.unit("other", "exec-start: DAEMON");
    init.tell("reload", &json!({}));
    assert_eq!(init.status().state("other"), "disabled");
    init.finish();
}

#[test]
fn init_boots_and_reloads_without_a_free_inode() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON");
    let small = files.path("run");
    let options = Some("size=64k,nr_inodes=10,mode=755");
    mount(Some("small"), &small, Some("tmpfs"), MsFlags::empty(), options).expect("root mounts");
    let filled = |from: usize| {
        (from..).take_while(|n| std::fs::File::create(small.join(format!("f{n}"))).is_ok()).count()
    };
    assert!((4..10).contains(&filled(0)));
    // Leaves inodes only for the sockets.
    (0..3).for_each(|number| std::fs::remove_file(small.join(format!("f{number}"))).unwrap());
    let init = Boot::new(files).start("web");
    let before = init.when_system("running").main_pid("web");
    filled(100);
    init.sandbox.unit("other", "exec-start: DAEMON");
    init.tell("reload", &json!({}));
    let refused = init.initctl(&["mask", "other", "--runtime"]);
    assert_ne!(refused.status.code(), Some(0), "no space left");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("No space left"), "{said}");
    init.main_of("web").signal(nix::sys::signal::Signal::SIGKILL);
    init.when("web is replaced", |s| s.system() == "running" && s.main_pid("web") != before);
    let files = init.finish_and_keep();
    umount2(&files.path("run"), MntFlags::MNT_DETACH).expect("it was mounted");
}
