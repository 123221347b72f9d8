//! The fields of a line that journalctl(1) shows.

use crate::log_source::{KERNEL, KMSG, SYSLOG};
use crate::machine::kmsg::without_stamp;
use crate::machine::{LOG_UNIT, parts, tag_of};
use crate::systemctl::SUFFIXES;
use groundstate_units::control::log_line::ShownLine;

/// What is known of a line after [`crate::log_source::attribute`].
pub(super) struct Fields<'a> {
    pub(super) identifier: &'a str,
    /// The sender, as the kernel names it.
    pub(super) pid: Option<u32>,
    pub(super) message: &'a str,
    pub(super) unit: Option<String>,
    /// The run of the unit. A message of syslog(3) does not say its run.
    pub(super) run: Option<u64>,
    pub(super) transport: &'static str,
    /// Microseconds since the boot.
    pub(super) monotonic: Option<u64>,
}

impl Fields<'_> {
    pub(super) fn of(line: &ShownLine) -> Fields<'_> {
        let own = Fields {
            identifier: stem(&line.unit),
            pid: None,
            message: &line.line,
            unit: Some(full(&line.unit)),
            run: line.run.map(|run| run.0),
            transport: if line.run.is_some() { "stdout" } else { "driver" },
            monotonic: None,
        };
        if line.stream == SYSLOG {
            let Some((identifier, pid, message)) = parts(&line.line) else { return own };
            let pid = Some(pid).filter(|pid| *pid != 0);
            let unit = own.unit.filter(|_| line.unit != LOG_UNIT);
            return Fields {
                identifier,
                pid,
                message,
                unit,
                run: None,
                transport: "syslog",
                ..own
            };
        }
        if [KERNEL, KMSG].contains(&&*line.stream) {
            let stamped = without_stamp(&line.line);
            let (monotonic, message) =
                stamped.map_or((None, line.line.as_str()), |(micros, text)| (Some(micros), text));
            let (identifier, message) = match line.stream == KERNEL {
                true => ("kernel", message),
                false => tag_of(message),
            };
            return Fields {
                identifier,
                message,
                unit: None,
                run: None,
                transport: "kernel",
                monotonic,
                ..own
            };
        }
        own
    }
}

/// Returns the unit's name with a suffix.
fn full(unit: &str) -> String {
    if stem(unit) == unit { format!("{unit}.service") } else { unit.to_string() }
}

/// Returns the unit's name without its suffix.
fn stem(unit: &str) -> &str {
    match unit.rsplit_once('.') {
        Some((stem, suffix)) if SUFFIXES.contains(&suffix) => stem,
        _ => unit,
    }
}
