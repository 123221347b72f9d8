//! Processes in init's own pid namespace that send to the notify socket: of another unit, or of no
//! unit. Init knows the pid of each and refuses its messages. Also main pids that a unit names and
//! that belong to a kernel thread or to a reused pid.

use groundstate_tests::boot::{Boot, Init, Way};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::{Sandbox, program};
use nix::sys::stat::Mode;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};

/// A unit that becomes ready on order, a unit of another user, and processes of no unit.
struct Scene {
    init: Init,
    web: i32,
    /// Processes of no unit.
    outsiders: Vec<Child>,
}

/// Each of them takes orders at this pipe in `open/`.
const STRANGERS: [&str; 3] = ["guest", "user", "root"];

fn scene() -> Scene {
    let files = Sandbox::new();
    let open = files.path("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    files.unit(
        "web",
        "type: foreground-notified\nstart-timeout: none\nfd-store-max: 8\nexec-start: DAEMON --notify --ready-on-order --control DIR/web.ctl",
    );
    files.unit(
        "guest",
        "user: 65534\ngroup: 65534\nexec-start: /usr/bin/env NOTIFY_SOCKET=DIR/run/notify.sock DAEMON --control DIR/open/guest",
    );
    files.unit("all", "type: virtual\nwaits-for: web, guest");
    let init = Boot::new(files).start("all");
    init.when("both units have started", |s| {
        s.state("guest") == "running" && s.state("web") == "starting"
    });
    let address = until("it is past its exec", || {
        init.main_of("web").environment().get("NOTIFY_SOCKET").cloned()
    });
    assert_eq!(address, init.sandbox.at("run/notify.sock"), "the address that the guest uses");
    let inside = init.process().0.to_string();
    let stranger = |name: &str, who: &[&str]| {
        Command::new("nsenter")
            .args(["-t", &inside, "-p", "-m"])
            .args(who)
            .arg(program("GROUNDSTATE_DAEMON", "daemon"))
            .args(["--control", &init.sandbox.at(&format!("open/{name}"))])
            .env("NOTIFY_SOCKET", &address)
            .spawn()
            .expect("nsenter runs")
    };
    let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let outsiders = vec![stranger("user", &user), stranger("root", &[])];
    let web = until("it has its program", || init.status().main_pid("web"));
    Scene { init, web, outsiders }
}

impl Scene {
    /// Waits until this many messages were refused and this many were unusable.
    fn wait_until_refused(&self, refused: u64, unusable: u64) {
        let now = || ["messages-refused", "messages-unusable"].map(|what| self.init.dropped(what));
        until(&format!("{refused} are refused and {unusable} unusable: {:?}", now()), || {
            (now() == [refused, unusable]).then_some(())
        });
    }

    /// Checks that the messages changed nothing.
    fn untouched(&self, state: &str) {
        let status = self.init.status();
        assert_eq!((status.state("web"), status.main_pid("web")), (state, Some(self.web)));
        for unit in ["web", "guest"] {
            assert_eq!(status.unit(unit)["status"], "", "{}", status.unit(unit));
        }
        assert_eq!(status.state("guest"), "running");
    }

    fn end(mut self) {
        STRANGERS[1..]
            .iter()
            .for_each(|name| self.init.sandbox.order(&format!("open/{name}"), "exit 0"));
        for outsider in &mut self.outsiders {
            assert!(outsider.wait().unwrap().success());
        }
        self.init.sandbox.order("web.ctl", "ready");
        self.init.when_state("web", "running");
        self.untouched("running");
        self.init.finish();
    }
}

#[test]
fn messages_of_foreign_processes_in_the_same_namespace_are_refused_and_counted() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let scene = scene();
    let main = format!("MAINPID={}", scene.web);
    let words = [
        "READY=1",
        "STATUS=forged",
        &main,
        "RELOADING=1",
        "WATCHDOG_USEC=1",
        "WATCHDOG=trigger",
        "EXTEND_TIMEOUT_USEC=1",
        "FDSTOREREMOVE=1\\nFDNAME=stored",
        "READY=1\\nSTATUS=forged",
        // Malformed messages, which would change nothing even if the unit itself sent them.
        "",
        "x",
        "=",
        "=x",
        "READY",
        "\0\0",
        "MAINPID=\\nMAINPID=\0",
    ];
    let mut count = 0;
    for stranger in STRANGERS {
        for word in words {
            scene.init.sandbox.order(&format!("open/{stranger}"), &format!("notify {word}"));
            count += 1;
        }
        scene.wait_until_refused(count, 0);
        scene.untouched("starting");
    }
    // Messages longer than the limit have no sender.
    for (stranger, unusable) in STRANGERS.iter().zip(1..) {
        let long = format!("notify STATUS={}", "x".repeat(20_000));
        scene.init.sandbox.order(&format!("open/{stranger}"), &long);
        scene.wait_until_refused(count, unusable);
        scene.init.sandbox.order(&format!("open/{stranger}"), "notify READY=1");
        count += 1;
        scene.wait_until_refused(count, unusable);
    }
    scene.untouched("starting");
    scene.end();
}

#[test]
fn descriptors_of_foreign_processes_in_the_same_namespace_are_closed_and_counted() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let scene = scene();
    let pipe = scene.init.sandbox.path("open/pipe");
    nix::unistd::mkfifo(&pipe, Mode::from_bits_truncate(0o666)).unwrap();
    let path = pipe.to_str().unwrap();
    std::fs::set_permissions(&pipe, std::fs::Permissions::from_mode(0o666)).unwrap();
    // The test holds the other end of the pipe, so opening it does not block.
    let _end = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let closed = || scene.init.dropped("descriptors-closed");
    let (mut few, mut many) = (0, 0);
    for stranger in STRANGERS {
        for _ in 0..4 {
            let before = closed();
            scene.init.sandbox.order(&format!("open/{stranger}"), &format!("pass 1 3 {path}"));
            few += 1;
            scene.wait_until_refused(few, many);
            assert_eq!(closed(), before + 3);
            // Init accepts fewer descriptors with one message, so the kernel closes the rest.
            scene.init.sandbox.order(&format!("open/{stranger}"), &format!("pass 1 253 {path}"));
            many += 1;
            scene.wait_until_refused(few, many);
            assert!(closed() > before + 3);
        }
        until("all of them are closed", || {
            let files = scene.init.process().files();
            (!files.values().any(|file| file == path)).then_some(())
        });
    }
    scene.untouched("starting");
    scene.end();
}

#[test]
fn kernel_thread_is_refused_as_main_process() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    // The parent of a kernel thread is kthreadd (process 2), and the thread has no memory. It is
    // visible only in the initial pid namespace.
    let is_thread = |p: &Process| p.stat_field(1) == Some(2) && p.status("VmSize").is_none();
    let Some(thread) = Process::all().into_iter().find(is_thread) else {
        return groundstate_tests::not_run!("no kernel thread is seen from here");
    };
    let files = Sandbox::new();
    files.unit(
        "web",
        "type: foreground-notified\nexec-start: DAEMON --notify --control DIR/web.ctl",
    );
    files.unit("none", "type: virtual");
    let init = Boot::new(files).way(Way::Supervisor).start("web");
    let before = init.when_state("web", "running");
    for (pid, refused) in [(2, 1), (thread.0, 2)] {
        init.sandbox.order("web.ctl", &format!("notify MAINPID={pid}\\nSTATUS={pid}"));
        let said = pid.to_string();
        until("init has the status", || {
            (init.status().unit("web")["status"].as_str() == Some(said.as_str())).then_some(())
        });
        assert_eq!(init.dropped("messages-refused"), refused);
        assert_eq!(init.status().main_pid("web"), before.main_pid("web"));
    }
    init.tell("set-target", &json!({"targets": ["none"]}));
    init.when_state("web", "disabled");
    init.finish();
}

/// A unit with a child, and a unit that gives its next child the requested pid.
fn forking() -> Init {
    let files = Sandbox::new();
    files.unit(
        "web",
        "type: foreground-notified\nexec-start: DAEMON --notify --control DIR/web.ctl --trace DIR/web.trace",
    );
    files.put(
        "fate.sh",
        "while read pid; do\necho $((pid-1)) >/proc/sys/kernel/ns_last_pid\n\
         \"$2\" --trace $1/canary --ignore TERM --ignore HUP --ignore INT --ignore USR1 &\n\
         echo $! >>$1/given\ndone 0<>$1/fate\n",
    );
    nix::unistd::mkfifo(&files.path("fate"), Mode::S_IRWXU).unwrap();
    files.unit("fate", "restart: never\nexec-start: /bin/sh DIR/fate.sh DIR DAEMON");
    files.unit("all", "type: virtual\nwaits-for: web, fate");
    let init = Boot::new(files).start("all");
    init.when_system("running");
    init
}

#[test]
fn child_with_a_reused_pid_is_refused_as_main_process() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = forking();
    let main = init.status().main_pid("web");
    // Repeats until no other process took the pid first.
    let (pid, canaries) = until("a pid is reused", || {
        let children = init.sandbox.trace("web.trace").len();
        init.sandbox.order("web.ctl", "fork 1");
        let pid: i32 = until("it has a child", || {
            let trace = init.sandbox.trace("web.trace");
            trace.get(children)?.strip_prefix("child ")?.parse().ok()
        });
        let child = init.process().neighbour(pid).expect("the process exists");
        child.end();
        until("its parent has reaped it", || child.state().is_none().then_some(()));
        let given = init.sandbox.trace("given").len();
        init.sandbox.order("fate", &pid.to_string());
        let has =
            until("a process has been started", || init.sandbox.trace("given").get(given).cloned());
        until("it counts signals", || {
            (init.sandbox.trace("canary").len() == 2 * (given + 1)).then_some(())
        });
        (has == pid.to_string()).then_some((pid, given + 1))
    });
    init.sandbox.order("web.ctl", &format!("notify MAINPID={pid}\\nSTATUS=said"));
    until("init has the status", || (init.status().unit("web")["status"] == "said").then_some(()));
    assert_eq!(init.dropped("messages-refused"), 1);
    assert_eq!(init.status().main_pid("web"), main);
    init.tell("restart", &json!({"targets": ["web"]}));
    init.when("it has another main process", |s| {
        s.state("web") == "running" && s.main_pid("web") != main
    });
    assert_eq!(init.sandbox.trace("canary").len(), 2 * canaries, "start and ready, no signal");
    init.finish();
}
