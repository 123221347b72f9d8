//! Children of init that block in different ways. PID 1 waits for none of them, and a stop ends
//! them.

use super::restricted_environments::pair;
use super::shortage::supervises;
use groundstate_tests::boot::Boot;
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::tracer::Tracer;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use serde_json::json;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

#[test]
fn pid_1_waits_for_no_child_of_any_kind() {
    let init = Boot::new(pair()).start("web");
    init.when_system("running");
    let calls = [
        "-e",
        "trace=wait4,waitid,epoll_wait,epoll_pwait,poll,ppoll,select,nanosleep,clock_nanosleep,futex",
    ];
    let tracer = Tracer::attach(init.process(), &init.sandbox.path("strace"), &calls);
    for _ in 0..5 {
        let db = init.main_of("db");
        db.signal(Signal::SIGSTOP);
        init.tell("ping", &json!({}));
        db.signal(Signal::SIGKILL);
        init.when("it is running again", |s| {
            s.system() == "running"
                && s.main_pid("db").is_some_and(|pid| db.inner_pid() != Some(pid))
        });
    }
    let lines = tracer.detach();
    let waits: Vec<&String> = lines.iter().filter(|line| line.starts_with("wait")).collect();
    assert!(!waits.is_empty(), "it reaps");
    assert!(waits.iter().all(|line| line.contains("WNOHANG")), "{waits:?}");
    let others = ["poll(", "ppoll(", "select(", "nanosleep(", "clock_nanosleep(", "futex("];
    let waits = lines.iter().find(|line| others.iter().any(|call| line.starts_with(call)));
    assert_eq!(waits, None, "init waits only in its poll");
    init.finish();
}

/// Holds a process in a ptrace stop until it is killed. The tracer sees its exit first, init after
/// that.
fn hold(process: Process) -> JoinHandle<WaitStatus> {
    let (ready, is_ready) = channel();
    let holder = std::thread::spawn(move || {
        let pid = Pid::from_raw(process.0);
        ptrace::seize(pid, ptrace::Options::empty()).expect("it can be traced");
        ptrace::interrupt(pid).expect("it can be stopped");
        waitpid(pid, None).expect("it stops");
        ready.send(()).expect("the receiver exists");
        // The process stays in any other stop it enters.
        loop {
            let status = waitpid(pid, None).expect("the process is still traced");
            if matches!(status, WaitStatus::Signaled(..) | WaitStatus::Exited(..)) {
                return status;
            }
        }
    });
    is_ready.recv().expect("it is held");
    holder
}

#[test]
fn traced_stopped_and_exec_blocked_processes_block_no_unit_and_can_be_stopped() {
    let files = pair();
    for unit in ["stopped", "traced"] {
        files.unit(unit, "stop-timeout: 500ms\nexec-start: DAEMON");
    }
    // strace holds the child just before its exec for as long as it lives.
    let held = "-e trace=execve -e inject=execve:delay_enter=1000000000 -P /proc/self/exe";
    files.unit("parent", &format!("stop-timeout: 500ms\nexec-start: strace -D -f -qq -o DIR/strace {held} DAEMON --children 1"));
    files.unit("all", "type: virtual\nwaits-for: web, stopped, traced, parent");
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let [stopped, traced, parent] = ["stopped", "traced", "parent"].map(|unit| init.main_of(unit));
    stopped.signal(Signal::SIGSTOP);
    until("it is stopped", || (stopped.state() == Some('T')).then_some(()));
    let holder = hold(traced);
    assert_eq!(traced.state(), Some('t'));
    let child = until("it waits for its child, which is held", || {
        let child = parent.children().into_iter().find(|child| child.state() == Some('t'))?;
        (parent.state() == Some('D')).then_some(child)
    });
    supervises(&init);
    let before = init.status();
    for (unit, main) in [("stopped", stopped), ("traced", traced), ("parent", parent)] {
        assert_eq!(before.main_pid(unit), main.inner_pid(), "{unit} is as it was");
    }
    init.tell("set-target", &json!({"targets": ["web"]}));
    for unit in ["stopped", "traced", "parent"] {
        let status = init.when(&format!("{unit} is down"), |s| {
            s.main_pid(unit).is_none() && ["disabled", "failed"].contains(&s.state(unit))
        });
        assert_ne!(status.reason(unit), "unkillable", "{unit}: {}", status.table());
    }
    let ended = holder.join().expect("it was held until its exit");
    assert!(matches!(ended, WaitStatus::Signaled(_, Signal::SIGKILL, _)), "{ended:?}");
    assert!([stopped, traced, parent, child].iter().all(|process| !process.is_alive()));
    let after = init.status();
    assert_eq!((after.main_pid("db"), after.system()), (before.main_pid("db"), "running"));
    init.finish();
}
