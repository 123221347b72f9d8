//! The identity of a client of the control socket: determined once, by the credentials at
//! connect(2).

use groundstate_tests::boot::{Boot, Init, Way};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::{Sandbox, program};
use groundstate_units::control::request::{Role, TABLE};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recv, recvmsg, send};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, IoSliceMut, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

const UNPRIVILEGED: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

fn one_unit() -> Init {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON --name web");
    files.unit("other", "exec-start: DAEMON");
    let init = Boot::new(files).start("web");
    init.when_system("running");
    init
}

fn root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The answers to these requests, sent by such a caller on one connection.
fn asked_by(init: &Init, who: &[&str], requests: &[Value]) -> Vec<Value> {
    asked_at("run/control.sock", init, who, requests)
}

/// The answers to these requests from another socket.
fn asked_at(socket: &str, init: &Init, who: &[&str], requests: &[Value]) -> Vec<Value> {
    let mut child = Command::new(who[0])
        .args(&who[1..])
        .arg(program("GROUNDSTATE_CALLER", "caller"))
        .args(["ask", &init.sandbox.at(socket)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a caller");
    let mut stdin = child.stdin.take().expect("its stdin");
    for request in requests {
        writeln!(stdin, "{request}").expect("it reads");
    }
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A request with this verb and all fields that any verb needs.
fn request(verb: &str) -> Value {
    json!({"v": 1, "id": 5, "verb": verb, "target": "web", "targets": ["web"], "pid": 1,
        "source": "fleet", "policy": {}, "root": "/none/such"})
}

#[test]
fn each_verb_is_refused_to_callers_without_its_role() {
    if !root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = one_unit();
    let before = init.status();
    // The verbs that answer later or with a stream are checked below.
    let verbs = TABLE.iter().filter(|(verb, _)| !["wait", "events"].contains(verb));
    let requests: Vec<Value> = verbs.clone().map(|(verb, _)| request(verb)).collect();
    let answers = asked_by(&init, &UNPRIVILEGED, &requests);
    assert_eq!(answers.len(), requests.len());
    for ((verb, role), answer) in verbs.zip(&answers) {
        let denied = answer["error"]["kind"] == "denied";
        assert_eq!(denied, *role != Role::Read, "{verb}: {answer}");
        let line = format!("{verb} refused to uid 65534");
        assert_eq!(init.output().contains(&line), denied, "{verb} is noted: {}", init.output());
    }
    assert!(asked_by(&init, &UNPRIVILEGED, &[request("events")])[0]["ok"].is_object());
    assert!(asked_by(&init, &UNPRIVILEGED, &[request("wait")])[0]["ok"].is_object());
    let after = init.status();
    assert_eq!(after.main_pid("web"), before.main_pid("web"));
    assert_eq!(after.0["generation"], before.0["generation"]);
    init.finish();
}

#[test]
fn root_is_root_in_every_namespace_except_another_user_namespace() {
    if !root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = one_unit();
    let jail = init.sandbox.at("jail");
    std::fs::create_dir(&jail).unwrap();
    // These callers are inside init's pid namespace; those of the next test are outside.
    let pid = init.process().0.to_string();
    let inside = ["nsenter", "-t", &pid, "-p", "-m"];
    let script = format!("mount --rbind / {jail} && exec chroot {jail} \"$0\" \"$@\"");
    let restart = [request("restart")];
    for (who, may) in [
        (&[][..], true),
        (&["unshare", "-fp"], true),
        (&["unshare", "-m", "sh", "-c", &script], true),
        (&["setpriv", "--bounding-set=-all", "--inh-caps=-all"], true),
        // A process that has dropped its privileges for good, or for a time as a setuid program
        // does: its effective uid at connect(2) counts.
        (&UNPRIVILEGED, false),
        (&["setpriv", "--euid=65534", "--egid=65534", "--clear-groups"], false),
        (&["setpriv", "--ruid=65534", "--rgid=65534", "--clear-groups"], true),
        (&["unshare", "-U", "--map-root-user"], false),
        (&["unshare", "-Ufp", "--map-root-user", "--mount-proc"], false),
        // Root of a user namespace that an unprivileged user has made, also of a nested one.
        (&[&UNPRIVILEGED[..], &["unshare", "-Ur"]].concat(), false),
        (&[&UNPRIVILEGED[..], &["unshare", "-Ur", "unshare", "-Ur"]].concat(), false),
    ] {
        let answers = asked_by(&init, &[&inside[..], who].concat(), &restart);
        assert_eq!(answers.len(), 1, "{who:?}");
        assert_eq!(answers[0]["error"]["kind"] == "denied", !may, "{who:?}: {}", answers[0]);
    }
    init.when_state("web", "running");
    init.finish();
}

#[test]
fn root_of_another_user_namespace_is_refused_from_outside_the_pid_namespace() {
    if !root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = one_unit();
    let in_own_namespace = [&UNPRIVILEGED[..], &["unshare", "-Ur"]].concat();
    for (caller, may) in [
        (&["env"][..], true),
        (&["unshare", "-fp", "--mount-proc"], true),
        (&["unshare", "-U", "--map-root-user"], false),
        (&["unshare", "-Ufp", "--map-root-user", "--mount-proc"], false),
        (&["unshare", "-U", "--map-root-user", "unshare", "-U", "--map-root-user"], false),
        (&in_own_namespace, false),
    ] {
        let answers = asked_by(&init, caller, &[request("restart")]);
        assert_eq!(answers.len(), 1, "{caller:?}");
        assert_eq!(answers[0]["error"]["kind"] == "denied", !may, "{caller:?}: {}", answers[0]);
        assert_eq!(reads_logs(&init, caller), may, "{caller:?}");
        let status = asked_by(&init, caller, &[request("status")]);
        assert!(status[0]["error"].is_null(), "every user may query: {}", status[0]);
    }
    init.when_state("web", "running");
    init.finish();
}

#[test]
fn unmapped_caller_is_not_init_that_runs_as_the_overflow_uid() {
    if !root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    files.put("init.yaml", "sources:\n  fleet: {uid: 65534}\n");
    files.unit("web", "exec-start: DAEMON --name web");
    let inside = ["unshare", "-U", "--map-user=65534", "--map-group=65534"];
    let mut init = Boot::new(files).way(Way::Supervisor).through(&inside).start("web");
    init.when_system("running");
    let pid = init.process().0.to_string();
    let entered = ["nsenter", "-t", &pid, "-U", "--preserve-credentials"];
    let stranger = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"];
    // Uid 1000 has no mapping in init's namespace, so the kernel reports 65534, which is init's own
    // uid.
    for (caller, may) in [(&entered[..], true), (&stranger, false), (&["env"], false)] {
        for verb in ["restart", "source-list"] {
            let answers = asked_by(&init, caller, &[request(verb)]);
            let denied = answers[0]["error"]["kind"] == "denied";
            assert_eq!(denied, !may, "{caller:?} {verb}: {}", answers[0]);
        }
        assert_eq!(reads_logs(&init, caller), may, "{caller:?}");
    }
    let answers = asked_by(&init, &entered, &[request("exit")]);
    assert!(answers[0]["error"].is_null(), "{}", answers[0]);
    assert_eq!(init.ended().code(), Some(0));
}

/// Returns true if init shows the caller a log.
fn reads_logs(init: &Init, who: &[&str]) -> bool {
    let request = json!({"v": 1, "id": 1, "verb": "logs", "targets": ["web"]});
    let answers = asked_at("run/log.sock", init, who, &[request]);
    assert_eq!(answers.len(), 1, "{who:?}");
    let error = &answers[0]["error"];
    assert!(error.is_null() || error["kind"] == "denied", "{who:?}: {error}");
    error.is_null()
}

/// Root of a user namespace of its own, in none of the groups that may read.
const ROOT_ELSEWHERE: [&str; 5] = ["setpriv", "--clear-groups", "unshare", "-U", "--map-root-user"];

#[test]
fn root_of_another_user_namespace_reads_no_logs() {
    if !root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = one_unit();
    let in_own_namespace = [&UNPRIVILEGED[..], &["unshare", "-Ur"]].concat();
    for (who, may) in [
        (&[][..], true),
        (&["unshare", "-fp"], true),
        (&["setpriv", "--bounding-set=-all", "--inh-caps=-all"], true),
        (&UNPRIVILEGED, false),
        (&ROOT_ELSEWHERE, false),
        (&[&ROOT_ELSEWHERE[..], &["-fp", "--mount-proc"]].concat(), false),
        (&in_own_namespace, false),
    ] {
        // Uid 65534 may not enter the namespaces, so the uid changes inside.
        let pid = init.process().0.to_string();
        let inside = ["nsenter", "-t", &pid, "-p", "-m"];
        assert_eq!(reads_logs(&init, &[&inside[..], who].concat()), may, "{who:?}");
    }
    init.finish();
    // The uid of an unprivileged init, mapped in another user namespace, is refused as well.
    let files = Sandbox::new();
    for name in ["run", "log", "."] {
        std::os::unix::fs::chown(files.path(name), Some(65534), Some(65534)).unwrap();
    }
    files.unit("web", "exec-start: DAEMON --name web");
    let init = Boot::new(files).way(Way::Supervisor).through(&UNPRIVILEGED).start("web");
    init.when_system("running");
    for (who, may) in [(&UNPRIVILEGED[..], true), (&in_own_namespace, false), (&["env"], true)] {
        assert_eq!(reads_logs(&init, who), may, "{who:?}");
    }
    init.finish();
}

#[test]
fn passed_connection_keeps_the_rights_of_its_creator() {
    if !root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = one_unit();
    // A connection made by uid 65534, used by root.
    let (ours, theirs) = UnixStream::pair().unwrap();
    let status = Command::new(UNPRIVILEGED[0])
        .args(&UNPRIVILEGED[1..])
        .arg(program("GROUNDSTATE_CALLER", "caller"))
        .args(["pass", &init.sandbox.at("run/control.sock")])
        .stdin(OwnedFd::from(theirs))
        .status()
        .unwrap();
    assert!(status.success());
    let passed = received(&ours);
    assert_eq!(ask(passed, &request("restart"))["error"]["kind"], "denied");
    assert!(ask(passed, &request("status"))["ok"].is_object());
    nix::unistd::close(passed).unwrap();
    // A connection made by root, used by uid 65534: root has lent it.
    let stream = UnixStream::connect(init.sandbox.path("run/control.sock")).unwrap();
    let lent = stream.try_clone().unwrap();
    let status = Command::new(UNPRIVILEGED[0])
        .args(&UNPRIVILEGED[1..])
        .args(["sh", "-c", "echo \"$0\" >&0", &request("restart").to_string()])
        .stdin(OwnedFd::from(lent))
        .status()
        .unwrap();
    assert!(status.success());
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert!(answer["ok"].is_object(), "{answer}");
    init.when_state("web", "running");
    init.finish();
}

/// The connection received over `from`.
fn received(from: &UnixStream) -> RawFd {
    let mut byte = [0];
    let mut space = nix::cmsg_space!([RawFd; 1]);
    let mut parts = [IoSliceMut::new(&mut byte)];
    let message =
        recvmsg::<()>(from.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::empty()).unwrap();
    let fd = message.cmsgs().unwrap().find_map(|part| {
        if let ControlMessageOwned::ScmRights(fds) = part { fds.first().copied() } else { None }
    });
    fd.expect("a connection came along")
}

/// Sends one request and returns its answer.
fn ask(connection: RawFd, request: &Value) -> Value {
    send(connection, format!("{request}\n").as_bytes(), MsgFlags::MSG_NOSIGNAL).unwrap();
    let mut line = Vec::new();
    let mut bytes = [0; 4096];
    while !line.ends_with(b"\n") {
        let got = recv(connection, &mut bytes, MsgFlags::empty()).unwrap();
        assert!(got > 0, "an answer");
        line.extend_from_slice(&bytes[..got]);
    }
    serde_json::from_slice(&line).unwrap()
}

#[test]
fn concurrent_goals_are_ordered_the_same_for_both_clients() {
    let init = one_unit();
    let stops = |answer: &Value, unit: &str| {
        let list = answer["plan"]["stop"].as_array();
        list.expect("a plan").iter().any(|step| step.to_string().contains(unit))
    };
    for _ in 0..25 {
        init.tell("set-target", &json!({"targets": ["web"]}));
        init.when("the goal is reached", |s| {
            s.state("web") == "running" && s.state("other") == "disabled"
        });
        let [web, other] = std::thread::scope(|scope| {
            let set = |target: &'static str| {
                let init = &init;
                scope.spawn(move || init.tell("set-target", &json!({"targets": [target]})))
            };
            [set("web"), set("other")].map(|thread| thread.join().unwrap())
        });
        assert!([&web, &other].iter().all(|answer| answer["generation"].is_u64()));
        // Each answer says what happens to the previous goal. The request that found the other's
        // goal was last.
        let last = if stops(&web, "other") { "web" } else { "other" };
        assert!(stops(&other, "web"), "the first goal replaced web: {other}");
        for _ in 0..2 {
            assert_eq!(init.status().0["goal"], json!([last]), "{web} {other}");
        }
    }
    let goal = init.status().0["goal"][0].as_str().unwrap().to_owned();
    let rest = if goal == "web" { "other" } else { "web" };
    init.when("the last goal is reached", |s| {
        s.state(&goal) == "running" && s.state(rest) == "disabled"
    });
    init.finish();
}

/// An init with a service that ignores SIGTERM, so that the shutdown lasts until it is hastened.
fn endless(way: Option<&[&str]>) -> Init {
    let files = Sandbox::new();
    files.put("init.yaml", "shutdown-deadline: 10min\nsources:\n  fleet: {uid: 20001}\n");
    files.unit("web", "stop-timeout: none\nexec-start: DAEMON --ignore TERM --trace DIR/trace");
    let boot = match way {
        None => Boot::new(files),
        Some(wrapper) => {
            for path in ["", "run", "log"] {
                std::os::unix::fs::chown(files.path(path), Some(65534), Some(65534)).unwrap();
            }
            Boot::new(files).way(Way::Supervisor).through(wrapper)
        }
    };
    let init = boot.start("web");
    init.when("the unit ignores SIGTERM", |s| {
        s.system() == "running" && init.sandbox.trace("trace").contains(&"ready".to_owned())
    });
    init
}

/// For each verb, whether it is refused to these callers. Verbs that end init come last.
fn refusals(init: &Init, who: &[String]) -> Vec<(&'static str, bool)> {
    let ends =
        |verb: &str| ["poweroff", "reboot", "halt", "exit", "upgrade", "hasten"].contains(&verb);
    let mut verbs: Vec<&'static str> = TABLE.iter().map(|(verb, _)| *verb).collect();
    verbs.sort_by_key(|verb| (ends(verb), *verb == "hasten"));
    let who: Vec<&str> = who.iter().map(String::as_str).collect();
    let answered = |verb: &&'static str| {
        let answer = asked_by(init, &who, &[request(verb)]).pop();
        let answer = answer.unwrap_or_else(|| panic!("{who:?}: no answer to {verb}"));
        (*verb, answer["error"]["kind"] == "denied")
    };
    verbs.iter().map(answered).collect()
}

#[test]
fn permission_table_in_security_md_matches_the_answers() {
    if !root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let fleet = ["setpriv", "--reuid=20001", "--regid=20001", "--clear-groups"];
    let elsewhere = ["unshare", "-U", "--map-root-user"];
    let mut one = endless(None);
    // From outside init's pid namespace, init may be unable to prove the owner of a source.
    let pid = one.process().0.to_string();
    let inside = |who: &[&'static str]| -> Vec<String> {
        let all = ["nsenter", "-t", &pid, "-p", "-m"].into_iter().chain(who.iter().copied());
        all.map(str::to_owned).collect()
    };
    let mut columns = vec![
        refusals(&one, &inside(&UNPRIVILEGED)),
        refusals(&one, &inside(&elsewhere)),
        refusals(&one, &inside(&fleet)),
        refusals(&one, &inside(&[])),
    ];
    assert_eq!(one.ended().code(), Some(0));
    let mut other = endless(Some(&UNPRIVILEGED));
    let web = other.main_of("web");
    columns.push(refusals(&other, &UNPRIVILEGED.map(str::to_owned)));
    assert_eq!(other.ended().code(), Some(0));
    until("a supervisor that exits at once leaves no process", || (!web.is_alive()).then_some(()));
    let mut text = "| verb | any uid | root of another user namespace | the owner of a source, for that source | root | the user init runs as |\n|---|---|---|---|---|---|\n".to_owned();
    for (verb, role) in TABLE {
        let cells: Vec<&str> = columns
            .iter()
            .map(|column| {
                let refused =
                    column.iter().find(|(word, _)| word == verb).expect("each was asked").1;
                if refused { "–" } else { "yes" }
            })
            .collect();
        text.push_str(&format!("| `{verb}` | {} |\n", cells.join(" | ")));
        assert_eq!(cells[0] == "yes", *role == Role::Read, "{verb}");
        assert!(cells[3] == "yes" && cells[4] == "yes", "{verb}: {cells:?}");
    }
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../SECURITY.md");
    let written = std::fs::read_to_string(document).unwrap();
    assert!(written.contains(&text), "SECURITY.md has to hold\n{text}");
}
