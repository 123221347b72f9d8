//! What `systemctl show` and `systemctl status` print of a unit, by a real init: the properties that
//! Ansible, Puppet, debhelper and service(8) read.

use crate::shim::{service, systemctl};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::sandbox::Sandbox;

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
fn show_says_when_a_file_has_changed_since_init_read_it() {
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
fn a_masked_unit_and_an_instance_that_is_not_loaded_are_there() {
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
    let (said, code) = systemctl(&init, &["status", "nobody"]);
    assert_eq!((said.as_str(), code), ("Unit nobody.service could not be found.", 4));
    // Ansible starts an instance only where this says that it is there.
    assert_eq!(value(&init, "job@x", "LoadState"), "loaded");
    assert_eq!(value(&init, "job@x", "ActiveState"), "inactive");
    assert_eq!(value(&init, "gone", "LoadState"), "masked");
    assert_eq!(value(&init, "nobody", "LoadState"), "not-found");
    assert_eq!(systemctl(&init, &["is-active", "job@x"]), ("inactive".to_string(), 3));
    assert_eq!(systemctl(&init, &["is-active", "nobody"]), ("inactive".to_string(), 4));
    init.finish();
}

#[test]
fn the_state_of_the_system_counts_what_cannot_start() {
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
fn a_goal_that_is_up_with_failed_units_says_so() {
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
fn the_critical_chain_of_the_boot_outlives_a_restart() {
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
fn show_counts_the_restarts_that_init_made_by_itself() {
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
