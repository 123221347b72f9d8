//! One row for each directive of systemd that is known: the native key it becomes and
//! how its value is turned, or why it is left out. A native key that does not exist (yet)
//! makes the directive "not supported": the key table decides, not this one.
//!
//! The rows are in `table/`, by the section they stand in; what takes more than a row
//! ([`How::Special`]) has its code in the file its comment names.

pub(crate) mod partly;
mod process;
mod sandbox;
mod trigger;
mod unit;

pub use partly::{Gap, When};

/// How a value becomes a native one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// As it is, specifiers replaced.
    Text,
    /// A path; `~` and a `-` in front are told.
    Path,
    /// A boolean: yes or no.
    Boolean,
    /// A span of time; `infinity` leaves the key out.
    Span,
    /// A span of time; 0 and `infinity` are `none`.
    Timeout,
    /// A size; `infinity` stays.
    Size,
    /// A word, put into other words.
    Choice(&'static [(&'static str, &'static str)]),
    /// Words, appended over all assignments; an empty one empties the list.
    Words,
    /// One entry an assignment, unsplit; an empty one empties the list.
    Lines,
    /// The same, for a value that is turned by `~` into a list of what is not meant.
    Inverted,
    /// A resource limit of this name.
    Limit(&'static str),
    /// Has its own code.
    Special,
    /// Nothing is lost.
    Silent,
    /// Left out on purpose: why.
    ByDesign(&'static str),
    /// Left out, and the unit behaves differently: how.
    Lost(&'static str),
    /// The unit can not be imported: why.
    Refused(&'static str),
}

/// What it means when the native key does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// Told: not supported.
    Plain,
    /// The unit runs weaker than asked.
    Sandbox,
    /// Nothing is lost.
    Free,
}

/// One directive.
#[derive(Clone, Copy, Debug)]
pub struct Directive {
    /// As in the file. `Process` stands for each section of a unit that runs processes.
    pub section: &'static str,
    /// As in the file.
    pub name: &'static str,
    /// The native key; empty where there is none.
    pub key: &'static str,
    /// How the value is turned.
    pub how: How,
    /// What it means that the key is missing.
    pub grade: Grade,
}

/// Sections whose units run processes.
pub const PROCESS: [&str; 4] = ["Service", "Socket", "Mount", "Swap"];

/// Sections that are read at all.
pub const SECTIONS: [&str; 9] =
    ["Unit", "Install", "Service", "Socket", "Timer", "Path", "Mount", "Automount", "Swap"];

const TABLES: [&[Directive]; 4] = [unit::ROWS, process::ROWS, sandbox::ROWS, trigger::ROWS];

/// All rows.
pub fn rows() -> impl Iterator<Item = &'static Directive> {
    TABLES.into_iter().flatten()
}

/// The row of a directive.
pub fn find(section: &str, name: &str) -> Option<&'static Directive> {
    let process = PROCESS.contains(&section);
    rows().find(|row| {
        row.name == name && (row.section == section || process && row.section == "Process")
    })
}

/// The parts of a directive that are not honoured.
pub fn gaps(section: &str, name: &str) -> impl Iterator<Item = &'static Gap> {
    let process = PROCESS.contains(&section);
    partly::GAPS.iter().filter(move |gap| {
        gap.is_of(name) && (gap.section == section || process && gap.section == "Process")
    })
}

const fn row(section: &'static str, name: &'static str, key: &'static str, how: How) -> Directive {
    Directive { section, name, key, how, grade: Grade::Plain }
}

/// No key; why it is left out stands in `how`.
const fn out(section: &'static str, name: &'static str, how: How) -> Directive {
    Directive { section, name, key: "", how, grade: Grade::Free }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_directive_has_two_rows() {
        for (index, row) in rows().enumerate() {
            let twin = rows().skip(index + 1).find(|other| {
                other.name == row.name
                    && (other.section == row.section
                        || row.section == "Process" && PROCESS.contains(&other.section))
            });
            assert!(twin.is_none(), "[{}] {}", row.section, row.name);
        }
    }

    #[test]
    fn each_gap_is_of_a_directive_that_is_taken_over() {
        for gap in partly::GAPS {
            let kept = rows().any(|row| {
                row.section == gap.section
                    && gap.is_of(row.name)
                    && !matches!(row.how, How::ByDesign(_) | How::Lost(_) | How::Refused(_))
            });
            assert!(kept, "[{}] {}: {}", gap.section, gap.name, gap.how);
        }
    }

    #[test]
    fn a_directive_is_found_in_each_section_it_may_stand_in() {
        for section in PROCESS {
            assert_eq!(find(section, "User").unwrap().key, "user");
        }
        assert!(find("Unit", "User").is_none() && find("Timer", "User").is_none());
    }
}
