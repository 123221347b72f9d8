//! The logger with real pipes and processes. A test stands where PID 1 does.

use super::handle::Handle;
use super::limit;
use super::message::{Report, RunLog, Settings};
use crate::sys::{self, Pid};
use groundstate_units::log_line::LogLine;
use groundstate_units::machine::event::RunId;
use groundstate_units::name::Name;
use groundstate_units::settings::Echo;
use groundstate_units::spec::Log;
use groundstate_units::time::Time;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::waitpid;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longer than anything takes; a test that gets here fails.
const DEADLINE: Duration = Duration::from_secs(60);

/// A directory of the test's own, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("groundstate-logger-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left over only if somebody else put something there.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// PID 1, as far as the logger sees it.
struct Init {
    handle: Handle,
    scratch: Scratch,
    seen: Vec<Report>,
    began: Instant,
    skipped: Duration,
}

impl Init {
    fn new(change: impl FnOnce(&mut Settings)) -> Init {
        let scratch = Scratch::new();
        let mut settings = Settings {
            log_dir: scratch.0.join("deep/log").to_str().unwrap().to_string(),
            log_size: 1 << 30,
            log_keep: 4,
            log_readers: "adm".to_string(),
            echo: Echo::No,
        };
        change(&mut settings);
        let listener = UnixListener::bind(scratch.0.join("log.sock")).unwrap();
        fs::set_permissions(scratch.0.join("log.sock"), fs::Permissions::from_mode(0o666)).unwrap();
        let handle = Handle::new(settings, Some(listener.into())).unwrap();
        let mut init = Init {
            handle,
            scratch,
            seen: Vec::new(),
            began: Instant::now(),
            skipped: Duration::ZERO,
        };
        init.handle.start(init.now()).unwrap();
        init
    }

    /// With files open from the start.
    fn with_files(change: impl FnOnce(&mut Settings)) -> Init {
        let mut init = Init::new(change);
        init.handle.open_files(init.now());
        init
    }

    fn now(&self) -> Time {
        Time::ZERO.after(self.began.elapsed() + self.skipped)
    }

    fn pipe(&mut self, run: u64, unit: &str, ready_grep: Option<&str>) -> OwnedFd {
        let log = RunLog {
            run: RunId(run),
            unit: name(unit),
            targets: vec![name(&format!("{unit}-target"))],
            log: Log::File,
            ready_grep: ready_grep.map(str::to_string),
        };
        self.handle.pipe_for(log).unwrap()
    }

    /// A shell whose stdout and stderr are a run's pipe.
    fn shell(&mut self, run: u64, unit: &str, ready_grep: Option<&str>, script: &str) -> Child {
        let out = self.pipe(run, unit, ready_grep);
        let err = out.try_clone().unwrap();
        let child = Command::new("/bin/sh")
            .args(["-c", script])
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .unwrap();
        self.handle.flush(self.now());
        child
    }

    /// Takes what the logger says until this came; gives everything said since the last call.
    fn until(&mut self, wanted: &Report) -> Vec<Report> {
        let end = Instant::now() + DEADLINE;
        loop {
            let now = self.now();
            self.seen.extend(self.handle.reports(now));
            if let Some(at) = self.seen.iter().position(|report| report == wanted) {
                return self.seen.drain(..=at).collect();
            }
            assert!(Instant::now() < end, "no {wanted:?}, only {:?}", self.seen);
            if let Some(socket) = self.handle.socket() {
                poll(&mut [PollFd::new(socket, PollFlags::POLLIN)], PollTimeout::from(1000u16))
                    .unwrap();
            }
        }
    }

    /// kill -9, reap, start the next.
    fn kill_logger(&mut self) {
        let pid = self.handle.pid().unwrap();
        sys::signal::kill(pid, 9).unwrap();
        self.replace(pid);
    }

    fn replace(&mut self, pid: Pid) {
        waitpid(pid, None).unwrap();
        // What it said before it died.
        let said = self.handle.reports(self.now());
        self.seen.extend(said);
        assert!(self.handle.ended(pid, self.now()));
        self.skipped += limit::RESTART_DELAY_MAX;
        assert!(self.handle.tick(self.now()));
    }

    fn finish(&mut self) {
        let pid = self.handle.pid().unwrap();
        assert!(self.handle.finish(self.now()));
        self.until(&Report::Finished);
        let status = waitpid(pid, None).unwrap();
        assert_eq!(status, nix::sys::wait::WaitStatus::Exited(pid, 0));
        assert!(self.handle.ended(pid, self.now()));
        assert_eq!(self.handle.deadline(), None, "another logger would be started");
    }

    fn file(&self, unit: &str) -> PathBuf {
        self.scratch.0.join("deep/log").join(format!("{unit}.log"))
    }

    fn ask(&self, request: &str) -> BufReader<UnixStream> {
        let mut client = UnixStream::connect(self.scratch.0.join("log.sock")).unwrap();
        client.set_read_timeout(Some(DEADLINE)).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        client.write_all(b"\n").unwrap();
        BufReader::new(client)
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        if let Some(pid) = self.handle.pid() {
            // A failing test leaves no process behind.
            let _ = sys::signal::kill(pid, 9);
            let _ = waitpid(pid, None);
        }
    }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Run and text of each stored line.
fn stored(path: &Path) -> Vec<(Option<u64>, String)> {
    let bytes = fs::read(path).unwrap();
    assert!(bytes.is_empty() || bytes.ends_with(b"\n"), "a torn line in {path:?}");
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| LogLine::parse(line).unwrap_or_else(|| panic!("{:?}", lossy(line))))
        .map(|line| (line.run.map(|run| run.0), lossy(line.text)))
        .collect()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn texts(path: &Path) -> Vec<String> {
    stored(path).into_iter().map(|(_, text)| text).collect()
}

fn next_line(client: &mut BufReader<UnixStream>) -> serde_json::Value {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
}

#[test]
fn both_streams_reach_the_units_file_in_their_order_with_run_and_time() {
    let mut init = Init::with_files(|_| {});
    let mut web = init.shell(7, "web", None, "echo one; echo two >&2; printf three");
    assert!(web.wait().unwrap().success());
    init.until(&Report::Ended(RunId(7)));
    let mut again = init.shell(8, "web", None, "printf 'four\\n\\nfive \\033[1m\\n'");
    again.wait().unwrap();
    init.until(&Report::Ended(RunId(8)));
    init.finish();
    let want = [
        (Some(7), "one"),
        (Some(7), "two"),
        (Some(7), "three"),
        (Some(8), "four"),
        (Some(8), ""),
        (Some(8), "five \u{1b}[1m"),
    ];
    assert_eq!(stored(&init.file("web")), want.map(|(run, text)| (run, text.to_string())));
    let found = fs::metadata(init.file("web")).unwrap();
    assert_eq!(found.mode() & 0o7777, 0o640);
    assert_eq!(fs::metadata(init.file("web").parent().unwrap()).unwrap().mode() & 0o7777, 0o750);
    if nix::unistd::geteuid().is_root() {
        assert_eq!(Some(found.gid()), super::files::group("adm"));
    }
}

#[test]
fn ready_is_said_at_the_line_that_matches_and_before_drained() {
    let mut init = Init::with_files(|_| {});
    let mut out = File::from(init.pipe(1, "db", Some("^listening on [0-9]+$")));
    out.write_all(b"listening on port\nliste").unwrap();
    assert!(init.handle.drain(RunId(1), init.now()));
    assert_eq!(init.until(&Report::Drained(RunId(1))), [Report::Drained(RunId(1))]);
    out.write_all(b"ning on 5432\n").unwrap();
    assert!(init.handle.drain(RunId(1), init.now()));
    assert_eq!(
        init.until(&Report::Drained(RunId(1))),
        [Report::Ready(RunId(1)), Report::Drained(RunId(1))]
    );
    drop(out);
    assert_eq!(init.until(&Report::Ended(RunId(1))), [Report::Ended(RunId(1))]);
    assert!(!init.handle.drain(RunId(1), init.now()), "there is nothing left to drain");
    init.finish();
}

#[test]
fn a_million_lines_before_the_ready_line_lose_nothing() {
    let mut init = Init::with_files(|_| {});
    let script = "seq 1 1000000; echo now ready; seq 1 10";
    let mut loud = init.shell(3, "loud", Some("ready$"), script);
    let mut quiet = init.shell(4, "quiet", None, "echo heard");
    init.until(&Report::Ready(RunId(3)));
    init.until(&Report::Ended(RunId(3)));
    assert!(loud.wait().unwrap().success() && quiet.wait().unwrap().success());
    init.finish();
    let lines = texts(&init.file("loud"));
    assert_eq!(lines.len(), 1_000_011);
    assert!(lines.iter().take(1_000_000).zip(1..).all(|(line, n)| *line == n.to_string()));
    assert_eq!(lines[1_000_000], "now ready");
    assert_eq!(texts(&init.file("quiet")), ["heard"]);
}

#[test]
fn nothing_is_made_before_files_may_be_opened_and_the_tail_follows_then() {
    let mut init = Init::new(|_| {});
    let mut early = init.shell(1, "early", None, "seq 1 20000");
    early.wait().unwrap();
    init.until(&Report::Ended(RunId(1)));
    assert!(!init.scratch.0.join("deep").exists());
    init.handle.open_files(init.now());
    init.finish();
    let lines = stored(&init.file("early"));
    let (note, rest) = lines.split_first().unwrap();
    assert_eq!(note.0, None);
    let lost: usize =
        note.1.strip_suffix(" lines lost: no log directory yet").unwrap().parse().unwrap();
    assert!(lost > 0 && rest.len() > 100 && lost + rest.len() == 20_000);
    assert_eq!(rest.last().unwrap(), &(Some(1), "20000".to_string()));
}

#[test]
fn a_full_file_is_rotated_and_only_so_many_are_kept() {
    let mut init = Init::with_files(|settings| {
        settings.log_size = 4096;
        settings.log_keep = 2;
    });
    fs::create_dir_all(init.file("x").parent().unwrap()).unwrap();
    let mut child = init.shell(1, "web", None, "seq 1 1000");
    child.wait().unwrap();
    init.until(&Report::Ended(RunId(1)));
    init.finish();
    let numbered = |n| PathBuf::from(format!("{}.{n}", init.file("web").display()));
    let mut lines = texts(&numbered(2));
    lines.extend(texts(&numbered(1)));
    lines.extend(texts(&init.file("web")));
    assert!(!numbered(3).exists());
    for file in [init.file("web"), numbered(1), numbered(2)] {
        assert!((1..=4096).contains(&fs::metadata(&file).unwrap().len()), "{file:?}");
    }
    let first: usize = lines[0].parse().unwrap();
    let want: Vec<String> = (first..=1000).map(|n| n.to_string()).collect();
    assert_eq!(lines, want);
}

#[test]
fn what_is_not_our_file_is_moved_aside_and_left_as_it_was() {
    let mut init = Init::with_files(|_| {});
    let dir = init.file("x").parent().unwrap().to_path_buf();
    fs::create_dir_all(&dir).unwrap();
    let victim = init.scratch.0.join("victim");
    fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, init.file("link")).unwrap();
    fs::hard_link(&victim, init.file("hard")).unwrap();
    nix::unistd::mkfifo(&init.file("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::create_dir(init.file("dir")).unwrap();
    for (run, unit) in (1..).zip(["link", "hard", "fifo", "dir"]) {
        let mut child = init.shell(run, unit, None, "echo hello");
        child.wait().unwrap();
        init.until(&Report::Ended(RunId(run)));
    }
    init.finish();
    for unit in ["link", "hard", "fifo", "dir"] {
        assert_eq!(texts(&init.file(unit)), ["hello"], "{unit}");
        assert!(fs::symlink_metadata(format!("{}.1", init.file(unit).display())).is_ok());
    }
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

#[test]
fn a_service_outlives_ten_killed_loggers_and_is_still_heard() {
    let mut init = Init::with_files(|_| {});
    // Ends at a SIGPIPE, with status 141 or by the signal.
    let script = "i=0; while [ ! -e $0/stop ]; do i=$((i+1)); echo $i; done; echo last";
    let out = init.pipe(1, "web", Some("^last$"));
    let mut writer = Command::new("/bin/sh")
        .args(["-c", script])
        .arg(&init.scratch.0)
        .stdout(out)
        .spawn()
        .unwrap();
    init.handle.flush(init.now());
    let end = Instant::now() + DEADLINE;
    let mut heard = 0;
    for _ in 0..10 {
        // Each of them gets as far as writing something new.
        while fs::metadata(init.file("web")).map_or(0, |found| found.len()) <= heard {
            assert!(Instant::now() < end, "nothing new is heard");
            init.seen.extend(init.handle.reports(init.now()));
            std::thread::yield_now();
        }
        init.kill_logger();
        heard = fs::metadata(init.file("web")).unwrap().len();
    }
    fs::write(init.scratch.0.join("stop"), "").unwrap();
    init.until(&Report::Ready(RunId(1)));
    init.until(&Report::Ended(RunId(1)));
    assert!(writer.wait().unwrap().success(), "the writer died of a pipe");
    init.finish();
    let lines = texts(&init.file("web"));
    let numbers: Vec<u64> = lines.iter().filter_map(|line| line.parse().ok()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "a line is doubled or out of order");
    assert_eq!(lines.last().unwrap(), "last");
}

#[test]
fn a_silent_logger_is_killed_and_replaced() {
    let mut init = Init::with_files(|_| {});
    let old = init.handle.pid().unwrap();
    sys::signal::kill(old, 19).unwrap();
    let mut child = init.shell(1, "web", Some("hello"), "echo hello");
    let deadline = init.handle.deadline().unwrap();
    assert!(deadline <= init.now().after(limit::SILENCE));
    init.skipped += limit::SILENCE;
    assert!(!init.handle.tick(init.now()));
    init.replace(old);
    init.until(&Report::Ready(RunId(1)));
    init.until(&Report::Ended(RunId(1)));
    child.wait().unwrap();
    init.finish();
    assert_eq!(texts(&init.file("web")), ["hello"]);
}

#[test]
fn a_thousand_runs_cost_pid_1_no_descriptors() {
    let mut init = Init::with_files(|_| {});
    let mut writers = Vec::new();
    for run in 0..1000 {
        writers.push(File::from(init.pipe(run, &format!("u{run}"), None)));
        if run % 10 == 0 {
            init.handle.flush(init.now());
        }
    }
    init.handle.flush(init.now());
    assert_eq!(init.handle.table_entries(), 2);
    init.kill_logger();
    for (run, mut writer) in (0..).zip(writers) {
        writeln!(writer, "from {run}").unwrap();
    }
    for run in 0..1000 {
        if !init.seen.contains(&Report::Ended(RunId(run))) {
            init.until(&Report::Ended(RunId(run)));
        }
    }
    assert_eq!(init.handle.table_entries(), 2);
    init.finish();
    for run in [0, 1, 500, 999] {
        assert_eq!(texts(&init.file(&format!("u{run}"))), [format!("from {run}")]);
    }
}

#[test]
fn the_socket_answers_with_the_last_lines_and_follows() {
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
    let unknown = r#"{"v":1,"id":8,"verb":"logs","targets":["nobody"]}"#;
    assert_eq!(next_line(&mut init.ask(unknown))["error"]["kind"], "unknown-target");
    assert_eq!(next_line(&mut init.ask("rubbish"))["error"]["kind"], "usage");
    drop((out, other));
    init.until(&Report::Ended(RunId(1)));
    init.finish();
}

#[test]
fn lines_older_than_the_memory_come_from_the_files_and_a_follower_misses_none() {
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
    // A new logger remembers nothing; the files do.
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
fn a_client_that_does_not_read_is_dropped_and_holds_nobody_up() {
    let mut init = Init::with_files(|_| {});
    let deaf = init.ask(r#"{"v":1,"id":1,"verb":"logs","follow":true}"#);
    let mut good = init.ask(r#"{"v":1,"id":2,"verb":"ping"}"#);
    assert_eq!(next_line(&mut good)["ok"]["end"], true);
    let mut child = init.shell(1, "web", None, "seq 1 500000");
    init.until(&Report::Ended(RunId(1)));
    assert!(child.wait().unwrap().success());
    // What it was sent before, then why there is no more, then the end.
    let heard: Vec<String> = deaf.lines().map(Result::unwrap).collect();
    assert!(heard.len() < 500_000 && heard.last().unwrap().contains(r#""kind":"slow""#));
    init.finish();
    assert_eq!(texts(&init.file("web")).len(), 500_000);
}

/// What another user gets to hear, by uid, gid and supplementary groups.
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
        match (line.contains(r#""end":true"#), line.contains(r#""kind":"denied""#)) {
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
fn root_and_the_readers_group_may_read_logs_and_nobody_else() {
    if !nix::unistd::geteuid().is_root() {
        // Becoming somebody else takes root; init's own uid is what the other tests ask as.
        return;
    }
    let mut init = Init::with_files(|_| {});
    fs::set_permissions(&init.scratch.0, fs::Permissions::from_mode(0o755)).unwrap();
    let adm = super::files::group("adm").unwrap();
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

/// Runs `work` in a forked process with mounts of its own; true: it came to its end.
fn with_own_mounts(work: impl FnOnce()) -> bool {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    let child = sys::process::fork(&[], || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
        work();
        0
    })
    .unwrap();
    waitpid(child, None).unwrap() == nix::sys::wait::WaitStatus::Exited(child, 0)
}

fn mount_small(path: &Path, size: &str, flags: nix::mount::MsFlags) {
    let options = format!("size={size},mode=755");
    nix::mount::mount(Some("tmpfs"), path, Some("tmpfs"), flags, Some(options.as_str())).unwrap();
}

#[test]
fn a_full_or_read_only_disk_loses_counted_lines_and_nothing_else() {
    use nix::mount::MsFlags;
    if !nix::unistd::geteuid().is_root() {
        // Mounting takes root.
        return;
    }
    let passed = with_own_mounts(|| {
        let mut init = Init::with_files(|_| {});
        let dir = init.file("x").parent().unwrap().to_path_buf();
        fs::create_dir_all(&dir).unwrap();
        mount_small(&dir, "64k", MsFlags::empty());
        let mut child = init.shell(1, "web", None, "seq 1 30000");
        assert!(child.wait().unwrap().success());
        init.until(&Report::Ended(RunId(1)));
        let mut tail = init.ask(r#"{"v":1,"id":1,"verb":"logs","targets":["web"],"n":1}"#);
        assert_eq!(next_line(&mut tail)["ok"]["line"], "30000");
        mount_small(&dir, "4m", MsFlags::MS_REMOUNT);
        // Once there is room again the next lines say how many are missing.
        let mut out = File::from(init.pipe(2, "web", None));
        let (end, mut said) = (Instant::now() + DEADLINE, 0);
        while !lossy(&fs::read(init.file("web")).unwrap()).ends_with("2 again\n") {
            assert!(Instant::now() < end, "never written again");
            said += 1;
            writeln!(out, "again").unwrap();
            init.handle.drain(RunId(2), init.now());
            init.until(&Report::Drained(RunId(2)));
        }
        init.finish();
        let lines = stored(&init.file("web"));
        let written = lines.iter().take_while(|(run, _)| *run == Some(1)).count();
        let note = lines[written].1.strip_suffix(" lines lost: No space left on device").unwrap();
        let (before, after) = (&lines[..written], &lines[written + 1..]);
        assert!(written > 100 && before.iter().zip(1..).all(|(line, n)| line.1 == n.to_string()));
        assert_eq!(written + note.parse::<usize>().unwrap() + after.len(), 30_000 + said);
        nix::mount::umount(&dir).unwrap();

        let mut init = Init::with_files(|_| {});
        let dir = init.file("x").parent().unwrap().to_path_buf();
        fs::create_dir_all(&dir).unwrap();
        mount_small(&dir, "64k", MsFlags::MS_RDONLY);
        let mut child = init.shell(1, "web", None, "echo kept in memory");
        assert!(child.wait().unwrap().success());
        init.until(&Report::Ended(RunId(1)));
        let mut tail = init.ask(r#"{"v":1,"id":1,"verb":"logs","targets":["web"]}"#);
        assert_eq!(next_line(&mut tail)["ok"]["line"], "kept in memory");
        init.finish();
        nix::mount::umount(&dir).unwrap();
    });
    assert!(passed, "see the panic above");
}
