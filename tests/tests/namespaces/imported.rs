//! Imported systemd units: the attributes of a process that follow from its `[Service]` directives.
//! Relations between units are in `relation.rs`, starts and stops in `imported_lifecycle.rs`.

use super::child_setup::{alone, inside, is_root, past_exec};
use groundstate_tests::boot::Init;
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::{Sandbox, program};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Writes `units/NAME`, a systemd unit file. `DAEMON` and `DIR` are replaced as in
/// [`Sandbox::unit`].
pub(crate) fn systemd(files: &Sandbox, name: &str, text: &str) {
    let text = text.replace("DAEMON", &program("GROUNDSTATE_DAEMON", "daemon"));
    let text = text.replace("DIR", files.dir().to_str().expect("a plain name"));
    files.put(&format!("units/{name}"), &text);
}

/// Defines the target of the test: a unit that wants all of these.
pub(crate) fn wants(files: &Sandbox, names: &[&str]) {
    files.unit("all", &format!("type: virtual\nwants: [{}]", names.join(", ")));
}

const PROCESS: &str = "\
[Unit]
Description=What a process of %p sees
[Service]
User=nobody
Group=nogroup
SupplementaryGroups=tty
UMask=0027
WorkingDirectory=/usr
Environment=GREEN=leaf \"TWO=a b\" NAMED=%p
Environment=UNWANTED=x
EnvironmentFile=DIR/vars
EnvironmentFile=-/no/such/file
PassEnvironment=WANTED
UnsetEnvironment=UNWANTED
Nice=3
OOMScoreAdjust=321
IOSchedulingClass=best-effort
IOSchedulingPriority=2
CPUSchedulingPolicy=batch
CPUAffinity=0
NoNewPrivileges=yes
CapabilityBoundingSet=CAP_KILL CAP_NET_BIND_SERVICE
AmbientCapabilities=CAP_NET_BIND_SERVICE
SecureBits=noroot
IgnoreSIGPIPE=no
StandardInput=file:DIR/in
StandardOutput=append:DIR/theirs/out
StandardError=append:DIR/theirs/errors
ExecStart=/bin/sh -c 'read line; echo \"$$line\" ${GREEN}; echo wrong >&2; exec sleep 1000'
";

#[test]
fn process_of_an_imported_service_has_the_attributes_of_its_unit_file() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    files.put("init.yaml", "env-pass: []\n").put("vars", "FROM_FILE=yes\n").put("in", "asked\n");
    fs::create_dir(files.path("theirs")).unwrap();
    std::os::unix::fs::chown(files.path("theirs"), Some(65534), Some(65534)).unwrap();
    systemd(&files, "seen.service", PROCESS);
    systemd(
        &files,
        "quick.service",
        "[Service]\nCPUSchedulingPolicy=rr\nCPUSchedulingPriority=3\nExecStart=sleep 1000\n",
    );
    wants(&files, &["seen.service", "quick.service"]);
    let init = alone(files).variable("WANTED", "w").variable("SECRET", "x").start("all");
    let process = past_exec(&init, "seen.service");
    let status = |key: &str| process.status(key).unwrap_or_default();
    assert!(status("Uid").starts_with("65534") && status("Gid").starts_with("65534"));
    assert!(status("Groups").split_whitespace().any(|group| group == "5"), "tty");
    assert_eq!((status("Umask").as_str(), status("NoNewPrivs").as_str()), ("0027", "1"));
    assert_eq!(status("CapBnd"), format!("{:016x}", 1u64 << 5 | 1 << 10));
    assert_eq!(status("CapAmb"), format!("{:016x}", 1u64 << 10));
    assert_eq!(status("SigIgn"), "0000000000000000");
    assert_eq!(status("Cpus_allowed_list"), "0");
    assert_eq!(process.link("cwd").unwrap().to_str(), Some("/usr"));
    assert_eq!((process.stat_field(16), process.stat_field(38)), (Some(3), Some(3)));
    assert_eq!(process.read("oom_score_adj").unwrap().trim(), "321");
    let env = process.environment();
    let expected = [
        ("GREEN", "leaf"),
        ("TWO", "a b"),
        ("NAMED", "seen"),
        ("FROM_FILE", "yes"),
        ("WANTED", "w"),
    ];
    for (name, value) in expected {
        assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(!env.contains_key("UNWANTED") && !env.contains_key("SECRET"));
    assert_eq!(io_class(process), "best-effort: prio 2");
    assert_eq!(init.sandbox.read("theirs/out"), "asked leaf\n");
    assert_eq!(init.sandbox.read("theirs/errors"), "wrong\n");
    let quick = past_exec(&init, "quick.service");
    assert_eq!((quick.stat_field(38), quick.stat_field(37)), (Some(2), Some(3)), "SCHED_RR, 3");
    assert_eq!(quick.status("SigIgn").as_deref(), Some("0000000000001000"), "systemd's default");
    let told = String::from_utf8(init.initctl(&["status", "seen.service"]).stdout).unwrap();
    assert!(told.contains("What a process of seen sees"), "{told}");
    init.finish();
}

fn io_class(process: Process) -> String {
    let ionice = std::process::Command::new("ionice").args(["-p", &process.0.to_string()]).output();
    String::from_utf8(ionice.unwrap().stdout).unwrap().trim().to_owned()
}

#[test]
fn limits_of_an_imported_service_are_set_in_the_kernel() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    // The directive, the name in proc(5), and the soft and hard values. Raising the two priority
    // limits needs a capability that some containers lack; the tests with a virtual machine cover
    // those.
    let limits = [
        ("LimitCPU=1min", "Max cpu time", "60", "60"),
        ("LimitFSIZE=1G", "Max file size", "1073741824", "1073741824"),
        ("LimitDATA=8G", "Max data size", "8589934592", "8589934592"),
        ("LimitSTACK=4M:8M", "Max stack size", "4194304", "8388608"),
        ("LimitCORE=0", "Max core file size", "0", "0"),
        ("LimitRSS=1G", "Max resident set", "1073741824", "1073741824"),
        ("LimitNPROC=4000", "Max processes", "4000", "4000"),
        ("LimitNOFILE=512:1024", "Max open files", "512", "1024"),
        ("LimitMEMLOCK=64K", "Max locked memory", "65536", "65536"),
        ("LimitAS=16G", "Max address space", "17179869184", "17179869184"),
        ("LimitLOCKS=100", "Max file locks", "100", "100"),
        ("LimitSIGPENDING=200", "Max pending signals", "200", "200"),
        ("LimitMSGQUEUE=100K", "Max msgqueue size", "102400", "102400"),
        ("LimitRTTIME=1s", "Max realtime timeout", "1000000", "1000000"),
    ];
    let files = Sandbox::new();
    let lines: Vec<&str> = limits.iter().map(|(line, ..)| *line).collect();
    let text = format!("[Service]\n{}\nExecStart=sleep 1000\n", lines.join("\n"));
    systemd(&files, "limited.service", &text);
    wants(&files, &["limited.service"]);
    let init = alone(files).start("all");
    let process = past_exec(&init, "limited.service");
    for (line, name, soft, hard) in limits {
        assert_eq!(process.limit(name), Some((soft.to_owned(), hard.to_owned())), "{line}");
    }
    init.finish();
}

#[test]
fn imported_service_gets_its_directories() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    let mut text = "[Service]\nUser=nobody\nRuntimeDirectoryPreserve=yes\n".to_owned();
    for (word, mode) in [
        ("Runtime", "0750"),
        ("State", "0700"),
        ("Cache", "0711"),
        ("Logs", "0755"),
        ("Configuration", "0751"),
    ] {
        text.push_str(&format!("{word}Directory=seen\n{word}DirectoryMode={mode}\n"));
    }
    systemd(&files, "kept.service", &format!("{text}ExecStart=sleep 1000\n"));
    wants(&files, &["kept.service"]);
    let init = alone(files).start("all");
    let env = past_exec(&init, "kept.service").environment();
    let about = |path: &str| {
        let about = fs::metadata(inside(&init, path)).unwrap();
        (about.uid(), about.mode() & 0o7777)
    };
    for (variable, path, owner, mode) in [
        ("RUNTIME_DIRECTORY", "/run/seen", 65534, 0o750),
        ("STATE_DIRECTORY", "/var/lib/seen", 65534, 0o700),
        ("CACHE_DIRECTORY", "/var/cache/seen", 65534, 0o711),
        ("LOGS_DIRECTORY", "/var/log/seen", 65534, 0o755),
        ("CONFIGURATION_DIRECTORY", "/etc/seen", 0, 0o751),
    ] {
        assert_eq!(env[variable], path);
        assert_eq!(about(path), (owner, mode), "{path}");
    }
    super::command::drop_all(&init);
    init.when_state("kept.service", "disabled");
    assert!(inside(&init, "/run/seen").exists(), "RuntimeDirectoryPreserve=yes");
    init.finish();
}

#[test]
fn commands_of_an_imported_service_run_in_order() {
    let files = Sandbox::new();
    let say = |word: &str| format!("/bin/sh -c 'echo {word} >>DIR/order'");
    let text = format!(
        "[Service]\nExecCondition={}\nExecStartPre=-/bin/false\nExecStartPre={}\nExecStart={}\n\
         ExecStartPost={}\nExecReload={}\nExecReload=/bin/sh -c 'echo $MAINPID >>DIR/pid'\nExecStop={}\nExecStopPost={}\n",
        say("condition"),
        say("pre"),
        "/bin/sh -c 'echo start >>DIR/order; exec sleep 1000'",
        "/bin/sh -c 'until grep -q start DIR/order; do :; done; echo post >>DIR/order'",
        say("reload"),
        say("stop"),
        say("stop-post"),
    );
    systemd(&files, "web.service", &text);
    wants(&files, &["web.service"]);
    let init = groundstate_tests::boot::Boot::new(files).start("all");
    let status = init.when_state("web.service", "running");
    reload(&init, "web.service");
    let pid = super::command::words(&init, "pid", 1);
    assert_eq!(Some(pid[0].clone()), status.main_pid("web.service").map(|pid| pid.to_string()));
    super::command::drop_all(&init);
    init.when_state("web.service", "disabled");
    let said = super::command::words(&init, "order", 7);
    assert_eq!(said, ["condition", "pre", "start", "post", "reload", "stop", "stop-post"]);
    until("no process is left", || init.processes_of("web.service").is_empty().then_some(()));
    init.finish();
}

#[test]
fn permissions_start_only_runs_only_the_surrounding_commands_as_root() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    systemd(
        &files,
        "web.service",
        "[Service]\nUser=nobody\nPermissionsStartOnly=yes\nExecStartPre=/bin/sh -c 'id -u >DIR/first'\n\
         ExecStart=sleep 1000\n",
    );
    wants(&files, &["web.service"]);
    let init = alone(files).start("all");
    let uid = past_exec(&init, "web.service").status("Uid").unwrap_or_default();
    assert!(uid.starts_with("65534"), "{uid}");
    assert_eq!(init.sandbox.read("first"), "0\n");
    init.finish();
}

/// Tells a unit to reload its configuration.
pub(crate) fn reload(init: &Init, unit: &str) {
    init.tell("reload-unit", &serde_json::json!({"targets": [unit]}));
}
