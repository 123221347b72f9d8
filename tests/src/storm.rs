//! More than two hundred services of all types, or several times as many, half of them starting,
//! stopping or between retries. Init crashes in five ways among them, or is upgraded, while
//! messages are in flight, lines are written, clients are connected and a process has just exited.
//! No service may be affected. [`crate::crash`] makes the crashes; [`crate::sweep`] crashes at each
//! system call.

use crate::boot::{Boot, Init};
use crate::client::Client;
use crate::crash::{FAULTS, crash, wait_for_commit};
use crate::deadline::until;
use crate::sandbox::Sandbox;
use crate::status::Status;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The units: name, number, text, and expected state.
const UNITS: [(&str, usize, &str, &str); 10] = [
    (
        "notified",
        40,
        "type: foreground-notified\nexec-start: DAEMON --notify --control DIR/NAME",
        "running",
    ),
    ("plain", 20, "exec-start: DAEMON --control DIR/NAME", "running"),
    (
        "forked",
        20,
        "type: background-pidfile\npid-file: DIR/NAME.pid\nexec-start: DAEMON --pid-file DIR/NAME.pid",
        "running",
    ),
    ("script", 13, "type: background-scripted\nexec-start: /bin/sh -c 'sleep 100000 &'", "running"),
    ("once", 20, "type: oneshot\nexec-start: /bin/true", "exited"),
    ("group", 20, "type: virtual", "running"),
    (
        "starting",
        80,
        "type: foreground-notified\nstart-timeout: 10h\nexec-start: DAEMON --notify --ready-on-order --control DIR/NAME",
        "starting",
    ),
    (
        "failing",
        20,
        "restart-delay: 10h\nrestart-delay-max: 10h\nexec-start: /bin/false",
        "waiting",
    ),
    (
        "stubborn",
        20,
        "stop-timeout: 10h\nexec-start: DAEMON --ignore TERM --control DIR/NAME",
        "stopping",
    ),
    (
        "leaving",
        LEAVING,
        "stop-timeout: 10h\nstderr: console\nexec-start: DAEMON --ignore TERM --control DIR/NAME\nexec-stop: DAEMON --control DIR/NAME.stop",
        "stopping",
    ),
];
/// The number of units whose stop command continues across all crashes. During each crash one of
/// them writes a line.
const LEAVING: usize = 4;
/// The number of units that write a line during each crash.
const SPEAKERS: usize = 3;
/// The open files that init may have in addition to those before the first crash.
const SPARE_FILES: usize = 5;

/// The event that hits init in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// A crash, each time of another kind.
    Crash,
    /// An upgrade.
    Upgrade,
}

/// An init with all of these services.
#[derive(Debug)]
pub struct Storm {
    init: Init,
    /// The multiple of [`UNITS`].
    times: usize,
    follower: Client,
    before: Vec<Value>,
    /// The last event that the follower received.
    told: u64,
    files: usize,
    rounds: usize,
}

fn names(times: usize) -> impl Iterator<Item = (String, &'static str)> {
    let all = move |(name, count, _, state): (&'static str, usize, _, &'static str)| {
        (0..count * times).map(move |number| (format!("{name}{number}"), state))
    };
    UNITS.into_iter().flat_map(all)
}

/// The facts that no crash changes.
fn fixed(status: &Status, times: usize) -> Vec<Value> {
    let of = |(name, _): (String, _)| {
        let unit = status.unit(&name);
        json!([unit["unit"], unit["state"], unit["main-pid"], unit["run"], unit["since"]])
    };
    names(times).map(of).collect()
}

fn crashes(init: &Init) -> u64 {
    until("init answers", || {
        let mut client = init.client()?;
        client.send("stats", &json!({}));
        client.answer()?.ok()?["crashes"].as_u64()
    })
}

impl Storm {
    /// Starts this multiple of the services.
    pub fn begin(times: usize) -> Storm {
        let files = Sandbox::new();
        let (mut up, mut down) = (Vec::new(), Vec::new());
        for (name, count, text, state) in UNITS {
            for name in (0..count * times).map(|number| format!("{name}{number}")) {
                files.unit(&name, &text.replace("NAME", &name));
                if state == "stopping" { &mut down } else { &mut up }.push(name);
            }
        }
        for (name, text) in [
            (
                "victim",
                "type: foreground-notified\nstderr: console\nrestart-delay: 10ms\nrestart-delay-max: 10ms\nrestart-reset: 1ms\nexec-start: DAEMON --notify --trace DIR/victim.trace",
            ),
            ("tick", "type: timer\ntimer-unit-active: 200ms\ntimer-active: 100ms\nactivates: job"),
            ("job", "type: oneshot\nexec-start: /bin/sh -c 'echo x >>DIR/job.trace'"),
        ] {
            files.unit(name, text);
        }
        files.unit("down", &format!("type: virtual\nwaits-for: {}", down.join(", ")));
        files.unit("all", &format!("type: virtual\nwaits-for: victim, tick, {}", up.join(", ")));
        let mut init = Boot::new(files).start("all");
        init.expect_crashes();
        init.when_state("victim", "running");
        init.tell("want", &json!({"target": "down"}));
        until("all units that will stop are running", || {
            let status = init.status();
            down.iter().all(|name| status.state(name) == "running").then_some(())
        });
        // A unit that reads orders has set its ignored signals by then.
        down.iter().for_each(|name| init.sandbox.order(name, "say here"));
        init.tell("unwant", &json!({"target": "down"}));
        init.when("all units are in their expected states", |s| {
            s.state("victim") == "running"
                && names(times).all(|(name, state)| s.state(&name) == state)
        });
        let mut follower = init.client().expect("it listens");
        let told = init.tell("ping", &json!({}))["seq"].as_u64().expect("a number");
        follower.send("events", &json!({"follow": true, "after": told}));
        let (before, files) = (fixed(&init.status(), times), init.process().files().len());
        let mut storm = Storm { init, times, follower, before, told, files, rounds: 0 };
        storm.follow();
        storm
    }

    fn starts(&self) -> usize {
        let words = self.init.sandbox.trace("victim.trace");
        words.iter().filter(|word| word.starts_with("start")).count()
    }

    /// Makes one crash or upgrade. Returns how long init did not answer.
    pub fn round(&mut self, blow: Blow) -> Duration {
        let (init, number) = (&self.init, self.rounds);
        let fired = init.sandbox.trace("job.trace").len();
        until("the last crash is some time ago", || {
            (init.sandbox.trace("job.trace").len() > fired + 2).then_some(())
        });
        // A crash disconnects clients that connected after the last commit.
        wait_for_commit(init);
        let (survived, started, victim) = (crashes(init), self.starts(), init.main_of("victim"));
        let speakers: Vec<usize> = (0..SPEAKERS).map(|at| (number * SPEAKERS + at) % 20).collect();
        let said = format!("round {number}");
        for at in &speakers {
            init.sandbox.order(&format!("notified{at}"), &format!("notify STATUS={said}"));
            init.sandbox.order(&format!("plain{at}"), &format!("say {said}"));
        }
        init.sandbox.order(&format!("leaving{}.stop", number % LEAVING), &format!("say {said}"));
        victim.signal(Signal::SIGKILL);
        let gap = match blow {
            Blow::Crash => {
                crash(init, FAULTS[number % FAULTS.len()]);
                let crashed = Instant::now();
                until("init has recovered", || (crashes(init) == survived + 1).then_some(()));
                crashed.elapsed()
            }
            Blow::Upgrade => {
                let asked = Instant::now();
                // The new image answers.
                init.tell("upgrade", &json!({}));
                let gap = asked.elapsed();
                assert_eq!(crashes(init), survived, "round {number}: an upgrade is no crash");
                gap
            }
        };
        let status = init.when("messages are received, and the victim is restarted", |s| {
            let heard = |at: &usize| s.unit(&format!("notified{at}"))["status"] == said.as_str();
            speakers.iter().all(heard)
                && s.state("victim") == "running"
                && init.main_of("victim") != victim
        });
        assert_eq!(fixed(&status, self.times), self.before, "round {number}");
        assert_eq!(self.starts(), started + 1, "round {number}: the victim was started once");
        let files = || init.process().files().len();
        until("no descriptor is left behind", || {
            (files() <= self.files + SPARE_FILES).then_some(())
        });
        self.rounds += 1;
        self.follow();
        gap
    }

    /// Checks that the follower receives each event, across all crashes.
    fn follow(&mut self) {
        let last = self.init.tell("ping", &json!({}))["seq"].as_u64().expect("a number");
        while self.told < last {
            let event = self.follower.answer().expect("the stream goes on").expect("an event");
            let Some(number) = event["seq"].as_u64() else { continue };
            assert!(number <= self.told + 1, "event {} is missing", self.told + 1);
            self.told = self.told.max(number);
        }
    }

    /// Checks that the unit's log has its lines of these rounds, and no others.
    fn has_logged(&self, unit: &str, rounds: impl Iterator<Item = usize>) {
        let expected: Vec<String> = rounds.map(|round| format!("round {round}")).collect();
        let log = || {
            let text = self.init.sandbox.read(&format!("log/{unit}.log"));
            let words = text.lines().filter_map(|line| Some(&line[line.find("round ")?..]));
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        until("each line is in the log, once and in order", || (log() == expected).then_some(()));
    }

    /// Checks at the end that each written line is in the log once.
    pub fn end(mut self) {
        for at in 0..20 {
            let turns = (0..self.rounds * SPEAKERS).filter(|turn| turn % 20 == at);
            self.has_logged(&format!("plain{at}"), turns.map(|turn| turn / SPEAKERS));
        }
        for at in 0..LEAVING {
            let name = format!("leaving{at}");
            self.has_logged(&name, (0..self.rounds).filter(|round| round % LEAVING == at));
        }
        for (name, _) in names(self.times).filter(|(_, state)| *state == "stopping") {
            if name.starts_with("leaving") {
                self.init.sandbox.order(&format!("{name}.stop"), "exit 0");
            }
            self.init.sandbox.order(&name, "exit 0");
        }
        self.init.tell("exit", &json!({}));
        assert_eq!(self.init.ended().code(), Some(0));
    }
}
