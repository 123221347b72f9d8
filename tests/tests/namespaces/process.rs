//! Attributes of a service process: environment, limits, files, signals, user. Also processes that
//! their parents have left.

use super::restricted_environments::after;
use groundstate_tests::boot::Boot;
use groundstate_tests::deadline::until;
use groundstate_tests::extent::turns;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use serde_json::json;
use std::process::Command;

/// Starts init with attributes that no service may inherit. The file `$0` gets the limits, which
/// services do inherit.
const UNCLEAN: &str = "trap '' HUP QUIT PIPE TTIN TTOU URG; umask 077; cd /tmp; ulimit -c 0; ulimit -S -n 512; \
                       exec 7</dev/null 8>&1; cat /proc/self/limits >\"$0\"; exec \"$@\"";

#[test]
fn service_process_inherits_no_attribute_of_init() {
    let files = Sandbox::new();
    files.put("init.yaml", "env-pass: []\n");
    files.unit("plain", "exec-start: /bin/sleep 1000");
    let given = files.at("given");
    let boot = Boot::new(files).through(&["/bin/sh", "-c", UNCLEAN, &given]);
    let init = boot.variable("SECRET", "of the outer world").start("plain");
    init.when_state("plain", "running");
    let process = init.main_of("plain");
    until("it is past its exec", || {
        process.link("exe").filter(|exe| exe.ends_with("sleep") || exe.ends_with("coreutils"))
    });
    let none = "0000000000000000";
    for mask in ["SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "CapAmb"] {
        assert_eq!(process.status(mask).as_deref(), Some(none), "{mask}");
    }
    assert_eq!(process.status("Umask").as_deref(), Some("0022"));
    assert_eq!(process.link("cwd").unwrap().to_str(), Some("/"));
    // The dynamic loader has a library open for a moment.
    let open = || process.files().keys().copied().collect::<Vec<i32>>();
    until("it has only these descriptors", || (open() == [0, 1, 2]).then_some(()));
    assert_eq!(process.files()[&0], "/dev/null");
    let pid = process.0;
    assert_eq!(process.stat_field(2), Some(pid), "it leads its own group");
    assert_eq!(process.stat_field(3), Some(pid), "it leads its own session");
    assert_eq!(process.stat_field(4), Some(0), "it has no terminal");
    // Init has raised its own limit meanwhile.
    assert_eq!(process.read("limits").unwrap(), init.sandbox.read("given"));
    assert_ne!(init.process().limit("Max open files"), process.limit("Max open files"));
    let environment = process.environment();
    let names: Vec<&str> = environment.keys().map(String::as_str).collect();
    assert_eq!(names, ["GROUNDSTATE_UNIT", "INVOCATION_ID", "PATH"], "{environment:?}");
    assert_eq!(environment["GROUNDSTATE_UNIT"], "plain");
    assert_eq!(environment["PATH"], "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    init.finish();
}

#[test]
fn process_has_the_attributes_that_its_unit_file_sets() {
    let files = Sandbox::new();
    files.put("extra.env", "FROM_FILE=yes\n# a comment\nQUOTED=\"two words\"\n");
    files.unit("asked", "working-dir: /usr\numask: \"027\"\nlimits: {nofile: \"512:1024\", core: 0}\nenv: {COLOUR: green}\nenv-file: [DIR/extra.env, -/no/such/file]\nexec-start: DAEMON --name ${COLOUR} --trace DIR/trace");
    let init = Boot::new(files).start("asked");
    init.when_state("asked", "running");
    let process = init.main_of("asked");
    until("it runs", || init.sandbox.trace("trace").contains(&"ready".to_owned()).then_some(()));
    assert_eq!(process.link("cwd").unwrap().to_str(), Some("/usr"));
    assert_eq!(process.status("Umask").as_deref(), Some("0027"));
    assert_eq!(process.limit("Max open files"), Some(("512".to_owned(), "1024".to_owned())));
    assert_eq!(process.limit("Max core file size"), Some(("0".to_owned(), "0".to_owned())));
    let environment = process.environment();
    assert_eq!(environment["COLOUR"], "green");
    assert_eq!(environment["FROM_FILE"], "yes");
    assert_eq!(environment["QUOTED"], "two words");
    assert!(process.read("cmdline").unwrap().contains("\0green\0"));
    init.finish();
}

#[test]
fn user_sets_all_uids_gids_groups_and_variables() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    files.unit("someone", "user: nobody\nexec-start: /bin/sleep 1000");
    let init = Boot::new(files).start("someone");
    init.when_state("someone", "running");
    let process = init.main_of("someone");
    until("it is past its exec", || process.link("exe").filter(|exe| !exe.ends_with("init")));
    let user = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    let (uid, gid) = (user.uid.to_string(), user.gid.to_string());
    let four = |id: &str| [id; 4].join("\t");
    assert_eq!(process.status("Uid"), Some(four(&uid)));
    assert_eq!(process.status("Gid"), Some(four(&gid)));
    let groups = process.status("Groups").unwrap_or_default();
    assert!(groups.is_empty() || groups == gid, "no group of init remains: {groups}");
    assert_eq!(process.status("CapEff").as_deref(), Some("0000000000000000"));
    let environment = process.environment();
    assert_eq!(environment["USER"], "nobody");
    assert_eq!(environment["LOGNAME"], "nobody");
    init.finish();
}

#[test]
fn processes_left_by_a_run_are_gone_before_the_next_start() {
    let files = Sandbox::new();
    files.unit(
        "messy",
        "stop-timeout: 1s\nexec-start: DAEMON --orphans 3 --ignore HUP --control DIR/messy",
    );
    let init = Boot::new(files).start("messy");
    init.when_state("messy", "running");
    until("all processes are running", || (init.processes_of("messy").len() == 4).then_some(()));
    let first = init.processes_of("messy");
    init.sandbox.order("messy", "exit 1");
    until("a new run has all its processes", || {
        let now = init.processes_of("messy");
        (now.len() == 4 && now.iter().all(|p| !first.contains(p))).then_some(())
    });
    init.finish();
}

#[test]
fn hundreds_of_short_runs_leak_nothing() {
    let files = Sandbox::new();
    files.unit("quick", "restart: always\nrestart-delay: 1ms\nsuccess-status: [0]\nexec-start: DAEMON --trace DIR/trace --exit 0");
    let init = Boot::new(files).start("quick");
    until("it has run often enough", || {
        let starts = init.sandbox.trace("trace").iter().filter(|w| w.starts_with("start")).count();
        (starts > 300).then_some(())
    });
    init.check();
    init.finish();
}

#[test]
fn unit_with_many_processes_that_ignore_sigterm_is_gone_after_its_stop() {
    let files = Sandbox::new();
    files.unit(
        "hydra",
        "stop-timeout: 500ms\nexec-start: DAEMON --ignore TERM --children 20 --orphans 20",
    );
    files.unit("none", "type: virtual");
    let init = Boot::new(files).start("hydra");
    until("all processes are running", || (init.processes_of("hydra").len() == 41).then_some(()));
    init.tell("set-target", &serde_json::json!({"targets": ["none"]}));
    init.when("it is down", |s| s.main_pid("hydra").is_none());
    until("no process of it is left", || init.processes_of("hydra").is_empty().then_some(()));
    init.finish();
}

/// A script that records which processes of the previous run are alive. It then leaves three
/// processes and exits: one ignores SIGTERM, one does so in its own session without its parent, one
/// exits slowly.
const MESSY: &str = r#"dir=$1
while read pid; do
  state=$(sed 's/.*) \(.\).*/\1/' /proc/$pid/stat 2>/dev/null)
  case $state in '' | Z | X) ;; *) echo "$pid is $state" >>$dir/overlap ;; esac
done <$dir/left
: >$dir/left
( trap '' TERM; exec sleep 1000 ) & echo $! >>$dir/left
( setsid sh -c 'trap "" TERM; echo $$ >>$0/left; exec sleep 1000' $dir & )
( trap 'sleep 0.05; exit' TERM; while :; do sleep 0.01; done ) & echo $! >>$dir/left
until [ $(wc -l <$dir/left) = 3 ]; do sleep 0.01; done
echo x >>$dir/runs
"#;

#[test]
fn run_starts_only_after_all_processes_of_the_previous_run_have_exited() {
    let lives = turns(20, 500);
    for taking in ["true", "umount -R -l /sys"] {
        let files = Sandbox::new();
        files.put("messy.sh", MESSY).put("left", "");
        files.unit(
            "messy",
            "stop-timeout: 150ms\nrestart: always\nrestart-delay: 1ms\nrestart-delay-max: 10ms\nsuccess-status: [0]\n\
             exec-start: /bin/sh DIR/messy.sh DIR",
        );
        files.unit("none", "type: virtual");
        let mut init = after(taking, files).start("messy");
        until("it has run often enough", || {
            (init.sandbox.trace("runs").len() >= lives).then_some(())
        });
        assert_eq!(init.sandbox.read("overlap"), "", "{taking}: {}", init.output());
        init.tell("set-target", &json!({"targets": ["none"]}));
        init.when("it is down", |s| {
            s.main_pid("messy").is_none() && ["disabled", "failed"].contains(&s.state("messy"))
        });
        assert!(init.processes_of("messy").is_empty(), "{taking}");
        init.may_keep_this_much();
        init.finish();
    }
}

/// A double-forked subreaper in a session of its own without open files, which adopts a descendant
/// made in the same way. Both ignore SIGTERM.
const FLEES: &str = r#"( setsid "$1" --name reaper --ignore TERM --adopts '( trap "" TERM; setsid sleep 1000 <&- >&- 2>&- & )' <&- >&- 2>&- & )
exec "$1" --name main
"#;

#[test]
fn double_forked_subreaper_without_open_files_is_killed_with_its_unit() {
    for (taking, tracking) in [("true", "cgroup2"), ("umount -R -l /sys", "process-group")] {
        let files = Sandbox::new();
        files.put("flee.sh", FLEES);
        files.unit("hydra", "stop-timeout: 500ms\nexec-start: /bin/sh DIR/flee.sh DAEMON");
        files.unit("none", "type: virtual");
        let init = after(taking, files).start("hydra");
        if init.status().0["tracking"] != tracking {
            init.finish();
            return groundstate_tests::not_run!("no cgroup v2 here");
        }
        let own_session = |process: &Process| process.stat_field(3) == Some(process.0);
        let reaper = until("the process has left its session and is init's child", || {
            let fled = |process: &Process| {
                let words = process.read("cmdline").unwrap_or_default();
                words.contains("\0reaper\0")
                    && own_session(process)
                    && process.stat_field(1) == Some(init.process().0)
            };
            init.processes_of("hydra").into_iter().find(fled)
        });
        // Its parent has exited, and it is not init's child: the subreaper has adopted it.
        let adopted = until("the adopted process has its own session and no open files", || {
            let fled = |process: &Process| {
                process.read("comm").as_deref() == Some("sleep\n")
                    && own_session(process)
                    && process.files().is_empty()
            };
            reaper.children().into_iter().find(fled)
        });
        let all = [init.main_of("hydra"), reaper, adopted];
        assert!(all.iter().all(|process| process.is_alive()), "{all:?}");
        init.tell("set-target", &json!({"targets": ["none"]}));
        let status = init.when("it is down", |s| {
            s.main_pid("hydra").is_none() && ["disabled", "failed"].contains(&s.state("hydra"))
        });
        assert_eq!(status.reason("hydra"), "stop-timeout", "{}", status.table());
        let left: Vec<&Process> = all.iter().filter(|process| process.is_alive()).collect();
        assert!(left.is_empty(), "{tracking}: {left:?}");
        init.finish();
    }
}

#[test]
fn each_service_has_its_own_session_keyring() {
    let files = Sandbox::new();
    // KEYCTL_GET_KEYRING_ID of KEY_SPEC_SESSION_KEYRING; -1 without keyrings.
    let call = libc::SYS_keyctl;
    files.put(
        "id.py",
        &format!("import ctypes\nprint(ctypes.CDLL(None).syscall({call}, 0, -3, 0))\n"),
    );
    let names = ["one", "other"];
    for name in names {
        let line = format!("/bin/sh -c 'python3 DIR/id.py >DIR/{name}'");
        files.unit(name, &format!("type: oneshot\nexec-start: {line}"));
    }
    files.unit("all", "type: virtual\ndepends-on: one, other");
    let id = |text: &str| text.trim().parse::<i64>().expect("a number");
    let output = Command::new("python3").arg(files.path("id.py")).output().expect("python3 runs");
    let own = id(&String::from_utf8_lossy(&output.stdout));
    if own < 0 {
        return groundstate_tests::not_run!("no keyrings here");
    }
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let [one, other] = names.map(|name| id(&init.sandbox.read(name)));
    assert!(one > 0 && other > 0 && one != other && own != one && own != other);
    init.finish();
}
