//! The world changes between an action and a crash. A new look after the crash would give another
//! answer, so init keeps its earlier decision. Starts and exits before a crash are in
//! [`super::crash_start_once`].

use super::crash::{BOTH, has_its_program, has_survived, starts};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::{Steps, crash, crash_when, wait_for_commit};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::json;

/// A command that mounts a tmpfs at /run and then executes init.
pub(super) const TMP: [&str; 4] = ["/bin/sh", "-c", "mount -t tmpfs none /run; exec \"$@\"", "sh"];

/// An init with the unit `web`, which is not started yet.
pub(super) fn at_work(text: &str, wrapper: &[&str]) -> Init {
    let files = Sandbox::new();
    files.unit("web", text);
    files.unit("all", "type: virtual");
    let mut init = Boot::new(files).through(wrapper).start("all");
    init.when_system("running");
    init.expect_crashes();
    wait_for_commit(&init);
    init
}

#[test]
fn readiness_sent_by_an_exited_process_is_remembered_after_a_crash() {
    for wrapper in BOTH {
        let text = "type: foreground-notified\nnotify-access: all\nexec-start: /bin/sh -c 'echo start >>DIR/web.trace; DAEMON --notify --exit 0 --exit-after 300 & wait; echo >DIR/alone; exec sleep 1000'";
        let init = at_work(text, wrapper);
        init.tell("want", &json!({"target": "web"}));
        init.when_state("web", "running");
        until("the sender of READY has exited", || {
            init.sandbox.path("alone").exists().then_some(())
        });
        let main = init.main_of("web");
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, 1);
        init.tell("ping", &json!({}));
        assert_eq!(init.status().state("web"), "running", "{}", init.output());
        assert_eq!((init.main_of("web"), starts(&init, "web")), (main, 1), "{}", init.output());
        init.finish_after_crash();
    }
}

#[test]
fn ambiguous_main_process_stays_unknown_after_a_crash() {
    for wrapper in BOTH {
        let text = "type: background-pidfile\nmain-pid: guess\nexec-start: /bin/sh -c 'setsid sleep 1234 & setsid sleep 4321 &'";
        let init = at_work(text, wrapper);
        init.tell("want", &json!({"target": "web"}));
        init.when_state("web", "running");
        assert_eq!(init.status().main_pid("web"), None, "two processes: neither is the main one");
        let is = |which: &'static str| {
            move |it: &Process| it.read("cmdline").is_some_and(|line| line.contains(which))
        };
        let one = until("the first process has executed sleep", || {
            init.processes_of("web").into_iter().find(is("1234"))
        });
        one.signal(Signal::SIGKILL);
        until("one is left", || (init.processes_of("web").len() == 1).then_some(()));
        init.tell("ping", &json!({}));
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, 1);
        init.when_state("web", "running");
        assert_eq!(init.status().main_pid("web"), None, "{}", init.output());
        init.finish_after_crash();
    }
}

#[test]
fn remover_of_an_old_runtime_directory_does_not_remove_the_next_one() {
    let init = at_work("runtime-dir: web\nexec-start: DAEMON --trace DIR/web.trace", &TMP);
    init.tell("want", &json!({"target": "web"}));
    init.when_state("web", "running");
    let main = init.main_of("web");
    let mut client = init.client().unwrap();
    let mut steps = Steps::of(&init);
    client.send("unwant", &json!({"target": "web"}));
    let remover = steps.until_forked(|_| main.state().is_none());
    steps.crash();
    drop(steps);
    has_survived(&init, 1);
    init.when_state("web", "disabled");
    init.tell("want", &json!({"target": "web"}));
    init.when_state("web", "running");
    let directory = format!("/proc/{}/root/run/web", init.process().0);
    let is_there = || std::path::Path::new(&directory).exists();
    assert!(is_there());
    goes_on(remover);
    until("the process has exited", || remover.state().is_none().then_some(()));
    assert!(is_there(), "{}", init.output());
    init.finish_after_crash();
}

#[test]
fn a_child_that_has_not_executed_at_two_crashes_starts_its_program_once() {
    for wrapper in BOTH {
        let init = at_work("exec-start: DAEMON --trace DIR/web.trace", wrapper);
        let mut client = init.client().unwrap();
        let mut steps = Steps::of(&init);
        client.send("want", &json!({"target": "web"}));
        let child = steps.until_forked(|_| clones(&init));
        steps.crash();
        steps.until_executed();
        // From here on init survives the next crash, and nothing is committed yet.
        steps.until(|call| call.number == libc::SYS_epoll_ctl);
        steps.crash();
        drop(steps);
        has_survived(&init, 2);
        goes_on(child);
        init.when_state("web", "running");
        until("the service has started", || (starts(&init, "web") > 0).then_some(()));
        assert_eq!((init.main_of("web"), starts(&init, "web")), (child, 1), "{}", init.output());
        init.finish_after_crash();
    }
}

#[test]
fn exec_stop_post_gets_no_signal_of_the_stop_after_a_crash() {
    for wrapper in BOTH {
        let text = "exec-start: DAEMON --trace DIR/main.trace\nexec-stop-post: DAEMON --trace DIR/web.trace";
        let init = at_work(text, wrapper);
        init.tell("want", &json!({"target": "web"}));
        init.when_state("web", "running");
        wait_for_commit(&init);
        init.tell("unwant", &json!({"target": "web"}));
        until("its last command has started", || (starts(&init, "web") > 0).then_some(()));
        crash(&init, Signal::SIGSEGV);
        has_survived(&init, 1);
        init.tell("ping", &json!({}));
        assert_eq!(init.sandbox.trace("web.trace").len(), 2, "{}", init.output());
        init.finish_after_crash();
    }
}

/// Continues the process if it still exists.
fn goes_on(process: Process) {
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(process.0), Signal::SIGCONT);
}

#[test]
fn accepted_connection_ends_with_its_service_after_a_crash() {
    let files = Sandbox::new();
    files.unit(
        "front",
        "type: socket\nsocket-accept: yes\nactivates: echo@\nlisten-stream: DIR/front.sock",
    );
    files.unit("echo@", "stdin: socket\nexec-start-pre: /bin/sh -c 'until test -e DIR/go; do sleep 0.02; done'\nexec-start: /bin/sh -c 'echo start >>DIR/web.trace; exec 0<&- 1>&- 2>&- 3<&-; exec sleep 1000'");
    let mut init = Boot::new(files).start("front");
    init.expect_crashes();
    init.when_system("running");
    let mut connection =
        std::os::unix::net::UnixStream::connect(init.sandbox.path("front.sock")).unwrap();
    init.when_state("echo@0", "starting");
    wait_for_commit(&init);
    crash_when(&init, || _ = init.sandbox.put("go", ""), |call| has_its_program(&init, call));
    has_survived(&init, 1);
    init.when_state("echo@0", "running");
    until("the service has started", || (starts(&init, "web") > 0).then_some(()));
    connection.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut connection, &mut rest).expect("the connection is closed");
    assert_eq!(starts(&init, "web"), 1, "{}", init.output());
    init.finish_after_crash();
}

/// Returns true while init clones a process of a unit; its helpers are forked.
pub(super) fn clones(init: &Init) -> bool {
    let call = init.process().read("syscall").unwrap_or_default();
    call.split(' ').next().and_then(|number| number.parse().ok()) == Some(libc::SYS_clone3)
}
