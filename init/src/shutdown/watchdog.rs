//! The hardware watchdog, a device that resets the machine unless it is fed. The loop feeds it
//! once a turn, and the final steps feed it while they wait, so a hang leads to a reset. It is
//! never stopped, so it also ends a shutdown, upgrade or crash that hangs.
//!
//! It is used only on a machine whose settings have `watchdog: TIME`.

use crate::base::limit;
use crate::sys::{device, inherit};
use groundstate_units::text::time::Time;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

pub(crate) const DEVICE: &str = "/dev/watchdog";

/// An open watchdog device.
#[derive(Debug)]
pub(crate) struct Watchdog {
    device: File,
    /// The requested timeout.
    asked: Duration,
    /// The timeout that the device accepted.
    patience: Duration,
    fed: Time,
}

/// A device for the next image: its descriptor and its timeout in seconds.
pub(crate) type Passed = (RawFd, u64);

impl Watchdog {
    fn open(asked: Duration, now: Time) -> io::Result<Watchdog> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        let device = File::options().write(true).custom_flags(flags).open(DEVICE)?;
        let seconds = i32::try_from(asked.as_secs().max(1)).unwrap_or(i32::MAX);
        // A device whose timeout cannot be set has an unknown one: it is fed often.
        let took = device::watchdog_timeout(&device, seconds).unwrap_or(seconds.min(10));
        let patience = Duration::from_secs(u64::try_from(took).unwrap_or(1).max(1));
        let mut watchdog = Watchdog { device, asked, patience, fed: now };
        watchdog.write();
        Ok(watchdog)
    }

    fn write(&mut self) {
        // Any byte except `V`, which would stop it. If the write fails, the device resets the
        // machine.
        let _ = self.device.write(b"\0");
    }

    /// Feeds the watchdog if it is time.
    pub(crate) fn feed(&mut self, now: Time) {
        if now.since(self.fed) >= self.patience / 4 {
            self.write();
            self.fed = now;
        }
    }

    /// Keeps the device open over the next exec and describes it for the next image.
    pub(crate) fn hand_on(&self) -> Option<Passed> {
        fcntl(&self.device, FcntlArg::F_SETFD(FdFlag::empty())).ok()?;
        Some(self.passed())
    }

    /// Describes the device for the next image. An exec still closes the device.
    pub(crate) fn passed(&self) -> Passed {
        (self.device.as_raw_fd(), self.patience.as_secs())
    }

    /// The device that the previous image passed on.
    pub(crate) fn inherited((number, seconds): Passed, now: Time) -> Option<Watchdog> {
        let patience = Duration::from_secs(seconds.max(1));
        let device = File::from(inherit::take(number).ok()?);
        let mut watchdog = Watchdog { device, asked: patience, patience, fed: now };
        watchdog.write();
        Some(watchdog)
    }

    /// The latest time of the next feed.
    pub(crate) fn deadline(&self) -> Time {
        self.fed.after(self.patience / 2)
    }
}

/// The watchdog of init, if it has one.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    open: Option<Watchdog>,
    /// The time of the next attempt to open it.
    again: Option<Time>,
}

impl Watch {
    /// Feeds it as [`Watchdog::feed`] does.
    pub(crate) fn feed(&mut self, now: Time) {
        if let Some(watchdog) = &mut self.open {
            watchdog.feed(now);
        }
    }

    /// Takes the device for the final steps.
    pub(crate) fn take(&mut self) -> Option<Watchdog> {
        self.open.take()
    }

    /// Opens the device for the `watchdog` setting, and again if the value has changed. Closing the
    /// device does not stop it. Returns `None` if nothing has changed, else the timeout in seconds.
    pub(crate) fn apply_setting(&mut self, asked: Duration, now: Time) -> Option<io::Result<u64>> {
        if self.open.as_ref().is_some_and(|open| open.asked == asked) {
            return None;
        }
        // A second open fails while the first one exists.
        *self = Watch::default();
        match Watchdog::open(asked, now) {
            Ok(watchdog) => {
                let seconds = watchdog.patience.as_secs();
                self.open = Some(watchdog);
                Some(Ok(seconds))
            }
            Err(error) => {
                self.again = next_attempt(&error, asked, now);
                Some(Err(error))
            }
        }
    }

    /// Returns true if the device is to be tried again; once for each attempt.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        self.again.take_if(|at| *at <= now).is_some()
    }

    /// The time of the next feed or attempt.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.open.as_ref().map(Watchdog::deadline).or(self.again)
    }
}

/// The time of the next attempt. Returns `None` if the device does not exist; its kernel module may
/// be loaded during the boot.
fn next_attempt(error: &io::Error, asked: Duration, now: Time) -> Option<Time> {
    let is_missing =
        matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::ENXIO));
    (!is_missing).then(|| now.after((asked / 4).max(limit::WATCHDOG_AGAIN)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memfd;

    #[test]
    fn busy_watchdog_is_retried_in_time_and_missing_one_is_not() {
        let (now, asked) = (Time::ZERO, Duration::from_secs(8));
        let after = |errno, asked| next_attempt(&io::Error::from_raw_os_error(errno), asked, now);
        for errno in [libc::EBUSY, libc::EMFILE, libc::ENOMEM] {
            assert_eq!(after(errno, asked), Some(now.after(asked / 4)));
            assert!(after(errno, Duration::ZERO) > Some(now), "it does not spin");
        }
        assert_eq!(after(libc::ENOENT, asked), None);
    }

    #[test]
    fn watchdog_passed_to_the_next_image_is_fed_by_it() {
        let device = File::from(memfd::create(c"watchdog").unwrap());
        let seen = device.try_clone().unwrap();
        let (now, patience) = (Time::ZERO, Duration::from_secs(8));
        let watchdog = Watchdog { device, asked: patience, patience, fed: now };
        let word = watchdog.hand_on().unwrap();
        // As an exec does.
        std::mem::forget(watchdog);
        let mut again = Watchdog::inherited(word, now).unwrap();
        assert_eq!(seen.metadata().unwrap().len(), 1);
        again.feed(now.after(patience / 8));
        assert_eq!(
            (seen.metadata().unwrap().len(), again.deadline()),
            (1, now.after(patience / 2))
        );
        again.feed(now.after(patience / 4));
        assert_eq!(seen.metadata().unwrap().len(), 2);
        assert!(Watchdog::inherited((9999, 8), now).is_none());
    }
}
