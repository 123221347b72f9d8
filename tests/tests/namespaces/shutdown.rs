//! Shutdown: in order, within its deadline, whatever is in progress.

use groundstate_tests::boot::{Boot, Init, Way};
use groundstate_tests::crash::{Call, crash_when};
use groundstate_tests::deadline::until;
use groundstate_tests::extent::turns;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::tracer::{Tracer, injected};
use groundstate_units::simulator::rng::Rng;
use nix::sys::signal::Signal;
use serde_json::json;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn shutdown_stops_dependents_first() {
    let files = Sandbox::new();
    for (unit, edge) in
        [("a", ""), ("b", "depends-on: a\n"), ("c", "depends-ms: b\n"), ("d", "waits-for: c\n")]
    {
        let line = format!(
            "{edge}type: background-scripted\nexec-start: /bin/true\nexec-stop: /bin/sh -c 'echo {unit} >> DIR/order'"
        );
        files.unit(unit, &line);
    }
    let mut init = Boot::new(files).start("d");
    init.when_system("running");
    init.tell("poweroff", &json!({}));
    assert_eq!(init.ended().code(), Some(0));
    assert_eq!(init.sandbox.trace("order"), ["d", "c", "b", "a"]);
}

/// Units of a random graph. Returns the pairs of units that an edge orders. Each unit records its
/// start and its stop.
fn drawn(chance: &mut Rng, files: &Sandbox) -> Vec<(String, String)> {
    const UNITS: usize = 16;
    let mut edges = Vec::new();
    for at in 0..UNITS {
        let mut text = String::new();
        let mut below: Vec<usize> = (0..at).collect();
        chance.shuffle(&mut below);
        for kind in ["depends-on", "depends-ms", "waits-for", "after"] {
            let count = chance.below(3).min(below.len());
            let to: Vec<String> = below.drain(..count).map(|to| format!("u{to}")).collect();
            edges.extend(to.iter().map(|to| (format!("u{at}"), to.clone())));
            if !to.is_empty() {
                text.push_str(&format!("{kind}: {}\n", to.join(", ")));
            }
        }
        let said = |file: &str| format!("/bin/sh -c 'echo u{at} >>DIR/{file}");
        text.push_str(&if chance.percent(50) {
            let (started, ended) = (said("started"), said("ended"));
            format!("type: background-scripted\nexec-start: {started}'\nexec-stop: {ended}'")
        } else {
            let (started, ended) = (said("started"), said("ended"));
            let stop = format!("exec-stop: {ended}; kill $MAINPID'");
            format!("exec-start-pre: {started}'\nexec-start: DAEMON\n{stop}")
        });
        files.unit(&format!("u{at}"), &text);
    }
    let all: Vec<String> = (0..UNITS).map(|at| format!("u{at}")).collect();
    files.unit("all", &format!("type: virtual\nwaits-for: {}", all.join(", ")));
    edges
}

#[test]
fn shutdown_of_a_random_graph_stops_dependents_first_and_starts_no_unit() {
    let mut chance = Rng::new(301);
    for _ in 0..turns(2, 20) {
        let files = Sandbox::new();
        let edges = drawn(&mut chance, &files);
        let mut init = Boot::new(files).start("all");
        init.when_system("running");
        init.tell("poweroff", &json!({}));
        assert_eq!(init.ended().code(), Some(0));
        let (started, ended) = (init.sandbox.trace("started"), init.sandbox.trace("ended"));
        let at = |order: &[String], unit: &str| order.iter().position(|told| told == unit);
        for (later, earlier) in &edges {
            let (b, e) = (
                at(&started, later) > at(&started, earlier),
                at(&ended, later) < at(&ended, earlier),
            );
            assert!(b && e, "{later} comes after {earlier}: {started:?}, {ended:?}");
        }
        let mut each = [started, ended];
        each.iter_mut().for_each(|order| order.sort());
        assert_eq!(each[0].len(), 16, "each once: {:?}", each[0]);
        assert_eq!(each[0], each[1]);
    }
}

#[test]
fn many_units_that_ignore_sigterm_take_the_time_of_one_stop() {
    let files = Sandbox::new();
    let names: Vec<String> = (0..20).map(|n| format!("deaf{n}")).collect();
    for name in &names {
        files.unit(name, "stop-timeout: 1s\nexec-start: DAEMON --ignore TERM --trace DIR/trace");
    }
    files.unit("all", &format!("type: virtual\nwaits-for: {}", names.join(", ")));
    let mut init = Boot::new(files).start("all");
    init.when("all ignore the signal", |s| {
        s.system() == "running"
            && init.sandbox.trace("trace").iter().filter(|w| *w == "ready").count() == 20
    });
    let begin = Instant::now();
    init.tell("exit", &json!({"code": 3}));
    assert_eq!(init.ended().code(), Some(3));
    let took = begin.elapsed();
    assert!(took >= Duration::from_millis(900) && took < Duration::from_secs(6), "{took:?}");
}

#[test]
fn shutdown_deadline_ends_a_unit_without_a_stop_timeout() {
    let files = Sandbox::new();
    files.put("init.yaml", "shutdown-deadline: 1s\n");
    files.unit("deaf", "stop-timeout: none\nexec-start: DAEMON --ignore TERM --trace DIR/trace");
    let mut init = Boot::new(files).start("deaf");
    init.when("the unit ignores SIGTERM", |s| {
        s.system() == "running" && init.sandbox.trace("trace").contains(&"ready".to_owned())
    });
    init.tell("poweroff", &json!({}));
    assert_eq!(init.ended().code(), Some(0));
}

#[test]
fn no_unit_starts_and_no_request_is_granted_during_the_shutdown() {
    let files = Sandbox::new();
    files.unit("slow", "stop-timeout: 2s\nexec-start: DAEMON --ignore TERM --trace DIR/slow");
    files.unit("crash", "restart-delay: 10ms\nexec-start: DAEMON --trace DIR/crash");
    files.unit("all", "type: virtual\nwaits-for: slow, crash");
    let mut init = Boot::new(files).start("all");
    init.when("both run", |s| {
        let is_ready = |trace: &&str| init.sandbox.trace(trace).contains(&"ready".to_owned());
        s.system() == "running" && ["slow", "crash"].iter().all(is_ready)
    });
    init.tell("poweroff", &json!({}));
    assert_eq!(init.status().system(), "stopping");
    let refused = init.ask("set-target", &json!({"targets": ["crash"]}));
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(init.ended().code(), Some(0));
    let starts = init.sandbox.trace("crash").iter().filter(|w| w.starts_with("start")).count();
    assert_eq!(starts, 1);
}

#[test]
fn shutdown_during_the_boot_ends_init() {
    let files = Sandbox::new();
    files.unit("slow", "type: oneshot\nexec-start: DAEMON --ready-on-order --control DIR/slow");
    files.unit("web", "depends-on: slow\nexec-start: DAEMON --trace DIR/web");
    let mut init = Boot::new(files).start("web");
    init.when_state("slow", "starting");
    init.tell("halt", &json!({}));
    assert_eq!(init.ended().code(), Some(0));
    assert_eq!(init.sandbox.trace("web"), Vec::<String>::new());
}

/// Waits until the system runs and the stand-in service with this trace handles signals.
fn until_up(init: &Init, trace: &str) {
    init.when("it is up", |s| {
        s.system() == "running" && init.sandbox.trace(trace).contains(&"ready".to_owned())
    });
}

/// A service, and a script with a stop command, both active.
pub(super) fn two() -> Init {
    let files = Sandbox::new();
    files.put("init.yaml", "shutdown-deadline: 4s\n");
    files.unit("web", "exec-start: DAEMON --trace DIR/web");
    files.unit(
        "script",
        "type: background-scripted\nexec-start: /bin/true\nexec-stop: /bin/sh -c 'echo x >>DIR/stopped'",
    );
    files.unit("all", "type: virtual\nwaits-for: web, script");
    let init = Boot::new(files).start("all");
    until_up(&init, "web");
    init
}

#[test]
fn shutdown_needs_no_new_process_descriptor_or_memory() {
    let call = |error: &str, calls: &str| (error.to_owned(), calls.to_owned());
    for (error, calls) in [
        call("EAGAIN", "clone,clone3,fork,vfork"),
        call("EMFILE", "openat,openat2,socket,accept4,pipe2,memfd_create,pidfd_open,dup,fcntl"),
        call("ENOMEM", "clone,clone3,epoll_ctl,memfd_create,mmap"),
        call("ENOSPC", "openat,openat2,mkdirat,renameat,renameat2,fallocate,ftruncate"),
    ] {
        let mut init = two();
        let inject = format!("inject={calls}:error={error}");
        let arguments = ["-e", &format!("trace={calls}"), "-e", &inject];
        let tracer = Tracer::attach(init.process(), &init.sandbox.path("strace"), &arguments);
        init.process().signal(Signal::SIGTERM);
        assert_eq!(init.ended().code(), Some(0), "{error}: {}", init.output());
        assert!(injected(&tracer.detach()) > 0, "{error}");
        let trace = init.sandbox.trace("web");
        assert!(
            trace.contains(&"term".to_owned()),
            "{error}: the service got no SIGTERM: {trace:?}"
        );
    }
}

#[test]
fn shutdown_by_signal_needs_neither_socket_nor_runtime_directory() {
    let mut init = two();
    std::fs::remove_dir_all(init.sandbox.path("run")).unwrap();
    // RTMIN+3, as machine managers send it.
    let pid = init.process().0.to_string();
    assert!(Command::new("/bin/kill").args(["-37", &pid]).status().unwrap().success());
    assert_eq!(init.ended().code(), Some(0));
    assert_eq!(init.sandbox.trace("stopped"), ["x"]);
}

#[test]
fn shutdown_during_a_reload_works_and_the_last_exit_code_counts() {
    let files = Sandbox::new();
    files.unit("slow", "stop-timeout: 60s\nexec-start: DAEMON --ignore TERM --control DIR/slow --trace DIR/slow.trace");
    files.unit("web", "exec-start: DAEMON --trace DIR/web");
    files.unit("all", "type: virtual\nwaits-for: slow, web");
    let mut init = Boot::new(files).start("all");
    until_up(&init, "web");
    until_up(&init, "slow.trace");
    init.sandbox.unit("web", "exec-start: DAEMON --name changed --trace DIR/web");
    let mut client = init.client().unwrap();
    client.send("reload", &json!({}));
    init.tell("exit", &json!({"code": 3}));
    // The shutdown started with one exit code; a later request sets another.
    let _ = init.ask("exit", &json!({"code": 4}));
    init.sandbox.order("slow", "exit 0");
    assert_eq!(init.ended().code(), Some(4), "{}", init.output());
    assert!(init.sandbox.trace("web").contains(&"term".to_owned()));
}

#[test]
fn repeated_shutdown_requests_do_not_delay_it() {
    let files = Sandbox::new();
    files.put("init.yaml", "shutdown-deadline: 1500ms\n");
    files.unit("deaf", "stop-timeout: none\nexec-start: DAEMON --ignore TERM --trace DIR/trace");
    let mut init = Boot::new(files).start("deaf");
    init.when("the unit ignores SIGTERM", |s| {
        s.system() == "running" && init.sandbox.trace("trace").contains(&"ready".to_owned())
    });
    let begin = Instant::now();
    until("init exits despite repeated requests", || {
        if let Some(mut client) = init.client() {
            client.send("exit", &json!({}));
            client.answer();
        }
        (!init.process().is_alive()).then_some(())
    });
    assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
    assert_eq!(init.ended().code(), Some(0));
}

#[test]
fn shutdown_of_a_supervisor_does_not_shut_down_the_machine() {
    // By each verb and by each signal that ends a machine. Init is a child of strace.
    let pid = |init: &Init| {
        let is_init = |p: &Process| p.read("comm").is_some_and(|name| name.trim() == "init");
        let found = init.process().children().into_iter().find(is_init);
        found.expect("strace has it as its child").0.to_string()
    };
    let ask = |verb: &'static str| Box::new(move |init: &Init| _ = init.tell(verb, &json!({})));
    let send = |signal: &'static str| {
        let done = move |init: &Init| {
            assert!(
                Command::new("/bin/kill").args([signal, &pid(init)]).status().unwrap().success()
            );
        };
        Box::new(done) as Box<dyn Fn(&Init)>
    };
    let verbs = ["poweroff", "reboot", "halt", "exit"].map(|verb| ask(verb) as Box<dyn Fn(&Init)>);
    // Ctrl-Alt-Del, the power key, TERM, and RTMIN+3 to RTMIN+5.
    let signals = ["-INT", "-PWR", "-TERM", "-37", "-38", "-39"].map(send);
    for (number, end) in verbs.into_iter().chain(signals).enumerate() {
        let files = Sandbox::new();
        files.unit("web", "exec-start: DAEMON --trace DIR/web");
        let trace = files.at("strace");
        let wrapper = ["strace", "-f", "-qq", "-o", &trace, "-e", "trace=reboot,exit_group"];
        let mut init = Boot::new(files).way(Way::Supervisor).through(&wrapper).start("web");
        until_up(&init, "web");
        end(&init);
        assert_eq!(init.ended().code(), Some(0), "{number}");
        let calls = init.sandbox.read("strace");
        assert!(calls.contains("exit_group") && !calls.contains("reboot("), "{number}: {calls}");
        assert!(init.sandbox.trace("web").contains(&"term".to_owned()), "{number}");
    }
}

/// A service that does not end by itself, without a timeout that would end it soon.
fn deaf() -> Init {
    let files = Sandbox::new();
    files.put("init.yaml", "shutdown-deadline: 10min\n");
    files.unit("deaf", "stop-timeout: none\nexec-start: DAEMON --ignore TERM --trace DIR/trace");
    let init = Boot::new(files).start("deaf");
    until_up(&init, "trace");
    init
}

#[test]
fn forced_shutdown_request_ends_the_wait_for_a_unit() {
    for words in [&["exit", "--force"][..], &["exit", "3", "--force", "--force"]] {
        let mut init = deaf();
        let refused = init.ask("hasten", &json!({})).unwrap_err();
        assert_eq!(refused["kind"], "not-stopping", "{refused}");
        init.tell("exit", &json!({}));
        init.tell("ping", &json!({}));
        assert_eq!(init.status().state("deaf"), "stopping");
        let said = init.initctl(words);
        assert_eq!(said.status.code(), Some(0), "{}", String::from_utf8_lossy(&said.stderr));
        let code = if words.len() == 2 { 0 } else { 3 };
        assert_eq!(init.ended().code(), Some(code), "{words:?}");
    }
}

#[test]
fn shutdown_names_the_unit_it_waits_for_and_a_later_key_press_ends_the_wait() {
    let mut init = deaf();
    let pid = init.status().main_pid("deaf").unwrap();
    init.process().signal(Signal::SIGINT);
    // The same key pressed twice is one request.
    init.process().signal(Signal::SIGINT);
    until("it is named", || {
        let text = format!("deaf: pid {pid} (daemon), waiting; SIGINT ends the wait");
        init.output().contains(&text).then_some(())
    });
    assert_eq!(init.status().state("deaf"), "stopping");
    init.process().signal(Signal::SIGINT);
    assert_eq!(init.ended().code(), Some(0), "{}", init.output());
    assert!(
        init.output().contains("waiting no longer: killing all processes"),
        "{}",
        init.output()
    );
}

#[test]
fn shutdown_names_the_stopping_unit_and_not_those_that_wait_for_it() {
    let files = Sandbox::new();
    let earlier: Vec<String> = (0..9).map(|n| format!("before{n}")).collect();
    for name in &earlier {
        files.unit(name, "type: oneshot\nexec-start: /bin/true\nexec-stop: /bin/true");
    }
    let text = "stop-timeout: none\nexec-start: DAEMON --ignore TERM --trace DIR/trace";
    files.unit("deaf", &format!("{text}\ndepends-ms: [{}]", earlier.join(", ")));
    let mut init = Boot::new(files).start("deaf");
    until_up(&init, "trace");
    init.process().signal(Signal::SIGINT);
    until("it is named", || init.output().contains("for deaf: pid").then_some(()));
    assert!(!init.output().contains("more units"), "{}", init.output());
    init.process().signal(Signal::SIGINT);
    assert_eq!(init.ended().code(), Some(0), "{}", init.output());
}

#[test]
fn crash_while_init_releases_its_resources_still_ends_with_the_exit_code() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON");
    let mut init = Boot::new(files).start("web");
    init.expect_crashes();
    init.when_state("web", "running");
    let mut client = init.client().expect("it listens");
    let has_a_state = || init.process().files().values().any(|file| file.contains("memfd:state"));
    let gone = |call: &Call| call.number == libc::SYS_close && !has_a_state();
    crash_when(&init, || client.send("exit", &json!({"code": 3})), gone);
    assert_eq!(init.ended().code(), Some(3), "{}", init.output());
}

#[test]
fn shutdown_hastened_again_after_a_crash_does_not_wait() {
    let mut init = deaf();
    init.expect_crashes();
    init.tell("exit", &json!({"code": 3}));
    init.when_state("deaf", "stopping");
    let mut client = init.client().expect("it listens");
    // Init logs this before it does anything else.
    let hastened = |call: &Call| {
        call.number == libc::SYS_write
            && init.output().contains("waiting no longer: killing all processes")
    };
    crash_when(&init, || client.send("hasten", &json!({})), hastened);
    // The request was not committed: its connection is closed, and the client repeats it.
    init.client().expect("it listens").send("hasten", &json!({}));
    assert_eq!(init.ended().code(), Some(3), "{}", init.output());
}

#[test]
fn slow_boot_names_the_unit_it_waits_for_and_its_limit() {
    let files = Sandbox::new();
    files.unit("quick", "exec-start: DAEMON");
    files.unit(
        "slow",
        "type: foreground-notified\nstart-timeout: 5min\nwaits-for: quick\nexec-start: DAEMON",
    );
    let init = Boot::new(files).start("slow");
    let pid = until("it has a process", || init.status().main_pid("slow"));
    until("it is named", || {
        let text = format!("s for slow: pid {pid} (daemon), waiting, at most 300 s;");
        init.output().contains(&text).then_some(())
    });
    assert!(!init.output().contains("s for quick"), "{}", init.output());
}
