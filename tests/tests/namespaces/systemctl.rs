//! systemctl(1) and the commands of System V, asked of a real init: what scripts, Ansible, Puppet
//! and debhelper call, and what they read.

use crate::shim::{service, shim, systemctl};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::sandbox::{Sandbox, program};
use std::path::Path;
use std::process::Command;

/// A set with a goal `multi-user`, and one service of it.
fn started(files: Sandbox) -> Init {
    files.unit("multi-user", "type: virtual");
    service(&files, "web", "ExecStart=/bin/sleep 1000");
    let init = Boot::new(files).start("multi-user");
    init.when_state("web.service", "running");
    init
}

#[test]
fn systemctl_refuses_what_init_cannot_do_and_says_why() {
    let init = started(Sandbox::new());
    for (words, why) in [
        (&["soft-reboot"][..], "init cannot restart user space alone"),
        (&["kexec"], "init does not boot a kernel that kexec has loaded"),
        (&["suspend"], "init does not put the machine to sleep"),
        (&["set-environment", "A=b"], "Environment="),
        (&["unset-environment", "A"], "Environment="),
        (&["import-environment"], "Environment="),
        (&["set-property", "web", "CPUWeight=5"], "systemctl edit"),
        (&["freeze", "web"], "init does not freeze units"),
        (&["poweroff", "--when=+1h"], "init schedules no shutdown"),
        (&["reboot", "bootloader"], "init passes no argument"),
        (&["reboot", "--firmware-setup"], "EFI"),
        (&["exit", "many"], "no exit code"),
        (&["halt", "web"], "Too many arguments"),
        (&["stop", "--dry-run", "web"], "--dry-run"),
        (&["start", "--job-mode=isolate", "web"], "init has no jobs"),
        (&["nonsense"], "Unknown command verb nonsense."),
    ] {
        let (said, code) = systemctl(&init, words);
        assert!(code == 1 && said.contains(why), "{words:?}: {code}: {said}");
    }
    assert_eq!(systemctl(&init, &["poweroff", "--dry-run"]).1, 0);
    assert_eq!(init.status().system(), "running");
    init.finish();
}

#[test]
fn show_environment_has_the_variables_of_every_unit() {
    let files = Sandbox::new();
    files.put("init.yaml", "env: {LANG: C.UTF-8}\n");
    let init = started(files);
    let (said, code) = systemctl(&init, &["show-environment"]);
    assert!(code == 0 && said.starts_with("PATH=/") && said.ends_with("\nLANG=C.UTF-8"), "{said}");
    init.finish();
}

#[test]
fn runlevel_prints_the_level_of_the_goal() {
    let files = Sandbox::new();
    files.unit("graphical", "type: virtual");
    files.unit("odd", "type: virtual");
    files.unit("rescue", "type: virtual\nprovides: rescue.target");
    let init = started(files);
    let level = || {
        let output = shim(&init, "runlevel", &[]);
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    };
    assert_eq!(level(), ("N 3\n".to_string(), Some(0)));
    for (told, goal, prints) in
        [("5", "graphical", "N 5\n"), ("S", "rescue", "N 1\n"), ("2", "multi-user", "N 3\n")]
    {
        assert!(shim(&init, "telinit", &[told]).status.success());
        assert_eq!(init.status().0["goal"][0], goal);
        assert_eq!(level(), (prints.to_string(), Some(0)));
    }
    assert!(init.initctl(&["set-target", "odd"]).status.success());
    assert_eq!(level(), ("unknown\n".to_string(), Some(1)));
    init.finish();
}

#[test]
fn init_that_is_not_pid_1_passes_a_run_level_on() {
    let files = Sandbox::new();
    files.unit("rescue", "type: virtual");
    let mut init = started(files);
    let initctl = program("GROUNDSTATE_INITCTL", "initctl");
    let folder = Path::new(&initctl).parent().unwrap().to_owned();
    let level = |init: &Init, level: &str| {
        let mut command = Command::new(program("GROUNDSTATE_INIT", "init"));
        command.arg(level).env("GROUNDSTATE_SOCKET", init.sandbox.at("run/control.sock"));
        let status = command.env("PATH", &folder).status().unwrap();
        assert!(status.success(), "init {level}: {status}");
    };
    level(&init, "1");
    assert_eq!(init.status().0["goal"][0], "rescue");
    // Without `graphical` the level of a desktop is the one that there is.
    level(&init, "5");
    assert_eq!(init.status().0["goal"][0], "multi-user");
    level(&init, "6");
    assert!(init.ended().success());
}
