//! The control socket: permissions, malformed requests, and the exit codes of initctl.

use groundstate_tests::boot::{Boot, Init, Way};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::{Sandbox, program};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};

pub(crate) fn one_unit() -> Init {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON --name web");
    files.unit("bad", "type: oneshot\nexec-start: DAEMON --exit 9");
    let init = Boot::new(files).start("web");
    init.when_system("running");
    init
}

/// initctl as uid 65534.
pub(crate) fn as_unprivileged(init: &Init, words: &[&str]) -> (i32, Value) {
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(program("GROUNDSTATE_INITCTL", "initctl"))
        .args(["--json", "--socket", &init.sandbox.at("run/control.sock")])
        .args(words)
        .output()
        .expect("setpriv runs");
    let value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{words:?}: {error}: {}", String::from_utf8_lossy(&output.stderr))
    });
    (output.status.code().unwrap_or(-1), value)
}

#[test]
fn another_user_may_query_and_not_change() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = one_unit();
    let before = init.status();
    for words in [&["status"][..], &["plan", "web"], &["why", "web"], &["tree"], &["blame"]] {
        assert_eq!(as_unprivileged(&init, words).0, 0, "{words:?}");
    }
    for words in [
        &["set-target", "web"][..],
        &["restart", "web"],
        &["kill", "web"],
        &["retry", "web"],
        &["reload"],
        &["want", "web"],
        &["poweroff"],
    ] {
        let (code, said) = as_unprivileged(&init, words);
        assert_eq!(code, 77, "{words:?}: {said}");
        assert!(said["error"]["message"].is_string(), "{said}");
    }
    assert_eq!(init.status().main_pid("web"), before.main_pid("web"));
    init.finish();
}

#[test]
fn root_of_another_user_namespace_is_not_root() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = one_unit();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "-Ur"])
        .arg(program("GROUNDSTATE_CALLER", "caller"))
        .args(["ask", &init.sandbox.at("run/control.sock")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .and_then(|mut caller| {
            let line = "{\"v\":1,\"id\":1,\"verb\":\"restart\",\"targets\":[\"web\"]}\n";
            caller.stdin.take().unwrap().write_all(line.as_bytes())?;
            caller.wait_with_output()
        })
        .expect("unshare runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("\"denied\""), "{said}");
    init.finish();
}

#[test]
fn malformed_request_gets_an_error_and_the_next_line_is_answered() {
    let init = one_unit();
    let mut client = init.client().unwrap();
    for line in
        ["nonsense\n", "{}\n", "[]\n", "{\"v\":1,\"id\":1,\"verb\":\"dance\"}\n", "\0\n", "\n"]
    {
        client.raw(line.as_bytes());
    }
    client.send("ping", &json!({}));
    let mut errors = 0;
    loop {
        match client.answer() {
            Some(Ok(_)) => break,
            Some(Err(error)) => {
                assert!(error["kind"].is_string() && error["message"].is_string(), "{error}");
                errors += 1;
            }
            // Init may close a connection that sends no protocol at all.
            None => {
                assert!(errors > 0);
                break;
            }
        }
    }
    assert!(errors > 0);
    init.finish();
}

#[test]
fn endless_line_and_deeply_nested_list_are_refused() {
    let init = one_unit();
    let mut client = init.client().unwrap();
    client.raw(&vec![b'x'; 70_000]);
    assert!(!matches!(client.answer(), Some(Ok(_))));
    let mut client = init.client().unwrap();
    client.raw(format!("{}\n", "[".repeat(60_000)).as_bytes());
    assert!(!matches!(client.answer(), Some(Ok(_))));
    init.finish();
}

#[test]
fn initctl_exit_codes_are_as_documented() {
    let init = one_unit();
    let code = |words: &[&str]| init.initctl(words).status.code();
    assert_eq!(code(&["ping"]), Some(0));
    assert_eq!(code(&["status"]), Some(0));
    assert_eq!(code(&["status", "--check"]), Some(0));
    assert_eq!(code(&["status", "web"]), Some(0));
    assert_eq!(code(&["no-such-verb"]), Some(64));
    assert_eq!(code(&["set-target", "no-such-target"]), Some(65));
    assert_eq!(code(&["set-target", "bad", "--wait"]), Some(1));
    assert_eq!(code(&["status", "bad"]), Some(1));
    assert_eq!(code(&["status", "--check"]), Some(1));
    assert_eq!(code(&["set-target", "web", "--wait"]), Some(0));
    let unreachable = Command::new(program("GROUNDSTATE_INITCTL", "initctl"))
        .args(["--socket", &init.sandbox.at("run/no.sock"), "status"])
        .output()
        .unwrap();
    assert_eq!(unreachable.status.code(), Some(69));
    init.finish();
}

#[test]
fn wait_ends_at_its_timeout() {
    let files = Sandbox::new();
    files.unit("slow", "type: foreground-notified\nexec-start: DAEMON --notify --ready-on-order --control DIR/slow");
    files.unit("web", "exec-start: DAEMON");
    let init = Boot::new(files).start("web");
    init.when_system("running");
    let output = init.initctl(&["set-target", "slow", "--wait", "--timeout", "300ms"]);
    assert_eq!(output.status.code(), Some(2));
    init.finish();
}

#[test]
fn restart_replaces_the_run_and_kill_sends_the_signal() {
    let init = one_unit();
    let first = init.status().main_pid("web");
    init.tell("restart", &json!({"targets": ["web"]}));
    let second = init
        .when("a new run", |s| s.state("web") == "running" && s.main_pid("web") != first)
        .main_pid("web");
    init.tell("kill", &json!({"targets": ["web"], "signal": 9}));
    init.when("another one", |s| {
        s.state("web") == "running"
            && !matches!(s.main_pid("web"), pid if pid == first || pid == second)
    });
    init.finish();
}

#[test]
fn sigusr1_recreates_the_sockets() {
    let init = one_unit();
    std::fs::remove_file(init.sandbox.path("run/control.sock")).unwrap();
    init.process().signal(nix::sys::signal::Signal::SIGUSR1);
    until("it listens again", || init.client());
    init.finish();
}

#[test]
fn pending_connections_are_answered_after_the_sockets_are_recreated() {
    use nix::sys::signal::Signal;
    let files = Sandbox::new();
    files.unit("slow", "type: foreground-notified\nexec-start: DAEMON --notify --ready-on-order --control DIR/slow");
    let init = Boot::new(files).start("slow");
    init.when_state("slow", "starting");
    init.process().signal(Signal::SIGSTOP);
    until("it is stopped", || (init.process().state() == Some('T')).then_some(()));
    init.sandbox.order("slow", "ready");
    // More connections than init accepts in one turn; each has sent its request.
    let mut waiting: Vec<_> =
        (0..100).map(|_| init.client().expect("the kernel accepts the connection")).collect();
    waiting.iter_mut().for_each(|client| client.send("ping", &json!({})));
    init.process().signal(Signal::SIGUSR1);
    init.process().signal(Signal::SIGCONT);
    for client in &mut waiting {
        assert_eq!(client.answer().expect("it is not turned away").expect("a pong")["pid"], 1);
    }
    drop(waiting);
    init.when_state("slow", "running");
    init.finish();
}

#[test]
fn sigterm_stops_the_units_and_ends_a_container_with_0() {
    use nix::sys::signal::Signal;
    for (signal, way) in [(Signal::SIGTERM, Way::Namespace), (Signal::SIGINT, Way::Supervisor)] {
        let files = Sandbox::new();
        files.unit("web", "exec-start: DAEMON --trace DIR/trace");
        let root = nix::unistd::geteuid().is_root();
        let way = if way == Way::Namespace && !root { Way::UserNamespace } else { way };
        let mut init = Boot::new(files).way(way).start("web");
        init.when("the service handles signals", |s| {
            s.system() == "running" && init.sandbox.trace("trace").contains(&"ready".to_owned())
        });
        let start = std::time::Instant::now();
        init.process().signal(signal);
        assert_eq!(init.ended().code(), Some(0), "{signal}");
        // Container managers wait this long by default before they send SIGKILL.
        assert!(start.elapsed() < std::time::Duration::from_secs(10), "{:?}", start.elapsed());
        assert!(init.sandbox.trace("trace").contains(&"term".to_owned()), "{signal}");
    }
}

#[test]
fn exit_with_passes_on_the_exit_code_of_its_target() {
    let files = Sandbox::new();
    files.unit("job", "type: oneshot\nwaits-for: helper-d\nexec-start: DAEMON --exit 42");
    files.unit("helper-d", "exec-start: DAEMON");
    let mut init = Boot::new(files).arguments(&["--exit-with", "job"]).launch("job");
    assert_eq!(init.ended().code(), Some(42), "{}", init.output());
}

#[test]
fn last_request_without_a_newline_is_answered() {
    use std::io::{Read, Write};
    let init = one_unit();
    let path = init.sandbox.path("run/control.sock");
    let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
    stream.write_all(br#"{"v":1,"id":9,"verb":"ping"}"#).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((&answer["id"], answer["ok"].is_object()), (&json!(9), true), "{answer}");
    init.finish();
}

#[test]
fn policy_change_for_an_unknown_target_is_refused_and_changes_nothing() {
    let init = one_unit();
    for (words, hint) in [
        (&["mask", "wbe"][..], "did you mean `web`?"),
        (&["prefer", "web=bad"], "web is provided by web"),
    ] {
        let (code, said) = init.initctl_json(words);
        assert_eq!((code, &said["error"]["hint"]), (65, &json!(hint)), "{said}");
        assert!(!init.sandbox.path("policy.yaml").exists());
    }
    init.finish();
}

#[test]
fn hint_for_an_unknown_target_names_no_target_without_a_unit() {
    let files = Sandbox::new();
    files.unit("web", "depends-on: 'nosuch?, other?'\nexec-start: DAEMON");
    let init = Boot::new(files).start("web");
    init.when_system("running");
    for unknown in ["nosuch", "nosuhc"] {
        let (_, said) = init.initctl_json(&["want", unknown]);
        assert_eq!(said["error"]["hint"], "`initctl status --all` lists the targets", "{said}");
    }
    assert_eq!(init.initctl_json(&["want", "wbe"]).1["error"]["hint"], "did you mean `web`?");
    init.finish();
}

#[test]
fn unmask_removes_each_kind_of_mask() {
    let files = Sandbox::new();
    files.put("units/hello.service", "[Service]\nExecStart=/bin/sleep 1000\n");
    files.unit("all", "type: virtual\nwaits-for: hello");
    let init = Boot::new(files).start("all");
    for mask in [&["mask", "hello.service"][..], &["mask", "hello", "--runtime"]] {
        init.when_state("hello.service", "running");
        assert_eq!(init.initctl(mask).status.code(), Some(0));
        init.when("it is down", |s| s.main_pid("hello.service").is_none());
        init.when_state("hello.service", "disabled");
        let why = init.initctl(&["why", "hello"]);
        let said = String::from_utf8_lossy(&why.stdout).into_owned();
        assert!(said.contains("`initctl unmask hello`"), "{said}");
        assert_eq!(init.initctl(&["unmask", "hello"]).status.code(), Some(0));
    }
    init.when_state("hello.service", "running");
    let nothing = init.initctl(&["unmask", "hello"]);
    let said = String::from_utf8_lossy(&nothing.stderr).into_owned();
    assert!(said.lines().any(|line| line.ends_with("hello is not masked")), "{said}");
    let nothing = init.initctl(&["unmask", "hello", "--runtime"]);
    let said = String::from_utf8_lossy(&nothing.stderr).into_owned();
    assert!(said.contains("hello is not masked in /"), "{said}");
    let (code, _) = init.initctl_json(&["set-target", "all", "-hello"]);
    assert_eq!(code, 0);
    let nothing = init.initctl(&["unmask", "hello"]);
    let said = String::from_utf8_lossy(&nothing.stderr).into_owned();
    assert!(said.contains("`initctl unwant hello` takes that back"), "{said}");
    assert_eq!(init.initctl(&["unwant", "hello"]).status.code(), Some(0));
    init.when_state("hello.service", "running");
    init.finish();
}

/// Unmounted when the value is dropped.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.0, nix::mount::MntFlags::MNT_DETACH);
    }
}

#[test]
fn unmask_works_if_the_policy_file_is_that_of_this_boot() {
    for policy in ["run/policy.yaml", "run/../run/policy.yaml"] {
        let files = Sandbox::new();
        files.unit("web", "exec-start: DAEMON");
        files.unit("all", "type: virtual\nwants: web");
        let named = files.at(policy);
        let init = Boot::new(files).arguments(&["--policy", &named]).start("all");
        init.when_state("web", "running");
        for mask in [&["mask", "web"][..], &["mask", "web", "--runtime"]] {
            assert_eq!(init.initctl(mask).status.code(), Some(0));
            init.when("it is masked", |status| status.main_pid("web").is_none());
            let is_permanent = init.sandbox.read("run/policy.yaml").contains("web");
            assert_eq!(is_permanent, mask.len() == 2, "{mask:?}");
            let unmasked = init.initctl(&["unmask", "web"]);
            let said = String::from_utf8_lossy(&unmasked.stderr).into_owned();
            assert_eq!(unmasked.status.code(), Some(0), "{said}");
            init.when_state("web", "running");
        }
        init.finish();
    }
}

#[test]
fn unmask_changes_both_policy_files_or_neither() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON");
    let init = Boot::new(files).start("web");
    // Before the first load no target is called `web`.
    init.when_state("web", "running");
    for mask in [&["mask", "web"][..], &["mask", "web", "--runtime"]] {
        assert_eq!(init.initctl(mask).status.code(), Some(0));
    }
    let paths = ["policy.yaml", "run/policy.yaml"].map(|name| init.sandbox.path(name));
    let texts = || paths.clone().map(|path| std::fs::read_to_string(path).unwrap());
    let before = texts();
    // The first mount prevents the rename onto the second file; the other one prevents any write
    // beside it.
    for (place, how) in [("run/policy.yaml", "rw"), ("run", "ro")] {
        let place = init.sandbox.path(place);
        let words = format!("mount --bind \"$0\" \"$0\" && mount -o remount,bind,{how} \"$0\"");
        let mounted = std::process::Command::new("sh").arg("-c").arg(words).arg(&place).status();
        assert!(mounted.unwrap().success());
        let mounted = Mounted(place);
        let unmasked = init.initctl(&["unmask", "web"]);
        let said = String::from_utf8_lossy(&unmasked.stderr).into_owned();
        assert!(unmasked.status.code() != Some(0) && said.contains("run/policy.yaml"), "{said}");
        assert_eq!(texts(), before, "{said}");
        drop(mounted);
        let left = std::fs::read_dir(init.sandbox.dir()).unwrap().flatten();
        let left: Vec<_> = left.filter(|it| it.file_name().as_encoded_bytes()[0] == b'.').collect();
        assert!(left.is_empty(), "{left:?}");
    }
    assert_eq!(init.initctl(&["unmask", "web"]).status.code(), Some(0));
    init.when_state("web", "running");
    init.finish();
}

#[test]
fn exit_with_an_unknown_target_is_reported() {
    let files = Sandbox::new();
    files.unit("job", "exec-start: DAEMON");
    let init = Boot::new(files).arguments(&["--exit-with", "jbo"]).start("job");
    init.when_system("running");
    assert!(init.output().contains("exit-with jbo: no unit provides it"), "{}", init.output());
    init.finish();
}
