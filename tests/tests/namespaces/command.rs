//! The commands around the main command, their prefixes, and conditions.

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use groundstate_units::spec::ConditionKind;
use serde_json::json;

/// A script `NAME.sh` in the sandbox; `DIR` in it is the sandbox.
pub(crate) fn script(files: &Sandbox, name: &str, text: &str) {
    files.put(&format!("{name}.sh"), &text.replace("DIR", files.dir().to_str().unwrap()));
}

/// The words of a file, once it has at least that many.
pub(crate) fn words(init: &Init, file: &str, count: usize) -> Vec<String> {
    until(&format!("{file} has {count} words"), || {
        let words: Vec<String> =
            init.sandbox.read(file).split_whitespace().map(str::to_owned).collect();
        (words.len() >= count).then_some(words)
    })
}

/// Changes the goal so that no unit is needed.
pub(crate) fn drop_all(init: &Init) {
    init.sandbox.unit("nothing", "type: virtual");
    init.tell("reload", &json!({}));
    init.tell("set-target", &json!({"targets": ["nothing"]}));
}

#[test]
fn commands_around_a_start_and_a_stop_run_in_order() {
    let files = Sandbox::new();
    script(&files, "say", "echo $1 >>DIR/order");
    script(&files, "main", "echo start >>DIR/order; exec sleep 1000");
    // The unit counts as started once the main program is executed, which may not have reached this
    // line yet.
    script(
        &files,
        "post",
        "until grep -q start DIR/order; do sleep 0.05; done; echo post $MAINPID >>DIR/order; until [ -e DIR/go ]; do sleep 0.05; done",
    );
    files.unit(
        "web",
        "exec-condition: /bin/sh DIR/say.sh condition\n\
         exec-start-pre: [/bin/sh DIR/say.sh pre-1, /bin/sh DIR/say.sh pre-2]\n\
         exec-start: /bin/sh DIR/main.sh\n\
         exec-start-post: /bin/sh DIR/post.sh\n\
         exec-stop: [/bin/sh DIR/say.sh stop, /bin/kill $MAINPID]\n\
         exec-stop-post: [/bin/sh DIR/say.sh stop-post]",
    );
    let init = Boot::new(files).start("web");
    let said = words(&init, "order", 6);
    assert_eq!(said[..5], ["condition", "pre-1", "pre-2", "start", "post"]);
    let status = init.status();
    assert_eq!(status.state("web"), "starting", "its exec-start-post still runs");
    assert_eq!(status.main_pid("web").map(|pid| pid.to_string()), Some(said[5].clone()));
    init.sandbox.put("go", "");
    init.when_state("web", "running");
    drop_all(&init);
    init.when_state("web", "disabled");
    assert_eq!(words(&init, "order", 8)[6..], ["stop", "stop-post"]);
    init.finish();
}

#[test]
fn exec_stop_post_runs_after_each_kind_of_exit_and_gets_the_result() {
    let files = Sandbox::new();
    script(&files, "told", "echo $SERVICE_RESULT $EXIT_CODE $EXIT_STATUS. >DIR/$1");
    let post = |name: &str| format!("exec-stop-post: /bin/sh DIR/told.sh {name}\nrestart: never\n");
    files.unit("exits", &format!("{}exec-start: /bin/sh -c 'exit 3'", post("exits")));
    files.unit("dies", &format!("{}exec-start: /bin/sh -c 'kill -USR1 $$$$'", post("dies")));
    files.unit(
        "early",
        &format!(
            "{}exec-start-pre: /bin/sh -c 'exit 7'\nexec-start: /bin/sleep 1000",
            post("early")
        ),
    );
    files.unit("none", &format!("{}exec-start: /no/such/program", post("none")));
    files.unit("once", &format!("{}type: oneshot\nexec-start: /bin/true", post("once")));
    files.unit("asked", &format!("{}exec-start: /bin/sleep 1000", post("asked")));
    files.unit("all", "type: virtual\nwants: exits, dies, early, none, once, asked");
    let init = Boot::new(files).start("all");
    for (unit, told) in [
        ("exits", "exit-code exited 3."),
        ("dies", "signal killed USR1."),
        ("early", "exit-code ."),
        ("none", "resources ."),
    ] {
        init.when_state(unit, "failed");
        until(unit, || (init.sandbox.read(unit).trim() == told).then_some(()));
    }
    init.when_state("once", "exited");
    init.when_state("asked", "running");
    assert_eq!(init.sandbox.read("once"), "", "it is up until it is stopped");
    drop_all(&init);
    init.when_state("once", "disabled");
    init.when_state("asked", "disabled");
    assert_eq!(init.sandbox.read("once").trim(), "success exited 0.");
    assert_eq!(init.sandbox.read("asked").trim(), "success killed TERM.");
    init.finish();
}

#[test]
fn exec_condition_that_fails_skips_the_unit() {
    let files = Sandbox::new();
    let unit = |code: u8| {
        format!(
            "restart: never\nexec-condition: /bin/sh -c 'exit {code}'\nexec-start: /bin/sleep 1000"
        )
    };
    files.unit("yes", &unit(0)).unit("no", &unit(1)).unit("broken", &unit(255));
    files.unit("after-no", "waits-for: no\nexec-start: /bin/sleep 1000");
    files.unit("all", "type: virtual\nwants: yes, no, broken, after-no");
    let init = Boot::new(files).start("all");
    init.when_state("yes", "running");
    let status = init.when_state("no", "exited");
    assert_eq!(status.reason("no"), "skipped");
    init.when_state("broken", "failed");
    init.when_state("after-no", "running");
    init.finish();
}

#[test]
fn failing_exec_start_post_ends_the_main_process() {
    let files = Sandbox::new();
    files
        .unit("posted", "restart: never\nexec-start: /bin/sleep 1000\nexec-start-post: /bin/false");
    let init = Boot::new(files).start("posted");
    init.when_state("posted", "failed");
    until("its process has exited", || init.processes_of("posted").is_empty().then_some(()));
    init.finish();
}

#[test]
fn prefixes_of_a_program_change_how_it_is_run() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    script(&files, "id", "id -u >DIR/$1; grep CapBnd /proc/self/status >>DIR/$1");
    files.unit(
        "marked",
        "user: nobody\n\
         capabilities-bound: [CAP_KILL]\n\
         env: {A: value}\n\
         exec-start-pre:\n\
         - -/bin/false\n\
         - -/no/such/program\n\
         - '+/bin/sh DIR/id.sh plus'\n\
         - '!/bin/sh DIR/id.sh bang'\n\
         - '+-/bin/sh -c ''exit 3'''\n\
         - '+:/bin/sh -c ''echo $0 >DIR/colon'' ${A}'\n\
         - '+@/bin/sh another-name -c ''echo $0 >DIR/at'''\n\
         exec-start: sleep 1000",
    );
    let init = Boot::new(files).start("marked");
    init.when_state("marked", "running");
    let read = |name: &str| init.sandbox.read(name);
    assert_eq!(read("plus").lines().next(), Some("0"));
    assert!(!read("plus").ends_with("0000000000000020\n"), "{}", read("plus"));
    assert_eq!(read("bang"), "0\nCapBnd:\t0000000000000020\n");
    assert_eq!(read("colon").trim(), "${A}", "no variable was expanded");
    assert_eq!(read("at").trim(), "another-name");
    let process = init.main_of("marked");
    until("it is past its exec", || {
        process.read("cmdline").filter(|line| line.starts_with("sleep"))
    });
    let uid = nix::unistd::User::from_name("nobody").unwrap().unwrap().uid;
    assert!(process.status("Uid").unwrap().starts_with(&uid.to_string()));
    init.finish();
}

#[test]
fn commands_of_a_reload_run_one_after_another() {
    let files = Sandbox::new();
    script(&files, "say", "echo $1 >>DIR/order");
    files.unit("web", "exec-reload: [/bin/sh DIR/say.sh check, /bin/sh DIR/say.sh $MAINPID]\nexec-start: /bin/sleep 1000");
    let init = Boot::new(files).start("web");
    let status = init.when_state("web", "running");
    init.tell("reload-unit", &json!({"targets": ["web"]}));
    let pid = status.main_pid("web").unwrap().to_string();
    assert_eq!(words(&init, "order", 2), ["check".to_owned(), pid]);
    init.finish();
}

/// For each kind of condition, a value that holds wherever this test runs.
fn so(kind: ConditionKind) -> &'static str {
    match kind {
        ConditionKind::PathExists => "DIR/init.yaml",
        ConditionKind::PathExistsGlob => "DIR/in?t.*",
        ConditionKind::PathIsDirectory => "DIR/units",
        ConditionKind::PathIsSymlink => "/proc/self",
        ConditionKind::PathIsMountPoint => "/proc",
        ConditionKind::PathWritable => "DIR",
        ConditionKind::DirectoryNotEmpty => "DIR/units",
        ConditionKind::FileNotEmpty => "/etc/passwd",
        ConditionKind::FileExecutable => "/bin/sh",
        ConditionKind::KernelCmdline => "COMMAND_LINE",
        ConditionKind::Virtualization => "VIRTUAL",
        ConditionKind::Capability => "CAP_KILL",
        ConditionKind::Security => "SECURITY",
        ConditionKind::AcPower => "AC_POWER",
        ConditionKind::FirstBoot => "FIRST_BOOT",
        ConditionKind::Host => "*",
        ConditionKind::Architecture => "native",
        ConditionKind::User => "0",
        ConditionKind::Group => "0",
        ConditionKind::Cpus => ">= 1",
        ConditionKind::Memory => ">= 1M",
        ConditionKind::KernelVersion => ">= 3.0",
        ConditionKind::Environment => "PROBE=yes",
    }
}

/// Finds the value in the same way as an administrator would.
fn looked_up(kind: ConditionKind, files: &Sandbox) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    match so(kind) {
        // The test starts init as in a container: there the command line is that of PID 1.
        "COMMAND_LINE" => "--container".to_owned(),
        "VIRTUAL" => "yes".to_owned(),
        "SECURITY" => {
            // Most kernels have none of these mounted in here; no kernel has this one.
            String::from("!no-such-technology")
        }
        "AC_POWER" => "yes".to_owned(),
        "FIRST_BOOT" => {
            (if read("/etc/machine-id").trim().is_empty() { "yes" } else { "no" }).to_owned()
        }
        other => other.replace("DIR", files.dir().to_str().unwrap()),
    }
}

#[test]
fn each_condition_starts_the_unit_if_it_holds_and_skips_it_otherwise() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    files.put("init.yaml", "default-target: all\nenv-pass: []\n");
    let mut all = Vec::new();
    for kind in ConditionKind::ALL {
        let (word, holds) = (kind.as_str(), looked_up(kind, &files));
        let fails = match holds.strip_prefix('!') {
            Some(bare) => bare.to_owned(),
            None => format!("!{holds}"),
        };
        for (class, value, end) in [
            ("condition", &holds, "yes"),
            ("condition", &fails, "no"),
            ("assert", &holds, "yes"),
            ("assert", &fails, "no"),
        ] {
            let name = format!("{class}-{word}-{end}");
            files.unit(
                &name,
                &format!("type: oneshot\n{class}-{word}: '{value}'\nexec-start: /bin/true"),
            );
            all.push((name, class, end));
        }
    }
    let names: Vec<&str> = all.iter().map(|(name, ..)| name.as_str()).collect();
    files.unit("all", &format!("type: virtual\nwants: [{}]", names.join(", ")));
    let boot = Boot::new(files).variable("PROBE", "yes").variable("container", "test");
    let init = boot.start("all");
    for (name, class, end) in &all {
        let (state, reason) = match (*class, *end) {
            (_, "yes") => ("exited", ""),
            ("condition", _) => ("exited", "skipped"),
            _ => ("failed", "exec"),
        };
        let status = init.when_state(name, state);
        let told = status.reason(name);
        assert!(
            told == reason || (reason.is_empty() && told != "skipped"),
            "{name}: {}",
            status.unit(name)
        );
    }
    init.finish();
}

#[test]
fn one_of_several_alternative_conditions_is_enough() {
    let files = Sandbox::new();
    files.unit(
        "either",
        "condition-path-exists: ['|/no/such', '|/proc']\nexec-start: /bin/sleep 1000",
    );
    files.unit(
        "neither",
        "condition-path-exists: ['|/no/such', '|!/proc']\nexec-start: /bin/sleep 1000",
    );
    files.unit("hard", "depends-on: neither\nexec-start: /bin/sleep 1000");
    files.unit("all", "type: virtual\nwants: either, neither, hard");
    let init = Boot::new(files).start("all");
    init.when_state("either", "running");
    let status = init.when_state("neither", "exited");
    assert_eq!(status.reason("neither"), "skipped");
    assert_ne!(status.state("hard"), "running", "skipped does not satisfy depends-on");
    init.finish();
}

#[test]
fn skipped_unit_stops_at_once_without_running_exec_stop() {
    let files = Sandbox::new();
    let stop = "stop-timeout: 1h\nexec-stop: /bin/touch DIR/stopped";
    files.unit(
        "path",
        &format!("type: oneshot\ncondition-path-exists: /no/such\nexec-start: /bin/true\n{stop}"),
    );
    files.unit("word", &format!("exec-condition: /bin/false\nexec-start: /bin/sleep 1000\n{stop}"));
    files.unit("provider", "exec-start: /bin/sleep 1000");
    files.unit("all", "type: virtual\nwants: path, word, provider");
    files.unit("none", "type: virtual");
    let init = Boot::new(files).start("all");
    for unit in ["path", "word"] {
        init.when_state(unit, "exited");
    }
    init.tell("set-target", &json!({"targets": ["none"]}));
    for unit in ["path", "word", "provider"] {
        init.when_state(unit, "disabled");
    }
    assert!(!init.sandbox.path("stopped").exists(), "no command had started");
    init.finish();
}

#[test]
fn wait_file_delays_the_start_until_the_file_exists() {
    let files = Sandbox::new();
    files.unit("late", "wait-file: DIR/device\nexec-start: /bin/sleep 1000");
    files.unit(
        "never",
        "restart: never\nstart-timeout: 300ms\nwait-file: /no/such\nexec-start: /bin/sleep 1000",
    );
    files.unit("all", "type: virtual\nwants: late, never");
    let init = Boot::new(files).start("all");
    let status = init.when_state("never", "failed");
    assert_eq!(status.reason("never"), "start-timeout");
    assert_eq!(status.state("late"), "starting");
    init.sandbox.put("device", "");
    init.when_state("late", "running");
    init.finish();
}

#[test]
fn oneshot_that_does_not_remain_runs_its_stop_commands() {
    let files = Sandbox::new();
    script(&files, "say", "echo $1 >>DIR/order");
    files.unit(
        "once",
        "type: oneshot\nremain: no\nexec-start: /bin/sh DIR/say.sh start\nexec-start-post: /bin/sh DIR/say.sh post\nexec-stop: /bin/sh DIR/say.sh stop\nexec-stop-post: /bin/sh DIR/say.sh stop-post",
    );
    files.unit("stops", "type: oneshot\nexec-stop: /bin/sh DIR/say.sh only-stop");
    files.unit("all", "type: virtual\nwants: once, stops");
    let init = Boot::new(files).start("all");
    init.when_state("once", "exited");
    init.when_state("stops", "exited");
    assert_eq!(words(&init, "order", 4), ["start", "post", "stop", "stop-post"]);
    drop_all(&init);
    init.when_state("stops", "disabled");
    assert_eq!(words(&init, "order", 5)[4..], ["only-stop"]);
    init.finish();
}
