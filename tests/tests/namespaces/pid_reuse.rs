//! Reused pids: a process of a unit has exited, and before init acts, a process of no concern to
//! the unit gets its pid. That process, the canary, gets no signal, whatever init is asked to do.

use super::reaping::can_be_chosen;
use super::restricted_environments::after;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::Steps;
use groundstate_tests::deadline::until;
use groundstate_tests::extent::turns;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// Which process exits.
#[derive(Clone, Copy, Debug)]
enum Whose {
    /// Init's own child, the main process: the pid is free once init has reaped it.
    Direct,
    /// The main process that a pid file names, whose parent still runs.
    Forked,
    /// A child of another process of the unit.
    Member,
    /// A child of another process of a unit that ignores SIGTERM.
    Deaf,
}

impl Whose {
    const ALL: [Whose; 3] = [Whose::Direct, Whose::Forked, Whose::Member];

    fn unit(self) -> &'static str {
        match self {
            Whose::Direct => "direct",
            Whose::Forked => "forked",
            Whose::Member => "member",
            Whose::Deaf => "deaf",
        }
    }
}

fn files() -> Sandbox {
    let files = Sandbox::new();
    let at_once = "restart: always\nrestart-delay: 1ms\nrestart-reset: 1ms\nstop-timeout: 2s\nsuccess-status: [0, KILL]";
    let by_pid = "exec-reload: /bin/kill -HUP $MAINPID\nexec-stop: /bin/kill -TERM $MAINPID";
    files.unit("direct", &format!("{at_once}\n{by_pid}\nexec-start: /bin/sleep 1000000"));
    files.put(
        "parent.sh",
        "sleep 1000000 & echo $! >$1/run/forked.new; mv $1/run/forked.new $1/run/forked; wait; exec sleep 1000000\n",
    );
    files.unit(
        "forked",
        &format!(
            "type: background-pidfile\n{at_once}\n{by_pid}\npid-file: DIR/run/forked\n\
             exec-start: /bin/sh -c 'sh DIR/parent.sh DIR & while [ ! -s DIR/run/forked ]; do :; done'"
        ),
    );
    files.put("member.sh", "while :; do sleep 1000000 & echo $! >$1/member; wait; done\n");
    files.unit("member", &format!("{at_once}\nexec-start: /bin/sh DIR/member.sh DIR"));
    files.put("deaf.sh", "trap '' TERM\n. $1/member.sh\n");
    files.unit("deaf", "stop-timeout: 300ms\nexec-start: /bin/sh DIR/deaf.sh DIR");
    files.unit("alone", "type: virtual\nwaits-for: fate, deaf");
    // Gives its next child the requested pid, or leaves the pid to the next process of any parent.
    files.put(
        "fate.sh",
        "while read pid alone; do\n\
         echo $((pid-1)) >/proc/sys/kernel/ns_last_pid\n\
         if [ $alone ]; then echo $pid >>$1/left; continue; fi\n\
         \"$2\" --trace $1/canary --ignore TERM --ignore HUP --ignore INT --ignore USR1 &\n\
         echo $! >>$1/given\nwait\ndone 0<>$1/fate\n",
    );
    nix::unistd::mkfifo(&files.path("fate"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    files.unit("fate", "restart: never\nexec-start: /bin/sh DIR/fate.sh DIR DAEMON");
    files.unit("all", "type: virtual\nwaits-for: fate, direct, forked, member");
    files.unit("asked", "exec-start: /bin/sleep 1000000");
    files
}

/// The process that will exit, as the test sees it, and its pid.
fn victim(init: &Init, whose: Whose) -> (Process, i32) {
    init.when_state(whose.unit(), "running");
    until("the process exists", || {
        let pid = match whose {
            Whose::Direct | Whose::Forked => init.status().main_pid(whose.unit())?,
            Whose::Member | Whose::Deaf => init.sandbox.read("member").trim().parse().ok()?,
        };
        let process = init.process().neighbour(pid)?;
        let is_its =
            process.environment().get("GROUNDSTATE_UNIT").is_some_and(|unit| unit == whose.unit());
        let sleeps = process.read("comm").is_some_and(|name| name.trim() == "sleep");
        (is_its && sleeps).then_some((process, pid))
    })
}

/// Starts a canary with this pid if possible; also returns its actual pid.
fn canary(init: &Init, pid: i32) -> (Process, i32) {
    let given = init.sandbox.trace("given").len();
    init.sandbox.order("fate", &pid.to_string());
    let has = until("a process has been started", || {
        init.sandbox.trace("given").get(given)?.parse().ok()
    });
    until("it counts signals", || {
        (init.sandbox.trace("canary").len() == 2 * (given + 1)).then_some(())
    });
    (init.process().neighbour(has).expect("the process exists"), has)
}

/// Stops init until it gets SIGCONT.
fn hold(init: &Init) {
    init.process().signal(Signal::SIGSTOP);
    until("init is stopped", || (init.process().state() == Some('T')).then_some(()));
}

fn ask(init: &Init, whose: Whose, turn: usize) -> (&'static str, Value) {
    let targets = json!({"targets": [whose.unit()]});
    match turn % 4 {
        0 => ("restart", targets),
        1 => (
            "kill",
            json!({"targets": [whose.unit()], "signal": 15, "all": init.status().system() == "running"}),
        ),
        2 => ("reload-unit", targets),
        _ => ("set-target", json!({"targets": ["fate"]})),
    }
}

/// One process exits, and a canary gets its pid before init acts. Returns false if another process
/// took the pid first.
fn turn(init: &Init, whose: Whose, turn: usize) -> bool {
    let (process, pid) = victim(init, whose);
    let (verb, fields) = ask(init, whose, turn);
    let mut client = init.client().expect("it listens");
    // The next main process may get the pid of this one.
    let run = init.status().unit(whose.unit())["run"].clone();
    let is_gone = || process.state().is_none();
    let mut steps = None;
    match whose {
        Whose::Direct => {
            let held = steps.insert(Steps::of(init));
            process.end();
            held.until(|call| call.number == libc::SYS_waitid && is_gone());
        }
        Whose::Forked | Whose::Member | Whose::Deaf => {
            hold(init);
            process.end();
            until("its parent has reaped it", || is_gone().then_some(()));
        }
    }
    let (canary, has) = canary(init, pid);
    client.send(verb, &fields);
    drop(steps);
    init.process().signal(Signal::SIGCONT);
    // Granted or refused: init has handled the request.
    let _ = client.answer().expect("an answer");
    if verb == "set-target" {
        // Its exec-stop uses $MAINPID: without a main process the stop fails, and so does the unit.
        let down = if matches!(whose, Whose::Forked) { "failed" } else { "disabled" };
        init.when_state(whose.unit(), down);
        init.tell("set-target", &json!({"targets": ["all"]}));
    } else if matches!(whose, Whose::Member) {
        // After any of the requests, the rest of the unit is stopped.
        init.tell("restart", &json!({"targets": ["member"]}));
    }
    init.when("it is restarted", |s| {
        let is_new = s.main_pid(whose.unit()).is_some() && s.unit(whose.unit())["run"] != run;
        is_new && s.state(whose.unit()) == "running"
    });
    lives(init, canary, verb);
    has == pid
}

/// Checks that the canary received no signal, and ends it.
fn lives(init: &Init, canary: Process, what: &str) {
    let told = init.sandbox.trace("canary");
    let said = told.len() == 2 * init.sandbox.trace("given").len() && canary.is_alive();
    assert!(said, "{what}: the canary got a signal: {:?}", told.last());
    canary.end();
    until("the process has exited", || canary.state().is_none().then_some(()));
}

/// Asks init to signal all processes of a unit. After this many system calls one of them exits and
/// a canary gets its pid. Returns `None` if init had answered before, otherwise whether the canary
/// got the pid.
fn exits_after_calls(init: &Init, calls: usize) -> Option<bool> {
    let (process, pid) = victim(init, Whose::Deaf);
    let mut client = init.client().expect("it listens");
    client.ask("ping", &json!({})).expect("an answer");
    let mut steps = Steps::of(init);
    client.send("kill", &json!({"targets": ["deaf"], "signal": 15, "all": true}));
    let mut answers = false;
    for _ in 0..calls {
        let call = steps.step().expect("the process continues");
        answers = [libc::SYS_sendto, libc::SYS_write].contains(&call.number) && call.result > 0;
        if answers {
            break;
        }
    }
    process.end();
    until("its parent has reaped it", || process.state().is_none().then_some(()));
    let (canary, has) = canary(init, pid);
    drop(steps);
    client.answer().expect("an answer").expect("no refusal");
    lives(init, canary, &format!("after {calls} calls"));
    (!answers).then_some(has == pid)
}

fn at_each_call(boot: Boot, cycles: usize) {
    let init = boot.start("alone");
    init.when_system("running");
    let (mut same, mut tries, mut passes, mut at) = (0, 0, 0, 0);
    while same < cycles || passes == 0 {
        match exits_after_calls(&init, at) {
            Some(reused) => (same, at) = (same + usize::from(reused), at + 1),
            None => (passes, at) = (passes + 1, 0),
        }
        tries += 1;
        assert!(tries < 2 * cycles + 4_000, "{same} of {tries} reused the pid");
    }
    init.tell("kill", &json!({"targets": ["fate"], "signal": 9}));
    init.when_state("fate", "failed");
    init.finish();
}

fn come_again(boot: Boot, cycles: usize) {
    let init = boot.start("all");
    init.when_system("running");
    let (mut same, mut number) = (0, 0);
    while same < cycles {
        for whose in Whose::ALL {
            same += usize::from(turn(&init, whose, number));
        }
        number += 1;
        assert!(number < 2 * cycles, "{same} of {} reused the pid", 3 * number);
    }
    init.tell("kill", &json!({"targets": ["fate"], "signal": 9}));
    init.when_state("fate", "failed");
    init.finish();
}

/// A main process that is not init's child exits, and before init learns of it, init's own next
/// child gets the pid. Returns false if another process took the pid first.
fn next_child_of_init_gets_the_pid(init: &Init) -> bool {
    let (process, pid) = victim(init, Whose::Forked);
    let mut client = init.client().expect("it listens");
    client.ask("ping", &json!({})).expect("an answer");
    let left = init.sandbox.trace("left").len();
    let mut steps = Steps::of(init);
    client.send("want", &json!({"target": "asked"}));
    // Init reads the request, and learns of the exit in a later turn.
    loop {
        let call = steps.step().expect("the process continues");
        if [libc::SYS_recvmsg, libc::SYS_recvfrom].contains(&call.number) && call.result > 0 {
            break;
        }
    }
    process.end();
    until("its parent has reaped it", || process.state().is_none().then_some(()));
    init.sandbox.order("fate", &format!("{pid} alone"));
    until("the pid is next", || (init.sandbox.trace("left").len() > left).then_some(()));
    drop(steps);
    client.answer().expect("an answer").expect("no refusal");
    let has = init.when_state("asked", "running").main_pid("asked").expect("its process");
    init.when("it is restarted", |s| {
        let is_new = s.main_pid("forked").is_some_and(|now| now != pid);
        is_new && s.state("forked") == "running" && s.main_pid("asked") == Some(has)
    });
    init.tell("unwant", &json!({"target": "asked"}));
    init.when_state("asked", "disabled");
    assert!(init.process().neighbour(has).is_none(), "it was ended");
    has == pid
}

/// After a request to reload or restart its unit, a main process that is not init's child exits. A
/// canary gets its pid before init handles the exit or the request. Returns false if another
/// process took the pid first.
fn main_process_exits_after_a_request(init: &Init, verb: &'static str) -> bool {
    let (process, pid) = victim(init, Whose::Forked);
    let mut client = init.client().expect("it listens");
    client.ask("ping", &json!({})).expect("an answer");
    hold(init);
    client.send(verb, &json!({"targets": ["forked"]}));
    process.end();
    until("its parent has reaped it", || process.state().is_none().then_some(()));
    let (canary, has) = canary(init, pid);
    init.process().signal(Signal::SIGCONT);
    let _ = client.answer().expect("an answer");
    init.when("it is restarted", |s| {
        s.main_pid("forked").is_some_and(|now| now != pid) && s.state("forked") == "running"
    });
    lives(init, canary, verb);
    has == pid
}

#[test]
fn reused_pid_of_a_unit_is_never_signalled() {
    if !can_be_chosen() {
        return groundstate_tests::not_run!("the next pid cannot be chosen here");
    }
    come_again(Boot::new(files()), turns(250, 5_000));
}

#[test]
fn reused_pid_of_a_unit_is_never_signalled_without_cgroups() {
    if !can_be_chosen() {
        return groundstate_tests::not_run!("the next pid cannot be chosen here");
    }
    come_again(after("umount -R -l /sys", files()), turns(250, 5_000));
}

#[test]
fn pid_reused_while_a_whole_unit_is_signalled_is_never_signalled() {
    if !can_be_chosen() {
        return groundstate_tests::not_run!("the next pid cannot be chosen here");
    }
    at_each_call(Boot::new(files()), turns(250, 5_000));
}

#[test]
fn pid_reused_while_a_whole_unit_is_signalled_is_never_signalled_without_cgroups() {
    if !can_be_chosen() {
        return groundstate_tests::not_run!("the next pid cannot be chosen here");
    }
    at_each_call(after("umount -R -l /sys", files()), turns(250, 5_000));
}

#[test]
fn pid_reused_by_the_next_child_of_init_is_not_taken_for_the_old_main_process() {
    if !can_be_chosen() {
        return groundstate_tests::not_run!("the next pid cannot be chosen here");
    }
    let init = Boot::new(files()).start("all");
    init.when_system("running");
    let same = (0..turns(20, 1_000)).filter(|_| next_child_of_init_gets_the_pid(&init)).count();
    assert!(same > 0, "init's child never got the pid");
    init.finish();
}

#[test]
fn exited_main_process_is_not_passed_as_mainpid() {
    if !can_be_chosen() {
        return groundstate_tests::not_run!("the next pid cannot be chosen here");
    }
    let init = Boot::new(files()).start("all");
    init.when_system("running");
    for verb in ["reload-unit", "restart"] {
        let same =
            (0..turns(10, 500)).filter(|_| main_process_exits_after_a_request(&init, verb)).count();
        assert!(same > 0, "{verb}: no process ever got the pid");
    }
    init.tell("kill", &json!({"targets": ["fate"], "signal": 9}));
    init.when_state("fate", "failed");
    init.finish();
}
