//! The real `initctl` without an init: its output and exit codes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails here ends the test")]

mod place;

use place::{Place, err};
use serde_json::Value;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

impl Place {
    fn file(&self, name: &str, text: &str) -> &Place {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }
}

fn code(words: &[&str]) -> i32 {
    Place::new().initctl(words).status.code().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {} / {}", out(output), err(output));
    })
}

#[test]
fn invalid_command_line_exits_with_64() {
    for words in [
        &["no-such-verb"][..],
        &["status", "../etc"],
        &["why"],
        &["why", "a", "b"],
        &["set-target"],
        &["set-target", "web", "--timeout", "5s"],
        &["set-target", "web", "--wait", "--timeout", "soon"],
        &["set-target", "web", "--or-rollback"],
        &["plan", "web", "--reload"],
        &["kill", "web", "--signal", "LOUD"],
        &["logs", "--since", "the-other-day"],
        &["prefer", "dns"],
        &["prefer", "dns=../unbound"],
        &["whose", "-1"],
        &["whose", "0"],
        &["exit", "256"],
        &["explain", "depend-on"],
        &["check", "/nowhere/at-all"],
        &["start", "web"],
        &["--no-such-flag"],
    ] {
        assert_eq!(code(words), 64, "{words:?}");
    }
}

#[test]
fn failed_write_of_the_output_is_reported_in_text() {
    let place = Place::new();
    for words in [&["explain"][..], &["explain", "--json"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let ended = place.command(words).stdout(full).output().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{words:?}");
        assert!(err(&ended).contains("cannot write"), "{words:?}: {}", err(&ended));
    }
}

#[test]
fn error_is_json_on_stdout_with_json_and_text_on_stderr_otherwise() {
    let place = Place::new();
    let said = place.initctl(&["--json", "status"]);
    assert_eq!(said.status.code(), Some(69));
    let error = json(&said);
    assert_eq!((&error["schema"], &error["error"]["kind"]), (&1.into(), &"no-init".into()));
    assert!(error["error"]["hint"].is_string());
    let said = place.initctl(&["status"]);
    assert!(out(&said).is_empty());
    assert!(err(&said).contains("control.sock"), "{}", err(&said));
    let said = place.initctl(&["stauts", "--json"]);
    assert_eq!(json(&said)["error"]["hint"], "did you mean `status`?");
}

#[test]
fn colours_are_written_only_on_request() {
    let place = Place::new();
    place.file("u/a.yaml", "unit: a\nno-key: x\n");
    let plain = place.initctl(&["check", "u"]);
    assert!(!out(&plain).contains('\u{1b}'));
    let painted = place.initctl(&["check", "u", "--color", "always"]);
    assert!(out(&painted).contains('\u{1b}'));
}

#[test]
fn program_alias_runs_its_verb() {
    let place = Place::new();
    for (name, words) in [
        ("poweroff", &[][..]),
        ("reboot", &["-f"]),
        ("shutdown", &["-h", "now"]),
        ("telinit", &["6"]),
        ("halt", &["-p"]),
    ] {
        let link = place.0.join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_initctl"), &link).unwrap();
        let said = Command::new(&link)
            .args(words)
            .env("GROUNDSTATE_SOCKET", place.0.join("no.sock"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(said.status.code(), Some(69), "{name}: {}", err(&said));
    }
}

#[test]
fn closed_output_pipe_causes_no_error_and_no_panic() {
    let place = Place::new();
    let mut command = place.command(&["explain"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let said = child.wait_with_output().unwrap();
    assert!(err(&said).is_empty(), "{}", err(&said));
}

#[test]
fn check_reports_all_errors_of_a_directory_at_once() {
    let place = Place::new();
    place
        .file("u/web.yaml", "unit: web\ndepend-on: db\nwaits-for: dbb\nexec-start: /bin/sh\n")
        .file("u/db.yaml", "unit: db\nprovides: db, sql\nexec-start: /bin/sh\n")
        .file("u/pg.yaml", "unit: pg\nprovides: sql\nexec-start: /bin/sh\n")
        .file("u/a.yaml", "unit: a\nafter: b\nexec-start: /bin/sh\n")
        .file("u/b.yaml", "unit: b\ndepends-on: a\nexec-start: /bin/sh\n");
    let said = place.initctl(&["check", "u"]);
    assert_eq!(said.status.code(), Some(65));
    let text = out(&said);
    for line in [
        "u/web.yaml:2:1: error: unknown key `depend-on`",
        "u/web.yaml:3:",
        "u/db.yaml:1:1: error: ",
        "u/pg.yaml:1:1",
        "u/a.yaml:2:",
        "u/b.yaml:2:",
        "hint: did you mean `depends-on`?",
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
    let said = place.initctl(&["check", "u", "--json"]);
    assert_eq!(said.status.code(), Some(65));
    let report = json(&said);
    assert!(report["errors"].as_u64() >= Some(4), "{report}");
    assert_eq!(report["schema"], 1);
    let first = &report["diagnostics"][0];
    for field in ["severity", "code", "file", "line", "column", "message", "hint", "related"] {
        assert!(first.get(field).is_some(), "{field}");
    }
}

#[test]
fn check_of_one_file_does_not_fail_for_targets_of_other_files() {
    let place = Place::new();
    place.file("web.yaml", "unit: web\ndepends-on: db\nexec-start: /bin/sh\n");
    let said = place.initctl(&["check", "web.yaml"]);
    assert_eq!(said.status.code(), Some(0), "{}", out(&said));
    assert!(out(&said).contains("web.yaml:2:"), "{}", out(&said));
    let said = place.initctl(&["check", "."]);
    assert_eq!(said.status.code(), Some(65));
}

#[test]
fn warning_fails_only_a_strict_check() {
    let place = Place::new();
    place.file("u/web.yaml", "unit: web\nexec-start: /no/such/program\n");
    assert_eq!(place.initctl(&["check", "u"]).status.code(), Some(0));
    assert_eq!(place.initctl(&["check", "u", "--strict"]).status.code(), Some(1));
    place.file("u/web.yaml", "unit: web\nexec-start: /bin/sh\n");
    assert_eq!(place.initctl(&["check", "u", "--strict"]).status.code(), Some(0));
}

#[test]
fn doctor_of_a_directory_exits_with_1_on_errors_and_prints_all_findings_as_json() {
    let place = Place::new();
    place.file("r/etc/groundstate/units/a.yaml", "unit: a\ntype: virtual\nprovides: multi-user\n");
    let said = place.initctl(&["doctor", "--root", "r"]);
    assert_eq!((said.status.code(), out(&said).as_str()), (Some(0), ""), "{}", err(&said));
    let answer = json(&place.initctl(&["doctor", "--root", "r", "--json"]));
    assert_eq!((&answer["schema"], &answer["errors"]), (&1.into(), &0.into()));
    let first = &answer["findings"][0];
    assert_eq!((&first["level"], &first["subject"]), (&"ok".into(), &"multi-user".into()));
    assert!(first["message"].is_string() && first["hint"].is_string(), "{answer}");
    place.file("r/etc/fstab", "/dev/vdb /srv ext4\n");
    assert_eq!(place.initctl(&["doctor", "--root", "r"]).status.code(), Some(0));
    assert_eq!(place.initctl(&["doctor", "--root", "r", "--strict"]).status.code(), Some(1));
    place.file("r/etc/groundstate/units/a.yaml", "unit: a\nno-key: x\n");
    assert_eq!(place.initctl(&["doctor", "--root", "r"]).status.code(), Some(1));
    let said = place.initctl(&["check", "--root", "r"]);
    assert_eq!(said.status.code(), Some(65));
    let line = "/etc/groundstate/units/a.yaml:2:1: error: unknown key `no-key`";
    assert!(out(&said).contains(line), "{}", out(&said));
    for verb in ["doctor", "check"] {
        assert_eq!(place.initctl(&[verb, "--root", "none"]).status.code(), Some(64), "{verb}");
    }
}

/// A tree with units of each kind, whose /etc/groundstate is a link that the running system would
/// follow to the folder `outside`.
fn image() -> Place {
    let place = Place::new();
    let service = "[Service]\nExecStart=/bin/sh\n[Install]\nWantedBy=multi-user.target\n";
    place
        .file("r/usr/lib/systemd/system/ssh.service", service)
        .file("r/usr/lib/groundstate/units/cron.yaml", "unit: cron\nexec-start: /bin/sh\n")
        .file("outside/units/host.yaml", "unit: host\nexec-start: /bin/sh\n");
    let outside = place.0.join("outside");
    let inside = format!("r{}", outside.display());
    let dns = "unit: unbound\nprovides: dns\nexec-start: /bin/sh\n";
    place
        .file(&format!("{inside}/units/dns.yaml"), dns)
        .file(&format!("{inside}/init.yaml"), "import-dirs: systemd\n");
    fs::create_dir_all(place.0.join("r/etc")).unwrap();
    std::os::unix::fs::symlink(&outside, place.0.join("r/etc/groundstate")).unwrap();
    place
}

#[test]
fn policy_verb_with_a_root_changes_only_the_policy_file_in_it() {
    let place = image();
    let listener = UnixListener::bind(place.0.join("control.sock")).unwrap();
    listener.set_nonblocking(true).unwrap();
    let path = format!("r{}/outside/policy.yaml", place.0.display());
    for (words, word, text) in [
        (&["mask", "cron", "ssh.service"][..], "written", "mask: ['cron', 'ssh.service']\n"),
        (&["mask", "cron"], "unchanged", "mask: ['cron', 'ssh.service']\n"),
        (&["unmask", "cron", "ssh.service"], "written", ""),
        (&["enable", "ssh.service"], "written", "enable: ['ssh.service']\n"),
        (&["disable", "ssh.service"], "written", "disable: ['ssh.service']\n"),
        (
            &["prefer", "dns=unbound"],
            "written",
            "disable: ['ssh.service']\nprefer:\n  'dns': 'unbound'\n",
        ),
        (&["prefer", "dns="], "written", "disable: ['ssh.service']\n"),
    ] {
        let said = place.initctl(&[words, &["--root", "r"]].concat());
        assert_eq!(said.status.code(), Some(0), "{words:?}: {}", err(&said));
        assert_eq!((out(&said), err(&said)), (format!("{path}: {word}\n"), String::new()));
        assert_eq!(fs::read_to_string(place.0.join(&path)).unwrap(), text, "{words:?}");
    }
    let said = place.initctl(&["unmask", "--root", "r", "cron"]);
    assert_eq!(err(&said), format!("cron is not masked in {path}\n"));
    assert!(!place.0.join("outside/policy.yaml").exists());
    let connected = listener.accept().map_err(|error| error.kind());
    assert_eq!(connected.err(), Some(std::io::ErrorKind::WouldBlock), "init was asked");
}

#[test]
fn refused_policy_verb_with_a_root_leaves_its_file_unchanged() {
    let place = image();
    let path = place.0.join(format!("r{}/outside/policy.yaml", place.0.display()));
    fs::write(&path, "mask: [cron]\n").unwrap();
    for (words, code, text) in [
        (&["mask", "--root", "r", "unbond"][..], 65, "did you mean `unbound`?"),
        (&["enable", "--root", "r", "host"], 65, "no unit provides host"),
        (&["prefer", "--root", "r", "dns=cron"], 65, "dns is provided by unbound"),
        (&["mask", "--root", "r", "--runtime", "unbound"], 64, "cannot be used with '--runtime'"),
        (&["mask", "--root", "none", "unbound"], 64, "none: no such directory"),
        (&["mask", "--root", "r/etc/groundstate/init.yaml", "x"], 64, "no such directory"),
    ] {
        let said = place.initctl(words);
        assert_eq!(said.status.code(), Some(code), "{words:?}: {}", err(&said));
        assert!(err(&said).contains(text), "{words:?}: {}", err(&said));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mask: [cron]\n", "{words:?}");
    }
    fs::write(&path, "mask: [a\n").unwrap();
    let said = place.initctl(&["mask", "--root", "r", "unbound"]);
    assert_eq!(said.status.code(), Some(65));
    assert!(err(&said).contains("policy.yaml:"), "{}", err(&said));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mask: [a\n");
    assert!(!place.0.join("none").exists());
}

#[test]
fn graph_of_a_directory_needs_no_init() {
    let place = Place::new();
    place
        .file("u/web.yaml", "unit: web\ndepends-on: db\nexec-start: /bin/sh\n")
        .file("u/db.yaml", "unit: db\nexec-start: /bin/sh\n");
    let said = place.initctl(&["graph", "--units", "u"]);
    assert!(out(&said).contains("\"web\" -> \"db\""), "{}{}", out(&said), err(&said));
    let graph = json(&place.initctl(&["graph", "--units", "u", "--json"]));
    assert_eq!(graph["edges"][0]["to"], "db");
}

#[test]
fn explain_describes_every_listed_key() {
    let place = Place::new();
    let all = json(&place.initctl(&["explain", "--json"]));
    let keys = all["keys"].as_array().unwrap();
    assert!(keys.len() > 30);
    for key in keys {
        let said = place.initctl(&["explain", key["key"].as_str().unwrap()]);
        assert_eq!(said.status.code(), Some(0), "{key}");
    }
}

fn as_unprivileged(place: &Place, words: &[&str]) -> Output {
    // The user's own directories, to leave root's alone.
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(env!("CARGO_BIN_EXE_initctl"))
        .args(words)
        .env("GROUNDSTATE_SOCKET", place.0.join("no.sock"))
        .env("XDG_CONFIG_HOME", place.0.join("config"))
        .env("XDG_RUNTIME_DIR", place.0.join("run"));
    command.output().unwrap()
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|found| found.uid() == 0)
}

/// Lets every user write to the folder.
fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
}

#[test]
fn policy_verb_without_an_init_edits_only_the_file() {
    let place = Place::new();
    open_to_all(&place.0);
    let run = |words: &[&str]| {
        if is_root() {
            as_unprivileged(&place, words)
        } else {
            let mut command = place.command(words);
            command
                .env("XDG_CONFIG_HOME", place.0.join("config"))
                .env("XDG_RUNTIME_DIR", place.0.join("run"));
            command.output().unwrap()
        }
    };
    let units = place.0.join("config/groundstate/units");
    fs::create_dir_all(&units).unwrap();
    for name in ["web", "db", "cron", "unbound", "x"] {
        let provides = if name == "unbound" { "provides: dns\n" } else { "" };
        let text = format!("unit: {name}\n{provides}exec-start: /bin/true\n");
        fs::write(units.join(format!("{name}.yaml")), text).unwrap();
    }
    open_to_all(&place.0.join("config"));
    open_to_all(&place.0.join("config/groundstate"));
    for (words, hint) in [
        (&["mask", "crom"][..], "did you mean `cron`?"),
        (&["enable", "nosuch"], "nothing has changed"),
        (&["unmask", "web", "nosuch"], "nothing has changed"),
        (&["prefer", "dns=web"], "dns is provided by unbound"),
        (&["prefer", "dns=unbond"], "did you mean `unbound`?"),
        (&["prefer", "dnss=unbound"], "did you mean `dns`?"),
    ] {
        let said = run(words);
        assert_eq!(said.status.code(), Some(65), "{words:?}");
        assert!(err(&said).contains(hint), "{words:?}: {}", err(&said));
        assert!(!place.0.join("config/groundstate/policy.yaml").exists(), "{words:?}");
    }
    let said = run(&["mask", "web", "db"]);
    assert_eq!(said.status.code(), Some(0), "{}", err(&said));
    assert!(err(&said).contains("no init"), "{}", err(&said));
    let path = place.0.join("config/groundstate/policy.yaml");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mask: ['db', 'web']\n");
    assert!(run(&["unmask", "web"]).status.success());
    assert!(run(&["prefer", "dns=unbound"]).status.success());
    assert!(run(&["disable", "cron"]).status.success());
    assert!(run(&["enable", "cron"]).status.success());
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text, "mask: ['db']\nprefer:\n  'dns': 'unbound'\nenable: ['cron']\n");
    assert!(run(&["mask", "--runtime", "x"]).status.success());
    assert!(place.0.join("run/groundstate/policy.yaml").exists());
    fs::write(&path, "mask: [a\n").unwrap();
    let said = run(&["mask", "b"]);
    assert_eq!(said.status.code(), Some(65));
    assert!(err(&said).contains("policy.yaml:"), "{}", err(&said));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mask: [a\n");
}

#[test]
fn contrib_files_equal_the_output_of_initctl() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib");
    let place = Place::new();
    for (file, words) in [
        ("completions/initctl.bash", &["completions", "bash"][..]),
        ("completions/_initctl", &["completions", "zsh"]),
        ("completions/initctl.fish", &["completions", "fish"]),
        ("man/initctl.8", &["man"]),
    ] {
        let kept = fs::read_to_string(top.join(file)).unwrap_or_default();
        let now = out(&place.initctl(words));
        assert!(kept == now, "regenerate it: initctl {} > contrib/{file}", words.join(" "));
    }
}

#[test]
fn completions_and_man_page_are_printed_without_an_init() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let said = place.initctl(&["completions", shell]);
        assert!(said.status.success());
        let text = out(&said);
        assert!(text.contains("critical-chain") && text.contains("__targets"), "{shell}");
    }
    let man = out(&place.initctl(&["man"]));
    assert!(man.contains(".TH initctl") && man.contains("set\\-target"), "{man}");
    assert!(place.initctl(&["__targets"]).status.success());
}

/// Returns bash's completions of this line. bash replaces `word`. A stand-in for `initctl` lists a
/// few targets.
fn offered(place: &Place, line: &str, word: &str) -> Vec<String> {
    let bash = format!(
        "{}
        initctl() {{
            case \"$*\" in
                '--socket /a:x __targets' | '--socket=/x __targets') echo of-x ;;
                __targets) printf '%s\\n' job@one job@two web a:b ;;
                explain) printf '  restart  When\\n  restart-delay  The\\n\\nkeys\\n' ;;
            esac
        }}
        COMP_LINE=\"initctl $1\" COMP_POINT=$((8 + ${{#1}}))
        COMP_WORDS=(initctl $1) COMP_CWORD=2
        _initctl_targets initctl \"$2\" ''
        [ ${{#COMPREPLY[@]}} = 0 ] || printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        out(&place.initctl(&["completions", "bash"]))
    );
    let said =
        Command::new("bash").args(["--norc", "-c", &bash, "bash", line, word]).output().unwrap();
    let lines = out(&said);
    lines.lines().filter(|line| !line.starts_with('-')).map(str::to_owned).collect()
}

#[test]
fn bash_completes_names_after_any_prefix_and_word_break() {
    let place = Place::new();
    for (line, word, want) in [
        ("why w", "w", &["web"][..]),
        // bash replaces from its first word break on, not from the second.
        ("why job@", "@", &["@one", "@two"]),
        ("why job@t", "@t", &["@two"]),
        ("why a:", "", &["b"]),
        ("set-target web +j", "+j", &["+job@one", "+job@two"]),
        ("set-target +job@o", "@o", &["@one"]),
        ("--socket /a:x why o", "o", &["of-x"]),
        ("--socket=/x why o", "o", &["of-x"]),
        ("explain restart-", "restart-", &["restart-delay"]),
        ("kill -s K", "K", &["KILL"]),
        ("want --for ", "", &[]),
    ] {
        assert_eq!(offered(&place, line, word), want, "{line}");
    }
}
