//! How long the engine of this machine takes to decide what follows from a change, counted as
//! Prometheus wants it. What it decides is [`crate::engine`]'s, when it is asked [`super::lead`]'s.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of what is counted together, in milliseconds; what takes longer is counted last.
const BOUNDS: [u64; 8] = [1, 5, 20, 50, 100, 500, 1_000, 5_000];

/// See the head of the module. Counts from the start of fleetd on, whoever leads.
#[derive(Debug, Default)]
pub struct Meter {
    within: [AtomicU64; BOUNDS.len()],
    beyond: AtomicU64,
    micros: AtomicU64,
}

impl Meter {
    /// One more decision took so long.
    pub fn note(&self, took: Duration) {
        let millis = |bound: &u64| Duration::from_millis(*bound);
        let at = BOUNDS.iter().position(|bound| took <= millis(bound));
        let count = at.and_then(|at| self.within.get(at)).unwrap_or(&self.beyond);
        count.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// As Prometheus reads it.
    pub fn text(&self, leads: bool) -> String {
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
        text
    }

    /// How many decisions there were, and how many of them took longer than that; those that took
    /// no longer are counted by the bounds alone.
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

    #[test]
    fn what_it_took_is_counted_by_its_bounds() {
        let meter = Meter::default();
        for micros in [10, 1_000, 1_001, 30_000, 9_000_000] {
            meter.note(Duration::from_micros(micros));
        }
        let text = meter.text(true);
        let has = |line: &str| assert!(text.lines().any(|one| one == line), "{line}: {text}");
        has("fleet_engine_leads 1");
        has("fleet_engine_reconcile_seconds_bucket{le=\"0.001\"} 2");
        has("fleet_engine_reconcile_seconds_bucket{le=\"0.005\"} 3");
        has("fleet_engine_reconcile_seconds_bucket{le=\"0.05\"} 4");
        has("fleet_engine_reconcile_seconds_bucket{le=\"5\"} 4");
        has("fleet_engine_reconcile_seconds_bucket{le=\"+Inf\"} 5");
        has("fleet_engine_reconcile_seconds_sum 9.032011");
        has("fleet_engine_reconcile_seconds_count 5");
        assert_eq!(meter.slower_than(Duration::from_secs(1)), (5, 1));
        assert_eq!(meter.slower_than(Duration::from_millis(5)), (5, 2));
    }
}
