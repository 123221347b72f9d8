//! One life of a real init with a fixed script, whatever fails meanwhile. All units start. A
//! service crashes and restarts, one notifies init, and one writes to its log. A client connects to
//! a socket, and a timer fires. Unit files are reloaded, a unit is added and removed, and init
//! ends. A failed assertion is a finding; `main` catches it.

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::within;
use groundstate_tests::faults::{Case, Outcome, Part};
use groundstate_tests::injector::{Fault, Injector, Seen};
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::{Sandbox, program};
use groundstate_tests::status::Status;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Longer than any correct step takes, even with other lives running.
const PATIENCE: Duration = Duration::from_secs(15);
/// A start that fails with one of these errors is retried by init. With any other error init
/// reports it and the test retries.
const TRANSIENT: [Errno; 7] = [
    Errno::EINTR,
    Errno::EAGAIN,
    Errno::ENOMEM,
    Errno::EBUSY,
    Errno::ENFILE,
    Errno::EMFILE,
    Errno::ENOSPC,
];
/// The attempts of a request: the first may meet the fault, and the next one its consequences.
const ATTEMPTS: usize = 6;
/// The open files that init may have in addition to those without a fault.
const SPARE_FILES: usize = 5;
/// States in which a unit has no process.
const DOWN: [&str; 3] = ["disabled", "failed", "waiting"];
/// One of this many polls reads the status.
const RARELY: usize = 4;
/// KiB of memory that init may have in addition to that without a fault.
const SPARE_MEMORY: u64 = 2048;

const UNITS: [(&str, &str); 10] = [
    ("db", "type: foreground-notified\nexec-start: DAEMON --name db --notify"),
    ("web", "depends-ms: db\nready-grep: ^listening\nexec-start: DAEMON --say listening"),
    (
        "talker",
        "type: foreground-notified\nexec-start: DAEMON --notify --control DIR/talker --trace DIR/talker.trace",
    ),
    ("tick", "type: timer\ntimer-unit-active: 150ms\ntimer-active: 150ms\nactivates: job"),
    ("job", "type: oneshot\nexec-start: /bin/sh -c 'echo x >>DIR/job.trace'"),
    ("front", "type: socket\nlisten-stream: DIR/front.sock\nactivates: echo"),
    ("echo", "exec-start: LISTENER --answers 1"),
    (
        "extra",
        "type: background-pidfile\npid-file: DIR/extra.pid\nexec-start: DAEMON --pid-file DIR/extra.pid",
    ),
    ("parent", "exec-start: DAEMON --children 1"),
    ("all", "type: virtual\ndepends-on: web, talker, tick, front, parent"),
];

/// Units whose state does not change by itself.
const STEADY: [&str; 6] = ["db", "web", "talker", "tick", "front", "parent"];

/// Measures of a life without faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usual {
    /// Memory in KiB.
    pub(crate) memory: u64,
    /// Open files once all units run.
    pub(crate) files: usize,
}

/// A running init.
pub(crate) struct Life {
    init: Init,
    injector: Injector,
    usual: Usual,
    crashes: u64,
    rounds: usize,
}

impl Life {
    /// Boots with these faults. Returns `None` if init has ended at once with a message.
    pub(crate) fn begin(cases: &[Case], usual: Option<&Usual>) -> Option<Life> {
        let files = Sandbox::new();
        for (name, text) in UNITS {
            let delay = if text.contains("type: ") && !text.contains("DAEMON") {
                ""
            } else {
                "restart-delay: 10ms\nrestart-delay-max: 20ms\nrestart-reset: 1ms\nstop-timeout: 1s\n"
            };
            files.unit(name, &format!("{delay}{text}"));
        }
        let gate = files.at("gate");
        nix::unistd::mkfifo(gate.as_str(), nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
        let wait = format!("read go <{gate}; exec \"$0\" \"$@\"");
        let mut init = Boot::new(files).through(&["/bin/sh", "-c", &wait]).launch("all");
        let binary = program("GROUNDSTATE_INIT", "init");
        let injector = Injector::follow(&init, &binary, &faults(cases));
        init.sandbox.order("gate", "go");
        let mut ended = false;
        let answers = within(PATIENCE, || {
            ended = init.has_ended();
            (ended || init.client().is_some()).then_some(())
        });
        if ended && cases.iter().any(|case| case.outcome == Outcome::Ends) {
            assert!(!init.output().is_empty(), "init logs why it ends");
            return None;
        }
        assert!(answers.is_some() && !ended, "init must answer; output:\n{}", init.output());
        when(&init, "all units start", cases, is_up);
        let mut life = Life { init, injector, usual: Usual::default(), crashes: 0, rounds: 0 };
        life.check_crashes(cases);
        life.usual = usual.cloned().unwrap_or_else(|| Usual {
            memory: life.memory(),
            files: life.init.process().files().len(),
        });
        Some(life)
    }

    /// The measures of this life.
    pub(crate) fn usual(&self) -> Usual {
        self.usual.clone()
    }

    /// Returns whether the fault was met.
    pub(crate) fn seen(&self) -> Seen {
        self.injector.disarm()
    }

    /// Runs the script. Returns the observations about the fault.
    pub(crate) fn work(&mut self, cases: &[Case]) -> Seen {
        self.rounds += 1;
        let init = &self.init;
        let before = status(init).expect("it answers before");
        let said = format!("said in round {}", self.rounds);
        let main = before.main_pid("db").and_then(|pid| {
            children(init.process()).into_iter().find(|child| child.inner_pid() == Some(pid))
        });
        let main = main.expect("db has a process");
        self.injector.arm(&faults(cases));
        main.signal(Signal::SIGKILL);
        init.sandbox.order("talker", &format!("notify STATUS={said}"));
        init.sandbox.order("talker", &format!("say {said}"));
        ask_repeatedly(init, "reload", &json!({}));
        let answer = within(PATIENCE, || call(&init.sandbox.at("front.sock"), &said));
        assert!(answer.is_some_and(|line| line.contains(&said)), "the socket's service answers");
        ask_repeatedly(init, "want", &json!({"target": "extra"}));
        when(init, "extra is up", cases, |s| s.state("extra") == "running");
        ask_repeatedly(init, "unwant", &json!({"target": "extra"}));
        // If the stop signal could not be sent, init sends the next one later and reports that.
        let late = |s: &Status| !cases.is_empty() && s.reason("extra") == "stop-timeout";
        when(init, "extra is down", cases, |s| s.state("extra") == "disabled" || late(s));
        when(init, "db is restarted, the status is received, all units run", cases, |s| {
            is_up(s)
                && s.main_pid("db") != before.main_pid("db")
                && s.unit("talker")["status"] == said.as_str()
        });
        let logged = within(PATIENCE, || {
            let text = self.init.sandbox.read("log/talker.log");
            text.contains(&said).then_some(())
        });
        assert!(logged.is_some(), "the line is in the log");
        let seen = self.injector.disarm();
        self.check_crashes(cases);
        self.check();
        let after = status(&self.init).expect("it answers afterwards");
        for unit in ["web", "talker", "tick", "front", "parent"] {
            assert_eq!(before.main_pid(unit), after.main_pid(unit), "{unit} is not affected");
        }
        seen
    }

    /// Checks that init crashed at most as often as these cases allow.
    fn check_crashes(&mut self, cases: &[Case]) {
        let stats = ask_repeatedly(&self.init, "stats", &json!({}));
        let crashes = stats["crashes"].as_u64().expect("a number");
        let more = crashes - self.crashes;
        let most = cases.iter().filter(|case| case.outcome == Outcome::Crash).count() as u64;
        assert!(more <= most, "{more} crashes; output:\n{}", self.init.output());
        self.crashes = crashes;
        if crashes > 0 {
            self.init.expect_crashes();
        }
    }

    fn memory(&self) -> u64 {
        let line = self.init.process().status("RssAnon").unwrap_or_default();
        line.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
    }

    /// The checks of [`Init::check`] without a look at other processes of this machine, because
    /// there are thousands of these checks.
    fn check(&self) {
        let first = self.init.process();
        ask_repeatedly(&self.init, "ping", &json!({}));
        let holds = |what: &str, fact: &dyn Fn() -> bool| {
            let held = within(PATIENCE, || fact().then_some(()));
            assert!(held.is_some(), "{what}; output:\n{}{}", self.init.output(), table(&self.init));
        };
        holds("no zombie exists", &|| {
            children(first).iter().all(|child| child.state() != Some('Z'))
        });
        let most = self.usual.files + SPARE_FILES;
        holds("its descriptors are back", &|| first.files().len() <= most);
        let most = self.usual.memory + SPARE_MEMORY;
        holds("its memory is back", &|| self.memory() <= most);
        holds("stopped units have no process, running units have their main process", &|| {
            let Some(status) = status(&self.init) else { return false };
            let there = descendants(first);
            let owner = |process: &Process| process.environment().get("GROUNDSTATE_UNIT").cloned();
            let down = |unit: &String| DOWN.contains(&status.state(unit));
            let pids: Vec<i32> = there.iter().filter_map(|process| process.inner_pid()).collect();
            let up = STEADY.iter().filter_map(|unit| status.main_pid(unit));
            !there.iter().any(|p| p.is_alive() && owner(p).is_some_and(|unit| down(&unit)))
                && up.into_iter().all(|pid| pids.contains(&pid))
        });
    }

    /// Ends init, with this fault meanwhile.
    pub(crate) fn end(mut self, cases: &[Case]) -> Seen {
        let ticks = self.init.sandbox.trace("job.trace").len();
        let ticked = within(PATIENCE, || {
            (self.init.sandbox.trace("job.trace").len() > ticks + 1).then_some(())
        });
        assert!(ticked.is_some(), "the timer still fires");
        let starts = self.init.sandbox.trace("talker.trace");
        let starts = starts.iter().filter(|line| line.starts_with("start")).count();
        assert!(starts >= 1, "talker has been started");
        self.check();
        self.injector.arm(&faults(cases));
        // The fault may be met before the answer is written.
        for _ in 0..ATTEMPTS {
            let Some(mut client) = self.init.client() else { break };
            client.send("exit", &json!({}));
            if client.answer().is_some_and(|answer| answer.is_ok()) {
                break;
            }
        }
        let ended = within(PATIENCE, || self.init.has_ended().then_some(()));
        assert!(
            ended.is_some(),
            "init must exit; output:\n{}{}",
            self.init.output(),
            table(&self.init)
        );
        let status = self.init.ended();
        let may_end = cases.iter().any(|case| case.outcome == Outcome::Ends);
        let fine = status.code() == Some(0) || may_end;
        assert!(fine, "init must exit with 0, not {status}; output:\n{}", self.init.output());
        self.injector.disarm()
    }
}

/// The children of a process, from the kernel's own short list.
fn children(process: Process) -> Vec<Process> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", process.0)) else {
        return Vec::new();
    };
    let list = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("children"));
    let lists: Vec<String> = threads.flatten().filter_map(|thread| list(thread).ok()).collect();
    let pids = lists.iter().flat_map(|list| list.split_whitespace());
    pids.filter_map(|pid| pid.parse().ok()).map(Process).collect()
}

fn descendants(process: Process) -> Vec<Process> {
    let mut found = children(process);
    let mut at = 0;
    while at < found.len() {
        found.extend(children(found[at]));
        at += 1;
    }
    found
}

/// The unit whose start failed for good with this error, according to its status.
fn unit_failed_by(status: &Status, error: Errno) -> Option<String> {
    let fails = |unit: &&Value| {
        let reason = &unit["reason"];
        unit["state"] == "failed"
            && reason["kind"] == "exec"
            && reason["errno"] == error as i32
            && reason["stage"].is_string()
    };
    let unit = status.0["units"].as_array()?.iter().find(fails)?;
    (!TRANSIENT.contains(&error)).then(|| unit["unit"].as_str().map(str::to_owned))?
}

fn is_up(status: &Status) -> bool {
    status.system() == "running" && STEADY.iter().all(|unit| status.state(unit) == "running")
}

fn faults(cases: &[Case]) -> Vec<Fault> {
    cases.iter().map(|case| case.fault).collect()
}

fn status(init: &Init) -> Option<Status> {
    let mut client = init.client()?;
    client.send("status", &json!({}));
    client.answer()?.ok().map(Status)
}

fn table(init: &Init) -> String {
    status(init).map_or_else(|| "no status\n".to_owned(), |status| status.table())
}

/// Waits for this status. If a start failed for good with an error of these cases and init reports
/// it, requests that start once more.
fn when(init: &Init, what: &str, cases: &[Case], wanted: impl Fn(&Status) -> bool) {
    let (mut again, mut looks) = (cases.len(), 0);
    let found = within(PATIENCE, || {
        // Reading the status is expensive while each system call of init is traced.
        looks += 1;
        let status = (looks % RARELY == 0).then(|| status(init))??;
        let unit = cases.iter().find_map(|case| unit_failed_by(&status, case.fault.error));
        if let Some(unit) = unit.filter(|_| again > 0) {
            again -= 1;
            ask_repeatedly(init, "restart", &json!({"targets": [unit]}));
        }
        Some(status).filter(&wanted)
    });
    assert!(found.is_some(), "timeout: {what}; output:\n{}{}", init.output(), table(init));
}

/// Sends a request, and repeats it after a failure.
fn ask_repeatedly(init: &Init, verb: &str, fields: &Value) -> Value {
    let mut refused = Vec::new();
    for _ in 0..ATTEMPTS {
        let Some(mut client) = init.client() else { continue };
        client.send(verb, fields);
        match client.answer() {
            Some(Ok(value)) => return value,
            // The request was applied, and only its answer failed.
            Some(Err(error)) if !refused.is_empty() && error["kind"] == "not-wanted" => {
                return error;
            }
            other => refused.push(other),
        }
    }
    panic!("{verb} is refused: {refused:?}; output:\n{}{}", init.output(), table(init));
}

/// Sends a line to a socket and returns the answer.
fn call(path: &str, line: &str) -> Option<String> {
    let mut stream = UnixStream::connect(path).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(format!("{line}\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    (!answer.is_empty()).then_some(answer)
}

/// The maximum number of each call in each part, in some lives without faults.
pub(crate) fn counts(lives: usize) -> (Usual, BTreeMap<(Part, i64), usize>) {
    let mut most: BTreeMap<(Part, i64), usize> = BTreeMap::new();
    let mut note = |part: Part, seen: &Seen| {
        for (&call, &count) in &seen.calls {
            let entry = most.entry((part, call)).or_default();
            *entry = (*entry).max(count);
        }
    };
    let mut usual = Usual::default();
    for _ in 0..lives {
        let mut life = Life::begin(&[], None).expect("the process runs");
        note(Part::Boot, &life.seen());
        let one = life.usual();
        usual.memory = usual.memory.max(one.memory);
        usual.files = usual.files.max(one.files);
        note(Part::Work, &life.work(&[]));
        note(Part::End, &life.end(&[]));
    }
    (usual, most)
}
