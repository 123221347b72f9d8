//! Something init or its children need is not there, full, or fails: what can go on goes on,
//! what can not is named, nothing runs with less than it asked for, and all is well afterwards.

use super::ways::{NO_PROC, after, pair};
use groundstate_tests::boot::{Boot, Init, Way};
use groundstate_tests::deadline::until;
use groundstate_tests::tracer::{Tracer, injected};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::Signal;
use serde_json::json;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A unit that ends is noticed and started again.
pub(crate) fn supervises(init: &Init) {
    let before = init.when_system("running");
    init.main_of("db").signal(Signal::SIGKILL);
    init.when("db is replaced", |s| {
        s.system() == "running" && s.main_pid("db") != before.main_pid("db")
    });
}

#[test]
fn whatever_is_missing_around_it_init_supervises() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("it takes root");
    }
    for taking in [
        "mount -o remount,hidepid=2 /proc",
        "mount -t tmpfs -o ro none /dev",
        "mount -t tmpfs -o ro none /run",
        "umount -l /sys/fs/cgroup/unified || true",
        "umount -R -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup",
        &format!("umount -R -l /sys; mount -t tmpfs -o ro none /dev; {NO_PROC}"),
    ] {
        let init = after(taking, pair()).start("web");
        supervises(&init);
        init.finish();
    }
}

#[test]
fn without_inotify_it_supervises() {
    let boot = after("echo 0 >/proc/sys/user/max_inotify_instances", pair());
    let init = boot.way(Way::UserNamespace).start("web");
    supervises(&init);
    init.finish();
}

#[test]
fn for_each_newer_system_call_there_is_another_way() {
    let mut missed = Vec::new();
    for call in ["pidfd_open", "close_range", "openat2", "clone3", "memfd_create", "statx"] {
        let files = pair();
        let inject = format!("inject={call}:error=ENOSYS");
        let trace = files.at("strace");
        let few = "--nofile=256:256";
        let wrapper = ["prlimit", few, "strace", "-f", "-qq", "-o", &trace, "-e", &inject];
        let mut init = Boot::new(files).through(&wrapper).way(Way::Supervisor).start("web");
        init.when_system("running");
        init.tell("exit", &json!({}));
        assert_eq!(init.ended().code(), Some(0), "without {call}");
        if init.sandbox.read("strace").contains("INJECTED") {
            missed.push(call);
        }
    }
    assert!(missed.len() >= 4, "of these it has missed {missed:?} alone");
}

/// A file system of 64 KiB; gone with the value.
struct Small(PathBuf);

impl Small {
    fn new(path: &Path) -> Small {
        let options = Some("size=64k,nr_inodes=40,mode=755");
        mount(Some("small"), path, Some("tmpfs"), MsFlags::empty(), options).expect("root mounts");
        Small(path.to_owned())
    }

    /// Nothing more fits into it.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filling");
        let mut file = std::fs::File::create(&path).expect("there is room for one");
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
fn a_full_disk_under_init_and_its_logs_stops_nobody() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("it takes root");
    }
    let files = pair();
    files.unit("loud", "exec-start: DAEMON --name loud --control DIR/loud");
    files.unit("all", "type: virtual\ndepends-on: web, loud");
    let small = ["run", "log"].map(|name| Small::new(&files.path(name)));
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let filled = small.each_ref().map(Small::fill);
    init.sandbox.order("loud", "lines 5000");
    supervises(&init);
    init.tell("reload", &json!({}));
    init.tell("set-target", &json!({"targets": ["web"]}));
    init.when_state("loud", "disabled");
    // Nothing is cut short that was whole before.
    let refused = init.initctl(&["mask", "loud", "--runtime"]);
    assert_ne!(refused.status.code(), Some(101), "initctl does not panic");
    filled.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    for small in &small {
        for number in 0..40 {
            let _ = std::fs::remove_file(small.0.join(format!("inode{number}")));
        }
    }
    init.tell("set-target", &json!({"targets": ["all"]}));
    init.when_system("running");
    init.sandbox.order("loud", "say there is room again");
    until("what is said afterwards is kept", || {
        let said = init.initctl(&["logs", "loud", "-n", "5"]).stdout;
        String::from_utf8_lossy(&said).contains("room again").then_some(())
    });
    drop(init.finish_and_keep());
    drop(small);
}

#[test]
fn want_of_memory_and_descriptors_at_each_call_is_survived() {
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
        // Whoever asks meanwhile may be turned away.
        if let Some(mut client) = init.client() {
            client.send("reload", &json!({}));
            client.answer();
        }
        until("its end is noticed", || (!db.is_alive()).then_some(()));
        reached += usize::from(injected(&tracer.detach()) > 0);
        init.when("both are new", |s| {
            let other = |unit: &str, pid| s.main_pid(unit).is_some_and(|now| now != pid);
            s.system() == "running" && web.is_some_and(|pid| other("web", pid))
        });
    }
    assert!(reached >= 5, "{reached} of them were reached");
    init.finish();
}

#[test]
fn a_console_nobody_reads_holds_up_nobody() {
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
    until("it is kept, though nobody sees it on the console", || {
        let said = init.initctl(&["logs", "loud", "-n", "5"]).stdout;
        String::from_utf8_lossy(&said).contains("the last of them").then_some(())
    });
    init.tell("reload", &json!({}));
    init.finish();
}
