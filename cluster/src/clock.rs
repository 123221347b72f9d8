//! The time the daemon's tasks go by. Outside tests it is the machine's time since boot,
//! time asleep included: a lease ends while a machine is suspended. What a lease is worth
//! is decided by it, so no task asks any other clock. The simulation brings its own.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Ends at its moment.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where a clock takes its time from.
pub trait Time: Send + Sync {
    /// Since some moment that stays the same; never goes back.
    fn now(&self) -> Duration;
    /// Until then, or a little later.
    fn sleep_until(&self, at: Duration) -> Sleep;
}

/// A handle; clones show the same time.
#[derive(Clone)]
pub struct Clock {
    time: Arc<dyn Time>,
}

impl Clock {
    /// The machine's.
    pub fn system() -> Clock {
        Clock::of(Arc::new(System))
    }

    /// Another one.
    pub fn of(time: Arc<dyn Time>) -> Clock {
        Clock { time }
    }

    /// What it shows.
    pub fn now(&self) -> Duration {
        self.time.now()
    }

    /// How long ago that was.
    pub fn since(&self, then: Duration) -> Duration {
        self.now().saturating_sub(then)
    }

    /// For that long.
    pub fn sleep(&self, time: Duration) -> Sleep {
        self.sleep_until(self.now().saturating_add(time))
    }

    /// Until then.
    pub fn sleep_until(&self, at: Duration) -> Sleep {
        self.time.sleep_until(at)
    }

    /// What comes of it in that time; `None`: nothing.
    pub async fn within<F: Future>(&self, time: Duration, work: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.sleep(time) => None,
        }
    }

    /// Ticks at once, and then that long after each tick that was taken.
    pub fn every(&self, period: Duration) -> Pulse {
        Pulse { clock: self.clone(), period, next: self.now() }
    }
}

/// See [`Clock::every`].
pub struct Pulse {
    clock: Clock,
    period: Duration,
    next: Duration,
}

impl Pulse {
    /// The next one. Dropped before it came, it is still to come.
    pub async fn tick(&mut self) {
        self.clock.sleep_until(self.next).await;
        self.next = self.clock.now().saturating_add(self.period);
    }

    /// A whole period from now.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// That long from now.
    pub fn reset_after(&mut self, time: Duration) {
        self.next = self.clock.now().saturating_add(time);
    }
}

struct System;

impl Time for System {
    fn now(&self) -> Duration {
        use nix::time::{ClockId, clock_gettime};
        // Both are always there on Linux.
        let read = clock_gettime(ClockId::CLOCK_BOOTTIME);
        read.or_else(|_| clock_gettime(ClockId::CLOCK_MONOTONIC)).map_or(Duration::ZERO, Into::into)
    }

    fn sleep_until(&self, at: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(at.saturating_sub(self.now())))
    }
}
