//! Output of `systemctl show` and `systemctl status` for a real init: the properties that Ansible,
//! Puppet, debhelper and service(8) read.

use super::crash::crashes;
use crate::systemctl_shim::{service, systemctl};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::crash;
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;

/// The value of one property.
fn value(init: &Init, unit: &str, name: &str) -> String {
    let (text, code) = systemctl(init, &["show", "--value", "-p", name, unit]);
    assert_eq!(code, 0, "{unit} {name}: {text}");
    text
}

#[test]
fn show_prints_the_definition_of_a_unit() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual");
    files.put("web.env", "X=1\n");
    let lines = "ExecStartPre=-/bin/true early\nExecStart=/bin/sleep 1000\n\
                 ExecReload=/bin/kill -HUP $MAINPID\nEnvironment=A=b \"C=d e\"\n\
                 EnvironmentFile=-DIR/web.env\nUser=nobody\nTimeoutStopSec=90\nTimeoutStartSec=infinity\n\
                 Restart=always\nRestartSec=5\nLimitNOFILE=512:1024\nUMask=0027\nKillMode=mixed\n\
                 WorkingDirectory=/tmp\nNice=5\nNoNewPrivileges=yes";
    service(&files, "web", &lines.replace("DIR", files.dir().to_str().unwrap()));
    let socket = format!(
        "[Socket]\nListenStream={}\n[Install]\nWantedBy=multi-user.target\n",
        files.at("web.sock")
    );
    files.put("units/web.socket", &socket);
    let init = Boot::new(files).start("multi-user");
    let pid = init.when_state("web.service", "running").main_pid("web.service").unwrap();
    for (name, want) in [
        ("Environment", "A=b \"C=d e\""),
        ("EnvironmentFiles", &format!("{} (ignore_errors=yes)", init.sandbox.at("web.env"))),
        ("User", "nobody"),
        ("Group", ""),
        ("TimeoutStopUSec", "1min 30s"),
        ("TimeoutStartUSec", "infinity"),
        ("Restart", "always"),
        ("RestartUSec", "5s"),
        ("LimitNOFILE", "1024"),
        ("LimitNOFILESoft", "512"),
        ("UMask", "0027"),
        ("KillMode", "mixed"),
        ("KillSignal", "15"),
        ("WorkingDirectory", "/tmp"),
        ("Nice", "5"),
        ("NoNewPrivileges", "yes"),
        ("RemainAfterExit", "no"),
        ("NRestarts", "0"),
        ("TriggeredBy", "web.socket"),
        ("LoadState", "loaded"),
        ("SourcePath", ""),
        ("MainPID", &pid.to_string()),
    ] {
        assert_eq!(value(&init, "web", name), want, "{name}");
    }
    let command = value(&init, "web", "ExecStart");
    let begin = "{ path=/bin/sleep ; argv[]=/bin/sleep 1000 ; ignore_errors=no ; start_time=[";
    assert!(command.starts_with(begin), "{command}");
    assert!(command.contains(&format!("; pid={pid} ; ")) && command.ends_with('}'), "{command}");
    let early = value(&init, "web", "ExecStartPre");
    assert!(early.contains("argv[]=/bin/true early ; ignore_errors=yes"), "{early}");
    let reload = value(&init, "web", "ExecReload");
    assert!(reload.contains("argv[]=/bin/kill -HUP $MAINPID ;"), "{reload}");
    // service(8) compares the whole line.
    let triggers = systemctl(&init, &["-p", "Triggers", "show", "web.socket"]);
    assert_eq!(triggers, ("Triggers=web.service".to_string(), 0));
    let (all, code) = systemctl(&init, &["show", "web"]);
    assert!(
        code == 0 && !all.contains("LoadError"),
        "Ansible takes LoadError for a failure: {all}"
    );
    let keys: Vec<&str> =
        all.lines().filter_map(|line| line.split_once('=')).map(|(k, _)| k).collect();
    for key in
        ["LoadState", "ActiveState", "SubState", "UnitFileState", "ExecStart", "FragmentPath"]
    {
        assert_eq!(keys.iter().filter(|known| **known == key).count(), 1, "{key}: {all}");
    }
    init.finish();
}

#[test]
fn show_reports_a_unit_file_changed_since_its_load() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual");
    service(&files, "web", "ExecStart=/bin/sleep 1000");
    let init = Boot::new(files).start("multi-user");
    init.when_state("web.service", "running");
    let needed = || systemctl(&init, &["show", "--property=NeedDaemonReload", "--", "web"]).0;
    assert_eq!(needed(), "NeedDaemonReload=no");
    service(&init.sandbox, "web", "ExecStart=/bin/sleep 2000");
    assert_eq!(needed(), "NeedDaemonReload=yes");
    assert_eq!(systemctl(&init, &["daemon-reload"]).1, 0);
    assert_eq!(needed(), "NeedDaemonReload=no");
    std::fs::create_dir(init.sandbox.path("units/web.service.d")).unwrap();
    init.sandbox.put("units/web.service.d/more.conf", "[Service]\nNice=3\n");
    assert_eq!(needed(), "NeedDaemonReload=yes");
    assert_eq!(systemctl(&init, &["daemon-reload"]).1, 0);
    assert_eq!(needed(), "NeedDaemonReload=no");
    assert_eq!(value(&init, "web", "Nice"), "3");
    assert_eq!(
        value(&init, "web", "DropInPaths"),
        init.sandbox.at("units/web.service.d/more.conf")
    );
    std::fs::remove_dir_all(init.sandbox.path("units/web.service.d")).unwrap();
    assert_eq!(needed(), "NeedDaemonReload=yes");
    init.finish();
}

#[test]
fn show_prints_the_conditions_of_a_trigger() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual");
    service(&files, "web", "ExecStart=/bin/sleep 1000");
    let path = files.at("web.sock");
    let socket = format!(
        "[Socket]\nListenStream={path}\nListenDatagram=127.0.0.1:0\nListenDatagram=@web\n\
         ListenFIFO={path}.fifo\nSocketMode=0660\nMaxConnections=7\n\
         FileDescriptorName=front\nSocketGroup=daemon\n[Install]\nWantedBy=multi-user.target\n"
    );
    files.put("units/web.socket", &socket.replace("ListenDatagram=127.0.0.1:0\n", ""));
    files.put("units/tick.timer", "[Timer]\nOnBootSec=1h\nOnCalendar=daily\nUnit=web.service\n");
    files.put("units/look.path", "[Path]\nPathExists=/nowhere\nUnit=web.service\n");
    let init = Boot::new(files).start("multi-user");
    init.when_state("web.service", "running");
    let listen = format!("{path} (Stream)\n@web (Datagram)\n{path}.fifo (FIFO)");
    for (unit, name, want) in [
        ("web.socket", "Listen", listen.as_str()),
        ("web.socket", "SocketMode", "0660"),
        ("web.socket", "SocketGroup", "daemon"),
        ("web.socket", "Accept", "no"),
        ("web.socket", "MaxConnections", "7"),
        ("web.socket", "FileDescriptorName", "front"),
        ("tick.timer", "TimersMonotonic", "{ OnBootUSec=1h }"),
        ("tick.timer", "TimersCalendar", "{ OnCalendar=*-*-* 00:00:00 }"),
        ("tick.timer", "Persistent", "no"),
        ("look.path", "Paths", "/nowhere (PathExists)"),
    ] {
        assert_eq!(value(&init, unit, name), want, "{unit} {name}");
    }
    let (text, _) = systemctl(&init, &["show", "-p", "Listen", "web.socket"]);
    assert_eq!(text.lines().next(), Some(format!("Listen={path} (Stream)").as_str()));
    init.finish();
}

#[test]
fn show_prints_only_the_sandboxing_that_is_applied() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual");
    let lines = "ExecStart=/bin/sleep 1000\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE CAP_KILL\n\
                 AmbientCapabilities=CAP_KILL\nNoNewPrivileges=yes\nSecureBits=noroot\n\
                 ProtectSystem=strict\nPrivateTmp=yes\nReadWritePaths=/srv\n\
                 SystemCallFilter=@system-service\nRestrictAddressFamilies=AF_UNIX";
    service(&files, "web", lines);
    service(&files, "bare", "ExecStart=/bin/sleep 1000\nCapabilityBoundingSet=");
    let init = Boot::new(files).start("multi-user");
    init.when_state("web.service", "running");
    for (unit, name, want) in [
        ("web", "NoNewPrivileges", "yes"),
        ("web", "CapabilityBoundingSet", "cap_kill cap_net_bind_service"),
        ("web", "AmbientCapabilities", "cap_kill"),
        ("web", "SecureBits", "1"),
        // init does not apply these, as the import says of each.
        ("web", "ProtectSystem", "no"),
        ("web", "ProtectHome", "no"),
        ("web", "PrivateTmp", "no"),
        ("web", "ReadWritePaths", ""),
        ("web", "SystemCallFilter", ""),
        ("web", "RestrictAddressFamilies", ""),
        ("bare", "CapabilityBoundingSet", ""),
        ("bare", "NoNewPrivileges", "no"),
    ] {
        assert_eq!(value(&init, unit, name), want, "{unit} {name}");
    }
    let (text, _) = systemctl(&init, &["show", "-p", "SystemCallFilter,ProtectHome", "web"]);
    assert_eq!(text, "SystemCallFilter=\nProtectHome=no");
    init.finish();
}

#[test]
fn show_reports_a_changed_drop_in_of_a_type_a_prefix_or_an_instance() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual");
    service(&files, "a-web", "ExecStart=/bin/sleep 1000");
    service(&files, "job@", "ExecStart=/bin/sleep 1000");
    std::os::unix::fs::symlink("a-web.service", files.path("units/other.service")).unwrap();
    files.put("units/native.yaml", "unit: native\nexec-start: /bin/sleep 1000\n");
    let init = Boot::new(files).start("multi-user");
    init.when_state("a-web.service", "running");
    assert_eq!(systemctl(&init, &["start", "job@x", "job@y"]).1, 0);
    let needed = |unit: &str| value(&init, unit, "NeedDaemonReload");
    let reload = || assert_eq!(systemctl(&init, &["daemon-reload"]).1, 0);
    for (owner, units, others) in [
        ("service", &["a-web", "job@x", "job@y"][..], &["native"][..]),
        ("a-.service", &["a-web"], &["job@x", "native"]),
        ("other.service", &["a-web"], &["job@x"]),
        ("job@.service", &["job@x", "job@y"], &["a-web"]),
        ("job@x.service", &["job@x"], &["job@y", "a-web"]),
    ] {
        let path = format!("units/{owner}.d/more.conf");
        let expect = |want: &str, what: &str| {
            units.iter().for_each(|unit| assert_eq!(needed(unit), want, "{what} {path}: {unit}"));
            others.iter().for_each(|unit| assert_eq!(needed(unit), "no", "{what} {path}: {unit}"));
        };
        expect("no", "before");
        std::fs::create_dir(init.sandbox.path(&format!("units/{owner}.d"))).unwrap();
        init.sandbox.put(&path, "[Service]\nNice=3\n");
        expect("yes", "added");
        reload();
        expect("no", "loaded");
        for unit in units {
            assert_eq!(value(&init, unit, "DropInPaths"), init.sandbox.at(&path), "{unit}");
            assert_eq!(value(&init, unit, "Nice"), "3", "{unit}");
        }
        init.sandbox.put(&path, "[Service]\nNice=4\n");
        expect("yes", "changed");
        reload();
        expect("no", "loaded again");
        std::fs::remove_dir_all(init.sandbox.path(&format!("units/{owner}.d"))).unwrap();
        expect("yes", "removed");
        reload();
    }
    init.finish();
}

#[test]
fn cat_prints_an_enabled_unit_and_the_drop_ins_of_an_instance_once() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual");
    service(&files, "job@", "ExecStart=/bin/sleep 1000");
    for (owner, nice) in [("job@", 1), ("job@x", 2), ("job@y", 3)] {
        std::fs::create_dir(files.path(&format!("units/{owner}.service.d"))).unwrap();
        files.put(&format!("units/{owner}.service.d/n.conf"), &format!("[Service]\nNice={nice}\n"));
    }
    std::fs::create_dir(files.path("units/multi-user.target.wants")).unwrap();
    std::os::unix::fs::symlink(
        "../job@.service",
        files.path("units/multi-user.target.wants/job@x.service"),
    )
    .unwrap();
    let init = Boot::new(files).start("multi-user");
    init.when_state("job@x.service", "running");
    assert_eq!(systemctl(&init, &["start", "job@y"]).1, 0);
    for (unit, nice) in [("job@x.service", "Nice=2"), ("job@y.service", "Nice=3")] {
        let text = String::from_utf8(init.initctl(&["cat", unit]).stdout).unwrap();
        assert_eq!(text.matches("ExecStart=").count(), 1, "{text}");
        assert!(text.matches("Nice=").count() == 1 && text.contains(nice), "{unit}: {text}");
    }
    init.finish();
}

#[test]
fn all_commands_of_a_run_have_one_invocation_id_even_after_a_crash_of_init() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual");
    let say = format!("/bin/sh -c 'echo $$INVOCATION_ID >>{}", files.at("ids"));
    let lines = format!(
        "ExecStartPre={say}'\nExecStart={say}; exec sleep 1000'\nExecReload={say}'\nExecStop={say}'"
    );
    service(&files, "web", &lines);
    let mut init = Boot::new(files).start("multi-user");
    init.expect_crashes();
    init.when_state("web.service", "running");
    let ids = |count: usize| {
        until("the commands have said it", || {
            let text = init.sandbox.read("ids");
            let ids: Vec<String> = text.lines().map(str::to_string).collect();
            (ids.len() >= count).then_some(ids)
        })
    };
    let id = value(&init, "web", "InvocationID");
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    assert_eq!(ids(2), [id.as_str(), &id]);
    crash(&init, Signal::SIGSEGV);
    until("init has recovered", || (crashes(&init) == 1).then_some(()));
    assert_eq!(value(&init, "web", "InvocationID"), id);
    assert_eq!(systemctl(&init, &["reload", "web"]).1, 0);
    assert_eq!(ids(3), [id.as_str(); 3]);
    assert_eq!(systemctl(&init, &["restart", "web"]).1, 0);
    let all = ids(6);
    let next = value(&init, "web", "InvocationID");
    assert_ne!(next, id);
    let (id, next) = (id.as_str(), next.as_str());
    assert_eq!(all, [id, id, id, id, next, next]);
    init.finish_after_crash();
}

#[test]
fn status_and_show_of_a_process_are_those_of_its_unit() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual");
    service(&files, "web", "ExecStart=/bin/sh -c 'sleep 1001; true'");
    let init = Boot::new(files).start("multi-user");
    let pid = init.when_state("web.service", "running").main_pid("web.service").unwrap();
    let (said, code) = systemctl(&init, &["status", &pid.to_string()]);
    assert!(code == 0 && said.starts_with("● web.service"), "{said}");
    assert_eq!(value(&init, &pid.to_string(), "Id"), "web.service");
    let (said, code) = systemctl(&init, &["status", "999999"]);
    let want = "Failed to get unit for PID 999999: PID 999999 does not belong to any loaded unit.";
    assert_eq!((said.as_str(), code), (want, 1));
    init.finish();
}

#[test]
fn masked_unit_and_unloaded_instance_are_found() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual");
    files.put("units/job@.service", "[Service]\nExecStart=/bin/sleep 1000\n");
    std::os::unix::fs::symlink("/dev/null", files.path("units/gone.service")).unwrap();
    let init = Boot::new(files).start("multi-user");
    init.when_system("running");
    let (said, code) = systemctl(&init, &["status", "gone"]);
    assert!(
        code == 3 && said.contains("Loaded: masked (Reason: Unit gone.service is masked.)"),
        "{said}"
    );
    let (said, code) = systemctl(&init, &["status", "job@x"]);
    assert!(
        code == 3 && said.contains("Loaded: loaded (") && said.contains("inactive (dead)"),
        "{said}"
    );
    let (said, code) = systemctl(&init, &["status", "missing"]);
    assert_eq!((said.as_str(), code), ("Unit missing.service could not be found.", 4));
    // Ansible starts an instance only if this reports it as loaded.
    assert_eq!(value(&init, "job@x", "LoadState"), "loaded");
    assert_eq!(value(&init, "job@x", "ActiveState"), "inactive");
    assert_eq!(value(&init, "gone", "LoadState"), "masked");
    assert_eq!(value(&init, "missing", "LoadState"), "not-found");
    assert_eq!(systemctl(&init, &["is-active", "job@x"]), ("inactive".to_string(), 3));
    assert_eq!(systemctl(&init, &["is-active", "missing"]), ("inactive".to_string(), 4));
    init.finish();
}

#[test]
fn system_state_counts_units_that_cannot_start() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual");
    service(&files, "bad", "ExecStart=/bin/false");
    for name in ["one", "two"] {
        let text = "[Unit]\nBindsTo=bad.service\nAfter=bad.service\n[Service]\n\
                    ExecStart=/bin/sleep 1000\n[Install]\nWantedBy=multi-user.target\n";
        files.put(&format!("units/{name}.service"), text);
    }
    let init = Boot::new(files).start("multi-user");
    init.when("all have failed", |status| {
        ["bad", "one", "two"]
            .iter()
            .all(|name| status.state(&format!("{name}.service")) == "failed")
    });
    let (said, code) = systemctl(&init, &["status"]);
    assert_eq!(code, 0);
    assert!(said.contains("State: degraded"), "{said}");
    assert!(said.contains("Failed: 1 units; 2 more cannot start (initctl status)"), "{said}");
    init.finish();
}

#[test]
fn running_goal_with_failed_units_is_logged() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual");
    for name in ["bad", "worse"] {
        service(&files, name, "Type=oneshot\nExecStart=/bin/false");
    }
    files.put(
        "units/late.service",
        "[Unit]\nAfter=bad.service worse.service\n[Service]\nType=oneshot\nExecStart=/bin/true\n\
         [Install]\nWantedBy=multi-user.target\n",
    );
    let init = Boot::new(files).start("multi-user");
    init.when_state("multi-user", "running");
    init.when_system("degraded");
    let said = init.output();
    assert!(said.contains("multi-user: running, but 2 units failed"), "{said}");
    init.finish();
}

#[test]
fn critical_chain_of_the_boot_survives_a_restart() {
    let files = Sandbox::new();
    files.unit("db", "exec-start: DAEMON --name db");
    files.unit("web", "depends-ms: db\nexec-start: DAEMON --name web");
    let init = Boot::new(files).start("web");
    init.when_state("web", "running");
    let chain = || String::from_utf8(init.initctl(&["critical-chain"]).stdout).unwrap();
    let before = chain();
    assert!(before.contains("`- db  @"), "{before}");
    let first = init.main_of("db");
    assert!(init.initctl(&["restart", "--wait", "db"]).status.success());
    assert_ne!(init.main_of("db"), first);
    assert_eq!(chain(), before);
    init.finish();
}

#[test]
fn show_counts_automatic_restarts() {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual");
    let lines = "Restart=always\nRestartSec=10ms\nExecStart=/bin/sh -c 'until [ -e DIR/go ]; do sleep 0.02; done; rm DIR/go'";
    service(&files, "web", &lines.replace("DIR", files.dir().to_str().unwrap()));
    let init = Boot::new(files).start("multi-user");
    let mut before = init.main_of("web.service");
    for count in 1..=2 {
        init.sandbox.put("go", "");
        init.when("it was restarted", |status| {
            status.state("web.service") == "running" && !init.sandbox.path("go").exists()
        });
        groundstate_tests::deadline::until("another process", || {
            let now = init.main_of("web.service");
            (now != before).then(|| before = now)
        });
        assert_eq!(value(&init, "web", "NRestarts"), count.to_string());
    }
    assert_eq!(systemctl(&init, &["restart", "web"]).1, 0);
    assert_eq!(value(&init, "web", "NRestarts"), "0");
    init.finish();
}
