//! Crashes of init: it restores its state, and services and clients do not notice.

use super::hierarchy::BARE;
use super::upgrade::{assert_work_completes, at_work, fixed, numbers};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::{Call, FAULTS, Steps, crash, crash_when, wait_for_commit};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::{Sandbox, copy_of_init};
use groundstate_tests::storm::{Blow, Storm};
#[cfg(target_arch = "x86_64")]
use groundstate_tests::sweep;
use nix::sys::signal::Signal;
use serde_json::json;
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// The wrappers that run init with cgroups and without.
pub(super) const BOTH: [&[&str]; 2] = [&[], &["/bin/sh", "-c", BARE, "sh"]];

/// The number of crashes that init reports as survived. Returns `None` if it does not answer or
/// crashes meanwhile.
fn survived(init: &Init) -> Option<u64> {
    let mut client = init.client()?;
    client.send("stats", &json!({}));
    client.answer()?.ok()?["crashes"].as_u64()
}

pub(crate) fn crashes(init: &Init) -> u64 {
    until("init answers", || survived(init))
}

/// Returns true if the call has cloned a process of a unit that then executes its program.
pub(super) fn has_its_program(init: &Init, call: &Call) -> bool {
    let is_clone = [libc::SYS_clone3, libc::SYS_clone].contains(&call.number);
    is_clone
        && call.result > 0
        && until("it has its program, or has ended", || {
            let child = i32::try_from(call.result).unwrap_or(0);
            let Some(child) = init.process().neighbour(child) else { return Some(false) };
            let is_it = child.environment().contains_key("GROUNDSTATE_UNIT");
            // A helper that has named itself never executes a program.
            let name = child.read("comm").unwrap_or_default();
            let is_helper = name.starts_with("groundstate-") || name.starts_with("init: ");
            (is_it || is_helper || !child.is_alive()).then_some(is_it)
        })
}

#[test]
fn crash_of_init_changes_no_service_and_loses_no_event() {
    let mut init = at_work();
    init.expect_crashes();
    let before = init.status();
    let mut follower = init.client().unwrap();
    follower.send("events", &json!({"follow": true, "after": 0}));
    let mut waiter = init.client().unwrap();
    waiter.send("wait", &json!({}));
    // A request that arrives just before a crash may stay unanswered.
    wait_for_commit(&init);
    for (survived, fault) in (0..).zip(FAULTS.into_iter().chain(FAULTS)) {
        init.sandbox.order("plain", &format!("say round {survived}"));
        // A crash soon after the previous one is another case.
        let alive = init.status();
        let fired = init.sandbox.trace("job.trace").len();
        until("the last crash is some time ago", || {
            (init.sandbox.trace("job.trace").len() > fired + 1).then_some(())
        });
        assert_eq!(fixed(&alive), fixed(&before));
        crash(&init, fault);
        until("init has recovered", || (crashes(&init) == survived + 1).then_some(()));
        let after = init.status();
        assert_eq!(fixed(&after), fixed(&before), "after {fault}");
        assert!(after.0["resumed"].is_string());
    }
    let said = || {
        let log = init.initctl(&["logs", "plain", "-n", "100"]);
        String::from_utf8_lossy(&log.stdout).matches("round").count()
    };
    until("every line is in the log", || (said() == 10).then_some(()));
    assert_work_completes(&init);
    assert!(
        waiter.answer().is_some_and(|answer| answer.is_ok()),
        "the waiting client gets an answer"
    );
    let last = init.tell("ping", &json!({}))["seq"].as_u64().unwrap();
    let told = numbers(&mut follower, last);
    assert!((1..=last).all(|number| told.contains(&number)), "no event is missing");
    drop((follower, waiter));
    init.check();
    init.tell("exit", &json!({}));
    assert_eq!(init.ended().code(), Some(0));
}

pub(crate) fn has_survived(init: &Init, times: u64) {
    until("init has recovered", || (crashes(init) == times).then_some(()));
}

/// The number of starts that the stand-in service has recorded in its trace.
pub(crate) fn starts(init: &Init, unit: &str) -> usize {
    let words = init.sandbox.trace(&format!("{unit}.trace"));
    words.iter().filter(|word| word.starts_with("start")).count()
}

/// A service counts as running once it is started, and may not have written its trace by then.
pub(crate) fn until_traced(init: &Init, unit: &str) {
    until(&format!("{unit} has traced its start"), || (starts(init, unit) > 0).then_some(()));
}

#[test]
fn notification_read_just_before_a_crash_is_not_lost() {
    let mut init = at_work();
    init.expect_crashes();
    let before = init.main_of("starting");
    let read = |call: &Call| call.number == libc::SYS_recvmmsg && call.result == 1;
    crash_when(&init, || init.sandbox.order("starting", "ready"), read);
    has_survived(&init, 1);
    init.when_state("starting", "running");
    assert_eq!((init.main_of("starting"), starts(&init, "starting")), (before, 1));
    init.finish_after_crash();
}

#[test]
fn exit_status_reaped_just_before_a_crash_is_not_lost() {
    let mut init = at_work();
    init.expect_crashes();
    let first = init.main_of("notified");
    let reaped = |call: &Call| call.number == libc::SYS_waitid && first.state().is_none();
    crash_when(&init, || init.sandbox.order("notified", "exit 7"), reaped);
    has_survived(&init, 1);
    init.when("its exit was not lost", |s| {
        s.state("notified") == "running" && init.main_of("notified") != first
    });
    let events = init.initctl_json_lines(&["events"]);
    let of_it = events.iter().filter(|event| event["unit"] == "notified");
    let codes: Vec<i64> = of_it.filter_map(|event| event["reason"]["code"].as_i64()).collect();
    assert!(codes.contains(&7) && !codes.contains(&255), "{codes:?}");
    assert_eq!((init.processes_of("notified").len(), starts(&init, "notified")), (1, 2));
    init.finish_after_crash();
}

#[test]
fn output_of_a_process_that_redirects_stdout_in_a_crash_is_still_read() {
    let files = Sandbox::new();
    let script = "echo x >>DIR/aside.trace; exec 3>&1 >/dev/null 2>&1; while [ ! -e DIR/go ]; do sleep 0.05; done; echo after the crash >&3; exec sleep inf";
    files.unit("aside", &format!("exec-start: /bin/sh -c '{script}'"));
    files.unit("all", "type: virtual");
    let mut init = Boot::new(files).start("all");
    init.when_system("running");
    init.expect_crashes();
    let mut client = init.client().expect("it listens");
    let is_aside = |call: &Call| {
        if call.number != libc::SYS_clone3 || call.result <= 0 {
            return false;
        }
        let inner = i32::try_from(call.result).unwrap_or(0);
        until("its output is redirected, or it is another process", || {
            let Some(process) = init.process().neighbour(inner) else { return Some(false) };
            let output = process.link("fd/1");
            output.is_some_and(|to| to.as_os_str() == "/dev/null").then_some(true)
        })
    };
    crash_when(&init, || client.send("want", &json!({"target": "aside"})), is_aside);
    has_survived(&init, 1);
    init.when_state("aside", "running");
    init.sandbox.put("go", "");
    until("its output is read", || {
        let log = init.initctl(&["logs", "aside", "-n", "100"]);
        String::from_utf8_lossy(&log.stdout).contains("after the crash").then_some(())
    });
    assert_eq!(init.sandbox.trace("aside.trace").len(), 1, "its pipe was not closed");
    init.finish_after_crash();
}

/// A socket unit, and a service that gets the socket at its start.
fn with_a_socket() -> (Init, String) {
    let files = Sandbox::new();
    let address = {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        free.local_addr().expect("its address").to_string()
    };
    files.unit("door", &format!("type: socket\nlisten-stream: {address}\nactivates: echo"));
    files.unit("echo", "depends-on: door\nexec-start: LISTENER");
    files.unit("tick", "type: timer\ntimer-unit-active: 50ms\ntimer-active: 50ms\nactivates: job");
    files.unit("job", "type: oneshot\nexec-start: /bin/true");
    let mut init = Boot::new(files).start("tick");
    init.expect_crashes();
    (init, address)
}

#[test]
fn socket_opened_just_before_a_crash_and_its_service_are_kept() {
    let (init, address) = with_a_socket();
    init.when_state("tick", "running");
    let mut client = init.client().expect("it listens");
    let pid = std::cell::Cell::new(0);
    let started = |call: &Call| {
        if call.number != libc::SYS_clone3 || call.result <= 0 {
            return false;
        }
        let Some(process) = init.process().neighbour(i32::try_from(call.result).unwrap_or(0))
        else {
            return false;
        };
        let unit_or_exit = || {
            let unit = process.environment().get("GROUNDSTATE_UNIT").cloned();
            unit.or_else(|| (!process.is_alive()).then(String::new))
        };
        // The child that opens a socket never executes a program and exits soon.
        let is_it = until("it executes its program or exits", unit_or_exit) == "echo";
        pid.set(if is_it { call.result } else { 0 });
        is_it
    };
    crash_when(&init, || client.send("want", &json!({"target": "echo"})), started);
    has_survived(&init, 1);
    let after = init
        .when("both are running", |s| s.state("door") == "running" && s.state("echo") == "running");
    assert_eq!(after.main_pid("echo").map(i64::from), Some(pid.get()), "it was started once");
    let mut stream = TcpStream::connect(&address).expect("it listens");
    stream.write_all(b"hello\n").expect("it takes");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.contains("hello"), "{answer}");
    init.finish_after_crash();
}

#[test]
fn start_without_an_exec_before_a_crash_runs_one_process_after_it() {
    let mut init = at_work();
    init.expect_crashes();
    let first = init.main_of("notified");
    let cloned =
        |call: &Call| call.number == libc::SYS_clone3 && call.result > 0 && first.state().is_none();
    crash_when(&init, || first.signal(Signal::SIGKILL), cloned);
    has_survived(&init, 1);
    init.when("it runs", |s| s.state("notified") == "running");
    until("it has one process", || (init.processes_of("notified").len() == 1).then_some(()));
    assert_eq!(init.processes_of("notified"), [init.main_of("notified")]);
    init.finish_after_crash();
}

#[test]
fn output_pipe_of_a_start_between_two_commands_is_read_after_a_crash() {
    let files = Sandbox::new();
    files.unit("tick", "type: timer\ntimer-unit-active: 50ms\ntimer-active: 50ms\nactivates: job");
    files.unit("job", "type: oneshot\nexec-start: /bin/true");
    let pre = "exec-start-pre: /bin/sh -c 'echo x >>DIR/pre.trace'";
    files.unit("two", &format!("{pre}\nready-grep: ^here\nstart-timeout: 10m\nexec-start: /bin/sh -c 'echo here; exec sleep inf'"));
    files.unit("all", "type: virtual\nwaits-for: tick");
    let mut init = Boot::new(files).start("all");
    init.when_system("running");
    init.expect_crashes();
    let is_logger = |it: &Process| it.status("Name").is_some_and(|it| it == "groundstate-log");
    let logger = init.process().children().into_iter().find(is_logger).expect("it exists");
    let pipes = || logger.files().values().filter(|file| file.contains("pipe:")).count();
    let mut client = init.client().expect("it listens");
    let before = pipes();
    let mut steps = Steps::of(&init);
    client.send("want", &json!({"target": "two"}));
    steps.until(|call| {
        // The cheap test comes first. Around some calls init has a timer of 1 ms, which would
        // interrupt them without end if each stop took longer than that.
        call.number == libc::SYS_waitid
            && !init.sandbox.trace("pre.trace").is_empty()
            && pipes() > before
            && init.processes_of("two").is_empty()
    });
    steps.crash();
    steps.until_executed();
    // A reader has time to see the end of the pipe, if there is one.
    steps.until(|call| {
        call.number >= 0 && (pipes() <= before || !init.processes_of("two").is_empty())
    });
    drop(steps);
    has_survived(&init, 1);
    init.when_state("two", "running");
    init.finish_after_crash();
}

#[test]
fn exit_of_a_process_started_and_reaped_in_one_turn_is_kept_after_a_crash() {
    for wrapper in BOTH {
        let files = Sandbox::new();
        files.unit("all", "type: virtual");
        let mut init = Boot::new(files).through(wrapper).start("all");
        init.when_system("running");
        init.expect_crashes();
        let script = "until test -e DIR/go; do sleep 0.02; done";
        init.sandbox.unit("once", &format!("type: oneshot\nexec-start: /bin/sh -c '{script}'"));
        init.sandbox.unit("all", "type: virtual\nwaits-for: once");
        let mut client = init.client().expect("it listens");
        let mut steps = Steps::of(&init);
        client.send("reload", &json!({}));
        let started = Cell::new(0);
        // Init has reaped the loader, and starts the new unit before it reaps the next child.
        steps.until(|call| {
            started.set(call.result);
            has_its_program(&init, call)
        });
        let inner = i32::try_from(started.get()).expect("a pid");
        let child = init.process().neighbour(inner).expect("the process of the unit");
        init.sandbox.put("go", "");
        until("the process has exited", || (child.state() == Some('Z')).then_some(()));
        steps.until(|call| call.number == libc::SYS_waitid && child.state().is_none());
        steps.crash();
        drop(steps);
        has_survived(&init, 1);
        init.when_state("once", "exited");
        init.finish_after_crash();
    }
}

#[test]
fn crash_after_a_failed_stop_command_is_survived() {
    let files = Sandbox::new();
    let stop = "exec-stop: /bin/sh -c 'touch DIR/stopped; exit 1'";
    files.unit("web", &format!("stop-timeout: 30s\nexec-start: DAEMON --ignore TERM\n{stop}"));
    files.unit("all", "type: virtual");
    let mut init = Boot::new(files).start("all");
    init.when_system("running");
    init.expect_crashes();
    init.tell("want", &json!({"target": "web"}));
    init.when_state("web", "running");
    let main = init.main_of("web");
    init.tell("unwant", &json!({"target": "web"}));
    init.when_state("web", "stopping");
    until("the stop command has exited", || {
        let has_run = init.sandbox.path("stopped").exists();
        (has_run && init.processes_of("web") == [main]).then_some(())
    });
    wait_for_commit(&init);
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    assert_eq!(init.status().state("web"), "stopping", "{}", init.output());
    main.signal(Signal::SIGKILL);
    init.when("web has stopped", |status| ["disabled", "failed"].contains(&status.state("web")));
    init.finish_after_crash();
}

#[test]
fn a_crash_after_an_answer_keeps_the_change_that_was_answered() {
    let files = Sandbox::new();
    files.unit("all", "type: virtual");
    files.unit("other", "type: virtual");
    let mut init = Boot::new(files).start("all");
    init.when_system("running");
    init.expect_crashes();
    let mut client = init.client().expect("it listens");
    let mut steps = Steps::of(&init);
    // A virtual unit starts without a process, so no effect of this turn needs a commit.
    client.send("want", &json!({"target": "other"}));
    steps.until(|_| client.has_answer());
    steps.crash();
    drop(steps);
    assert!(client.answer().is_some_and(|answer| answer.is_ok()));
    has_survived(&init, 1);
    init.when_state("other", "running");
    init.finish_after_crash();
}

#[test]
fn exit_requested_just_before_a_crash_is_carried_out() {
    let mut init = at_work();
    init.expect_crashes();
    let mut client = init.client().unwrap();
    let asked = |call: &Call| {
        // Init logs the shutdown before it does anything else.
        call.number == libc::SYS_write && init.output().contains("stopping everything")
    };
    crash_when(&init, || client.send("exit", &json!({"code": 3})), asked);
    init.sandbox.order("stubborn", "exit 0");
    assert_eq!(init.ended().code(), Some(3));
}

#[test]
fn init_in_a_cgroup_of_its_own_does_not_kill_itself_after_a_crash() {
    let mut init = at_work();
    init.expect_crashes();
    let cgroup = |process: Process| {
        let text = process.read("cgroup")?;
        text.lines().find_map(|line| line.strip_prefix("0::").map(str::to_owned))
    };
    let of_run = cgroup(init.main_of("notified")).unwrap_or_default();
    let Some((ours, _)) = of_run.split_once("/notified.") else {
        return groundstate_tests::not_run!("no cgroup v2 here");
    };
    let mounts = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
    let aside = mounts.map(|root| format!("{root}{ours}/init"));
    // If controllers require it, init itself moves to such a cgroup. Here the test moves it.
    let aside = aside.iter().find(|path| std::fs::create_dir(path).is_ok()).expect("it is free");
    let of_init = cgroup(init.process());
    for helper in init.process().neighbours().into_iter().filter(|one| cgroup(*one) == of_init) {
        std::fs::write(format!("{aside}/cgroup.procs"), helper.0.to_string())
            .expect("the write succeeds");
    }
    let before = init.status();
    wait_for_commit(&init);
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    assert_eq!(fixed(&init.status()), fixed(&before));
    assert_work_completes(&init);
}

#[test]
fn new_binary_that_crashes_at_once_is_replaced_by_the_previous_one() {
    let mut init = at_work();
    init.expect_crashes();
    let before = init.status();
    let program = || init.process().link("exe").expect("it has a program");
    let old = program();
    let new = copy_of_init(&init.sandbox, "new-init", None);
    init.tell("upgrade", &json!({"binary": new}));
    assert_eq!(program().to_str(), Some(new.as_str()));
    crash(&init, Signal::SIGABRT);
    has_survived(&init, 1);
    assert_eq!((program(), fixed(&init.status())), (old, fixed(&before)));
    assert_work_completes(&init);
}

#[test]
fn repeated_crashes_of_init_end_no_service() {
    let mut init = at_work();
    init.expect_crashes();
    let (alive, other) = (init.main_of("notified"), init.main_of("plain"));
    let crashes_before = crashes(&init);
    for _ in 0..8 {
        // The next crash comes before init has run long enough to forget the last one.
        crash(&init, Signal::SIGSEGV);
        let is_caretaker = || init.output().contains("cannot restore its state");
        if is_caretaker() {
            break;
        }
        until("init has recovered or is a caretaker", || {
            (survived(&init).is_some() || is_caretaker()).then_some(())
        });
    }
    assert_eq!(crashes_before, 0);
    assert!(init.output().contains("crashed"), "{}", init.output());
    assert!(alive.is_alive(), "a service still runs");
    assert!(init.process().is_alive(), "PID 1 still runs");
    other.signal(Signal::SIGKILL);
    until("an exited process is reaped", || other.state().is_none().then_some(()));
    init.process().signal(Signal::SIGTERM);
    assert_eq!(init.ended().code(), Some(0), "init still ends at a signal");
    assert!(!alive.is_alive());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn crash_at_any_system_call_of_a_script_does_not_change_its_result() {
    let init = sweep::begin();
    // System calls at which a process starts or ends, and some between them. `tests/soak crashes`
    // takes all.
    for (number, calls) in [4, 33, 36, 72, 82, 106, 139, 240].into_iter().enumerate() {
        sweep::round(&init, number, calls);
    }
    init.finish_after_crash();
}

#[test]
fn crashes_among_two_hundred_services_change_no_service() {
    let mut storm = Storm::begin(1);
    for _ in 0..10 {
        storm.round(Blow::Crash);
    }
    storm.end();
}
