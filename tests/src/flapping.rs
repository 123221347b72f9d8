//! A storm of restarts: many units that exit at once, each started again without a delay until the
//! floor of the delay slows it down, then forgiven and so on. Who does not crash is not touched,
//! init does not grow, says a bounded number of lines, and one unit at its longest delay costs next
//! to nothing. How many and how often is the caller's: a test has a small one, `tests/soak
//! restarts` a large one.

use crate::boot::teardown::SPARE_FILES;
use crate::boot::{Boot, Init};
use crate::deadline::{until, within};
use crate::sandbox::Sandbox;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

/// Failures in a row of each unit in a round: from the tenth on the delay has its floor.
const FAILURES: u64 = 10;
/// Between two looks at all of them.
const PACE: Duration = Duration::from_millis(200);
/// What PID 1 may have grown by from the first round to the last, in KiB.
const GROWTH: u64 = 2 * 1024;
/// Lines init may say at once, and in a second, as its own limits have it.
const LINES: (usize, usize) = (256, 32);

/// How large it is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Units that crash.
    pub units: usize,
    /// How often all of them are forgiven and crash again, the first time included.
    pub rounds: usize,
}

/// What was seen.
#[derive(Debug)]
pub struct Seen {
    /// Starts of units that crash, at least.
    pub starts: u64,
    /// RSS of PID 1 after the first round and after the last, in KiB.
    pub memory: (u64, u64),
    /// What PID 1 took of a processor.
    pub busy: Duration,
    /// How long all of it took.
    pub took: Duration,
    /// Lines that init has said.
    pub lines: usize,
}

impl Seen {
    /// Whether it may be so.
    ///
    /// # Errors
    /// What may not.
    pub fn verdict(&self) -> Result<(), String> {
        let (before, after) = self.memory;
        if after > before + GROWTH {
            return Err(format!("PID 1 has grown from {before} KiB to {after} KiB"));
        }
        let seconds = usize::try_from(self.took.as_secs()).unwrap_or(usize::MAX) + 1;
        let most = LINES.0 + LINES.1 * seconds;
        if self.lines > most {
            return Err(format!("{} lines in {seconds} s, {most} at most", self.lines));
        }
        Ok(())
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = self.memory;
        let (busy, took) = (self.busy.as_millis(), self.took.as_secs());
        let Seen { starts, lines, .. } = self;
        write!(
            f,
            "{starts} starts in {took} s, PID 1 busy for {busy} ms, {lines} lines said; RSS {before} KiB, then {after} KiB"
        )
    }
}

/// How often each has failed in a row.
fn failures(init: &Init) -> BTreeMap<String, u64> {
    let status = init.status();
    let units = status.0["units"].as_array().expect("`units` is a list");
    let of = |unit: &serde_json::Value| {
        let name = unit["unit"].as_str().filter(|name| name.starts_with("crash"))?;
        Some((name.to_owned(), unit["attempt"].as_u64()?))
    };
    units.iter().filter_map(of).collect()
}

/// The storm, and what holds after it.
pub fn storm(size: Size) -> Seen {
    let files = Sandbox::new();
    files.put("init.yaml", "echo: no\nmax-starting: 0\n");
    let names: Vec<String> = (0..size.units).map(|at| format!("crash{at}")).collect();
    for name in &names {
        // The longest delay is such that nobody goes on beside the next round.
        let retry = "restart-delay: 0\nrestart-delay-max: 1h\nlog: 'null'";
        files.unit(name, &format!("{retry}\nexec-start: /bin/false"));
    }
    for at in 0..10 {
        files.unit(&format!("calm{at}"), "exec-start: /bin/sleep 1000000");
    }
    let calm: Vec<String> = (0..10).map(|at| format!("calm{at}")).collect();
    files.unit("calm", &format!("type: virtual\nwaits-for: {}", calm.join(", ")));
    files.unit("all", &format!("type: virtual\nwaits-for: calm\nwants: {}", names.join(", ")));
    let init = Boot::new(files).unrecorded().start("calm");
    init.when_system("running");
    let pids =
        |init: &Init| calm.iter().map(|name| init.status().main_pid(name)).collect::<Vec<_>>();
    let (before, begin, idle) = (pids(&init), Instant::now(), init.process().processor_time());
    let (mut starts, mut first) = (0, 0);
    init.tell("set-target", &json!({"targets": ["all"]}));
    for round in 0..size.rounds {
        if round > 0 {
            init.tell("retry", &json!({"targets": names}));
        }
        until("each has failed often enough", || {
            within(PACE, || None::<()>);
            let all = failures(&init);
            let enough = all.len() == size.units && all.values().all(|count| *count >= FAILURES);
            enough.then(|| starts += all.values().sum::<u64>())
        });
        init.check_amid_starts();
        if round == 0 {
            first = init.process().memory();
        }
    }
    let memory = (first, init.process().memory());
    assert_eq!(pids(&init), before, "nobody else was started anew");
    let (busy, took) = (init.process().processor_time().saturating_sub(idle), begin.elapsed());
    let lines = init.output().lines().count();
    init.tell("set-target", &json!({"targets": ["calm"]}));
    init.when_system("running");
    until("nobody crashes any more", || {
        let status = init.status();
        let is_down = |name: &String| matches!(status.state(name), "disabled" | "failed");
        names.iter().all(is_down).then_some(())
    });
    init.check_files(SPARE_FILES);
    drop(init);
    Seen { starts, memory, busy, took, lines }
}
