//! `fleetctl` as users call it: the real binary against the real API, with an in-memory store and
//! simulated machines. Tests output and exit codes.

use crate::stand::{HELLO, Plan, Stand, code, fleetctl, folder, stderr, stdout, write};

#[test]
fn fleetctl_takes_a_unit_from_submit_to_destroy() {
    let stand = Stand::new(Plan::of(&["0123456789abcdef"]));
    write(&stand, "hello.service", HELLO);
    let place = "on 01234567.../127.0.0.1";
    let run = |words: &str| {
        let output = stand.fleetctl(&words.split(' ').collect::<Vec<_>>());
        (code(&output), stdout(&output), stderr(&output))
    };
    let ok = |text: &str| (0, text.to_string(), String::new());
    assert_eq!(run("submit hello.service"), ok("Unit hello.service inactive\n"));
    assert_eq!(run("submit hello"), ok(""));
    assert_eq!(run("cat hello"), ok(HELLO));
    assert_eq!(run("load hello"), ok(&format!("Unit hello.service loaded {place}\n")));
    assert_eq!(run("start hello"), ok(&format!("Unit hello.service launched {place}\n")));
    assert_eq!(run("start hello"), ok(""));
    assert_eq!(
        run("list-units"),
        ok("UNIT\t\tMACHINE\t\t\tACTIVE\tSUB\n\
            hello.service\t01234567.../127.0.0.1\tactive\trunning\n")
    );
    assert_eq!(
        run("list-unit-files --fields=unit,dstate,state,target,desc --no-legend"),
        ok("hello.service\tlaunched\tlaunched\t01234567.../127.0.0.1\tHello\n")
    );
    assert_eq!(run("list-machines"), ok("MACHINE\t\tIP\t\tMETADATA\n01234567...\t127.0.0.1\t-\n"));
    assert_eq!(run("list-machines -l --no-legend --fields=machine"), ok("0123456789abcdef\n"));
    assert_eq!(
        run("stop hello"),
        (
            0,
            format!("Unit hello.service loaded {place}\n"),
            "Successfully stopped units [hello.service].\n".to_string()
        )
    );
    assert_eq!(run("restart hello").0, 0);
    assert_eq!(run("start hello").0, 0);
    assert_eq!(run("restart hello"), ok(&format!("Unit hello.service launched {place}\n")));
    assert_eq!(
        run("unload hello"),
        (
            0,
            "Unit hello.service inactive\n".to_string(),
            "Successfully unloaded units [hello.service].\n".to_string()
        )
    );
    let stopped = run("stop hello");
    assert_eq!(stopped.0, 1);
    assert_eq!(stopped.2, "Unable to stop unit hello.service in state inactive\n");
    assert_eq!(run("destroy hello"), ok("Destroyed hello.service\n"));
    assert_eq!(run("cat hello").0, 1);
}

#[test]
fn fleetctl_does_not_wait_for_an_unplaceable_unit() {
    let stand = Stand::new(Plan::of(&["m1", "m2"]));
    write(&stand, "ssd.service", &format!("{HELLO}[X-Fleet]\nMachineMetadata=disk=ssd\n"));
    let began = std::time::Instant::now();
    let started = stand.fleetctl(&["start", "ssd"]);
    assert_eq!(code(&started), 1);
    assert!(began.elapsed().as_secs() < 20);
    let printed = stderr(&started);
    assert!(printed.contains("no machine of 2 can have it"), "{printed}");
    assert!(printed.contains("m1: its metadata has no disk=ssd"), "{printed}");
    let why = stand.fleetctl(&["why", "ssd"]);
    assert_eq!(code(&why), 1);
    assert!(stdout(&why).contains("m2: its metadata has no disk=ssd"));
    write(&stand, "ssd@.service", &format!("{HELLO}[X-Fleet]\nMachineMetadata=disk=ssd\n"));
    let began = std::time::Instant::now();
    let timed = stand.fleetctl(&["start", "--block-attempts=1", "ssd", "ssd@1", "ssd@2", "ssd@3"]);
    assert_eq!(code(&timed), 1);
    for name in ["ssd", "ssd@1", "ssd@2", "ssd@3"] {
        let words = format!("timed out waiting for unit {name}.service to report state launched");
        assert!(stderr(&timed).contains(&words), "{}", stderr(&timed));
    }
    assert!(began.elapsed().as_secs() < 6, "an attempt of 2 s is for all units together");
    let triggered = stand.fleetctl(&["start", "--no-block", "ssd"]);
    assert_eq!(
        (code(&triggered), stdout(&triggered)),
        (0, "Triggered unit ssd.service start\n".to_string())
    );
}

#[test]
fn variables_with_deprecated_names_are_accepted() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let unix = format!("unix://{}", stand.socket().display());
    let call = |endpoint: &str, variables: &[(&str, &str)]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fleetctl"));
        command.args(["list-machines", "--endpoint", endpoint]).envs(variables.iter().copied());
        command.output().unwrap()
    };
    let together = "--cert-file and --key-file go together";
    for (name, words) in [
        ("FLEETCTL_ETCD_CAFILE", "/nowhere/file: "),
        ("FLEETCTL_ETCD_CERTFILE", together),
        ("FLEETCTL_ETCD_KEYFILE", together),
    ] {
        let refused = call("https://127.0.0.1:1", &[(name, "/nowhere/file")]);
        assert!(stderr(&refused).contains(words), "{name}: {}", stderr(&refused));
    }
    let refused = call(&unix, &[("FLEETCTL_EXPERIMENTAL_API", "false")]);
    assert!(
        stderr(&refused).contains("the driver etcd is no longer supported"),
        "{}",
        stderr(&refused)
    );
    for yes in ["true", "1", "t"] {
        let variables =
            [("FLEETCTL_EXPERIMENTAL_API", yes), ("FLEETCTL_STRICT_HOST_KEY_CHECKING", "0")];
        assert_eq!(code(&call(&unix, &variables)), 0, "{yes}");
    }
}

#[test]
fn instances_come_from_templates() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let missing = stand.fleetctl(&["submit", "hello@1"]);
    assert_eq!(code(&missing), 1);
    let words = "unable to find template Unit(hello@.service) in Registry or on filesystem";
    assert!(stderr(&missing).contains(words), "{}", stderr(&missing));
    write(&stand, "hello@.service", HELLO);
    assert_eq!(code(&stand.fleetctl(&["start", "hello@1", "hello@2.service", "hello@1"])), 0);
    assert_eq!(code(&stand.fleetctl(&["submit", "hello@"])), 0);
    std::fs::remove_file(stand.folder.join("hello@.service")).unwrap();
    assert_eq!(code(&stand.fleetctl(&["start", "hello@3"])), 0);
    let list = stdout(&stand.fleetctl(&["list-units", "--no-legend", "--fields", "unit"]));
    assert_eq!(list, "hello@1.service\nhello@2.service\nhello@3.service\n");
    // A stored template takes precedence over its file.
    write(&stand, "hello@.service", &HELLO.replace("1000", "2000"));
    let started = stand.fleetctl(&["start", "hello@4"]);
    let words = "WARNING: Unit hello@.service in registry differs from local unit file hello@.service. \
                 Add --replace to override.\n";
    assert_eq!((code(&started), stderr(&started)), (0, words.to_string()));
    assert_eq!(stdout(&stand.fleetctl(&["cat", "hello@4"])), HELLO);
}

#[test]
fn first_of_two_descriptions_is_shown() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let twice = HELLO.replace("[Service]", "[Unit]\nDescription=Again\n[Service]");
    write(&stand, "a.service", &twice);
    assert_eq!(code(&stand.fleetctl(&["submit", "a"])), 0);
    let list = stand.fleetctl(&["list-unit-files", "--fields=desc", "--no-legend"]);
    assert_eq!(stdout(&list), "Hello\n");
}

#[test]
fn existing_unit_is_replaced_only_with_the_replace_flag() {
    let stand = Stand::new(Plan::of(&["m1"]));
    write(&stand, "a.service", HELLO);
    assert_eq!(code(&stand.fleetctl(&["start", "a"])), 0);
    write(&stand, "a.service", &HELLO.replace("1000", "2000"));
    let warned = stand.fleetctl(&["start", "a"]);
    assert_eq!(code(&warned), 0);
    assert!(stderr(&warned).contains(
        "WARNING: Unit a.service in registry differs from local unit file a.service. Add --replace to override."
    ));
    let refused = stand.fleetctl(&["submit", "--replace", "a"]);
    assert!(stderr(&refused).contains(
        "can not replace Unit(a.service) in state 'launched', use the appropriate command"
    ));
    assert_eq!(code(&stand.fleetctl(&["start", "--replace", "a"])), 0);
    assert!(stdout(&stand.fleetctl(&["cat", "a"])).contains("sleep 2000"));
    let same = stand.fleetctl(&["start", "--replace", "a"]);
    assert_eq!(stdout(&same), "Found same Unit(a.service) in Registry, nothing to do\n");
}

#[test]
fn signing_a_running_unit_again_keeps_it_running() {
    let stand = Stand::new(Plan::of(&["m1"]));
    write(&stand, "a.service", HELLO);
    let mut openssl = std::process::Command::new("openssl");
    openssl.args(["genpkey", "-algorithm", "ed25519", "-out", "ann.key"]);
    assert!(openssl.current_dir(&stand.folder).status().unwrap().success());
    let key = ["--sign-key", "ann.key", "--cluster-name", "here"];
    let start = |more: &[&str]| stand.fleetctl(&[&key[..], &["start", "a.service"], more].concat());
    let serial = || stand.get("/fleet/v1/units/a.service").json()["signature"]["serial"].as_u64();
    assert_eq!(code(&start(&[])), 0);
    let first = serial();
    let again = start(&["--replace", "--block-attempts=1"]);
    assert_eq!((code(&again), stderr(&again)), (0, String::new()));
    assert_eq!(stdout(&again), "Unit a.service has a new signature\n");
    assert!(first.is_some() && serial() > first);
}

#[test]
fn wrong_command_lines_have_fleets_exit_codes_and_messages() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let table: [(&[&str], i32, &str); 14] = [
        (&["bogus"], 2, "bogus"),
        (&["list-units", "--bogus"], 2, "--bogus"),
        (&["start"], 0, "No units given"),
        (&["stop", "none"], 0, "Units not found in registry"),
        (&["destroy", "none", "neither"], 0, "Units not found in registry"),
        (&["restart"], 0, "No units given"),
        (&["restart", "none"], 1, "unable to find Unit(none.service) in Registry or on filesystem"),
        (&["submit", "none"], 1, "unable to find Unit(none.service) in Registry or on filesystem"),
        (&["cat", "none"], 1, "none.service"),
        (&["status", "none"], 1, "Unit none.service does not exist."),
        (&["list-units", "--fields="], 1, "Must define output format"),
        (&["list-units", "--fields=x"], 1, "Invalid key in output format: \"x\""),
        (&["--endpoint=127.0.0.1:1", "list-units"], 1, "Unable to initialize client"),
        (&["--driver=x", "list-units"], 1, "unrecognized driver"),
    ];
    for (words, expected, message) in table {
        let output = stand.fleetctl(words);
        assert_eq!(code(&output), expected, "{words:?} {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{words:?} {}", stderr(&output));
    }
    let help = stdout(&stand.fleetctl(&[]));
    for words in [["--help"], ["-h"], ["help"]] {
        assert_eq!(stdout(&stand.fleetctl(&words)), help);
    }
    let version = concat!("fleetctl version v", env!("CARGO_PKG_VERSION"), "\n");
    assert!(help.contains("list-unit-files") && help.contains(version));
    let calls: [&[&str]; 4] =
        [&["version"], &["--version"], &["-v"], &["--endpoint=unix:///nowhere", "--version"]];
    for words in calls {
        assert_eq!(stdout(&stand.fleetctl(words)), version, "{words:?}");
    }
    assert_eq!(code(&stand.fleetctl(&["verify", "x"])), 2);
    assert!(stdout(&stand.fleetctl(&["completions", "bash"])).contains("list-machines"));
    assert!(stdout(&stand.fleetctl(&["man"])).contains("fleetctl"));
}

#[test]
fn native_unit_is_returned_byte_for_byte() {
    let stand = Stand::new(Plan {
        machines: vec![("m1", vec![]), ("m2", vec![("disk", "ssd")])],
        ..Plan::default()
    });
    let text = "# the shop\nunit: web\nexec-start: /bin/sleep 60  # long\nx-fleet:\n  machine-metadata: {disk: ssd}\n";
    write(&stand, "web.yaml", text);
    let started = stand.fleetctl(&["start", "web.yaml"]);
    assert_eq!(code(&started), 0, "{}", stderr(&started));
    assert!(stdout(&started).contains("Unit web.service launched on m2"), "{}", stdout(&started));
    assert_eq!(stdout(&stand.fleetctl(&["cat", "web"])), text);
}

#[test]
fn drain_accepts_a_prefix_of_the_machine_id() {
    let stand = Stand::new(Plan::of(&["aaaa1", "bbbb1"]));
    write(&stand, "a.service", HELLO);
    assert_eq!(code(&stand.fleetctl(&["start", "a"])), 0);
    assert_eq!(code(&stand.fleetctl(&["drain", "aaaa"])), 0);
    stand.until("moved", |stand| {
        stdout(&stand.fleetctl(&["list-units", "--fields=machine", "-l", "--no-legend"]))
            == "bbbb1/127.0.0.1\n"
    });
    assert_eq!(code(&stand.fleetctl(&["undrain", "aaaa"])), 0);
    assert_eq!(code(&stand.fleetctl(&["drain", "cccc"])), 1);
}

#[test]
fn drain_names_units_that_would_stop_and_requires_confirmation() {
    let stand = Stand::new(Plan::of(&["aaaa1", "bbbb1"]));
    write(&stand, "free.service", HELLO);
    write(&stand, "pinned.service", &format!("{HELLO}[X-Fleet]\nMachineID=aaaa1\n"));
    write(&stand, "beside.service", &format!("{HELLO}[X-Fleet]\nMachineOf=pinned.service\n"));
    write(&stand, "global.service", &format!("{HELLO}[X-Fleet]\nGlobal=true\n"));
    let all = ["start", "pinned", "beside", "free", "global"];
    assert_eq!(code(&stand.fleetctl(&all)), 0);
    let refused = stand.fleetctl(&["drain", "aaaa"]);
    let printed = stderr(&refused);
    assert_eq!((code(&refused), stdout(&refused)), (1, String::new()), "{printed}");
    assert!(
        printed.contains("2 units stop") && printed.contains("pinned.service: bbbb1...: "),
        "{printed}"
    );
    assert!(printed.contains("beside.service") && printed.contains("--yes"), "{printed}");
    assert!(!printed.contains("free.service") && !printed.contains("global.service"), "{printed}");
    assert!(!stand.get("/fleet/v1/machines").body.contains("draining"), "nothing is done");
    let drained = stand.fleetctl(&["drain", "--yes", "--wait", "aaaa"]);
    assert_eq!(code(&drained), 0, "{}", stderr(&drained));
    assert!(stdout(&drained).ends_with("Machine aaaa1 is empty\n"), "{}", stdout(&drained));
    let left = stand.fleetctl(&["list-units", "--fields=unit,machine", "-l", "--no-legend"]);
    let here: Vec<String> = stdout(&left)
        .lines()
        .filter(|line| line.contains("aaaa1"))
        .map(|line| line.split('\t').next().unwrap().to_string())
        .collect();
    assert_eq!(here, ["global.service"]);
    let columns = ["list-machines", "--no-legend", "--fields=machine,draining"];
    assert_eq!(stdout(&stand.fleetctl(&columns)), "aaaa1...\ttrue\nbbbb1...\tfalse\n");
    assert_eq!(code(&stand.fleetctl(&["drain", "--wait", "aaaa"])), 0, "nothing is left to stop");
}

#[test]
fn backup_is_restored_only_into_an_empty_cluster() {
    let old = Stand::new(Plan::of(&["m1"]));
    let global = format!("{HELLO}[X-Fleet]\nGlobal=true\n");
    for (name, text) in [("a.service", HELLO), ("b@.service", HELLO), ("g.service", &global)] {
        write(&old, name, text);
    }
    write(&old, "web.yaml", "unit: web\nexec-start: /bin/sleep 1000   # long\n");
    for words in [&["start", "a", "g"][..], &["load", "b@1", "web.yaml"], &["submit", "b@"]] {
        assert_eq!(code(&old.fleetctl(words)), 0, "{words:?}");
    }
    let path = old.folder.join("kept.json").display().to_string();
    let done = old.fleetctl(&["backup", &path]);
    assert_eq!((code(&done), stderr(&done)), (0, String::new()));
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let new = Stand::new(Plan::of(&["m2"]));
    assert_eq!(code(&new.fleetctl(&["restore", &path])), 0);
    let files = |stand: &Stand| {
        stdout(&stand.fleetctl(&["list-unit-files", "--fields=unit,hash,dstate", "-l"]))
    };
    assert_eq!(files(&new), files(&old));
    assert_eq!(stdout(&new.fleetctl(&["cat", "web"])), stdout(&old.fleetctl(&["cat", "web"])));
    write(&new, "a.service", &HELLO.replace("1000", "2000"));
    assert_eq!(code(&new.fleetctl(&["start", "--replace", "a"])), 0);
    let refused = new.fleetctl(&["restore", &path]);
    assert!(code(&refused) == 1 && stderr(&refused).contains("--force"), "{}", stderr(&refused));
    assert_ne!(files(&new), files(&old), "nothing is done");
    assert_eq!(code(&new.fleetctl(&["restore", "--force", &path])), 0);
    assert_eq!(files(&new), files(&old));
    let nowhere = old.folder.join("no/such").display().to_string();
    assert_eq!(code(&old.fleetctl(&["backup", &nowhere])), 1);
}

#[test]
fn typing_error_in_a_unit_file_is_a_warning_before_the_submit() {
    let stand = Stand::new(Plan::of(&["m1"]));
    for (command, name) in [("submit", "a"), ("load", "b"), ("start", "c")] {
        write(&stand, &format!("{name}.service"), &format!("{HELLO}ExecStrat=/bin/b\n"));
        let done = stand.fleetctl(&[command, name]);
        let printed = stderr(&done);
        assert_eq!(code(&done), 0, "{printed}");
        assert!(printed.contains("ExecStrat") && printed.contains("ExecStart"), "{printed}");
    }
    write(&stand, "a.service", &format!("{HELLO}ExecStrat=/bin/c\n"));
    let done = stand.fleetctl(&["submit", "--replace", "a"]);
    assert!(code(&done) == 0 && stderr(&done).contains("ExecStrat"), "{}", stderr(&done));
    write(&stand, "t@.service", &format!("{HELLO}ExecStrat=/bin/c\n"));
    let done = stand.fleetctl(&["submit", "t@1"]);
    assert!(code(&done) == 0 && stderr(&done).contains("ExecStrat"), "{}", stderr(&done));
    write(&stand, "native.yaml", "unit: native\nexec-start: /bin/a\nexec-strat: /bin/b\n");
    let done = stand.fleetctl(&["submit", "native.yaml"]);
    assert!(code(&done) == 0 && stderr(&done).contains("exec-strat"), "{}", stderr(&done));
    write(&stand, "c.service", &format!("{HELLO}ExecStrat=/bin/d\n"));
    let done = stand.fleetctl(&["rollout", "--healthy-for=0", "c.service"]);
    assert!(code(&done) == 0 && stderr(&done).contains("ExecStrat"), "{}", stderr(&done));
    write(&stand, "d.service", &format!("{HELLO}[X-Fleet]\nMachineMetdata=disk=ssd\n"));
    let done = stand.fleetctl(&["submit", "d.service"]);
    assert!(stderr(&done).contains("did you mean MachineMetadata?"), "{}", stderr(&done));
}

#[test]
fn unknown_unit_among_existing_ones_is_named_in_a_warning() {
    let stand = Stand::new(Plan::of(&["m1"]));
    for command in ["stop", "unload", "destroy"] {
        write(&stand, "a.service", HELLO);
        assert_eq!(code(&stand.fleetctl(&["start", "a"])), 0);
        let done = stand.fleetctl(&[command, "a", "other"]);
        assert_eq!(code(&done), 0, "{}", stderr(&done));
        assert!(stderr(&done).contains("Unit other.service does not exist."), "{}", stderr(&done));
    }
}

#[test]
fn json_output_equals_the_entities_of_the_api() {
    let stand = Stand::new(Plan::of(&["m1"]));
    write(&stand, "a.service", HELLO);
    assert_eq!(code(&stand.fleetctl(&["start", "a"])), 0);
    let json = |words: &[&str]| -> serde_json::Value {
        serde_json::from_str(&stdout(&stand.fleetctl(words))).unwrap()
    };
    assert_eq!(json(&["--json", "list-units"])[0]["systemdActiveState"], "active");
    assert_eq!(json(&["list-unit-files", "--json"])[0]["name"], "a.service");
    assert_eq!(json(&["list-machines", "--json"])[0]["id"], "m1");
    assert_eq!(json(&["why", "--json", "a"])["machineID"], "m1");
}

#[test]
fn fd_forward_copies_between_a_socket_and_stdio() {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    let stand = Stand::new(Plan::of(&["m1"]));
    let mut child = Command::new(env!("CARGO_BIN_EXE_fleetctl"))
        .arg("fd-forward")
        .arg(stand.socket())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(b"GET /fleet/v1/machines HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(text.ends_with(r#"{"machines":[{"id":"m1","primaryIP":"127.0.0.1"}]}"#), "{text}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(code(&stand.fleetctl(&["fd-forward", "/nowhere"])), 1);
}

/// A fake ssh that runs its command locally; unit tests in `ssh.rs` check the arguments.
#[test]
fn tunnel_runs_the_ssh_of_the_system() {
    use std::os::unix::fs::PermissionsExt;
    let stand = Stand::new(Plan::of(&["m1"]));
    let bin = stand.folder.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let fleetctl = std::path::Path::new(env!("CARGO_BIN_EXE_fleetctl"));
    std::os::unix::fs::symlink(fleetctl, bin.join("fleetctl")).unwrap();
    std::fs::write(bin.join("ssh"), "#!/bin/sh\nfor last; do :; done\nexec sh -c \"$last\"\n")
        .unwrap();
    std::fs::set_permissions(bin.join("ssh"), PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let output = std::process::Command::new(fleetctl)
        .args(["--tunnel=jump.example", "--known-hosts-file"])
        .arg(stand.folder.join("known/hosts"))
        .arg(format!("--endpoint=unix://{}", stand.socket().display()))
        .args(["list-machines", "--no-legend", "--fields=machine", "-l"])
        .env("PATH", &path)
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "m1\n", "{}", stderr(&output));
    let there = std::process::Command::new(fleetctl)
        .args(["ssh", "m1", "echo", "foo"])
        .env("FLEETCTL_ENDPOINT", format!("unix://{}", stand.socket().display()))
        .env("FLEETCTL_KNOWN_HOSTS_FILE", stand.folder.join("known/hosts"))
        .env("PATH", &path)
        .output()
        .unwrap();
    assert_eq!(stdout(&there), "foo\n", "{}", stderr(&there));
}

#[test]
fn request_that_times_out_is_not_repeated() {
    use std::io::{Read, Write};
    let folder = folder();
    let socket = folder.join("silent.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = asked.clone();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            loop {
                let mut head = [0; 4096];
                let read = stream.read(&mut head).unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..read]).into_owned();
                heard.lock().unwrap().extend(head.lines().next().map(str::to_string));
                if !head.starts_with("GET") {
                    break;
                }
                let body = r#"{"machines":[{"id":"m1"}]}"#;
                let kept = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length";
                write!(stream, "{kept}: {}\r\n\r\n{body}", body.len()).unwrap();
            }
            // It stays open and silent.
            open.push(stream);
        }
    });
    let endpoint = format!("unix://{}", socket.display());
    let words = ["--request-timeout=1", "undrain", "m1"];
    let drained = fleetctl(&folder, &endpoint, &words);
    assert_eq!(code(&drained), 1);
    assert!(stderr(&drained).contains("no answer in time"), "{}", stderr(&drained));
    let asked = asked.lock().unwrap();
    assert_eq!(asked.iter().filter(|line| line.starts_with("DELETE")).count(), 1, "{asked:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn debug_flag_prints_each_request_with_its_time() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let before = jiff::Timestamp::now();
    let output = stand.fleetctl(&["--debug", "list-machines"]);
    let printed = stderr(&output);
    let (time, line) = printed.split_once(' ').unwrap();
    assert_eq!(line, "DEBUG GET /fleet/v1/machines\n");
    let time: jiff::Timestamp = time.parse().unwrap();
    let slack = jiff::SignedDuration::from_millis(1);
    assert!(time >= before - slack && time <= jiff::Timestamp::now(), "{printed}");
    assert_eq!(stderr(&stand.fleetctl(&["list-machines"])), "");
}
