//! Many restarts. Units exit at once, and init restarts them without a delay until the minimum
//! delay applies. A client then retries them, which starts the next round. Other units are not
//! touched, init does not grow, and it logs a bounded number of lines. The caller chooses the size:
//! a test a small one, `tests/soak restarts` a large one.

use crate::boot::teardown::SPARE_FILES;
use crate::boot::{Boot, Init};
use crate::deadline::{until, within};
use crate::sandbox::Sandbox;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

/// Failures in a row of each unit in a round: from the tenth on the minimum delay applies.
const FAILURES: u64 = 10;
/// The pause between two looks at all units.
const PACE: Duration = Duration::from_millis(200);
/// The allowed growth of PID 1 from the first round to the last, in KiB.
const GROWTH: u64 = 2 * 1024;
/// The lines that init may log in a burst and per second, according to its own limits.
const LINES: (usize, usize) = (256, 32);

/// The size of a test.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Units that crash.
    pub units: usize,
    /// The number of times that all of them crash, including the first.
    pub rounds: usize,
}

/// The result of a run.
#[derive(Debug)]
pub struct Seen {
    /// The minimum number of starts of crashing units.
    pub starts: u64,
    /// Anonymous RSS of PID 1 after the first round and after the last, in KiB.
    pub memory: (u64, u64),
    /// The processor time of PID 1.
    pub busy: Duration,
    /// The duration.
    pub took: Duration,
    /// The lines that init has logged.
    pub lines: usize,
}

impl Seen {
    /// Checks the limits.
    ///
    /// # Errors
    /// The limit that was exceeded.
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

/// The number of failures in a row of each unit.
fn failures(init: &Init) -> BTreeMap<String, u64> {
    let status = init.status();
    let units = status.0["units"].as_array().expect("`units` is a list");
    let of = |unit: &serde_json::Value| {
        let name = unit["unit"].as_str().filter(|name| name.starts_with("crash"))?;
        Some((name.to_owned(), unit["attempt"].as_u64()?))
    };
    units.iter().filter_map(of).collect()
}

/// Runs the test and checks its results.
pub fn storm(size: Size) -> Seen {
    let files = Sandbox::new();
    files.put("init.yaml", "echo: no\nmax-starting: 0\n");
    let names: Vec<String> = (0..size.units).map(|at| format!("crash{at}")).collect();
    for name in &names {
        // With this longest delay no unit restarts during the next round.
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
    assert_eq!(pids(&init), before, "no other unit was restarted");
    let (busy, took) = (init.process().processor_time().saturating_sub(idle), begin.elapsed());
    let lines = init.output().lines().count();
    init.tell("set-target", &json!({"targets": ["calm"]}));
    init.when_system("running");
    until("no unit crashes any more", || {
        let status = init.status();
        let is_down = |name: &String| matches!(status.state(name), "disabled" | "failed");
        names.iter().all(is_down).then_some(())
    });
    init.check_files(SPARE_FILES);
    drop(init);
    Seen { starts, memory, busy, took, lines }
}
