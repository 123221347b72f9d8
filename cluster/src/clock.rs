//! The clock of the daemon's tasks.
//! Outside tests it is CLOCK_BOOTTIME, because a lease expires while the machine is suspended. No
//! task uses another clock. The simulation supplies its own.

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

/// A future that completes at a set time.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The source of a clock's time.
pub trait Time: Send + Sync {
    /// Time since an arbitrary fixed moment; monotonic.
    fn now(&self) -> Duration;
    /// Sleeps until `at`, or slightly longer.
    fn sleep_until(&self, at: Duration) -> Sleep;
}

/// A handle to a clock; clones show the same time.
#[derive(Clone)]
pub struct Clock {
    time: Arc<dyn Time>,
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Clock {
        Clock::of(Arc::new(System))
    }

    /// A clock with another time source.
    pub fn of(time: Arc<dyn Time>) -> Clock {
        Clock { time }
    }

    /// The current time.
    pub fn now(&self) -> Duration {
        self.time.now()
    }

    /// The time elapsed since `then`.
    pub fn since(&self, then: Duration) -> Duration {
        self.now().saturating_sub(then)
    }

    /// Sleeps for `time`.
    pub fn sleep(&self, time: Duration) -> Sleep {
        self.sleep_until(self.now().saturating_add(time))
    }

    /// Sleeps until `at`.
    pub fn sleep_until(&self, at: Duration) -> Sleep {
        self.time.sleep_until(at)
    }

    /// Runs `work` for at most `time`. Returns `None` if it has not finished by then.
    pub async fn within<F: Future>(&self, time: Duration, work: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.sleep(time) => None,
        }
    }

    /// Ticks at once, and then one period after each tick that was taken.
    pub fn every(&self, period: Duration) -> Pulse {
        Pulse { clock: self.clone(), period, next: self.now() }
    }

    /// Returns an alarm that is not set.
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
    /// Waits for the next tick. If the future is dropped, the tick stays pending.
    pub async fn tick(&mut self) {
        self.clock.sleep_until(self.next).await;
        self.next = self.clock.now().saturating_add(self.period);
    }

    /// Moves the next tick to a whole period from now.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Moves the next tick to `time` from now.
    pub fn reset_after(&mut self, time: Duration) {
        self.next = self.clock.now().saturating_add(time);
    }
}

/// Rings once at a time that can be changed.
pub struct Alarm {
    clock: Clock,
    at: Option<Duration>,
    /// Kept across polls, so that the alarm is ready before events that became ready later.
    sleep: Option<Sleep>,
}

impl Alarm {
    /// Sets the next time, or stops the alarm with `None`.
    pub fn set(&mut self, at: Option<Duration>) {
        if self.at != at {
            self.at = at;
            self.sleep = at.map(|at| self.clock.sleep_until(at));
        }
    }

    /// Waits until the set time; returns at once if it has passed. If the future is dropped, the
    /// alarm stays set.
    pub async fn rings(&mut self) {
        let (Some(at), Some(sleep)) = (self.at, &mut self.sleep) else {
            return std::future::pending().await;
        };
        // The clock may already show the time although the runtime has not woken the sleep.
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
        // Linux always has CLOCK_BOOTTIME; the fallbacks only avoid a panic.
        let read = clock_gettime(ClockId::CLOCK_BOOTTIME);
        read.or_else(|_| clock_gettime(ClockId::CLOCK_MONOTONIC)).map_or(Duration::ZERO, Into::into)
    }

    fn sleep_until(&self, at: Duration) -> Sleep {
        let left = at.saturating_sub(self.now());
        Box::pin(async move {
            // The runtime's own sleep stops while the machine is suspended.
            let Ok(alarm) = alarm(at) else { return tokio::time::sleep(left).await };
            // Waking early is harmless: callers check the clock.
            let _ = alarm.readable().await;
        })
    }
}

/// Returns a timer that becomes readable at `at` since boot, or at once if that has passed.
#[allow(deprecated, reason = "the replacement is unsafe")]
fn alarm(at: Duration) -> Result<AsyncFd<OwnedFd>, Errno> {
    let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
    let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, flags)?;
    // Zero would disarm the timer.
    let at = Expiration::OneShot(TimeSpec::from(at.max(Duration::from_nanos(1))));
    timer.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
    AsyncFd::with_interest(timer.into(), Interest::READABLE).map_err(|_| Errno::EMFILE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[tokio::test]
    async fn sleep_uses_the_time_since_boot_and_ends_at_once_if_it_has_passed() {
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

    /// Returns true if the alarm is ready on the first poll.
    fn rings_at_once(alarm: &mut Alarm) -> bool {
        let mut rings = std::pin::pin!(alarm.rings());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        rings.as_mut().poll(&mut context).is_ready()
    }

    #[tokio::test]
    async fn alarm_set_to_a_passed_time_is_ready_on_the_first_poll_and_rings_once() {
        let clock = Clock::system();
        let mut alarm = clock.alarm();
        assert!(!rings_at_once(&mut alarm), "the alarm is not set");
        let past = clock.now();
        for at in [past, past + Duration::from_nanos(1)] {
            alarm.set(Some(at));
            assert!(rings_at_once(&mut alarm));
            alarm.set(Some(at));
            assert!(!rings_at_once(&mut alarm), "the alarm rings once for each time that is set");
        }
        alarm.set(Some(clock.now() + Duration::from_secs(1000)));
        assert!(!rings_at_once(&mut alarm));
        alarm.set(Some(clock.now() + Duration::from_millis(1)));
        alarm.rings().await;
        alarm.set(None);
        assert!(!rings_at_once(&mut alarm));
    }
}
