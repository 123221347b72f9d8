//! Measures by how much the machine was late while a test measured init. A limit is extended by
//! that time: a starved machine is not init's fault, but an init that is late by itself gets no
//! extension. Not a measure of speed, for which there is `tests/bench`.

use crate::process::Process;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The interval of the ticks.
const PAUSE: Duration = Duration::from_millis(5);

/// The total lateness of a clock that ticks each [`PAUSE`].
#[derive(Debug)]
struct Ticks {
    late: Duration,
    due: Instant,
    is_over: bool,
}

impl Ticks {
    fn new(now: Instant) -> Ticks {
        Ticks { late: Duration::ZERO, due: now + PAUSE, is_over: false }
    }

    /// Counts a tick. Returns false if it was the last.
    fn tick(&mut self, now: Instant) -> bool {
        *self = Ticks { late: self.late(now), due: now + PAUSE, is_over: self.is_over };
        !self.is_over
    }

    /// The lateness so far. A tick that is due but has not come counts as late.
    fn late(&self, now: Instant) -> Duration {
        self.late + now.saturating_duration_since(self.due)
    }
}

/// The lateness of the machine from now on: sleeping threads wake late, and this process waits for
/// a processor.
#[derive(Debug)]
pub struct Lateness {
    ticks: Arc<Mutex<Ticks>>,
    clock: Option<JoinHandle<()>>,
    process: Process,
    waited_before: Duration,
}

impl Lateness {
    /// Starts to measure, for this process.
    pub fn of(process: Process) -> Lateness {
        let ticks = Arc::new(Mutex::new(Ticks::new(Instant::now())));
        let shared = Arc::clone(&ticks);
        let tick =
            move || shared.lock().unwrap_or_else(PoisonError::into_inner).tick(Instant::now());
        let clock = std::thread::spawn(move || {
            while tick() {
                std::thread::park_timeout(PAUSE);
            }
        });
        let waited_before = process.waited_for_a_processor().unwrap_or_default();
        Lateness { ticks, clock: Some(clock), process, waited_before }
    }

    /// The lateness so far.
    pub fn so_far(&self) -> Duration {
        let now = self.process.waited_for_a_processor().unwrap_or_default();
        self.ticks().late(Instant::now()) + now.saturating_sub(self.waited_before)
    }

    /// Checks that an action was within its limit, extended by the lateness so far. It took `took`,
    /// and started after this value was made.
    ///
    /// # Panics
    /// If it took longer; the message starts with `what`.
    pub fn check(&self, what: &str, took: Duration, limit: Duration) {
        let late = self.so_far();
        assert!(
            took <= limit + late,
            "{what} took {took:?}, may take {limit:?}, and the machine was late by {late:?}"
        );
    }

    fn ticks(&self) -> std::sync::MutexGuard<'_, Ticks> {
        self.ticks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lateness {
    fn drop(&mut self) {
        self.ticks().is_over = true;
        if let Some(clock) = self.clock.take() {
            clock.thread().unpark();
            let _ = clock.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadline::until;
    use std::process::{Child, Command};

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn tick_is_late_by_the_time_after_its_pause() {
        let start = Instant::now();
        let mut ticks = Ticks::new(start);
        assert!(ticks.tick(start + PAUSE));
        assert_eq!(ticks.late(start + PAUSE), Duration::ZERO);
        // An early tick does not reduce the lateness.
        assert!(ticks.tick(start + millis(9)));
        assert!(ticks.tick(start + millis(9) + PAUSE + millis(40)));
        assert!(ticks.tick(start + millis(9) + PAUSE * 2 + millis(42)));
        assert_eq!(ticks.late(start + millis(9) + PAUSE * 2 + millis(42)), millis(42));
    }

    #[test]
    fn tick_that_is_due_counts_as_late() {
        let start = Instant::now();
        let ticks = Ticks::new(start);
        assert_eq!(ticks.late(start + PAUSE + millis(300)), millis(300));
    }

    #[test]
    fn clock_ends_when_the_value_is_dropped() {
        let mut ticks = Ticks::new(Instant::now());
        ticks.is_over = true;
        assert!(!ticks.tick(Instant::now()));
        let late = Lateness::of(Process(1));
        let ticks = Arc::downgrade(&late.ticks);
        drop(late);
        assert!(ticks.upgrade().is_none());
    }

    /// More busy processes than there are processors.
    fn busy() -> Vec<Child> {
        let count = std::thread::available_parallelism().map_or(1, usize::from) + 1;
        let spin = || Command::new("/bin/sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        (0..count).map(|_| spin()).collect()
    }

    #[test]
    fn process_that_waits_for_a_processor_is_late() {
        let mut busy = busy();
        let its = Process(i32::try_from(busy[0].id()).unwrap());
        let late = Lateness::of(its);
        let waited = || its.waited_for_a_processor().unwrap() - late.waited_before;
        until("it waits for a processor", || (waited() > millis(50)).then_some(()));
        assert!(late.so_far() > millis(50));
        late.check("a wait", millis(1_050), millis(1_000));
        for child in &mut busy {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    #[should_panic(expected = "an hour took 3600s, may take 1s, and the machine was late by")]
    fn exceeded_limit_panics_with_the_description() {
        Lateness::of(Process(1)).check("an hour", millis(3_600_000), millis(1_000));
    }
}
