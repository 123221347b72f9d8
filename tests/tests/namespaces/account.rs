//! /etc/passwd on a file system that does not answer, or that is not a regular file. A child may
//! block in it, PID 1 never does. Also users that are removed later, or that are in too many
//! groups.

use super::child_setup::{alone, inside as path_inside};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::silent::Silent;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::Signal;
use serde_json::json;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;

const PASSWD: &str = "/etc/passwd";

/// Runs `work` in init's mount namespace, on a thread of its own because setns(2) requires that.
fn inside(init: &Init, work: impl FnOnce() + Send) {
    let there = File::open(format!("/proc/{}/ns/mnt", init.process().0)).expect("init is running");
    let go = move || {
        unshare(CloneFlags::CLONE_FS).expect("we are root");
        setns(&there, CloneFlags::CLONE_NEWNS).expect("we are root");
        work();
    };
    std::thread::scope(|scope| scope.spawn(go).join().expect("the work is done"));
}

/// Mounts the file that does not answer over /etc/passwd.
fn cover(init: &Init) {
    let file = init.sandbox.path("silent/file");
    let bind = || mount(Some(&file), PASSWD, None::<&str>, MsFlags::MS_BIND, None::<&str>);
    inside(init, || bind().expect("it can be covered"));
}

#[test]
fn unresponsive_passwd_blocks_only_the_loader_and_the_children_that_read_it() {
    let files = Sandbox::new();
    std::fs::create_dir(files.path("silent")).unwrap();
    files.unit("web", "user: root\nexec-start: DAEMON");
    files.unit("other", "user: root\nexec-start: DAEMON");
    // The child looks this user up before it executes the program.
    let asks = "type: oneshot\nstart-timeout: 300ms\nrestart: never\ncondition-user: nobody\nexec-start: /bin/true";
    files.unit("asks", asks);
    let init = Boot::new(files).start("web");
    init.when_system("running");
    let Some(silent) = Silent::new(init.process(), &init.sandbox.path("silent")) else {
        groundstate_tests::not_run!("no FUSE here");
        return init.finish();
    };
    cover(&init);
    let mut asker = init.client().expect("init listens");
    asker.send("reload", &json!({}));
    silent.until_reading(1);
    // The loader is blocked. Services still restart, start and stop.
    assert_eq!(init.tell("ping", &json!({}))["pid"], 1);
    let first = init.main_of("web");
    first.signal(Signal::SIGKILL);
    until("web is restarted", || (init.main_of("web") != first).then_some(()));
    init.tell("set-target", &json!({"targets": ["web"], "want": ["other", "asks"]}));
    init.when_state("other", "running");
    silent.until_reading(2);
    // A process that waits in this way ignores even SIGKILL.
    init.when("init gives up", |s| s.reason("asks") == "unkillable");
    init.tell("set-target", &json!({"targets": ["web"]}));
    init.when_state("other", "disabled");
    // Init gives up a load that takes too long; nothing has changed.
    let second = init.main_of("web");
    let refused = asker.answer().expect("an answer").expect_err("it is refused");
    let why = refused["message"].as_str().unwrap_or_default();
    assert!(why.contains("longer than 30 s"), "{refused}");
    assert_eq!(init.main_of("web"), second);
    // The next load does not wait for the stuck loader.
    inside(&init, || umount2(PASSWD, MntFlags::MNT_DETACH).expect("it is covered"));
    init.tell("reload", &json!({}));
    drop(silent);
    init.when("the unit can start again", |s| s.reason("asks") != "unkillable");
    assert_eq!(init.status().state("web"), "running");
    init.finish();
}

#[test]
fn boot_fails_with_a_message_when_the_loader_cannot_be_killed() {
    let files = Sandbox::new();
    std::fs::create_dir(files.path("silent")).unwrap();
    files.unit("web", "exec-start: DAEMON");
    let go = files.at("go");
    nix::unistd::mkfifo(go.as_str(), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    let waits = format!("read word <{go}; exec \"$@\"");
    let mut init = Boot::new(files).through(&["/bin/sh", "-c", &waits, "sh"]).launch("web");
    let Some(silent) = Silent::new(init.process(), &init.sandbox.path("silent")) else {
        groundstate_tests::not_run!("no FUSE here");
        return init.sandbox.order("go", "go");
    };
    cover(&init);
    init.sandbox.order("go", "go");
    silent.until_reading(1);
    until("init gives up", || init.output().contains("does not exit after SIGKILL").then_some(()));
    // A PID namespace ends only when its last process has exited.
    drop(silent);
    assert_ne!(init.ended().code(), Some(0));
    let said = init.output();
    assert!(said.contains("cannot reach the goal (web: no unit provides it) or"), "{said}");
    assert!(said.contains("unit directories: /"), "{said}");
}

#[test]
fn passwd_that_is_a_fifo_is_neither_read_nor_waited_for() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON");
    files.unit("named", "user: daemon\nexec-start: DAEMON");
    files.unit("all", "type: virtual\nwaits-for: web, named");
    let fifo = files.at("fifo");
    nix::unistd::mkfifo(fifo.as_str(), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    let covered = format!("mount --bind {fifo} /etc/passwd && exec \"$@\"");
    let init = Boot::new(files).through(&["/bin/sh", "-c", &covered, "sh"]).start("all");
    init.when_state("web", "running");
    // A user that cannot be looked up fails the unit; the unit does not run as root instead.
    let failed = init.when_state("named", "failed");
    assert!(failed.unit("named").to_string().contains("user"), "{}", failed.table());
    init.finish();
}

/// A boot with these users in /etc/passwd; each is a member of that many groups, numbered from
/// 5000.
fn with_users(files: Sandbox, users: &[(&str, u32, u32)]) -> Boot {
    let mut script = String::new();
    for (name, uid, count) in users {
        script.push_str(&format!("echo {name}:x:{uid}:4700::/:/bin/sh >>/etc/passwd\n"));
        for group in 0..*count {
            script
                .push_str(&format!("echo {name}{group}:x:{}:{name} >>/etc/group\n", 5000 + group));
        }
    }
    alone(files).through(&["sh", "-c", &format!("{script}exec \"$@\""), "sh"])
}

/// Makes a directory that every user may write to.
fn open(files: &Sandbox) {
    std::fs::create_dir(files.path("open")).unwrap();
    std::fs::set_permissions(files.path("open"), std::fs::Permissions::from_mode(0o777)).unwrap();
}

/// A command that records the uid of each run of a unit.
const TELLS: &str =
    "exec-start: /bin/sh -c 'id -u >>DIR/open/$GROUNDSTATE_UNIT; exec DAEMON --children 2'";

#[test]
fn removed_user_runs_nothing_after_the_next_load() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    open(&files);
    files.unit("web", &format!("user: leaver\nrestart: always\nrestart-delay: 1ms\n{TELLS}"));
    files.unit("none", "type: virtual");
    let init = with_users(files, &[("leaver", 4711, 2)]).start("web");
    let is_his = || {
        let all = until("it has its children", || {
            Some(init.processes_of("web")).filter(|all| all.len() == 3)
        });
        for process in all {
            // Real, effective, saved, and that of the file system.
            assert_eq!(process.status("Uid").unwrap(), "4711\t4711\t4711\t4711");
            assert_eq!(process.status("Gid").unwrap(), "4700\t4700\t4700\t4700");
            assert_eq!(process.status("Groups").unwrap(), "5000 5001");
        }
    };
    init.when_state("web", "running");
    is_his();
    let passwd = path_inside(&init, PASSWD);
    let with = std::fs::read_to_string(&passwd).unwrap();
    let without: String = with
        .lines()
        .filter(|line| !line.starts_with("leaver:"))
        .map(|line| format!("{line}\n"))
        .collect();
    std::fs::write(&passwd, without).unwrap();
    // The running generation was loaded before the user was removed, so a restart still uses the
    // old uid.
    let first = init.main_of("web");
    first.end();
    until("it has another main process", || (init.main_of("web") != first).then_some(()));
    is_his();
    init.tell("reload", &json!({}));
    let started = init.sandbox.trace("open/web").len();
    init.tell("set-target", &json!({"targets": ["none"]}));
    init.when_state("web", "disabled");
    init.tell("set-target", &json!({"targets": ["web"]}));
    let failed = init.when_state("web", "failed");
    assert!(failed.unit("web")["reason"].to_string().contains("leaver"), "{}", failed.unit("web"));
    assert!(init.processes_of("web").is_empty());
    assert_eq!(init.sandbox.trace("open/web").len(), started, "no further run started");
    std::fs::write(&passwd, with).unwrap();
    init.tell("reload", &json!({}));
    init.tell("retry", &json!({"targets": ["web"]}));
    init.when_state("web", "running");
    is_his();
    assert!(init.sandbox.trace("open/web").iter().all(|uid| uid == "4711"));
    init.finish();
}

#[test]
fn user_in_more_groups_than_the_limit_runs_nothing() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    open(&files);
    files.unit("just", &format!("user: just\n{TELLS}"));
    files.unit("beyond", &format!("user: beyond\nrestart: never\n{TELLS}"));
    files.unit("all", "type: virtual\nwaits-for: just, beyond");
    let init = with_users(files, &[("just", 4711, 32), ("beyond", 4712, 33)]).start("all");
    let failed = init.when("one runs, one does not", |s| {
        s.state("just") == "running" && s.state("beyond") == "failed"
    });
    let why = failed.unit("beyond")["reason"].to_string();
    assert!(why.contains("33 supplementary groups"), "{why}");
    let groups = until("it has its program", || init.main_of("just").status("Groups"));
    let all: Vec<String> = (5000..5032).map(|group| group.to_string()).collect();
    assert_eq!(groups, all.join(" "));
    assert!(init.sandbox.trace("open/beyond").is_empty());
    init.finish();
}
