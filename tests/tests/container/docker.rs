//! A container with Docker's defaults: root with some capabilities, and the default seccomp
//! profile, whose allowed calls are in `tests/docker-default.txt`.

use super::bundle::{Bundle, Container};
use groundstate_tests::crash::crash;
use groundstate_tests::deadline::until;
use groundstate_tests::status::Status;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;

/// Docker's default capabilities of root.
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

/// Docker's default profile on x86-64 for these capabilities, in the runtime's format.
fn seccomp() -> Value {
    let text = include_str!("../../docker-default.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut names: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    names.push("chroot");
    let only = |name: &str, index: u32, value: u64, op: &str| {
        json!({"names": [name], "action": "SCMP_ACT_ALLOW",
               "args": [{"index": index, "value": value, "op": op}]})
    };
    // These flags would make a new namespace.
    let mut clone = only("clone", 0, 0x7e02_0000, "SCMP_CMP_MASKED_EQ");
    clone["args"][0]["valueTwo"] = json!(0);
    let mut calls = vec![
        json!({"names": names, "action": "SCMP_ACT_ALLOW"}),
        clone,
        // Its flags are in memory, which a filter cannot read: libraries fall back to clone.
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

/// The strict configuration with Docker's settings.
fn configure(bundle: &Bundle, arguments: &[&str]) -> Value {
    let mut config = bundle.configure(arguments, true);
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

const SERVICES: [&str; 5] = ["db", "web", "old", "forks", "other"];

/// Services that make init use newer system calls where they are available.
fn services() -> Bundle {
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
    bundle
}

fn heals(container: &Container) {
    for unit in SERVICES {
        let before = container.init.main_of(unit);
        before.signal(Signal::SIGKILL);
        let is_another = |s: &Status| {
            let pid = s.main_pid(unit);
            s.system() == "running" && pid.is_some() && pid != before.inner_pid()
        };
        container.init.when(&format!("{unit} is another process"), is_another);
    }
    let uid = container.init.main_of("other").status("Uid").unwrap_or_default();
    assert!(uid.starts_with("1234"), "{uid}");
}

fn fires(container: &Container) {
    let file = format!("/proc/{}/root/tmp/job", container.init.process().0);
    let length = || fs::metadata(&file).map_or(0, |about| about.len());
    let before = length();
    until("it fires", || (length() > before + 2).then_some(()));
}

fn assert_same_processes(before: &Status, container: &Container) {
    let now = container.init.when_system("running");
    for unit in SERVICES {
        let pid = before.main_pid(unit);
        assert!(pid.is_some() && now.main_pid(unit) == pid, "{unit}: {pid:?}");
    }
}

#[test]
fn init_uses_its_fallbacks_under_the_default_profile_of_docker() {
    if cfg!(not(target_arch = "x86_64")) {
        return groundstate_tests::not_run!("the profile is for x86-64");
    }
    let bundle = services();
    let config = configure(&bundle, &["--target", "all"]);
    let mut container = bundle.run(&config, 0, true);
    container.answers();
    container.init.expect_crashes();
    container.init.when_system("running");
    assert_eq!(container.init.process().status("Seccomp").as_deref(), Some("2"), "it is filtered");
    heals(&container);
    fires(&container);
    let before = container.init.status();
    container.tell(&["upgrade"]);
    assert_same_processes(&before, &container);
    fires(&container);
    crash(&container.init, Signal::SIGSEGV);
    until("init has recovered", || {
        let mut client = container.init.client()?;
        client.send("stats", &json!({}));
        (client.answer()?.ok()?["crashes"] == 1).then_some(())
    });
    assert_same_processes(&before, &container);
    heals(&container);
    fires(&container);
    let logs = container.initctl(&["logs", "web"]);
    assert!(String::from_utf8_lossy(&logs.stdout).contains("listening"), "{logs:?}");
    assert!(container.said().contains("job | once"), "{}", container.said());
    container.tell(&["set-target", "web", "old"]);
    let status = container.init.when_state("forks", "failed");
    assert_eq!(status.reason("forks"), "stop-timeout");
    assert!(container.init.processes_of("forks").is_empty(), "no process of it is left");
    container.init.check_at_rest();
    let output = container.runc(&["kill", &container.id, "TERM"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(container.ended(), 0, "{}", container.said());
}
