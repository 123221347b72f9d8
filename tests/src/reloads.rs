//! Many reloads of a real init with many units, some of which crash, hang or become ready all the
//! time. The unit files change ten times per second. A reload touches only edited units, and init
//! always answers and does not grow. The caller chooses the size: a test a small one, `tests/soak
//! reload` a large one.

use crate::boot::{Boot, Init};
use crate::client::Client;
use crate::deadline::{until, within};
use crate::sandbox::Sandbox;
use groundstate_units::simulator::rng::Rng;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The interval of the reloads.
const PACE: Duration = Duration::from_millis(100);
/// The test needs a reload of each kind. On a busy machine it may run this much longer than
/// requested.
const LONGEST: Duration = Duration::from_secs(60);
/// The minimum number of memory samples, which are divided into quarters.
const LEAST_LOOKS: usize = 8;
/// The interval of the pings.
const PING: Duration = Duration::from_millis(20);
/// Members of one virtual unit.
const GROUP: usize = 100;
/// The allowed growth of PID 1 from the second quarter to the last, in KiB. A leak with ten
/// thousand units and a hundred generations a minute would be larger.
const GROWTH: u64 = 2 * 1024;

/// The size of a test.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// All units; a tenth are stable services.
    pub units: usize,
    /// Units that crash.
    pub crashing: usize,
    /// The duration.
    pub time: Duration,
    /// True if the record is replayed at the end.
    pub recorded: bool,
}

/// The numbers of requested reloads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// Reloads answered with a new generation.
    pub taken: usize,
    /// Reloads refused, as expected.
    pub refused: usize,
    /// Reloads by signal, without an answer, because the previous one was in progress.
    pub by_signal: usize,
}

impl Asked {
    fn has_each(&self) -> bool {
        self.taken > 0 && self.refused > 0
    }

    fn judge(&mut self, fine: Option<bool>, answer: &Result<Value, Value>) {
        assert_eq!(Some(answer.is_ok()), fine, "{answer:?}");
        *(if answer.is_ok() { &mut self.taken } else { &mut self.refused }) += 1;
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct Seen {
    /// The reloads.
    pub asked: Asked,
    /// Events of units meanwhile.
    pub events: u64,
    /// The times of the pings, sorted.
    pub pings: Vec<Duration>,
    /// Anonymous RSS of PID 1 in the second quarter and in the last, in KiB.
    pub memory: (u64, u64),
    /// The duration.
    pub took: Duration,
}

impl Seen {
    /// The time within which this percentage of pings was answered.
    pub fn ping(&self, hundredth: usize) -> Duration {
        let at = self.pings.len() * hundredth / 100;
        self.pings.get(at).or(self.pings.last()).copied().unwrap_or_default()
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Asked { taken, refused, by_signal } = self.asked;
        let all = taken + refused + by_signal;
        write!(
            f,
            "{all} reloads asked for in {} s: {taken} taken, {refused} refused, {by_signal} by signal; {} events of units; ping: half {:?}, p99 {:?}, longest {:?}; RSS {} KiB, then {} KiB",
            self.took.as_secs(),
            self.events,
            self.ping(50),
            self.ping(99),
            self.ping(100),
            self.memory.0,
            self.memory.1
        )
    }
}

/// The expected units, and the random numbers that change them.
struct Edits {
    size: Size,
    chance: Rng,
    /// The unit that has a mistake now.
    broken: Option<usize>,
    /// The crashing unit whose file is removed now.
    removed: Option<usize>,
    number: usize,
}

impl Edits {
    fn new(size: Size) -> Edits {
        Edits { size, chance: Rng::new(5), broken: None, removed: None, number: 0 }
    }

    fn stable(&self) -> usize {
        self.size.units / 10
    }

    fn plain(&self) -> usize {
        self.size.units - self.stable() - self.size.crashing
    }

    fn write_all(&self, files: &Sandbox) {
        for at in 0..self.stable() {
            Self::put_stable(files, at, "as it was");
        }
        for at in 0..self.size.crashing {
            Self::put_crashing(files, at, at, at);
        }
        for at in 0..self.plain() {
            Self::put_plain(files, at, &format!("wants: stable{}", at % self.stable()));
        }
        for (kind, members) in
            [("stable", self.stable()), ("crashing", self.size.crashing), ("plain", self.plain())]
        {
            let groups = members.div_ceil(GROUP);
            for group in 0..groups {
                let names: Vec<String> = (group * GROUP..((group + 1) * GROUP).min(members))
                    .map(|at| format!("{kind}{at}"))
                    .collect();
                let text = format!("type: virtual\nwants: {}", names.join(", "));
                files.unit(&format!("{kind}-group{group}"), &text);
            }
            let names: Vec<String> = (0..groups).map(|at| format!("{kind}-group{at}")).collect();
            files.unit(
                &format!("all-{kind}"),
                &format!("type: virtual\nwants: {}", names.join(", ")),
            );
        }
        files.unit("all", "type: virtual\nwaits-for: all-stable, all-plain\nwants: all-crashing");
        files.unit("calm", "type: virtual\nwaits-for: all-stable");
    }

    fn put_stable(files: &Sandbox, at: usize, words: &str) {
        let text = format!("description: {words}\nexec-start: /bin/sleep 1000000");
        files.unit(&format!("stable{at}"), &text);
    }

    /// Writes a unit that exits, dies, becomes ready and dies, or never becomes ready and times
    /// out.
    fn put_crashing(files: &Sandbox, at: usize, kind: usize, word: usize) {
        let life = format!("{}.{}", 1 + at % 3, word % 10);
        let text = match kind % 4 {
            0 => format!("exec-start: /bin/sh -c 'sleep {life}; exit {}'", word % 200),
            1 => format!("exec-start: /bin/sh -c 'sleep {life}; kill -SEGV $$'"),
            2 => format!(
                "type: foreground-notified\nexec-start: DAEMON --notify --exit-after {}",
                1000 + word % 1000
            ),
            _ => format!(
                "type: foreground-notified\nstart-timeout: {life}s\nrestart-limit: none\nexec-start: /bin/sleep {}",
                10_000 + word
            ),
        };
        let retry = "restart-delay: 500ms\nrestart-delay-max: 500ms\nrestart-reset: 1ms";
        files.unit(&format!("crashing{at}"), &format!("{retry}\n{text}"));
    }

    fn put_plain(files: &Sandbox, at: usize, edges: &str) {
        files.unit(&format!("plain{at}"), &format!("type: virtual\n{edges}"));
    }

    /// Makes the next edit. Returns false if the reload must be refused.
    fn next(&mut self, files: &Sandbox) -> bool {
        self.number += 1;
        let number = self.number;
        if let Some(at) = self.broken.take() {
            Self::put_plain(files, at, "wants: stable0");
            return true;
        }
        if let Some(at) = self.removed.take() {
            Self::put_crashing(files, at, at, number);
        }
        let (stable, crashing) =
            (self.chance.below(self.stable()), self.chance.below(self.size.crashing));
        let plain = self.chance.below(self.plain());
        if number == 1 {
            // At least one reload must be refused.
            Self::put_plain(files, plain, "wnats: stable0");
            self.broken = Some(plain);
            return false;
        }
        match self.chance.weighted(&[4, 2, 2, 2, 2, 1, 1]) {
            0 => Self::put_crashing(files, crashing, crashing, number),
            1 => Self::put_crashing(files, crashing, crashing + number, number),
            2 => Self::put_stable(files, stable, &format!("edit {number}")),
            3 => {
                Self::put_plain(
                    files,
                    plain,
                    &format!("wants: stable{stable}, crashing{crashing}"),
                );
            }
            4 => {
                files.remove_unit(&format!("crashing{crashing}"));
                self.removed = Some(crashing);
            }
            5 => {
                Self::put_plain(files, plain, "wnats: stable0");
                self.broken = Some(plain);
                return false;
            }
            _ => {}
        }
        true
    }
}

/// The stable units as init reports them: main process and start time.
fn steady(init: &Init, count: usize) -> Vec<Value> {
    let status = init.status();
    let units = status.0["units"].as_array().expect("`units` is a list");
    let of = |unit: &&Value| {
        unit["unit"].as_str().is_some_and(|u| u.starts_with("stable") && !u.contains('-'))
    };
    let known: Vec<Value> = units
        .iter()
        .filter(of)
        .map(|unit| json!([unit["unit"], unit["state"], unit["main-pid"], unit["since"]]))
        .collect();
    assert_eq!(known.len(), count);
    assert!(known.iter().all(|unit| unit[1] == "running"), "{known:?}");
    known
}

/// Sends pings on a connection of its own until it is told to stop.
fn pinger(mut client: Client, stop: Arc<AtomicBool>) -> JoinHandle<Vec<Duration>> {
    thread::spawn(move || {
        let mut pings = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let begin = Instant::now();
            client.ask("ping", &json!({})).expect("init answers");
            pings.push(begin.elapsed());
            within(PING, || None::<()>);
        }
        pings.sort();
        pings
    })
}

fn middle(mut of: Vec<u64>) -> u64 {
    of.sort_unstable();
    of.get(of.len() / 2).copied().expect("one at least")
}

/// Runs the test and checks its results.
pub fn storm(size: Size) -> Seen {
    let files = Sandbox::new();
    files.put("init.yaml", "echo: no\nmax-starting: 0\n");
    let mut edits = Edits::new(size);
    edits.write_all(&files);
    let boot = Boot::new(files);
    let boot = if size.recorded { boot } else { boot.unrecorded() };
    let mut init = boot.start("all");
    let stable = edits.stable();
    init.when("the stable units run", |status| {
        let running = |unit: &&Value| unit["state"] == "running" && !unit["main-pid"].is_null();
        let units = status.0["units"].as_array().expect("`units` is a list");
        let name = |unit: &&Value| unit["unit"].as_str().is_some_and(|u| u.starts_with("stable"));
        units.iter().filter(name).filter(running).count() == stable
    });
    let before = steady(&init, stable);
    let stop = Arc::new(AtomicBool::new(false));
    let pings = pinger(init.client().expect("it listens"), Arc::clone(&stop));
    let first = init.tell("ping", &json!({}))["seq"].as_u64().expect("a number");
    let begin = Instant::now();
    let (asked, memory) = reload_continuously(&init, &mut edits, begin);
    let took = begin.elapsed();
    stop.store(true, Ordering::Relaxed);
    let pings = pings.join().expect("init answered all the time");
    let last = init.tell("ping", &json!({}))["seq"].as_u64().expect("a number");
    assert_eq!(steady(&init, stable), before, "no other unit was restarted");
    // The baseline was taken without that many units; growth during the run is checked separately.
    init.may_keep_this_much();
    calm(init);
    Seen { asked, events: last - first, pings, memory, took }
}

/// Reloads whenever one is due. If the previous one is not answered yet, sends a signal, which
/// joins others in one load.
fn reload_continuously(init: &Init, edits: &mut Edits, begin: Instant) -> (Asked, (u64, u64)) {
    let mut asked = Asked::default();
    let mut samples = Vec::new();
    let mut client = init.client().expect("it listens");
    let (ask, due) = mpsc::channel();
    let (answer, answered) = mpsc::channel();
    let caller = thread::spawn(move || {
        for () in due {
            let _ = answer.send(client.ask("reload", &json!({})));
        }
    });
    // Whether init must accept the reload that it has not answered yet.
    let mut fine = None;
    for number in 1.. {
        let (took, is_enough) = (begin.elapsed(), asked.has_each() && samples.len() >= LEAST_LOOKS);
        if took >= edits.size.time && (is_enough || took >= edits.size.time + LONGEST) {
            break;
        }
        let mut late = fine.is_some();
        if let Ok(answer) = answered.try_recv() {
            asked.judge(fine.take(), &answer);
            late = false;
        }
        if late {
            init.process().signal(Signal::SIGHUP);
            asked.by_signal += 1;
        } else {
            fine = Some(edits.next(&init.sandbox));
            ask.send(()).expect("the receiver exists");
        }
        samples.push(init.process().memory());
        within((PACE * number).saturating_sub(begin.elapsed()), || None::<()>);
    }
    if fine.is_some() {
        asked.judge(fine, &answered.recv().expect("an answer to each"));
    }
    drop(ask);
    caller.join().expect("it was answered");
    let quarter =
        |at: usize| middle(samples[samples.len() * at / 4..samples.len() * (at + 1) / 4].to_vec());
    (asked, (quarter(1), quarter(3)))
}

/// Changes the goal to the stable units, and checks the general invariants.
fn calm(init: Init) {
    init.tell("set-target", &json!({"targets": ["calm"]}));
    until("no unit crashes any more", || {
        let status = init.status();
        let units = status.0["units"].as_array().expect("`units` is a list");
        let crashing =
            |unit: &&Value| unit["unit"].as_str().is_some_and(|u| u.starts_with("crashing"));
        units
            .iter()
            .filter(crashing)
            .all(|unit| unit["state"] == "disabled" || unit["state"] == "failed")
            .then_some(())
    });
    init.finish();
}

impl Seen {
    /// Checks the promises. `p99` is the limit for 99 of 100 pings.
    ///
    /// # Errors
    /// The broken promise.
    pub fn verdict(&self, p99: Duration) -> Result<(), String> {
        if self.ping(99) > p99 {
            return Err(format!("it answers late, p99 may be {p99:?}: {self}"));
        }
        if self.memory.1 > self.memory.0 + GROWTH {
            return Err(format!("PID 1 has grown: {self}"));
        }
        if !self.asked.has_each() || self.events == 0 {
            return Err(format!(
                "too little happened: a kind of reload or the events of units are missing: {self}"
            ));
        }
        Ok(())
    }
}
