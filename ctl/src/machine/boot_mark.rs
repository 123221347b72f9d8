//! Lines that the unit [`UNIT`] writes at each boot and shutdown. The log has no other record of
//! boots.
//!
//! ```text
//! boot ID started 2026-11-21T05:12:26.123Z
//! shutdown ID started 2026-11-21T05:12:26.123Z
//! ```
//!
//! The id is that of the kernel, without dashes, as in systemd's journal. Both lines have the start
//! of the boot, computed from the clock of the moment. If the clock was set meanwhile, the second
//! is right.

use groundstate_units::text::wall_clock::WallTime;
use nix::time::{ClockId, clock_gettime};
use std::fs;
use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The unit whose log has the lines. It writes nothing else, except errors.
pub(crate) const UNIT: &str = "boot-record";

/// A line of the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BootMark<'a> {
    /// The kernel with this id started at this time.
    Boot(&'a str, WallTime),
    /// The machine shuts down. The kernel with this id started at this time.
    Shutdown(&'a str, WallTime),
}

impl BootMark<'_> {
    /// Parses a line. Returns `None` for another text.
    pub(crate) fn parse(line: &str) -> Option<BootMark<'_>> {
        let mut words = line.split(' ');
        let (kind, id) = (words.next()?, words.next().filter(|id| is_id(id))?);
        let start = words.next().filter(|word| *word == "started").and(words.next())?;
        let start = WallTime::parse(start)?;
        let mark = match kind {
            "boot" => BootMark::Boot(id, start),
            "shutdown" => BootMark::Shutdown(id, start),
            _ => return None,
        };
        words.next().is_none().then_some(mark)
    }
}

/// Returns true for 32 hexadecimal digits.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the id of this boot. A container has that of its machine.
///
/// # Errors
///
/// The file of the kernel cannot be read.
pub(crate) fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().replace('-', ""))
}

/// Prints the line of a boot or shutdown of this machine.
///
/// # Errors
///
/// The kernel does not tell its id, or stdout is closed.
pub(crate) fn print(is_boot: bool) -> io::Result<()> {
    let kind = if is_boot { "boot" } else { "shutdown" };
    writeln!(io::stdout(), "{kind} {} started {}", boot_id()?, boot_start())
}

/// Returns the start of the kernel on the wall clock of this moment. A step of the clock changes
/// it.
pub(crate) fn boot_start() -> WallTime {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default();
    let start = now.saturating_sub(since).as_millis();
    WallTime::from_millis(u64::try_from(start).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_a_boot_or_shutdown_is_read() {
        let id = "0123456789abcdef0123456789abcdef";
        let at = "2026-11-21T05:12:26.123Z";
        let start = WallTime::parse(at).unwrap();
        for (kind, mark) in
            [("boot", BootMark::Boot(id, start)), ("shutdown", BootMark::Shutdown(id, start))]
        {
            assert_eq!(BootMark::parse(&format!("{kind} {id} started {at}")), Some(mark));
        }
        for other in [
            String::new(),
            "/var/log/wtmp: No space left on device".to_string(),
            format!("boot {id}"),
            format!("boot {id} started soon"),
            format!("boot {id} started {at} more"),
            format!("shutdown {id} {at}"),
            format!("shutdown 0123 started {at}"),
            format!("reboot {id} started {at}"),
        ] {
            assert_eq!(BootMark::parse(&other), None, "{other}");
        }
        assert!(is_id(&boot_id().unwrap()));
    }
}
