//! The real init as PID 1 of a container (runc). One as strict as they come: a read-only root,
//! no capabilities, no new privileges, a uid that no passwd file knows. One as Docker makes them: root with
//! some capabilities, and its default seccomp profile. What holds after every test of
//! an init holds here too (`groundstate_tests::teardown`), seen from outside the container.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::crash;
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::{Sandbox, program};
use groundstate_tests::status::Status;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// In no passwd file.
const UID: u32 = 123_456;

/// What Docker leaves to root in a container.
const CAPABILITIES: [&str; 14] = [
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];

/// Docker's default profile on x86-64 for these capabilities, as the runtime takes it.
fn seccomp() -> Value {
    let text = include_str!("../docker-default.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut names: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    names.push("chroot");
    let only = |name: &str, index: u32, value: u64, op: &str| {
        json!({"names": [name], "action": "SCMP_ACT_ALLOW",
               "args": [{"index": index, "value": value, "op": op}]})
    };
    // No new namespace: those are the flags.
    let mut clone = only("clone", 0, 0x7e02_0000, "SCMP_CMP_MASKED_EQ");
    clone["args"][0]["valueTwo"] = json!(0);
    let mut calls = vec![
        json!({"names": names, "action": "SCMP_ACT_ALLOW"}),
        clone,
        // Its flags are in memory, where a filter does not see them: libraries are to try clone.
        json!({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": libc::ENOSYS}),
        only("socket", 0, 40, "SCMP_CMP_NE"), // AF_VSOCK
    ];
    calls.extend(
        [0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff]
            .map(|persona| only("personality", 0, persona, "SCMP_CMP_EQ")),
    );
    json!({"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": libc::EPERM,
           "architectures": ["SCMP_ARCH_X86_64"], "syscalls": calls})
}

/// A bundle in a sandbox.
struct Bundle {
    sandbox: Sandbox,
}

/// The container made from it, and the init in it.
struct Container {
    id: String,
    init: Init,
    user: u32,
}

impl Bundle {
    /// The root file system: our programs, a shell, and `units` as name and text.
    fn new(units: &[(&str, &str)]) -> Bundle {
        let sandbox = Sandbox::new();
        let root = sandbox.path("bundle/rootfs");
        for folder in ["bin", "proc", "dev", "sys", "tmp", "run", "etc", "units"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let programs = [
            ("init", program("GROUNDSTATE_INIT", "init")),
            ("initctl", program("GROUNDSTATE_INITCTL", "initctl")),
            ("daemon", program("GROUNDSTATE_DAEMON", "daemon")),
        ];
        for (name, path) in programs {
            fs::copy(path, root.join("bin").join(name)).unwrap();
        }
        let everyone = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(root.join("tmp"), everyone).unwrap();
        fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
        for applet in ["sh", "cat", "id"] {
            symlink("busybox", root.join("bin").join(applet)).unwrap();
        }
        for (name, text) in units {
            let text = format!("unit: {name}\n{text}\n");
            fs::write(root.join(format!("units/{name}.yaml")), text).unwrap();
        }
        Bundle { sandbox }
    }

    /// The runtime's configuration: strict, with a temporary directory or without.
    fn configure(&self, arguments: &[&str], writable_tmp: bool) -> Value {
        let words: Vec<&str> = ["/bin/init", "--units", "/units"]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        let mut mounts = vec![
            json!({"destination": "/proc", "type": "proc", "source": "proc"}),
            json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                   "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]}),
        ];
        if writable_tmp {
            mounts.push(json!({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
                               "options": ["nosuid", "nodev", "mode=1777"]}));
        }
        let none: [&str; 0] = [];
        json!({
            "ociVersion": "1.0.2",
            "process": {
                "terminal": false,
                "user": {"uid": UID, "gid": UID},
                "args": words,
                "env": ["PATH=/bin", "GREETING=hello"],
                "cwd": "/",
                "capabilities": {"bounding": none, "effective": none, "inheritable": none,
                                 "permitted": none, "ambient": none},
                "noNewPrivileges": true
            },
            "root": {"path": "rootfs", "readonly": true},
            "hostname": "box",
            "mounts": mounts,
            "linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "ipc"},
                                     {"type": "uts"}, {"type": "network"}]}
        })
    }

    /// The same as Docker makes it when it is told nothing.
    fn configure_as_docker(&self, arguments: &[&str]) -> Value {
        let mut config = self.configure(arguments, true);
        let process = &mut config["process"];
        process["user"] = json!({"uid": 0, "gid": 0});
        process["capabilities"] = json!({"bounding": CAPABILITIES, "effective": CAPABILITIES,
                                         "permitted": CAPABILITIES});
        process["noNewPrivileges"] = json!(false);
        config["root"]["readonly"] = json!(false);
        config["linux"]["readonlyPaths"] = json!(["/proc/sys", "/proc/sysrq-trigger"]);
        config["linux"]["seccomp"] = seccomp();
        config
    }

    /// Starts it.
    fn start(self, arguments: &[&str], writable_tmp: bool) -> Container {
        let config = self.configure(arguments, writable_tmp);
        self.run(&config, UID)
    }

    fn start_as_docker(self, arguments: &[&str]) -> Container {
        let config = self.configure_as_docker(arguments);
        self.run(&config, 0)
    }

    fn run(self, config: &Value, user: u32) -> Container {
        fs::write(self.sandbox.path("bundle/config.json"), config.to_string()).unwrap();
        let id = self.sandbox.dir().file_name().unwrap().to_str().unwrap().to_owned();
        let (root, bundle) = (self.sandbox.at("runc"), self.sandbox.at("bundle"));
        let runc = runc();
        let words = [runc.to_str().unwrap(), "--root", &root, "run", "--bundle", &bundle, &id];
        Container { init: Boot::new(self.sandbox).by(&words).launch(""), id, user }
    }
}

impl Container {
    /// Its socket is to be had from here. What it has now is what it may have in the end.
    fn answers(&mut self) {
        let dir = match self.user {
            0 => "run/groundstate".to_string(),
            user => format!("tmp/groundstate-{user}"),
        };
        let seen = format!("/proc/{}/root/{dir}/control.sock", self.init.process().0);
        symlink(seen, self.init.sandbox.path("run/control.sock")).unwrap();
        self.init.answers();
    }

    fn runc(&self, words: &[&str]) -> Command {
        let mut command = Command::new(runc());
        command.arg("--root").arg(self.init.sandbox.path("runc")).args(words);
        command.stdin(Stdio::null());
        command
    }

    /// The exit status of `runc run`, which is that of init.
    fn ended(&mut self) -> i32 {
        self.init.ended().code().unwrap_or(-1)
    }

    fn said(&self) -> String {
        self.init.output()
    }

    /// Runs a command in it.
    fn exec(&self, words: &[&str]) -> Output {
        let user = format!("{0}:{0}", self.user);
        let words = [&["exec", "--user", &user, &self.id], words].concat();
        self.runc(&words).output().expect("runc runs")
    }

    fn initctl(&self, words: &[&str]) -> Output {
        self.exec(&[&["/bin/initctl"], words].concat())
    }

    /// The state of everything, as one within sees it.
    fn status(&self) -> Option<Status> {
        let output = self.initctl(&["--json", "status"]);
        serde_json::from_slice(&output.stdout).ok().map(Status)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.runc(&["delete", "--force", &self.id]).output();
    }
}

fn runc() -> PathBuf {
    let places = ["/usr/sbin/runc", "/usr/bin/runc", "/usr/local/bin/runc"];
    let found = places.into_iter().map(PathBuf::from).find(|path| path.is_file());
    found.expect("runc is installed; tests/run brings it")
}

#[test]
fn output_and_exit_status_of_the_job_are_those_of_the_container() {
    let bundle = Bundle::new(&[
        (
            "job",
            "type: oneshot\nwaits-for: side\nexec-start: /bin/sh -c 'echo $$GREETING; echo aside >&2; exit 7'",
        ),
        ("side", "exec-start: /bin/daemon --name side"),
    ]);
    let mut container = bundle.start(&["--target", "job", "--exit-with", "job"], true);
    assert_eq!(container.ended(), 7, "{}", container.said());
    let out = container.said();
    assert!(out.lines().any(|line| line.ends_with("job | hello")), "{out}");
    assert!(out.lines().any(|line| line.ends_with("job | aside")), "{out}");
}

#[test]
fn services_run_and_heal_and_a_stop_is_orderly() {
    let bundle = Bundle::new(&[
        ("db", "type: foreground-notified\nexec-start: /bin/daemon --name db --notify"),
        (
            "web",
            "depends-on: db\nready-grep: ^listening\nexec-start: /bin/daemon --name web --say listening --trace /tmp/trace",
        ),
        (
            "old",
            "type: background-pidfile\npid-file: /tmp/old.pid\nexec-start: /bin/daemon --name old --pid-file /tmp/old.pid",
        ),
        (
            "forks",
            "stop-timeout: 300ms\nexec-start: /bin/daemon --children 1 --orphans 2 --ignore TERM",
        ),
        ("all", "type: virtual\nwaits-for: web, old, forks"),
    ]);
    let mut container = bundle.start(&["--target", "all"], true);
    container.answers();
    container.init.when_system("running");
    let seen = container.status().expect("one within is answered too");
    let db = seen.main_pid("db").expect("db has a main pid");
    assert_eq!(container.init.status().main_pid("db"), Some(db));
    let output = container.exec(&["/bin/sh", "-c", &format!("kill -9 {db}")]);
    assert!(output.status.success(), "{output:?}");
    container.init.when("db is another process", |s| {
        s.system() == "running" && s.main_pid("db").is_some_and(|pid| pid != db)
    });
    until("its orphans are there", || {
        (container.init.processes_of("forks").len() == 4).then_some(())
    });
    // Of what is left of it none may be left once it is down, and no zombie of those nobody waits for.
    let goal = json!({"targets": ["web", "old"]});
    container.init.tell("set-target", &goal);
    let status = container.init.when_state("forks", "failed");
    assert_eq!(status.reason("forks"), "stop-timeout");
    container.init.check_at_rest();
    let output = container.runc(&["kill", &container.id, "TERM"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(container.ended(), 0, "{}", container.said());
}

#[test]
fn with_nothing_writable_at_all_the_job_is_still_done() {
    let bundle = Bundle::new(&[
        ("job", "type: oneshot\ndepends-on: side\nexec-start: /bin/sh -c 'echo done; exit 3'"),
        ("side", "type: foreground-notified\nexec-start: /bin/daemon --notify"),
    ]);
    let mut container = bundle.start(&["--target", "job", "--exit-with", "job"], false);
    assert_eq!(container.ended(), 3, "{}", container.said());
    assert!(container.said().contains("job | done"), "{}", container.said());
}

#[test]
fn a_goal_nobody_provides_ends_the_container_with_an_error() {
    let bundle = Bundle::new(&[("web", "exec-start: /bin/daemon")]);
    let mut container = bundle.start(&["--target", "wbe"], true);
    assert_ne!(container.ended(), 0, "{}", container.said());
    assert!(container.said().contains("goal"), "{}", container.said());
}

#[test]
fn a_service_has_the_uid_of_the_container() {
    let bundle = Bundle::new(&[("id", "type: oneshot\nexec-start: /bin/id -u")]);
    let mut container = bundle.start(&["--target", "id", "--exit-with", "id"], true);
    assert_eq!(container.ended(), 0, "{}", container.said());
    assert!(container.said().contains(&format!("id | {UID}")), "{}", container.said());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn under_dockers_default_profile_all_goes_another_way() {
    let bundle = Bundle::new(&[
        ("db", "type: foreground-notified\nexec-start: /bin/daemon --name db --notify"),
        (
            "web",
            "depends-on: db\nready-grep: ^listening\nexec-start: /bin/daemon --name web --say listening",
        ),
        (
            "old",
            "type: background-pidfile\npid-file: /tmp/old.pid\nexec-start: /bin/daemon --name old --pid-file /tmp/old.pid",
        ),
        ("forks", "stop-timeout: 300ms\nexec-start: /bin/daemon --orphans 2 --ignore TERM"),
        (
            "other",
            "env-file: /units/env\nuser: \"1234\"\ngroup: \"1234\"\nexec-start: /bin/daemon --name other",
        ),
        ("tick", "type: timer\ntimer-unit-active: 200ms\ntimer-active: 100ms\nactivates: job"),
        ("job", "type: oneshot\nexec-start: /bin/sh -c 'echo once; echo x >>/tmp/job'"),
        ("all", "type: virtual\nwaits-for: web, old, forks, other, tick"),
    ]);
    fs::write(bundle.sandbox.path("bundle/rootfs/units/env"), "A=b\n").unwrap();
    let mut container = bundle.start_as_docker(&["--target", "all"]);
    container.answers();
    container.init.expect_crashes();
    container.init.when_system("running");
    assert_eq!(container.init.process().status("Seccomp").as_deref(), Some("2"), "it is filtered");
    let services = ["db", "web", "old", "forks", "other"];
    let heals = |container: &Container| {
        for unit in services {
            let before = container.init.main_of(unit);
            before.signal(Signal::SIGKILL);
            container.init.when(&format!("{unit} is another process"), |s| {
                s.system() == "running"
                    && s.main_pid(unit).is_some_and(|p| Some(p) != before.inner_pid())
            });
        }
        let uid = container.init.main_of("other").status("Uid").unwrap_or_default();
        assert!(uid.starts_with("1234"), "{uid}");
    };
    let fires = |container: &Container| {
        let ticks = container.init.process().0;
        let file = format!("/proc/{ticks}/root/tmp/job");
        let length = || fs::metadata(&file).map_or(0, |about| about.len());
        let before = length();
        until("it fires", || (length() > before + 2).then_some(()));
    };
    heals(&container);
    fires(&container);
    let before = container.init.status();
    let is_as_before = |container: &Container| {
        let now = container.init.when_system("running");
        for unit in services {
            assert_eq!(now.main_pid(unit), pid_of(&before, unit), "{unit}");
        }
    };
    container.init.tell("upgrade", &json!({}));
    is_as_before(&container);
    fires(&container);
    crash(&container.init, Signal::SIGSEGV);
    until("it has survived", || {
        let mut client = container.init.client()?;
        client.send("stats", &json!({}));
        (client.answer()?.ok()?["crashes"] == 1).then_some(())
    });
    is_as_before(&container);
    heals(&container);
    fires(&container);
    let logs = container.initctl(&["logs", "web"]);
    assert!(String::from_utf8_lossy(&logs.stdout).contains("listening"), "{logs:?}");
    assert!(container.said().contains("job | once"), "{}", container.said());
    container.init.tell("set-target", &json!({"targets": ["web", "old"]}));
    let status = container.init.when_state("forks", "failed");
    assert_eq!(status.reason("forks"), "stop-timeout");
    assert!(container.init.processes_of("forks").is_empty(), "none of it is left");
    container.init.check_at_rest();
    let output = container.runc(&["kill", &container.id, "TERM"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(container.ended(), 0, "{}", container.said());
}

fn pid_of(before: &Status, unit: &str) -> Option<i32> {
    let pid = before.main_pid(unit);
    assert!(pid.is_some(), "{unit} had a main pid");
    pid
}
