//! The fields of a line that journalctl(1) shows.

use crate::machine::kmsg::without_stamp;
use crate::machine::{LOG_UNIT, Origin, parts, tag_of};
use crate::systemctl::SUFFIXES;
use groundstate_units::control::log_line::ShownLine;

/// The fields of a line after [`crate::log_source::attribute`].
pub(super) struct Fields<'a> {
    pub(super) identifier: &'a str,
    /// The sender, as the kernel names it; 0 if the kernel did not know it.
    pub(super) pid: Option<u32>,
    pub(super) message: &'a str,
    pub(super) unit: Option<String>,
    /// The run of the unit. `None` for a message: only the run of its reader is known.
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
        match Origin::of(line) {
            None => own,
            Some(Origin::Syslog) => {
                let Some((identifier, pid, message)) = parts(&line.line) else { return own };
                let unit = own.unit.filter(|_| line.unit != LOG_UNIT);
                Fields { identifier, pid: Some(pid), message, unit, transport: "syslog", ..own }
            }
            Some(origin) => {
                let text = Origin::split(&line.line).map_or(line.line.as_str(), |(_, text)| text);
                let (monotonic, text) =
                    without_stamp(text).map_or((None, text), |(micros, text)| (Some(micros), text));
                // A process chooses the tag of its message. It must not pretend to be the kernel.
                let tagged = match origin {
                    Origin::Kernel => Some((Origin::Kernel.name(), text)),
                    Origin::Syslog | Origin::Kmsg => {
                        tag_of(text).filter(|(tag, _)| *tag != Origin::Kernel.name())
                    }
                };
                let (identifier, message) = tagged.unwrap_or((Origin::Kmsg.name(), text));
                Fields { identifier, message, unit: None, transport: "kernel", monotonic, ..own }
            }
        }
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
