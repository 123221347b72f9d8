//! The table of known systemd directives: the native key and the conversion of the value, or why it
//! is left out. If the native key does not exist, the directive is "not supported": the key table
//! decides.
//!
//! The rows are in `table/`, by section. For a directive that needs more than a row
//! ([`How::Special`]), the comment names the file with its code.

pub(crate) mod partly;
mod process;
mod sandbox;
mod trigger;
mod unit;

pub use partly::{Gap, When};

/// The conversion of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Unchanged, with specifiers replaced.
    Text,
    /// A path; one that is not absolute is reported.
    Path,
    /// A boolean: yes or no.
    Boolean,
    /// A span of time; `infinity` leaves the key out.
    Span,
    /// A span of time; 0 and `infinity` are `none`.
    Timeout,
    /// A size; `infinity` stays.
    Size,
    /// A word that is translated.
    Choice(&'static [(&'static str, &'static str)]),
    /// Words, collected over all assignments; an empty assignment resets the list.
    Words,
    /// One entry per assignment, unsplit; an empty assignment resets the list.
    Lines,
    /// Words, each with the `~` of its assignment, which inverts the list.
    Inverted,
    /// A resource limit of this name.
    Limit(&'static str),
    /// Handled by separate code.
    Special,
    /// Has no effect here.
    Silent,
    /// Left out on purpose, with the reason.
    ByDesign(&'static str),
    /// Left out, and the unit behaves differently; the text says how.
    Lost(&'static str),
    /// The unit cannot be imported, with the reason.
    Refused(&'static str),
}

/// The effect of a missing native key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// Reported as not supported.
    Plain,
    /// The unit runs with less isolation than requested.
    Sandbox,
    /// Has no effect here.
    Free,
}

/// One directive.
#[derive(Clone, Copy, Debug)]
pub struct Directive {
    /// The section. `Process` stands for each section of a unit that runs processes.
    pub section: &'static str,
    /// The name of the directive.
    pub name: &'static str,
    /// The native key; empty if there is none.
    pub key: &'static str,
    /// The conversion of the value.
    pub how: How,
    /// The effect of a missing native key.
    pub grade: Grade,
}

/// Sections whose units run processes.
pub const PROCESS: [&str; 4] = ["Service", "Socket", "Mount", "Swap"];

/// Sections that are read.
pub const SECTIONS: [&str; 9] =
    ["Unit", "Install", "Service", "Socket", "Timer", "Path", "Mount", "Automount", "Swap"];

const TABLES: [&[Directive]; 5] =
    [unit::ROWS, unit::CONDITIONS, process::ROWS, sandbox::ROWS, trigger::ROWS];

/// All rows.
pub fn rows() -> impl Iterator<Item = &'static Directive> {
    TABLES.into_iter().flatten()
}

/// Returns the row of a directive.
pub fn find(section: &str, name: &str) -> Option<&'static Directive> {
    let process = PROCESS.contains(&section);
    rows().find(|row| {
        row.name == name && (row.section == section || process && row.section == "Process")
    })
}

/// Returns the parts of a directive that are not honoured.
pub fn gaps(section: &str, name: &str) -> impl Iterator<Item = &'static Gap> {
    let process = PROCESS.contains(&section);
    partly::GAPS.iter().filter(move |gap| {
        gap.is_of(name) && (gap.section == section || process && gap.section == "Process")
    })
}

const fn row(section: &'static str, name: &'static str, key: &'static str, how: How) -> Directive {
    Directive { section, name, key, how, grade: Grade::Plain }
}

/// A row without key; `how` has the reason.
const fn out(section: &'static str, name: &'static str, how: How) -> Directive {
    Directive { section, name, key: "", how, grade: Grade::Free }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_directive_has_two_rows_in_the_table() {
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
    fn each_gap_belongs_to_an_imported_directive() {
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
    fn directive_is_found_in_each_section_that_accepts_it() {
        for section in PROCESS {
            assert_eq!(find(section, "User").unwrap().key, "user");
        }
        assert!(find("Unit", "User").is_none() && find("Timer", "User").is_none());
    }
}
