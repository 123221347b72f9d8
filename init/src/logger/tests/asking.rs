//! Tests of `log.sock`: access and answers.

use super::*;

#[test]
fn log_socket_answers_with_the_last_lines_and_follows() {
    let mut init = Init::with_files(|_| {});
    let mut out = File::from(init.pipe(1, "web", None));
    let mut other = File::from(init.pipe(2, "db", None));
    (1..=20).for_each(|n| writeln!(out, "line {n}").unwrap());
    writeln!(other, "db speaks").unwrap();
    for run in [1, 2] {
        init.handle.drain(RunId(run), init.now());
        init.until(&Report::Drained(RunId(run)));
    }
    let mut client = init.ask(r#"{"v":1,"id":5,"verb":"logs","targets":["web-target"],"n":2}"#);
    for want in ["line 19", "line 20"] {
        let got = next_line(&mut client);
        assert_eq!((&got["id"], &got["ok"]["line"]), (&5.into(), &want.into()));
        assert_eq!((&got["ok"]["unit"], &got["ok"]["run"]), (&"web".into(), &1.into()));
    }
    assert_eq!(next_line(&mut client)["ok"]["end"], true);
    let mut all = init.ask(r#"{"v":1,"id":6,"verb":"logs","targets":[],"n":1,"follow":true}"#);
    let mut first: Vec<_> =
        (0..2).map(|_| next_line(&mut all)["ok"]["line"].as_str().unwrap().to_string()).collect();
    first.sort();
    assert_eq!(first, ["db speaks", "line 20"]);
    writeln!(other, "more").unwrap();
    assert_eq!(next_line(&mut all)["ok"]["line"], "more");
    let since =
        r#"{"v":1,"id":7,"verb":"logs","targets":["web"],"since":"2999-01-01T00:00:00.000Z"}"#;
    assert_eq!(next_line(&mut init.ask(since))["ok"]["end"], true);
    let unknown = r#"{"v":1,"id":8,"verb":"logs","targets":["missing"]}"#;
    assert_eq!(next_line(&mut init.ask(unknown))["error"]["kind"], "unknown-target");
    assert_eq!(next_line(&mut init.ask("rubbish"))["error"]["kind"], "usage");
    drop((out, other));
    init.until(&Report::Ended(RunId(1)));
    init.finish();
}

#[test]
fn lines_older_than_the_tail_come_from_files_and_a_follower_misses_none() {
    let mut init = Init::with_files(|settings| settings.log_size = 1 << 20);
    let script = "seq 1 50000; while read line; do echo $line; done";
    let (read, mut write) = std::io::pipe().unwrap();
    let out = init.pipe(1, "web", Some("^50000$"));
    let mut child = Command::new("/bin/sh").args(["-c", script]).stdin(read).stdout(out).spawn();
    init.handle.flush(init.now());
    init.until(&Report::Ready(RunId(1)));
    let request = r#"{"v":1,"id":1,"verb":"logs","targets":["web"],"n":1000000,"follow":true}"#;
    let mut follower = init.ask(request);
    (50_001..=50_100).for_each(|n| writeln!(write, "{n}").unwrap());
    drop(write);
    for n in 1..=50_100 {
        assert_eq!(next_line(&mut follower)["ok"]["line"], n.to_string());
    }
    init.until(&Report::Ended(RunId(1)));
    child.as_mut().unwrap().wait().unwrap();
    // A new logger has no tails, but reads the files.
    init.kill_logger();
    let mut client = init.ask(r#"{"v":1,"id":2,"verb":"logs","targets":["web"],"n":40000}"#);
    for n in 10_101..=50_100 {
        assert_eq!(next_line(&mut client)["ok"]["line"], n.to_string());
    }
    assert_eq!(next_line(&mut client)["ok"]["end"], true);
    let mut client = init.ask(r#"{"v":1,"id":3,"verb":"logs","targets":["web"],"n":0}"#);
    assert_eq!(next_line(&mut client)["ok"]["end"], true);
    init.finish();
}

#[test]
fn client_that_does_not_read_is_dropped_and_blocks_no_other() {
    let mut init = Init::with_files(|_| {});
    let deaf = init.ask(r#"{"v":1,"id":1,"verb":"logs","follow":true}"#);
    let mut good = init.ask(r#"{"v":1,"id":2,"verb":"ping"}"#);
    assert_eq!(next_line(&mut good)["ok"]["end"], true);
    let mut child = init.shell(1, "web", None, "seq 1 500000");
    init.until(&Report::Ended(RunId(1)));
    assert!(child.wait().unwrap().success());
    // The lines sent before, then the reason, then the end.
    let heard: Vec<String> = deaf.lines().map(Result::unwrap).collect();
    assert!(heard.len() < 500_000 && heard.last().unwrap().contains(r#""kind":"slow""#));
    init.finish();
    assert_eq!(texts(&init.file("web")).len(), 500_000);
}

/// Returns true if a user with this uid, gid and these groups may read logs.
fn asks_as(init: &Init, uid: u32, gid: u32, groups: &[u32]) -> bool {
    let path = init.scratch.0.join("log.sock");
    let groups: Vec<_> = groups.iter().map(|group| nix::unistd::Gid::from_raw(*group)).collect();
    let child = sys::process::fork(&[], || {
        nix::unistd::setgroups(&groups).unwrap();
        nix::unistd::setgid(gid.into()).unwrap();
        nix::unistd::setuid(uid.into()).unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(b"{\"v\":1,\"id\":1,\"verb\":\"ping\"}\n").unwrap();
        let mut line = String::new();
        BufReader::new(client).read_line(&mut line).unwrap();
        let refused =
            line.contains(r#""kind":"denied""#) && line.contains("the group adm (log-readers) may");
        match (line.contains(r#""end":true"#), refused) {
            (true, false) => 0,
            (false, true) => 1,
            _ => 2,
        }
    })
    .unwrap();
    let status = waitpid(child, None).unwrap();
    let ended = |status| nix::sys::wait::WaitStatus::Exited(child, status);
    assert!(status == ended(0) || status == ended(1), "{status:?}");
    status == ended(0)
}

#[test]
fn only_root_and_the_readers_group_may_read_logs() {
    if !nix::unistd::geteuid().is_root() {
        // Only root can change to another user; the other tests use init's own uid.
        return crate::not_run!("it takes root");
    }
    let mut init = Init::with_files(|_| {});
    fs::set_permissions(&init.scratch.0, fs::Permissions::from_mode(0o755)).unwrap();
    let adm = crate::logger::files::group("adm").unwrap();
    for (uid, gid, groups, may) in [
        (0, 0, &[][..], true),
        (0, 65534, &[], true),
        (65534, 65534, &[], false),
        (65534, 0, &[0], false),
        (65534, adm, &[], true),
        (65534, 65534, &[1, adm, 2][..], true),
        (65534, 65534, &[adm + 1], false),
    ] {
        assert_eq!(asks_as(&init, uid, gid, groups), may, "{uid} {gid} {groups:?}");
    }
    init.finish();
}

#[test]
fn new_log_socket_is_served_by_this_logger_and_the_next() {
    let mut init = Init::with_files(|_| {});
    fs::remove_file(init.scratch.0.join("log.sock")).unwrap();
    let listener = UnixListener::bind(init.scratch.0.join("log.sock")).unwrap();
    init.handle.listen(listener.into());
    for _ in 0..2 {
        let mut client = init.ask(r#"{"v":1,"id":1,"verb":"ping"}"#);
        assert_eq!(next_line(&mut client)["ok"]["end"], true);
        init.kill_logger();
    }
    init.finish();
}
