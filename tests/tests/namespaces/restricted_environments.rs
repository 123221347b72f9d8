//! Restricted environments: no root, no namespace, no writable runtime directory, no process left
//! to fork, a kernel without newer system calls.

use groundstate_tests::boot::{Boot, Init, Way};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::{Sandbox, program};
use groundstate_tests::tracer::{Tracer, injected};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

pub(crate) fn pair() -> Sandbox {
    let files = Sandbox::new();
    files.unit("db", "type: foreground-notified\nexec-start: DAEMON --notify");
    files.unit("web", "depends-on: db\nready-grep: here\nexec-start: DAEMON --say here");
    files
}

#[test]
fn init_runs_in_a_user_namespace() {
    let init = Boot::new(pair()).way(Way::UserNamespace).start("web");
    init.when_system("running");
    init.finish();
}

#[test]
fn plain_supervisor_adopts_and_stops_all_processes() {
    let files = pair();
    files.unit("fork", "exec-start: DAEMON --orphans 2");
    files.unit("all", "type: virtual\ndepends-on: web, fork");
    let init = Boot::new(files).way(Way::Supervisor).start("all");
    init.when_system("running");
    until("its orphans are there", || (init.processes_of("fork").len() == 3).then_some(()));
    let left = init.processes_of("fork");
    init.finish();
    for process in left {
        until("no process is left", || (!process.is_alive()).then_some(()));
    }
}

#[test]
fn unprivileged_user_can_run_a_supervisor() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = pair();
    for name in ["run", "log", "."] {
        std::os::unix::fs::chown(files.path(name), Some(65534), Some(65534)).unwrap();
    }
    let init = Boot::new(files)
        .way(Way::Supervisor)
        .through(&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
        .start("web");
    init.when_system("running");
    // Its cgroup belongs to root.
    assert_eq!(init.status().0["tracking"], "process-group");
    assert!(init.main_of("web").status("Uid").unwrap().starts_with("65534"));
    init.finish();
}

#[test]
fn init_runs_without_a_writable_runtime_directory() {
    if nix::unistd::geteuid().is_root() {
        // Root can write everywhere except on a read-only file system.
        let files = Sandbox::new();
        files.unit("web", "type: oneshot\nexec-start: DAEMON --exit 5");
        let mut init = Boot::new(files)
            .arguments(&["--runtime-dir", "/proc/groundstate", "--exit-with", "web"])
            .launch("web");
        assert_eq!(init.ended().code(), Some(5), "{}", init.output());
        return;
    }
    let files = Sandbox::new();
    files.unit("web", "type: oneshot\nexec-start: DAEMON --exit 5");
    std::fs::set_permissions(files.path("run"), std::fs::Permissions::from_mode(0o500)).unwrap();
    let mut init = Boot::new(files).arguments(&["--exit-with", "web"]).launch("web");
    assert_eq!(init.ended().code(), Some(5), "{}", init.output());
}

/// Without a control socket the test can only observe the processes.
#[test]
fn init_with_its_runtime_directory_on_a_read_only_file_system_supervises() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let boot = after("mount -t tmpfs -o ro none /run", pair());
    let mut init = boot.arguments(&["--runtime-dir", "/run/groundstate"]).launch("web");
    let main = |init: &Init, unit: &str| match init.processes_of(unit)[..] {
        [main] => Some(main),
        _ => None,
    };
    // `db` reports ready although its notify socket has no path either.
    until("web is up", || main(&init, "web"));
    let db = until("db is up", || main(&init, "db"));
    db.signal(Signal::SIGKILL);
    until("db is replaced", || main(&init, "db").filter(|now| *now != db));
    until("web, which depends on it, is restarted", || main(&init, "web"));
    let told = "cannot use /run/groundstate: ";
    assert_eq!(init.output().matches(told).count(), 1, "{}", init.output());
    init.process().signal(Signal::SIGTERM);
    assert_eq!(init.ended().code(), Some(0), "{}", init.output());
}

/// Without the check, the second init would replace the socket and remove it at its end.
#[test]
fn second_init_leaves_the_runtime_directory_to_the_first() {
    let init = Boot::new(pair()).start("web");
    let run = init.sandbox.at("run");
    let second = || {
        let mut command = Command::new(program("GROUNDSTATE_INIT", "init"));
        command.args(["--runtime-dir", &run]).stdin(Stdio::null());
        command
    };
    assert!(second().args(["--", "true"]).status().unwrap().success());
    assert_eq!(init.status().state("web"), "running");

    let (units, logs) = (init.sandbox.at("no-units"), init.sandbox.at("second-log"));
    let mut command = second();
    command.args(["--units", &units, "--log-dir", &logs]).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let told = format!("no control socket: cannot use {run}: another init uses it; ");
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains(&told)));
    assert_eq!(init.status().state("web"), "running");
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    child.wait().unwrap();
    assert_eq!(init.status().state("web"), "running");
    init.finish();
}

#[test]
fn start_that_cannot_fork_is_retried() {
    let files = Sandbox::new();
    files.unit("web", "restart-delay: 50ms\nexec-start: DAEMON");
    files.unit("none", "type: virtual");
    let init = Boot::new(files).start("none");
    init.when_system("running");
    let calls = "clone,clone3,fork,vfork";
    let inject = format!("inject={calls}:error=EAGAIN");
    let arguments = ["-e", &format!("trace={calls}"), "-e", &inject];
    let tracer = Tracer::attach(init.process(), &init.sandbox.path("strace"), &arguments);
    init.tell("set-target", &serde_json::json!({"targets": ["web"]}));
    init.when("its start fails", |s| s.unit("web")["attempt"].as_u64() >= Some(2));
    init.check();
    assert!(injected(&tracer.detach()) > 0);
    init.when_system("running");
    init.finish();
}

#[test]
fn init_runs_where_newer_system_calls_are_refused() {
    let calls = "inject=pidfd_open,clone3,statx:error=ENOSYS";
    let init = {
        let files = pair();
        let trace = files.at("strace");
        Boot::new(files)
            .through(&["strace", "-f", "-qq", "-o", &trace, "-e", calls])
            .way(Way::Supervisor)
    };
    let init = init.start("web");
    init.when_system("running");
    init.tell("exit", &serde_json::json!({}));
    until("init has exited", || (!init.process().is_alive()).then_some(()));
    let made = init.sandbox.read("strace");
    for call in ["clone3", "statx"] {
        let met = |line: &str| line.contains(call) && line.contains("INJECTED");
        assert!(made.lines().any(met), "{call}");
    }
}

#[test]
fn too_low_limit_of_open_files_is_survived() {
    let init = Boot::new(pair()).start("web");
    init.when_system("running");
    let pid = init.process().0.to_string();
    let limit = |value: &str| {
        let set = ["--nofile".to_owned() + "=" + value, "--pid".to_owned(), pid.clone()];
        assert!(std::process::Command::new("prlimit").args(set).status().unwrap().success());
    };
    let db = init.main_of("db");
    limit("12:4096");
    db.signal(nix::sys::signal::Signal::SIGKILL);
    until("it is reaped", || {
        (init.process().children().iter().all(|p| p.state() != Some('Z'))).then_some(())
    });
    limit("4096:4096");
    init.when_system("running");
    init.finish();
}

/// Unmounts /proc: that of its own pid namespace, and the one below it.
pub(crate) const NO_PROC: &str = "while umount -l /proc; do :; done 2>/dev/null";

/// Init behind a shell that first runs this command.
pub(crate) fn after(taking: &str, files: Sandbox) -> Boot {
    let script = format!("{taking}; exec \"$0\" \"$@\"");
    Boot::new(files).through(&["/bin/sh", "-c", &script])
}

#[test]
fn init_supervises_without_proc() {
    let init = after(NO_PROC, pair()).start("web");
    let before = init.when_system("running");
    init.main_of("db").signal(nix::sys::signal::Signal::SIGKILL);
    init.when("db is replaced", |s| {
        s.system() == "running" && s.main_pid("db") != before.main_pid("db")
    });
    init.finish();
}

/// A process that belongs to no unit: it is older than init.
#[test]
fn leftover_process_gets_sigterm_before_sigkill_at_the_shutdown_without_proc() {
    let files = pair();
    let leftover = files.at("leftover.sh");
    let (up, told) = (files.at("up"), files.at("told"));
    files.put(
        "leftover.sh",
        &format!("trap 'echo term >{told}; exit' TERM; sleep 1000 & touch {up}; wait\n"),
    );
    let init = after(&format!("nice -n -19 setsid sh {leftover} & {NO_PROC}"), files).start("web");
    init.when_system("running");
    until("it is up", || init.sandbox.path("up").exists().then_some(()));
    let files = init.finish_and_keep();
    assert_eq!(files.read("told"), "term\n");
}

/// The /proc below init's own one shows the outer pid namespace, with pids of other processes.
#[test]
fn proc_of_another_pid_namespace_is_ignored() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let told = "ignoring /proc: it belongs to another pid namespace";
    for (from_the_start, cgroups) in [(true, true), (false, true), (false, false)] {
        let files = pair();
        files.unit("stranger", "exec-start: DAEMON");
        files.unit("all", "type: virtual\ndepends-on: web, stranger");
        let mut taking = if from_the_start { "umount -l /proc" } else { "true" }.to_owned();
        if !cgroups {
            taking.push_str("; umount -R -l /sys");
        }
        let mut init = after(&taking, files).start("all");
        init.expect_crashes();
        assert_eq!(init.output().contains(told), from_the_start, "{}", init.output());
        init.when_system("running");
        if !from_the_start {
            let pid = init.process().0.to_string();
            let words = ["-t", &pid, "-m", "-p", "--", "umount", "-l", "/proc"];
            assert!(Command::new("nsenter").args(words).status().unwrap().success());
        }
        // Init must also ignore it when it restores its state after a crash.
        groundstate_tests::crash::crash(&init, Signal::SIGSEGV);
        until("it has crashed", || {
            (init.ask("stats", &serde_json::json!({})).ok()?["crashes"] == 1).then_some(())
        });
        // A unit that was just starting may have been restarted; no unit runs twice.
        let before = init.when_system("running");
        let once = || {
            for unit in ["db", "web", "stranger"] {
                let of = || init.processes_of(unit);
                until(&format!("{unit} runs once: {:?}", of()), || (of().len() == 1).then_some(()));
            }
        };
        once();
        init.main_of("db").signal(Signal::SIGKILL);
        init.when("db is replaced", |s| {
            s.system() == "running" && s.main_pid("db") != before.main_pid("db")
        });
        assert_eq!(init.status().main_pid("stranger"), before.main_pid("stranger"));
        once();
        init.check();
        init.tell("exit", &serde_json::json!({}));
        assert_eq!(init.ended().code(), Some(0));
    }
}

#[test]
fn init_supervises_without_cgroups() {
    let init = after("umount -R -l /sys", pair()).start("web");
    init.when_system("running");
    init.finish();
}

#[test]
fn init_supervises_without_privileges() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = Boot::new(pair())
        .through(&["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"])
        .start("web");
    init.when_system("running");
    init.finish();
}

#[test]
fn unknown_signals_and_a_file_size_limit_do_not_end_a_supervisor() {
    let init = Boot::new(pair()).way(Way::Supervisor).unrecorded().start("web");
    init.when_state("web", "running");
    // Init's output and its state memory may not grow beyond this.
    let set = ["--fsize=65536".to_owned(), format!("--pid={}", init.process().0)];
    assert!(Command::new("prlimit").args(set).status().unwrap().success());
    let named = [libc::SIGXCPU, libc::SIGXFSZ, libc::SIGPROF, libc::SIGIO, libc::SIGSTKFLT];
    let asks = |signal: &i32| (37..=39).contains(signal);
    for signal in named.into_iter().chain((34..=64).filter(|signal| !asks(signal))) {
        let words = [format!("-{signal}"), init.process().0.to_string()];
        assert!(Command::new("kill").args(words).status().unwrap().success(), "{signal}");
        init.tell("ping", &serde_json::json!({}));
    }
    init.finish();
}

/// A service, and a daemon known only by its pid file. Their programs make none of the calls below,
/// so only init meets the refusal.
fn of_plain_programs() -> Sandbox {
    let files = Sandbox::new();
    files.unit("web", "restart-delay: 50ms\nexec-start: /bin/sleep 1000");
    files.unit("old", "type: background-pidfile\npid-file: DIR/run/old.pid\nrestart-delay: 50ms\nexec-start: /bin/sh -c 'sleep 1000 & echo $$! >DIR/run/old.pid'");
    files.unit("all", "type: virtual\ndepends-on: web, old");
    files.unit("none", "type: virtual");
    files
}

#[test]
fn each_refused_newer_system_call_has_a_fallback() {
    for call in ["pidfd_open", "clone3", "statx"] {
        let files = of_plain_programs();
        let trace = files.at("strace");
        // A kernel without this call has no io_uring either. strace shows whether init tries it.
        let (calls, inject) =
            (format!("trace={call},io_uring_setup"), format!("inject={call}:error=ENOSYS"));
        let wrapper = ["strace", "-f", "-qq", "-o", &trace];
        let boot = Boot::new(files).through(&wrapper).through(&["-e", &calls, "-e", &inject]);
        let mut init = boot.way(Way::Supervisor).start("all");
        let before = init.when_system("running");
        let units = ["web", "old"];
        for unit in units {
            init.main_of(unit).end();
        }
        init.when(&format!("both are restarted without {call}"), |s| {
            let is_new = |unit: &&str| {
                s.main_pid(unit).is_some() && s.main_pid(unit) != before.main_pid(unit)
            };
            s.system() == "running" && units.iter().all(is_new)
        });
        let mains = units.map(|unit| init.main_of(unit));
        init.tell("set-target", &serde_json::json!({"targets": ["none"]}));
        for unit in units {
            init.when_state(unit, "disabled");
        }
        assert!(mains.iter().all(|main| !main.is_alive()), "without {call}");
        init.tell("exit", &serde_json::json!({}));
        assert_eq!(init.ended().code(), Some(0), "without {call}");
        let made = init.sandbox.read("strace");
        assert!(made.contains("INJECTED"), "{call} was never called");
        assert!(!made.contains("io_uring"), "{made}");
    }
}
