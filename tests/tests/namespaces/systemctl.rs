//! systemctl(1) and the commands of System V against a real init: the calls of scripts, Ansible,
//! Puppet and debhelper, and the output that they read.

use crate::systemctl_shim::{program_path as shim_path, service, shim, systemctl};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::sandbox::{Sandbox, program};
use std::path::Path;
use std::process::Command;

/// An init with the goal `multi-user` and one service.
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
        (&["poweroff", "--when=+1h"], "`shutdown +5`"),
        (&["reboot", "bootloader"], "init passes no argument"),
        (&["reboot", "--firmware-setup"], "EFI"),
        (&["exit", "many"], "not an exit code"),
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
    // Without `graphical`, run level 5 falls back to `multi-user`.
    level(&init, "5");
    assert_eq!(init.status().0["goal"][0], "multi-user");
    level(&init, "6");
    assert!(init.ended().success());
}

#[test]
fn start_stops_conflicting_units() {
    let files = Sandbox::new();
    files.put(
        "units/other.service",
        "[Unit]\nConflicts=web.service\n[Service]\nExecStart=/bin/sleep 1000\n",
    );
    files.put(
        "units/outer.service",
        "[Unit]\nRequires=other.service\nAfter=other.service\n[Service]\nExecStart=/bin/sleep 1000\n",
    );
    let init = started(files);
    let (said, code) = systemctl(&init, &["start", "other"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("web.service is left out of the goal"), "{said}");
    assert_eq!(systemctl(&init, &["is-active", "other", "web"]).0, "active\ninactive");
    let (said, code) = systemctl(&init, &["start", "web"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(systemctl(&init, &["is-active", "other", "web"]).0, "inactive\nactive");
    // `outer` pulls in `other`, which conflicts with `web`.
    assert_eq!(systemctl(&init, &["start", "outer"]).1, 0);
    assert_eq!(
        systemctl(&init, &["is-active", "outer", "other", "web"]).0,
        "active\nactive\ninactive"
    );
    init.finish();
}

#[test]
fn reset_failed_makes_a_failed_unit_inactive_and_starts_nothing() {
    let files = Sandbox::new();
    let trace = files.at("trace");
    let command = format!("Type=oneshot\nExecStart=/bin/sh -c 'echo x >>{trace}; exit 1'");
    service(&files, "bad", &command);
    let init = started(files);
    init.when_state("bad.service", "failed");
    assert_eq!(systemctl(&init, &["is-failed", "bad"]), ("failed".to_string(), 0));
    assert_eq!(systemctl(&init, &["reset-failed"]).1, 0);
    init.when_state("bad.service", "disabled");
    assert_eq!(systemctl(&init, &["is-failed", "bad"]), ("inactive".to_string(), 1));
    assert_eq!(systemctl(&init, &["--failed", "--no-legend"]), (String::new(), 0));
    assert_eq!(init.sandbox.read("trace"), "x\n");
    let (said, code) = systemctl(&init, &["start", "bad"]);
    assert!(code == 1 && said.contains("Job for bad.service failed"), "{said}");
    assert_eq!(init.sandbox.read("trace"), "x\nx\n");
    init.finish();
}

#[test]
fn set_default_accepts_only_a_target_that_a_unit_provides() {
    let files = Sandbox::new();
    files.put("init.yaml", "default-target: multi-user\n");
    files.unit("desktop", "type: virtual\nprovides: desktop.target");
    files.unit("broken", "type: virtual\ndepends-on: missing-target");
    let init = started(files);
    let default = || systemctl(&init, &["get-default"]).0;
    let (said, code) = systemctl(&init, &["set-default", "graphical.target"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("no unit provides graphical.target"), "{said}");
    assert_eq!(systemctl(&init, &["set-default", "broken.target"]).1, 1);
    assert_eq!(default(), "multi-user.target");
    assert_eq!(systemctl(&init, &["set-default", "desktop.target"]).1, 0);
    assert_eq!(default(), "desktop.target");
    assert_eq!(systemctl(&init, &["set-default", "multi-user.target"]).1, 0);
    assert_eq!(init.sandbox.read("init.yaml"), "default-target: multi-user\n");
    init.finish();
}

#[test]
fn set_default_of_a_tree_of_files_refuses_a_target_that_no_unit_provides() {
    let files = Sandbox::new();
    std::fs::create_dir_all(files.path("root/etc/groundstate/units")).unwrap();
    files.put("root/etc/groundstate/init.yaml", "default-target: multi-user\n");
    files.put("root/etc/groundstate/units/kiosk.yaml", "unit: kiosk\ntype: virtual\n");
    let init = started(files);
    let root = format!("--root={}", init.sandbox.at("root"));
    assert_eq!(systemctl(&init, &[&root, "set-default", "graphical.target"]).1, 1);
    assert_eq!(systemctl(&init, &[&root, "set-default", "kiosk.target"]).1, 0);
    assert_eq!(systemctl(&init, &[&root, "get-default"]).0, "kiosk.target");
    init.finish();
}

#[test]
fn daemon_reload_forgets_start_and_stop_requests_of_removed_units() {
    let files = Sandbox::new();
    files.put("units/side.service", "[Service]\nExecStart=/bin/sleep 1000\n");
    service(&files, "more", "ExecStart=/bin/sleep 1000");
    let init = started(files);
    assert_eq!(systemctl(&init, &["start", "side"]).1, 0);
    assert_eq!(systemctl(&init, &["stop", "more"]).1, 0);
    let overlay = || init.status().0["overlay"].clone();
    assert_eq!(overlay()["want"][0], "side.service");
    assert_eq!(overlay()["drop"][0], "more.service");
    for name in ["side", "more"] {
        std::fs::remove_file(init.sandbox.path(&format!("units/{name}.service"))).unwrap();
    }
    assert_eq!(systemctl(&init, &["daemon-reload"]), (String::new(), 0));
    assert_eq!(overlay()["want"].as_array().map(Vec::len), Some(0));
    assert_eq!(overlay()["drop"].as_array().map(Vec::len), Some(0));
    init.finish();
}

/// A unit named `generators`, as in the boot set, plays the part of the generators of packages.
#[test]
fn daemon_reload_runs_the_generators_and_starts_their_units() {
    let files = Sandbox::new();
    let (tries, wish, made) = (files.at("tries"), files.at("wish"), files.at("units/made.service"));
    files.unit(
        "generators",
        &format!(
            "type: oneshot\non-change: keep\nwanted-by: multi-user\n\
             exec-start: /bin/sh -c \"echo try >>{tries}; cp {wish} {made}\""
        ),
    );
    let init = started(files);
    init.when_state("generators", "failed");
    let unit = "[Service]\nExecStart=/bin/sleep 1000\n[Install]\nWantedBy=multi-user.target\n";
    init.sandbox.put("wish", unit);
    assert_eq!(systemctl(&init, &["daemon-reload"]), (String::new(), 0));
    init.when_state("made.service", "running");
    assert_eq!(systemctl(&init, &["daemon-reload"]), (String::new(), 0));
    std::fs::remove_file(init.sandbox.path("wish")).unwrap();
    let (said, code) = systemctl(&init, &["daemon-reload"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("generators: its process exited with status 1"), "{said}");
    init.when_state("made.service", "running");
    assert_eq!(init.sandbox.read("tries").lines().count(), 4, "one run for each reload");
    init.finish();
}

#[test]
fn names_are_completed_and_escaped_as_by_systemctl() {
    let files = Sandbox::new();
    files.put("units/t@.service", "[Service]\nExecStart=/bin/sleep 1000\n");
    files.unit("data", "type: virtual\nprovides: srv-x.mount");
    let init = started(files);
    assert_eq!(systemctl(&init, &["start", "/srv/x"]).1, 0);
    init.when_state("data", "running");
    assert_eq!(systemctl(&init, &["is-active", "/srv/x", "/srv//x/"]).0, "active\nactive");
    let (said, code) = systemctl(&init, &["start", "t@/srv/x"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("Invalid unit name \"t@/srv/x\" escaped as \"t@-srv-x\""), "{said}");
    init.when_state("t@-srv-x.service", "running");
    let (said, code) = systemctl(&init, &["start", "t@c\\x2dd.service"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(systemctl(&init, &["is-active", "t@c\\x2dd"]).0, "active");
    assert_eq!(systemctl(&init, &["is-active", "t@c-d"]), ("inactive".to_string(), 3));
    assert_eq!(systemctl(&init, &["stop", "t@c\\x2dd"]).1, 0);
    init.finish();
}

#[test]
fn edit_makes_a_drop_in_and_reloads() {
    let init = started(Sandbox::new());
    init.sandbox.put("editor.sh", "echo '[Service]' >$1; echo Nice=7 >>$1\n");
    let edit = |editor: &str| {
        let mut command = Command::new(shim_path());
        command.env("GROUNDSTATE_SOCKET", init.sandbox.at("run/control.sock"));
        let output = command.env("SYSTEMD_EDITOR", editor).args(["edit", "web"]).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (said, code) = systemctl(&init, &["edit", "web"]);
    assert!(code == 1 && said.contains("if not on a tty"), "{said}");
    let (code, said) = edit("false");
    assert!(code == Some(1) && said.contains("nothing is changed"), "{said}");
    let (code, said) = edit("true");
    assert!(code == Some(0) && said.contains("temporary file is empty"), "{said}");
    assert!(!init.sandbox.path("units/web.service.d").exists());
    assert_eq!(
        edit(&format!("/bin/sh {}", init.sandbox.at("editor.sh"))),
        (Some(0), String::new())
    );
    assert_eq!(init.sandbox.read("units/web.service.d/override.conf"), "[Service]\nNice=7\n");
    let (said, _) = systemctl(&init, &["show", "-p", "Nice", "-p", "NeedDaemonReload", "web"]);
    assert_eq!(said, "Nice=7\nNeedDaemonReload=no");
    init.finish();
}

#[test]
fn enable_of_a_path_links_the_file_and_enables_the_unit() {
    let files = Sandbox::new();
    for dir in ["root/etc/systemd/system", "root/opt/app"] {
        std::fs::create_dir_all(files.path(dir)).unwrap();
    }
    let text = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    files.put("root/opt/app/app.service", text);
    let init = started(files);
    let root = format!("--root={}", init.sandbox.at("root"));
    let (said, code) = systemctl(&init, &[&root, "enable", "/opt/app/app.service"]);
    assert_eq!(code, 0, "{said}");
    let to = |link: &str| std::fs::read_link(init.sandbox.path(link)).unwrap();
    let made = Path::new("/opt/app/app.service");
    assert_eq!(to("root/etc/systemd/system/app.service"), made);
    assert!(
        init.sandbox
            .path("root/etc/systemd/system/multi-user.target.wants/app.service")
            .is_symlink()
    );
    assert_eq!(systemctl(&init, &[&root, "is-enabled", "app"]), ("enabled".to_string(), 0));
    let (said, code) = systemctl(&init, &[&root, "enable", "/opt/app/none.service"]);
    assert!(code == 1 && said.contains("/opt/app/none.service: No such file"), "{said}");
    // The link alone makes the unit known; `disable` removes both links.
    assert_eq!(systemctl(&init, &[&root, "disable", "app"]).1, 0);
    assert!(!init.sandbox.path("root/etc/systemd/system/app.service").is_symlink());
    assert_eq!(systemctl(&init, &[&root, "link", "/opt/app/app.service"]).1, 0);
    assert_eq!(systemctl(&init, &[&root, "is-enabled", "app"]), ("linked".to_string(), 1));
    init.finish();
}

#[test]
fn list_units_filters_by_state_and_type() {
    let files = Sandbox::new();
    service(&files, "bad", "ExecStart=/bin/false");
    files.put("units/idle.service", "[Service]\nExecStart=/bin/sleep 1000\n");
    let init = started(files);
    init.when_state("bad.service", "failed");
    let list = |words: &[&str]| {
        let (text, code) =
            systemctl(&init, &[&["list-units", "--plain", "--no-legend"], words].concat());
        assert_eq!(code, 0, "{words:?}: {text}");
        let first = |line: &str| line.split_whitespace().next().unwrap_or_default().to_string();
        text.lines().map(first).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(list(&["--state=failed"]), "bad.service");
    assert_eq!(list(&["--failed"]), "bad.service");
    assert_eq!(list(&["--type=service", "--state=running"]), "web.service");
    assert_eq!(list(&["-t", "service"]), "bad.service web.service");
    assert_eq!(list(&["--all", "--type=service"]), "bad.service idle.service web.service");
    assert_eq!(
        list(&["--state=inactive", "--state=failed", "-tservice"]),
        "bad.service idle.service"
    );
    assert_eq!(list(&["w*"]), "web.service");
    assert_eq!(list(&["idle"]), "idle.service");
    let (files, code) =
        systemctl(&init, &["list-unit-files", "--type", "service", "--full", "--all"]);
    assert!(code == 0 && files.starts_with("UNIT FILE"), "{files}");
    assert!(files.contains("web.service") && files.ends_with("unit files listed."), "{files}");
    let enabled =
        systemctl(&init, &["list-unit-files", "--no-legend", "--state=enabled", "web*"]).0;
    assert_eq!(
        enabled.split_whitespace().collect::<Vec<_>>(),
        ["web.service", "enabled", "enabled"]
    );
    init.finish();
}

#[test]
fn presets_are_applied_according_to_their_mode() {
    let files = Sandbox::new();
    for dir in
        ["root/etc/systemd/system", "root/etc/systemd/system-preset", "root/usr/lib/systemd/system"]
    {
        std::fs::create_dir_all(files.path(dir)).unwrap();
    }
    let text = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    for name in ["yes", "no", "t@"] {
        files.put(&format!("root/usr/lib/systemd/system/{name}.service"), text);
    }
    files.put("root/usr/lib/systemd/system/static.service", "[Service]\nExecStart=/bin/true\n");
    files.put("root/etc/systemd/system-preset/50-x.preset", "enable yes.service\ndisable *\n");
    let init = started(files);
    let root = format!("--root={}", init.sandbox.at("root"));
    let told = |words: &[&str]| systemctl(&init, &[&[root.as_str()], words].concat());
    let state = |name: &str| told(&["is-enabled", name]).0;
    assert_eq!(told(&["enable", "no"]).1, 0);
    let mode = |mode: &str| [format!("--preset-mode={mode}"), "preset-all".to_string()];
    for (which, yes, no) in
        [("enable-only", "enabled", "enabled"), ("disable-only", "enabled", "disabled")]
    {
        let words = mode(which);
        let (said, code) = told(&words.each_ref().map(String::as_str));
        assert_eq!(code, 0, "{said}");
        assert_eq!((state("yes").as_str(), state("no").as_str()), (yes, no), "{which}");
    }
    assert_eq!(told(&["disable", "yes"]).1, 0);
    assert_eq!(told(&["preset", "yes", "no"]).1, 0);
    assert_eq!((state("yes").as_str(), state("no").as_str()), ("enabled", "disabled"));
    assert_eq!(told(&["preset", "--preset-mode=half", "yes"]).1, 1);
    init.finish();
}
