//! The hardware watchdog: a device that starts the machine anew unless somebody feeds it. The
//! loop does, once a turn, and nothing else: a loop that is stuck starves it. It is never
//! told to stop, so an end, an upgrade or a crash that hangs is ended by it too.
//!
//! Only where `watchdog: TIME` of the settings asks for it, and on a machine.

use crate::boot::Mode;
use crate::event_loop::Init;
use crate::sys::device;
use crate::voice::Level;
use groundstate_units::time::Time;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

const DEVICE: &str = "/dev/watchdog";

/// One that waits to be fed.
#[derive(Debug)]
pub(crate) struct Watchdog {
    device: File,
    /// What was asked for.
    asked: Duration,
    /// What the device took.
    patience: Duration,
    fed: Time,
}

impl Watchdog {
    fn open(asked: Duration, now: Time) -> io::Result<Watchdog> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        let device = File::options().write(true).custom_flags(flags).open(DEVICE)?;
        let seconds = i32::try_from(asked.as_secs().max(1)).unwrap_or(i32::MAX);
        // One whose time can not be set has its own, which nobody knows: fed often enough.
        let took = device::watchdog_timeout(&device, seconds).unwrap_or(seconds.min(10));
        let patience = Duration::from_secs(u64::try_from(took).unwrap_or(1).max(1));
        let mut watchdog = Watchdog { device, asked, patience, fed: now };
        watchdog.write();
        Ok(watchdog)
    }

    fn write(&mut self) {
        // Anything but `V`, which would stop it. A device that takes nothing resets the machine.
        let _ = self.device.write(b"\0");
    }

    /// The loop turns.
    pub(crate) fn feed(&mut self, now: Time) {
        if now.since(self.fed) >= self.patience / 4 {
            self.write();
            self.fed = now;
        }
    }

    /// When it has to be fed at the latest.
    pub(crate) fn deadline(&self) -> Time {
        self.fed.after(self.patience / 2)
    }
}

impl Init {
    /// As the settings have it. A device that is open stays open: it can not be stopped.
    pub(crate) fn settle_watchdog(&mut self) {
        let Some(asked) = self.machine.generation().settings.watchdog else { return };
        let is_so = self.watchdog.as_ref().is_some_and(|watchdog| watchdog.asked == asked);
        if self.mode != Mode::Machine || is_so {
            return;
        }
        // A second open is refused while the first one lives.
        self.watchdog = None;
        match Watchdog::open(asked, self.now) {
            Ok(watchdog) => {
                let seconds = watchdog.patience.as_secs();
                let text = "the machine starts anew when init is stuck for";
                self.say(Level::Info, format_args!("{DEVICE}: {text} {seconds} s"));
                self.watchdog = Some(watchdog);
            }
            Err(error) => {
                let level = if self.said.is_none() { Level::Warning } else { Level::Debug };
                self.say(level, format_args!("{DEVICE}: {error}"));
            }
        }
    }
}
