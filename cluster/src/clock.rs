//! The time the daemon's tasks go by. Outside tests it is the machine's time since boot,
//! time asleep included: a lease ends while a machine is suspended. What a lease is worth
//! is decided by it, so no task asks any other clock. The simulation brings its own.

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::clock_gettime;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

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

    /// Rings when it is told.
    pub fn alarm(&self) -> Alarm {
        Alarm { clock: self.clone(), at: None, sleep: None }
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

/// Rings at a moment that may be moved, once for each.
pub struct Alarm {
    clock: Clock,
    at: Option<Duration>,
    /// Kept while it is waited for again and again: it is ready with the first look after its moment,
    /// before what came ready later.
    sleep: Option<Sleep>,
}

impl Alarm {
    /// The next one; `None`: it does not ring.
    pub fn set(&mut self, at: Option<Duration>) {
        if self.at != at {
            self.at = at;
            self.sleep = at.map(|at| self.clock.sleep_until(at));
        }
    }

    /// At its moment, or at once where that is past. Dropped before it rang, it is still to ring.
    pub async fn rings(&mut self) {
        let (Some(at), Some(sleep)) = (self.at, &mut self.sleep) else {
            return std::future::pending().await;
        };
        // What the runtime has not heard of yet the clock shows already.
        if self.clock.now() < at {
            sleep.await;
        }
        self.sleep = None;
    }
}

struct System;

impl Time for System {
    fn now(&self) -> Duration {
        use nix::time::ClockId;
        // Both are always there on Linux.
        let read = clock_gettime(ClockId::CLOCK_BOOTTIME);
        read.or_else(|_| clock_gettime(ClockId::CLOCK_MONOTONIC)).map_or(Duration::ZERO, Into::into)
    }

    fn sleep_until(&self, at: Duration) -> Sleep {
        let left = at.saturating_sub(self.now());
        Box::pin(async move {
            // The runtime's own sleep does not go on while the machine is asleep.
            let Ok(alarm) = alarm(at) else { return tokio::time::sleep(left).await };
            // Whatever it ends with, waking early is no fault: who sleeps looks at the clock.
            let _ = alarm.readable().await;
        })
    }
}

/// Becomes readable at that time since boot, at once where it is past.
#[allow(deprecated, reason = "what replaces it is unsafe, and an OwnedFd stays what it is")]
fn alarm(at: Duration) -> Result<AsyncFd<OwnedFd>, Errno> {
    let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
    let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, flags)?;
    // Zero would take the alarm back.
    let at = Expiration::OneShot(TimeSpec::from(at.max(Duration::from_nanos(1))));
    timer.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
    AsyncFd::with_interest(timer.into(), Interest::READABLE).map_err(|_| Errno::EMFILE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[tokio::test]
    async fn an_alarm_goes_by_the_time_since_boot_and_one_that_is_past_rings_at_once() {
        let soon = System.now() + Duration::from_secs(1000);
        let timer = alarm(soon).unwrap();
        let path = format!("/proc/self/fdinfo/{}", timer.get_ref().as_raw_fd());
        let info = std::fs::read_to_string(path).unwrap();
        // CLOCK_BOOTTIME.
        assert!(info.contains("clockid: 7"), "{info}");
        for past in [Duration::ZERO, System.now()] {
            System.sleep_until(past).await;
        }
    }

    /// True where it rings without being waited for.
    fn rings_at_once(alarm: &mut Alarm) -> bool {
        let mut rings = std::pin::pin!(alarm.rings());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        rings.as_mut().poll(&mut context).is_ready()
    }

    #[tokio::test]
    async fn an_alarm_whose_moment_is_past_comes_before_all_else_and_rings_once() {
        let clock = Clock::system();
        let mut alarm = clock.alarm();
        assert!(!rings_at_once(&mut alarm), "it was not told when");
        let past = clock.now();
        for at in [past, past + Duration::from_nanos(1)] {
            alarm.set(Some(at));
            assert!(rings_at_once(&mut alarm));
            alarm.set(Some(at));
            assert!(!rings_at_once(&mut alarm), "a second time");
        }
        alarm.set(Some(clock.now() + Duration::from_secs(1000)));
        assert!(!rings_at_once(&mut alarm));
        alarm.set(Some(clock.now() + Duration::from_millis(1)));
        alarm.rings().await;
        alarm.set(None);
        assert!(!rings_at_once(&mut alarm));
    }
}
