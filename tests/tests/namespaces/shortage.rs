//! A resource that init or its children need is missing, exhausted or failing. Everything that can
//! continue does, and init reports the rest. No program runs with less than it requested, and init
//! recovers afterwards.

use super::process_endings::cgroup;
use super::restricted_environments::{NO_PROC, after, pair};
use groundstate_tests::boot::{Boot, Init, Way};
use groundstate_tests::deadline::{until, within};
use groundstate_tests::sandbox::{Sandbox, program};
use groundstate_tests::status::Status;
use groundstate_tests::tracer::{Tracer, injected};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::Signal;
use serde_json::json;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Checks that init notices an exit and restarts the unit.
pub(crate) fn supervises(init: &Init) {
    let before = init.when_system("running");
    init.main_of("db").signal(Signal::SIGKILL);
    init.when("db is replaced", |s| {
        s.system() == "running" && s.main_pid("db") != before.main_pid("db")
    });
}

/// Checks that init reports each missing resource once.
fn tells_once(init: &Init, lacks_proc: bool) {
    let output = init.output();
    let told = |text: &str| output.matches(text).count();
    let by_descent = init.status().0["tracking"] == "process-group";
    assert_eq!(told("tracking processes by descent"), usize::from(by_descent), "{output}");
    let no_crash = told("cannot arm crash recovery: /proc is missing");
    assert_eq!(no_crash, usize::from(lacks_proc), "{output}");
    // Messages about units may repeat.
    let of_a_unit = |line: &&str| ["db: ", "web: "].iter().any(|unit| line.starts_with(unit));
    let own = output.lines().filter_map(|line| line.strip_prefix("groundstate: "));
    let mut own: Vec<&str> = own.filter(|line| !of_a_unit(line)).collect();
    own.sort_unstable();
    let twice = own.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "{output}");
}

#[test]
fn init_supervises_whichever_resource_is_missing() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let nothing_at_all = format!("umount -R -l /sys; {NO_PROC}; mount -t tmpfs -o ro none /dev");
    // If the tree is in /tmp, no program could run without it.
    let is_there = program("GROUNDSTATE_INIT", "init").starts_with("/tmp");
    let no_tmp = if is_there { "true" } else { NO_TMP };
    for taking in [
        "mount -o remount,hidepid=2 /proc",
        "mount -t tmpfs -o ro none /dev",
        "mount -t tmpfs -o ro none /run",
        no_tmp,
        "umount -l /sys/fs/cgroup/unified || true",
        "umount -R -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup",
        &nothing_at_all,
    ] {
        let files = pair();
        let taking = taking.replace("DIR", &files.at(""));
        let init = after(&taking, files).start("web");
        supervises(&init);
        tells_once(&init, taking.contains(NO_PROC));
        init.finish();
    }
}

/// /tmp holds only the test's own directory and is read-only.
const NO_TMP: &str = "mount -t tmpfs none /run && mkdir /run/kept && mount --bind DIR /run/kept && \
                      mount -t tmpfs none /tmp && mkdir -p DIR && mount --bind /run/kept DIR && \
                      mount -o remount,ro /tmp || exit 9";

#[test]
fn init_reaps_children_although_its_state_cannot_be_stored() {
    let files = Sandbox::new();
    // More children than the inbox has entries.
    let fork = "n=0; while [ $n -lt 4600 ]; do (true &) ; n=$((n+1)); done";
    files.unit("many", &format!("type: oneshot\nexec-start: /bin/sh -c '({fork})'"));
    // The file size limit allows the inbox, but not the state store.
    let boot = after("ulimit -f 800", files);
    let init = boot.way(Way::UserNamespace).start("many");
    init.when_state("many", "exited");
    init.finish();
}

#[test]
fn init_supervises_without_inotify() {
    let boot = after("echo 0 >/proc/sys/user/max_inotify_instances", pair());
    let init = boot.way(Way::UserNamespace).start("web");
    supervises(&init);
    init.finish();
}

/// Path units of each kind, the units that they activate, and a service beside them.
fn eyes() -> Sandbox {
    let files = pair();
    files.unit("appears", "type: path\npath-exists: DIR/flag\nactivates: one");
    files.unit("one", "exec-start: DAEMON");
    files.unit("changes", "type: path\npath-changed: DIR/written\nactivates: other");
    files.unit("other", "type: oneshot\nexec-start: DAEMON --exit 0 --trace DIR/other");
    files.unit("all", "type: virtual\ndepends-on: web, appears, changes");
    files.put("written", "at first");
    files
}

#[test]
fn paths_are_polled_without_inotify_or_free_watches() {
    for what in ["max_inotify_instances", "max_inotify_watches"] {
        let boot = after(&format!("echo 0 >/proc/sys/user/{what}"), eyes());
        let init = boot.way(Way::UserNamespace).start("all");
        supervises(&init);
        init.sandbox.put("flag", "");
        init.when_state("one", "running");
        for times in 1..=2 {
            // A rename is one change; a poll could see a truncate and a write separately.
            init.sandbox.put("new", &format!("again {times}"));
            std::fs::rename(init.sandbox.path("new"), init.sandbox.path("written")).unwrap();
            until("it fires each time", || {
                let all = init.sandbox.trace("other");
                (all.iter().filter(|word| *word == "ready").count() == times).then_some(())
            });
            init.when("it may fire again", |s| s.state("other") == "disabled");
        }
        init.finish();
    }
}

/// The process is in the cgroup of a run, and its parent is not init. So only inotify reports its
/// exit to init.
#[test]
fn empty_cgroup_is_noticed_without_inotify() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = pair();
    files.unit("parent", "stop-timeout: 300ms\nexec-start: DAEMON --children 1 --ignore TERM");
    files.unit(
        "host",
        "stop-timeout: 300s\nexec-start: DAEMON\nexec-stop-post: /bin/touch DIR/over",
    );
    files.unit("none", "type: virtual\nwaits-for: web, parent");
    files.unit("all", "type: virtual\nwaits-for: web, parent, host");
    let boot = after("echo 0 >/proc/sys/user/max_inotify_instances", files);
    let init = boot.way(Way::UserNamespace).start("all");
    supervises(&init);
    let main = init.main_of("parent");
    let child = until("it has a child", || main.children().first().copied());
    let main_of_host = init.main_of("host");
    let Some(dir) = cgroup(main_of_host) else {
        groundstate_tests::not_run!("no cgroup v2 here");
        return init.finish();
    };
    std::fs::write(format!("{dir}/cgroup.procs"), child.0.to_string()).expect("it can be moved");
    init.tell("set-target", &json!({"targets": ["none"]}));
    until("its own process has ended", || (!main_of_host.is_alive()).then_some(()));
    // No other event wakes init; a client request would make it look at all cgroups.
    let _ = within(Duration::from_secs(1), || None::<()>);
    assert!(child.is_alive(), "the child ignores the signal");
    child.end();
    let is_over = || init.sandbox.path("over").exists().then_some(());
    until("the command after the last exit has run", is_over);
    assert!(!child.is_alive());
    init.when_state("host", "disabled");
    init.finish();
}

#[test]
fn timers_fire_without_a_timer_descriptor() {
    let files = pair();
    files.unit(
        "often",
        "type: timer\ntimer-active: 100ms\ntimer-unit-active: 150ms\nactivates: job",
    );
    files.unit("tick", "type: timer\ntimer-calendar: '*:*:*'\nactivates: other");
    for job in ["job", "other"] {
        files.unit(job, &format!("type: oneshot\nexec-start: DAEMON --exit 0 --trace DIR/{job}"));
    }
    files.unit("timers", "type: virtual\nwants: often, tick, web");
    let init = Boot::new(files).start("web");
    supervises(&init);
    for calls in ["timerfd_create", "timerfd_settime"] {
        let inject = format!("inject={calls}:error=EMFILE");
        let arguments = ["-f", "-e", &format!("trace={calls}"), "-e", &inject];
        let output = init.sandbox.path(&format!("{calls}.strace"));
        let tracer = Tracer::attach(init.process(), &output, &arguments);
        init.tell("set-target", &json!({"targets": ["timers"]}));
        for job in ["job", "other"] {
            let fired = || init.sandbox.trace(job).iter().filter(|word| *word == "ready").count();
            let before = fired();
            until("it fires", || (fired() > before + 1).then_some(()));
        }
        assert!(injected(&tracer.detach()) > 0, "{calls}");
        init.tell("set-target", &json!({"targets": ["web"]}));
        init.when_state("tick", "disabled");
    }
    init.finish();
}

#[test]
fn units_exit_start_and_become_ready_while_epoll_accepts_no_descriptor() {
    let files = pair();
    files.unit(
        "forked",
        "type: background-pidfile\npid-file: DIR/run/forked\nexec-start: DAEMON --pid-file DIR/run/forked",
    );
    files.unit("all", "type: virtual\ndepends-on: web, forked");
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let mut client = init.client().expect("it listens");
    let mut status = || Status(client.ask("status", &json!({})).expect("an answer"));
    let mut before = status();
    let arguments = ["-e", "trace=epoll_ctl", "-e", "inject=epoll_ctl:error=ENOSPC"];
    let tracer = Tracer::attach(init.process(), &init.sandbox.path("strace"), &arguments);
    // `db` reports ready on the notify socket, `web` by a line of output.
    for _ in 0..3 {
        let mains = |status: &Status| ["db", "web", "forked"].map(|unit| status.main_pid(unit));
        let old = mains(&before);
        for pid in [old[0], old[2]].into_iter().flatten() {
            init.process().neighbour(pid).expect("the process exists").signal(Signal::SIGKILL);
        }
        before = until("all units have new main processes", || {
            let now = status();
            let is_new = mains(&now).iter().zip(old).all(|(new, old)| new.is_some() && *new != old);
            (is_new && now.system() == "running").then_some(now)
        });
        // A new client is answered or turned away.
        let mut other = init.client().expect("it listens");
        other.send("ping", &json!({}));
        let _ = other.answer();
    }
    assert!(injected(&tracer.detach()) > 0);
    init.finish();
}

#[test]
fn daemon_is_found_restarted_and_stopped_without_pidfds() {
    let files = Sandbox::new();
    files.unit("old", "type: background-pidfile\npid-file: DIR/run/old.pid\nrestart-delay: 50ms\nexec-start: DAEMON --pid-file DIR/run/old.pid");
    files.unit(
        "guessed",
        "type: background-scripted\nexec-start: /bin/sh -c 'DAEMON --pid-file DIR/run/guessed.pid'",
    );
    files.unit("all", "type: virtual\ndepends-on: old\nwaits-for: guessed");
    files.unit("none", "type: virtual");
    let trace = files.at("strace");
    let inject = "inject=pidfd_open:error=ENOSYS";
    let wrapper = ["strace", "-f", "-qq", "-o", &trace, "-e", inject];
    let mut init = Boot::new(files).through(&wrapper).way(Way::Supervisor).start("all");
    let before = init.when_system("running").main_pid("old");
    init.main_of("old").end();
    init.when("the daemon is restarted", |s| {
        s.system() == "running" && s.main_pid("old").is_some() && s.main_pid("old") != before
    });
    let main = init.main_of("old");
    init.tell("set-target", &json!({"targets": ["none"]}));
    init.when_state("old", "disabled");
    assert!(!main.is_alive());
    init.tell("exit", &json!({}));
    assert_eq!(init.ended().code(), Some(0));
    assert!(init.sandbox.read("strace").contains("INJECTED"), "the call was made");
}

/// A tmpfs of 64 KiB, unmounted when the value is dropped.
struct Small(PathBuf);

impl Small {
    fn new(path: &Path) -> Small {
        let options = Some("size=64k,nr_inodes=40,mode=755");
        mount(Some("small"), path, Some("tmpfs"), MsFlags::empty(), options).expect("root mounts");
        Small(path.to_owned())
    }

    fn fill(&self) -> PathBuf {
        let path = self.0.join("filling");
        let mut file = std::fs::File::create(&path).expect("the file can be made");
        while file.write_all(&[b'x'; 512]).is_ok() {}
        let mut number = 0;
        while std::fs::File::create(self.0.join(format!("inode{number}"))).is_ok() {
            number += 1;
        }
        path
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

#[test]
fn full_disk_under_the_runtime_and_log_directories_stops_no_unit() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = pair();
    files.unit("loud", "exec-start: DAEMON --name loud --control DIR/loud");
    files.unit("all", "type: virtual\ndepends-on: web, loud");
    files.unit("other", "type: virtual");
    let small = ["run", "log"].map(|name| Small::new(&files.path(name)));
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let masked = init.initctl(&["mask", "other", "--runtime"]);
    assert!(masked.status.success(), "{masked:?}");
    let policy = init.tell("ping", &json!({}))["paths"]["runtime-policy"].clone();
    let policy = || std::fs::read_to_string(policy.as_str().expect("its place")).unwrap();
    let before = policy();
    assert!(before.contains("other"), "{before}");
    let filled = small.each_ref().map(Small::fill);
    init.sandbox.order("loud", "lines 5000");
    supervises(&init);
    init.tell("reload", &json!({}));
    init.tell("set-target", &json!({"targets": ["web"]}));
    init.when_state("loud", "disabled");
    // The old policy file stays complete.
    let refused = init.initctl(&["mask", "loud", "--runtime"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert_eq!(policy(), before);
    filled.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    for small in &small {
        for number in 0..40 {
            let _ = std::fs::remove_file(small.0.join(format!("inode{number}")));
        }
    }
    init.tell("set-target", &json!({"targets": ["all"]}));
    init.when_system("running");
    init.sandbox.order("loud", "say there is room again");
    until("later lines are logged", || {
        let said = init.initctl(&["logs", "loud", "-n", "5"]).stdout;
        String::from_utf8_lossy(&said).contains("room again").then_some(())
    });
    let left = init.finish_and_keep();
    drop(small);
    drop(left);
}

#[test]
fn failed_allocations_and_descriptors_at_many_calls_are_survived() {
    let init = Boot::new(pair()).start("web");
    init.when_system("running");
    let mut reached = 0;
    for (error, calls) in [
        ("EMFILE", "accept4"),
        ("ENFILE", "accept4"),
        ("EMFILE", "pipe2,memfd_create,pidfd_open,socketpair,socket,timerfd_create,eventfd2"),
        ("EMFILE", "openat,openat2,open"),
        ("ENOMEM", "epoll_ctl,mmap,brk,mremap,clone3,clone"),
        ("ENOSPC", "epoll_ctl,mkdirat,mkdir"),
        ("EIO", "openat,readlink,readlinkat,mkdirat,unlinkat"),
    ] {
        let inject = format!("inject={calls}:error={error}:when=1..8");
        let arguments = ["-e", &format!("trace={calls}"), "-e", &inject];
        let (db, web) = (init.main_of("db"), init.status().main_pid("web"));
        let tracer = Tracer::attach(init.process(), &init.sandbox.path("strace"), &arguments);
        db.signal(Signal::SIGKILL);
        // A client that connects meanwhile may be turned away.
        if let Some(mut client) = init.client() {
            client.send("reload", &json!({}));
            client.answer();
        }
        until("its exit is noticed", || (!db.is_alive()).then_some(()));
        reached += usize::from(injected(&tracer.detach()) > 0);
        init.when("both are restarted", |s| {
            let other = |unit: &str, pid| s.main_pid(unit).is_some_and(|now| now != pid);
            s.system() == "running" && web.is_some_and(|pid| other("web", pid))
        });
    }
    assert!(reached >= 5, "{reached} of them were reached");
    init.finish();
}

#[test]
fn unread_console_blocks_neither_init_nor_a_unit() {
    let files = pair();
    files.unit("loud", "exec-start: DAEMON --name loud --control DIR/loud");
    files.unit("all", "type: virtual\ndepends-on: web, loud");
    nix::unistd::mkfifo(&files.path("console"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut console = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
        .open(files.path("console"))
        .unwrap();
    while console.write(&[b'x'; 4096]).is_ok() {}
    while console.write(b"x").is_ok() {}
    let script = format!("exec \"$0\" \"$@\" >{} 2>&1", files.at("console"));
    let init = Boot::new(files).through(&["/bin/sh", "-c", &script]).start("all");
    supervises(&init);
    init.sandbox.order("loud", "lines 20000");
    init.sandbox.order("loud", "say the last of them");
    until("the line is logged although the console is blocked", || {
        let said = init.initctl(&["logs", "loud", "-n", "5"]).stdout;
        String::from_utf8_lossy(&said).contains("the last of them").then_some(())
    });
    init.tell("reload", &json!({}));
    assert!(init.dropped("lines-not-said") > 0, "init has logged both restarts");
    init.sandbox.order("loud", "lines 20000");
    until("lines lost on the console are counted", || {
        (init.dropped("lines-not-shown") > 0).then_some(())
    });
    let shown = init.initctl(&["stats"]).stdout;
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(shown.contains("lines not shown: ") && !shown.contains("cut off"), "{shown}");
    init.finish();
}
