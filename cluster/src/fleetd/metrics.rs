//! Prometheus metrics of the engine and the agent of this machine: decision times, results (by the
//! names of fleet 1.0), and reconciliations of the agent.

use crate::engine::Task;
use crate::move_order::Cause;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the histogram buckets in milliseconds.
const BOUNDS: [u64; 8] = [1, 5, 20, 50, 100, 500, 1_000, 5_000];

/// Counters since the start of fleetd, independent of its leadership.
#[derive(Debug, Default)]
pub struct Metrics {
    within: [AtomicU64; BOUNDS.len()],
    beyond: AtomicU64,
    micros: AtomicU64,
    /// Time of the last election, in seconds since 1970.
    led_since: AtomicU64,
    /// The time until which the leader lease is proved, in milliseconds of fleetd's clock; 0 if it
    /// does not lead.
    leads_until: AtomicU64,
    done: Moves,
    failed: Moves,
    /// Reasons why units had no place: their machine left, their machine can no longer have them,
    /// or no machine can.
    machine_away: AtomicU64,
    run: AtomicU64,
    schedule: AtomicU64,
    /// Number of reconciliations of the agent.
    agent: AtomicU64,
}

/// Units placed on a machine, and removed from one.
#[derive(Debug, Default)]
struct Moves {
    on: AtomicU64,
    off: AtomicU64,
}

impl Moves {
    fn count(&self, task: &Task) {
        let on = task.moves.iter().filter(|step| step.to.is_some()).count();
        let off = task.moves.iter().filter(|step| step.from.is_some()).count();
        add(&self.on, on);
        add(&self.off, off);
    }

    fn text(&self, name: &str) -> String {
        counters(name, &[("attemptscheduleunit", &self.on), ("unscheduleunit", &self.off)])
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn add(count: &AtomicU64, more: usize) {
    count.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Formats counters with the label `type`, as fleet does.
fn counters(name: &str, by_type: &[(&str, &AtomicU64)]) -> String {
    let mut text = format!("# TYPE {name} counter\n");
    for (kind, count) in by_type {
        let count = count.load(Ordering::Relaxed);
        let _ = writeln!(text, "{name}{{type=\"{kind}\"}} {count}");
    }
    text
}

impl Metrics {
    /// Counts a decision that took this long.
    pub fn note(&self, took: Duration) {
        let at = BOUNDS.iter().position(|bound| took <= Duration::from_millis(*bound));
        let count = at.and_then(|at| self.within.get(at)).unwrap_or(&self.beyond);
        count.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Counts a reconciliation of the agent.
    pub fn reconciles(&self) {
        add(&self.agent, 1);
    }

    /// The number of reconciliations.
    pub fn reconciled(&self) -> u64 {
        self.agent.load(Ordering::Relaxed)
    }

    /// Records that this machine was elected now.
    pub fn elected(&self) {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        self.led_since.store(since, Ordering::Relaxed);
    }

    /// Sets the time until which the leader lease is proved, by fleetd's clock; zero if it does not
    /// lead.
    pub fn leads_until(&self, end: Duration) {
        self.leads_until.store(millis(end), Ordering::Relaxed);
    }

    /// Counts a task that was written.
    pub fn carried_out(&self, task: &Task) {
        self.done.count(task);
        for step in &task.moves {
            match step.cause {
                Cause::Gone(_) => add(&self.machine_away, 1),
                Cause::Refused(..) => add(&self.run, 1),
                Cause::Unplaced | Cause::Inactive => {}
            }
        }
        // Some units of a task only get a reason recorded.
        add(&self.schedule, task.units.len().saturating_sub(task.moves.len()));
    }

    /// Counts a task that failed.
    pub fn failed(&self, task: &Task) {
        self.failed.count(task);
    }

    /// Formats the metrics of fleet 1.0.
    fn fleet_text(&self, leads: bool, decisions: u64) -> String {
        let since = if leads { self.led_since.load(Ordering::Relaxed) } else { 0 };
        let start = "fleet_engine_leader_start_time";
        let count = "fleet_engine_reconcile_count_total";
        let causes = [
            ("machine_away", &self.machine_away),
            ("run", &self.run),
            ("schedule", &self.schedule),
        ];
        [
            format!("# TYPE {start} gauge\n{start} {since}\n"),
            format!("# TYPE {count} counter\n{count} {decisions}\n"),
            self.done.text("fleet_engine_task_count_total"),
            self.failed.text("fleet_engine_task_failure_count_total"),
            counters("fleet_engine_reconcile_failure_count_total", &causes),
        ]
        .concat()
    }

    /// Formats the metrics in Prometheus' format. `now` decides whether the machine leads: a fleetd
    /// that hung past its lease no longer leads, even if its tasks have not noticed.
    pub fn text(&self, now: Duration) -> String {
        let leads = millis(now) < self.leads_until.load(Ordering::Relaxed);
        let name = "fleet_engine_reconcile_seconds";
        let mut text =
            format!("# TYPE fleet_engine_leads gauge\nfleet_engine_leads {}\n", u8::from(leads));
        let _ = writeln!(text, "# TYPE {name} histogram");
        let mut all = 0_u64;
        for (bound, count) in BOUNDS.iter().zip(&self.within) {
            all = all.saturating_add(count.load(Ordering::Relaxed));
            let bound = Duration::from_millis(*bound).as_secs_f64();
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {all}");
        }
        all = all.saturating_add(self.beyond.load(Ordering::Relaxed));
        let sum = Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64();
        let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {all}");
        let _ = writeln!(text, "{name}_sum {sum}\n{name}_count {all}");
        let count = "fleet_agent_reconcile_count_total";
        let _ = writeln!(text, "# TYPE {count} counter\n{count} {}", self.reconciled());
        text + &self.fleet_text(leads, all)
    }

    /// Returns the number of decisions, and of those that took longer than `most`. A decision
    /// counts as quick only if the bound of its bucket is at most `most`.
    pub fn slower_than(&self, most: Duration) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let all: u64 = self.within.iter().chain([&self.beyond]).map(load).sum();
        let quick = BOUNDS.iter().zip(&self.within);
        let quick = quick.filter(|(bound, _)| Duration::from_millis(**bound) <= most);
        (all, all - quick.map(|(_, count)| load(count)).sum::<u64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineId;
    use crate::move_order::Move;
    use crate::transaction::Transaction;
    use crate::unit_name::UnitName;

    #[test]
    fn task_results_are_counted_under_fleets_metric_names() {
        let (a, b) = (MachineId::new("a").unwrap(), MachineId::new("b").unwrap());
        let name = |name: &str| UnitName::new(name).unwrap();
        let step = |unit: &str, from: Option<&MachineId>, to: Option<&MachineId>, cause| Move {
            unit: name(unit),
            from: from.cloned(),
            to: to.cloned(),
            cause,
        };
        let task = Task {
            moves: vec![
                step("new.service", None, Some(&a), Cause::Unplaced),
                step("moved.service", Some(&a), Some(&b), Cause::Gone(a.clone())),
                step("lost.service", Some(&a), None, Cause::Gone(a.clone())),
                step("over.service", Some(&b), None, Cause::Inactive),
            ],
            units: ["new", "moved", "lost", "over", "nowhere"]
                .map(|unit| name(&format!("{unit}.service")))
                .to_vec(),
            transaction: Transaction::default(),
        };
        let metrics = Metrics::default();
        metrics.elected();
        metrics.note(Duration::ZERO);
        metrics.carried_out(&task);
        metrics.failed(&task);
        metrics.failed(&task);
        let (before, end) = (Duration::from_secs(4), Duration::from_secs(5));
        metrics.leads_until(end);
        let text = metrics.text(before);
        let value = |name: &str| -> u64 {
            let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            found.unwrap_or_else(|| panic!("{name}: {text}")).parse().unwrap()
        };
        assert!(value("fleet_engine_leader_start_time") > 1_700_000_000);
        assert_eq!(value("fleet_engine_reconcile_count_total"), 1);
        let of = |name: &str, kind: &str| value(&format!("fleet_engine_{name}{{type=\"{kind}\"}}"));
        assert_eq!(of("task_count_total", "attemptscheduleunit"), 2);
        assert_eq!(of("task_count_total", "unscheduleunit"), 3);
        assert_eq!(of("task_failure_count_total", "attemptscheduleunit"), 4);
        assert_eq!(of("task_failure_count_total", "unscheduleunit"), 6);
        assert_eq!(of("reconcile_failure_count_total", "machine_away"), 2);
        assert_eq!(of("reconcile_failure_count_total", "run"), 0);
        assert_eq!(of("reconcile_failure_count_total", "schedule"), 1);
        for (now, until) in [(end, end), (before, Duration::ZERO)] {
            metrics.leads_until(until);
            let text = metrics.text(now);
            assert!(text.contains("fleet_engine_leads 0\n"), "{text}");
            assert!(text.contains("\nfleet_engine_leader_start_time 0\n"), "{text}");
        }
    }

    #[test]
    fn decision_times_are_counted_in_histogram_buckets() {
        let metrics = Metrics::default();
        for micros in [10, 1_000, 1_001, 30_000, 9_000_000] {
            metrics.note(Duration::from_micros(micros));
        }
        metrics.leads_until(Duration::from_secs(1));
        let text = metrics.text(Duration::ZERO);
        let has = |line: &str| assert!(text.lines().any(|one| one == line), "{line}: {text}");
        has("fleet_engine_leads 1");
        has("fleet_engine_reconcile_seconds_bucket{le=\"0.001\"} 2");
        has("fleet_engine_reconcile_seconds_bucket{le=\"0.005\"} 3");
        has("fleet_engine_reconcile_seconds_bucket{le=\"0.05\"} 4");
        has("fleet_engine_reconcile_seconds_bucket{le=\"5\"} 4");
        has("fleet_engine_reconcile_seconds_bucket{le=\"+Inf\"} 5");
        has("fleet_engine_reconcile_seconds_sum 9.032011");
        has("fleet_engine_reconcile_seconds_count 5");
        assert_eq!(metrics.slower_than(Duration::from_secs(1)), (5, 1));
        assert_eq!(metrics.slower_than(Duration::from_millis(5)), (5, 2));
    }
}
