//! Messages of the kernel from /dev/kmsg, for a machine whose log has none, because a syslog daemon
//! takes them.

use crate::exit::Error;
use crate::log_source::{KERNEL, KERNEL_UNIT, KMSG};
use crate::machine::boot_mark::zero_of;
use crate::machine::kmsg::{FILE, Kernel, Next, Record};
use groundstate_units::control::log_line::ShownLine;
use groundstate_units::text::wall_clock::WallTime;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::ClockId;
use std::borrow::Cow;
use std::os::fd::AsFd;

/// The open file, and the time to which the times of the messages are relative.
pub(super) struct Messages {
    kernel: Kernel,
    zero: WallTime,
}

impl Messages {
    /// Opens the file.
    ///
    /// # Errors
    /// The file does not exist, or the user may not read it.
    pub(super) fn open() -> Result<Messages, Error> {
        let kernel = Kernel::open().map_err(|error| Error::file(FILE, &error))?;
        Ok(Messages { kernel, zero: zero_of(ClockId::CLOCK_MONOTONIC) })
    }

    /// Returns the next message. `None` if there is none at present.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<ShownLine>, Error> {
        loop {
            match self.kernel.next().map_err(|error| Error::file(FILE, &error))? {
                Next::Record(record) => return Ok(Some(line(&record, self.zero))),
                // The oldest message follows, so this ends.
                Next::Lost => {}
                Next::End => return Ok(None),
            }
        }
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// The file cannot be polled.
    pub(super) fn wait(&self) -> Result<(), Error> {
        let mut source = [PollFd::new(self.kernel.as_fd(), PollFlags::POLLIN)];
        match poll(&mut source, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(Error::file(FILE, &error.into())),
        }
    }
}

fn line(record: &Record, zero: WallTime) -> ShownLine {
    let time = WallTime::from_millis(zero.as_millis().saturating_add(record.micros / 1000));
    ShownLine {
        time: time.to_string(),
        unit: KERNEL_UNIT.to_string(),
        run: None,
        stream: Cow::Borrowed(if record.is_of_kernel { KERNEL } else { KMSG }),
        level: Some(record.level),
        line: record.stamped(),
        continued: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_has_the_time_of_the_boot_plus_its_own() {
        let record = Record {
            sequence: 1,
            level: 3,
            is_of_kernel: true,
            micros: 1_234_567,
            text: "usb".to_string(),
        };
        let zero = WallTime::parse("2026-11-21T05:12:26.000Z").unwrap();
        let shown = line(&record, zero);
        assert_eq!(shown.time, "2026-11-21T05:12:27.234Z");
        assert_eq!((shown.priority(), shown.line.as_str()), (3, "[    1.234567] usb"));
    }
}
