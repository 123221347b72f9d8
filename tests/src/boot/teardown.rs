//! Invariants after every test of a real init. Init has not crashed, and answers. It leaves no
//! zombie, open file, memory or process of a stopped unit. Its events explain each state, and its
//! record replays to the same actions. Extends [`crate::boot::Init`].

use crate::boot::Init;
use crate::deadline::{until, within};
use crate::lateness::Lateness;
use crate::process::Process;
use crate::replay::replay;
use crate::sandbox::Sandbox;
use crate::status::Status;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The open files that PID 1 may have in addition to those after its boot.
pub(crate) const SPARE_FILES: usize = 5;
/// Starts that PID 1 may not have finished, each with a pipe. While units start all the time and
/// wait for a processor, there always are some.
const STARTS_UNDER_WAY: usize = 16;
/// KiB of memory that PID 1 may have in addition to that after its boot.
const SPARE_MEMORY: u64 = 2 * 1024;
/// The time in which temporary states must pass.
const SOON: Duration = Duration::from_secs(5);

/// A ping is answered within this time …
const AT_ONCE: Duration = Duration::from_millis(250);
/// … once this time has passed since the end of the test.
const RECOVERY: Duration = Duration::from_secs(1);

/// The resources of PID 1 once it answered.
#[derive(Clone, Copy, Debug)]
pub struct Baseline {
    files: usize,
    memory: u64,
}

impl Default for Baseline {
    /// A baseline that allows everything.
    fn default() -> Baseline {
        Baseline { files: usize::MAX, memory: u64::MAX }
    }
}

impl Baseline {
    /// The baseline of this process, now.
    pub fn of(process: Process) -> Baseline {
        Baseline { files: process.files().len(), memory: process.memory() }
    }
}

impl Init {
    /// Checks the invariants, stops init, expects exit status 0, and replays the record.
    pub fn finish(self) {
        self.finish_and_keep();
    }

    /// Like [`Init::finish`]; returns the sandbox for further use.
    pub fn finish_and_keep(self) -> Sandbox {
        let recorded = self.recorded;
        let left = self.finish_after_crash_and_keep();
        if recorded {
            match replay(&left.read("record")) {
                Ok(events) => assert!(events > 0, "something was recorded"),
                Err(difference) => panic!("the record does not replay: {difference}"),
            }
        }
        left
    }

    /// Like [`Init::finish`] for an init that has crashed: its record may contain duplicates.
    pub fn finish_after_crash(self) {
        self.finish_after_crash_and_keep();
    }

    /// Like [`Init::finish_after_crash`]; returns the sandbox.
    pub fn finish_after_crash_and_keep(mut self) -> Sandbox {
        self.check_at_rest();
        self.tell("exit", &json!({}));
        let status = self.ended();
        assert_eq!(status.code(), Some(0), "init ends with 0, not {status}");
        std::mem::take(&mut self.sandbox)
    }

    /// Checks the invariants that hold once the test is over.
    pub fn check_at_rest(&self) {
        self.check();
        self.check_memory();
    }

    /// Checks the invariants that hold at any time.
    pub fn check(&self) {
        self.check_with(SPARE_FILES);
    }

    /// Checks these invariants while units start all the time.
    pub(crate) fn check_amid_starts(&self) {
        self.check_with(SPARE_FILES + STARTS_UNDER_WAY);
    }

    fn check_with(&self, spare_files: usize) {
        self.check_answers();
        if !self.may_crash {
            assert_eq!(self.tell("stats", &json!({}))["crashes"], 0);
        }
        until("no zombie is init's", || {
            self.first.children().iter().all(|p| p.state() != Some('Z')).then_some(())
        });
        self.check_files(spare_files);
        self.check_processes();
        self.check_events();
    }

    pub(crate) fn check_files(&self, spare: usize) {
        let files = || self.first.files();
        assert!(!files().is_empty(), "its open files can be read");
        let most = self.baseline.files.saturating_add(spare);
        let close = within(SOON, || (files().len() <= most).then_some(()));
        assert!(close.is_some(), "{} files, at most {most}: {:?}", files().len(), files());
    }

    /// Checks that init answers within a quarter of a second, one second after the test at the
    /// latest.
    fn check_answers(&self) {
        let (late, begin) = (Lateness::of(self.first), Instant::now());
        loop {
            let (asked, late_before) = (Instant::now(), late.so_far());
            self.tell("ping", &json!({}));
            let took = asked.elapsed();
            if took <= AT_ONCE + (late.so_far() - late_before) {
                return;
            }
            let what = format!("an answer that takes {took:?}, more than {AT_ONCE:?},");
            late.check(&what, begin.elapsed(), RECOVERY);
        }
    }

    /// Makes the current memory the baseline, because the test made init store that much.
    pub fn may_keep_this_much(&mut self) {
        self.baseline.memory = self.first.memory();
    }

    /// Checks the memory once the test is over.
    fn check_memory(&self) {
        let most = self.baseline.memory.saturating_add(SPARE_MEMORY);
        assert!(self.first.memory() > 0, "its memory can be read");
        let close = within(SOON, || (self.first.memory() <= most).then_some(()));
        assert!(close.is_some(), "{} KiB, at most {most}", self.first.memory());
    }

    fn check_processes(&self) {
        let left = || {
            let status = self.status();
            self.descendants().into_iter().find_map(|process| {
                let named = process.environment().get("GROUNDSTATE_UNIT").cloned();
                let is_down =
                    |unit: &str| matches!(status.state(unit), "disabled" | "failed" | "waiting");
                let down =
                    named.into_iter().chain(units_of_cgroups(process)).find(|it| is_down(it));
                down.filter(|_| process.is_alive())
            })
        };
        let clean = within(SOON, || left().is_none().then_some(()));
        assert!(clean.is_some(), "{:?} is down and has a process", left());
    }

    /// Checks the events: each state follows from the previous one, and each cause precedes its
    /// effect. Without further events the last event agrees with the status.
    fn check_events(&self) {
        let seq = || self.tell("ping", &json!({}))["seq"].clone();
        let mut wrong = None;
        let right = within(SOON, || {
            let before = seq();
            let (events, status) = (self.initctl_json_lines(&["events"]), self.status());
            let last = (seq() == before).then_some(&status);
            wrong = chain(&events, last).err();
            wrong.is_none().then_some(())
        });
        assert!(right.is_some(), "{wrong:?}");
    }
}

/// The units of the process's cgroups according to their names, `UNIT.RUN`, whatever its
/// environment says.
fn units_of_cgroups(process: Process) -> Vec<String> {
    let text = process.read("cgroup").unwrap_or_default();
    let unit = |part: &str| {
        let (unit, run) = part.rsplit_once('.')?;
        run.starts_with(|first: char| first.is_ascii_digit()).then(|| unit.to_owned())
    };
    text.lines().flat_map(|line| line.split('/')).filter_map(unit).collect()
}

fn chain(events: &[Value], status: Option<&Status>) -> Result<(), String> {
    let mut last: BTreeMap<&str, &Value> = BTreeMap::new();
    for (event, next) in events.iter().zip(events.iter().skip(1)) {
        if next["seq"].as_u64() != event["seq"].as_u64().map(|seq| seq + 1) {
            return Err(format!("a gap: {event} {next}"));
        }
    }
    for event in events {
        if event["cause"].as_u64() >= event["seq"].as_u64() && !event["cause"].is_null() {
            return Err(format!("caused by what came later: {event}"));
        }
        let Some(unit) = event["unit"].as_str().filter(|_| event["event"] == "state") else {
            continue;
        };
        if let Some(before) = last.insert(unit, &event["to"])
            && *before != event["from"]
        {
            return Err(format!("{unit} was {before}: {event}"));
        }
    }
    for (unit, state) in last {
        let now = status.map_or(&Value::Null, |status| &status.unit(unit)["state"]);
        if !now.is_null() && now != state {
            return Err(format!("{unit} is {now}, and its last event says {state}"));
        }
    }
    Ok(())
}
