//! A unit file as fleet stores it: an ordered list of (section, name, value), without
//! interpretation.
//! It is read and written as in go-systemd, because API clients compare the SHA-1 of the text.
//! [`crate::requirement`] reads `[X-Fleet]`; the importer on the machine reads the rest.

use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Maximum length of a line in bytes, without its end.
pub const LONGEST_LINE: usize = 2047;
/// Maximum number of options of a unit.
pub const MOST_OPTIONS: usize = 4096;
/// Maximum size of the written file in bytes.
pub const LARGEST: usize = 256 * 1024;

/// Maximum size of a submitted unit, in which each option names its section.
const LARGEST_SUBMITTED: usize = 2 * LARGEST;

/// One `Name=Value` of a `[Section]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnitOption {
    /// The name, such as `ExecStart`.
    #[serde(default)]
    pub name: String,
    /// The section, such as `Service`.
    #[serde(default)]
    pub section: String,
    /// The text after the `=`.
    #[serde(default)]
    pub value: String,
}

impl UnitOption {
    /// Length of its line in bytes.
    fn line(&self) -> usize {
        self.name.len() + self.value.len() + 2
    }

    /// Creates an option.
    pub fn new(section: &str, name: &str, value: &str) -> UnitOption {
        UnitOption {
            section: section.to_string(),
            name: name.to_string(),
            value: value.to_string(),
        }
    }
}

/// Why a text is not a unit file, or why options cannot be written as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileError {
    /// A line has no `=`.
    NoValue,
    /// A line exceeds [`LONGEST_LINE`].
    LineTooLong,
    /// A `[` has no `]` on its line.
    OpenSection,
    /// Text follows the `]`.
    SectionGarbage(String),
    /// An option would be read back differently.
    Ambiguous {
        /// The option.
        option: String,
        /// The fault.
        why: &'static str,
    },
    /// The file exceeds [`MOST_OPTIONS`] or [`LARGEST`].
    TooLarge,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::NoValue => {
                f.write_str("unexpected newline encountered while parsing option name")
            }
            FileError::LineTooLong => {
                write!(f, "line too long (max {} bytes)", LONGEST_LINE + 1)
            }
            FileError::OpenSection => f.write_str("unable to find end of section"),
            FileError::SectionGarbage(text) => {
                write!(f, "found garbage after section name: {text:?}")
            }
            FileError::Ambiguous { option, why } => write!(f, "option {option:?} {why}"),
            FileError::TooLarge => {
                write!(f, "unit file too large (max {MOST_OPTIONS} options and {LARGEST} bytes)")
            }
        }
    }
}

impl std::error::Error for FileError {}

/// A unit file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnitFile {
    /// The options in their original order.
    pub options: Vec<UnitOption>,
}

impl UnitFile {
    /// Parses a text. Lines before the first section are ignored.
    ///
    /// # Errors
    /// The first line that cannot be read.
    pub fn parse(text: &str) -> Result<UnitFile, FileError> {
        let start = text.find('[').map_or(text.len(), |at| at);
        let mut lines = Lines { rest: text.get(start..).unwrap_or_default() };
        let mut file = UnitFile::default();
        let mut section: Option<String> = None;
        while let Some(line) = lines.next_line()? {
            let line = line.trim_start();
            if line.is_empty() {
                continue;
            }
            if line.starts_with(['#', ';']) {
                lines.skip_comment(line)?;
            } else if let Some(rest) = line.strip_prefix('[') {
                let (name, after) = rest.split_once(']').ok_or(FileError::OpenSection)?;
                if !after.trim().is_empty() {
                    return Err(FileError::SectionGarbage(after.trim().to_string()));
                }
                section = Some(name.to_string());
            } else if let Some(section) = &section {
                let (name, value) = line.split_once('=').ok_or(FileError::NoValue)?;
                let value = lines.value(value)?;
                file.options.push(UnitOption::new(section, name.trim(), &value));
            }
            if file.options.len() > MOST_OPTIONS {
                return Err(FileError::TooLarge);
            }
        }
        Ok(file)
    }

    /// Writes the text: sections in the order of their first option, separated by an empty line.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (section, options) in self.sections() {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&format!("[{section}]\n"));
            for option in options {
                text.push_str(&format!("{}={}\n", option.name, option.value));
            }
        }
        text
    }

    /// The options in the order of the text.
    pub fn regrouped(&self) -> Vec<UnitOption> {
        self.sections().into_iter().flat_map(|(_, options)| options).cloned().collect()
    }

    /// SHA-1 of the text, in hex: the identity of a file's contents in the API.
    pub fn hash(&self) -> String {
        let digest = Sha1::digest(self.text().as_bytes());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The values of an option, in order.
    pub fn values<'a>(&'a self, section: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
        let own = move |option: &&UnitOption| option.section == section && option.name == name;
        self.options.iter().filter(own).map(|option| option.value.as_str())
    }

    /// Returns true if the section has an option.
    pub fn has_section(&self, section: &str) -> bool {
        self.options.iter().any(|option| option.section == section)
    }

    /// Checks the size from the parts of the file.
    ///
    /// # Errors
    /// The file is too large.
    pub fn check_size(&self) -> Result<(), FileError> {
        let submitted = self.options.iter().map(|option| option.section.len() + option.line());
        // A section's name is written once, with brackets and line breaks.
        let heads = self.options.iter().map(|option| option.section.as_str());
        let heads: usize =
            heads.collect::<BTreeSet<_>>().into_iter().map(|head| head.len() + 4).sum();
        let lines: usize = self.options.iter().map(UnitOption::line).sum();
        if self.options.len() > MOST_OPTIONS
            || submitted.sum::<usize>() > LARGEST_SUBMITTED
            || heads + lines > LARGEST
        {
            return Err(FileError::TooLarge);
        }
        Ok(())
    }

    /// Checks that the written text reads back unchanged, so that no option injects another.
    ///
    /// # Errors
    /// The first option that does not.
    pub fn check(&self) -> Result<(), FileError> {
        self.check_size()?;
        for option in &self.options {
            let bad = |why| FileError::Ambiguous { option: option.name.clone(), why };
            if option.section.contains(['[', ']', '\n', '\r']) {
                return Err(bad("is in a section whose name cannot be written"));
            }
            let name = option.name.as_str();
            let starts = name.starts_with(['#', ';', '[']);
            if name != name.trim() || starts || name.contains(['=', '\n', '\r']) {
                return Err(bad("has a name that cannot be written"));
            }
            if breaks_out(&option.value) {
                return Err(bad("has a line break in its value"));
            }
            if option.value.lines().any(|line| line.len() + name.len() > LONGEST_LINE) {
                return Err(FileError::LineTooLong);
            }
        }
        Ok(())
    }

    /// The sections with their options, in the order of their first option.
    fn sections(&self) -> Vec<(&str, Vec<&UnitOption>)> {
        let mut sections: Vec<(&str, Vec<&UnitOption>)> = Vec::new();
        let mut at: BTreeMap<&str, usize> = BTreeMap::new();
        for option in &self.options {
            let own = option.section.as_str();
            let at = *at.entry(own).or_insert_with(|| {
                sections.push((own, Vec::new()));
                sections.len() - 1
            });
            if let Some((_, options)) = sections.get_mut(at) {
                options.push(option);
            }
        }
        sections
    }
}

/// Returns true if the value would not end with its line. It has a carriage return, has a line
/// break without a backslash before it, or ends with a backslash.
fn breaks_out(value: &str) -> bool {
    let mut before = ' ';
    for c in value.chars() {
        if (c == '\n' && before != '\\') || c == '\r' {
            return true;
        }
        before = c;
    }
    before == '\\'
}

/// Iterates over the lines of a file.
struct Lines<'t> {
    rest: &'t str,
}

impl<'t> Lines<'t> {
    fn next_line(&mut self) -> Result<Option<&'t str>, FileError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        if line.len() > LONGEST_LINE {
            return Err(FileError::LineTooLong);
        }
        Ok(Some(line.strip_suffix('\r').unwrap_or(line)))
    }

    /// Skips a comment, which a backslash continues on the next line.
    fn skip_comment(&mut self, line: &str) -> Result<(), FileError> {
        let mut goes_on = line.trim_end_matches(' ').ends_with('\\');
        while goes_on {
            let Some(line) = self.next_line()? else { break };
            goes_on = line.trim_end_matches(' ').ends_with('\\');
        }
        Ok(())
    }

    /// Reads a value, which a backslash continues on the next line; backslash and line break stay
    /// in it.
    fn value(&mut self, first: &str) -> Result<String, FileError> {
        let mut value = first.to_string();
        while value.ends_with('\\') {
            match self.next_line()? {
                Some(line) if !line.trim().is_empty() => {
                    value.push('\n');
                    value.push_str(line);
                }
                _ => break,
            }
        }
        Ok(value.trim().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hash_equals_that_of_fleet() {
        let table = [
            ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            ("[Service]\nExecStart=/bin/sleep 100\n", "1c6fb6f3684bafb0c173d8b8b957ceff031180c1"),
            ("[Service]\nExecStart=/bin/sleep 1000\n", "2d432f4a06608c1a8b2848b66c836793a1d48ce6"),
            (
                "# a greeting\n[Unit]\nDescription=Hello World\n[Service]\n\nExecStart = /bin/bash -c \"while true; do echo Hello, World!; sleep 1; done\"",
                "22f25e029e50c9a5eece8467b98a9d0d60e40b97",
            ),
        ];
        for (text, hash) in table {
            assert_eq!(UnitFile::parse(text).unwrap().hash(), hash, "{text}");
        }
    }

    #[test]
    fn sections_are_gathered_and_order_is_kept() {
        let file = UnitFile::parse("junk\n[A]\nx=1\n[B]\ny=2\n[A]\nx=3\n").unwrap();
        assert_eq!(file.text(), "[A]\nx=1\nx=3\n\n[B]\ny=2\n");
        assert_eq!(UnitFile { options: file.regrouped() }.text(), file.text());
    }

    #[test]
    fn a_continued_value_keeps_its_lines() {
        let file = UnitFile::parse("[A]\nx=one \\\n  # two \\\n  three\ny=4\n").unwrap();
        assert_eq!(file.options.len(), 2);
        assert_eq!(file.options[0].value, "one \\\n  # two \\\n  three");
        assert_eq!(UnitFile::parse(&file.text()).unwrap(), file);
    }

    #[test]
    fn unreadable_unit_file_is_reported_in_fleets_words() {
        let long = format!("[A]\nx={}\n", "y".repeat(2046));
        let table = [
            ("[A]\nnovalue\n", "unexpected newline encountered while parsing option name"),
            ("[A] b\n", "found garbage after section name: \"b\""),
            ("[A\nx=1\n", "unable to find end of section"),
            (long.as_str(), "line too long (max 2048 bytes)"),
        ];
        for (text, words) in table {
            let error = UnitFile::parse(text).map_err(|e| e.to_string());
            assert_eq!(error, Err(words.to_string()), "{text}");
        }
    }

    #[test]
    fn option_value_adds_no_second_option() {
        let refused = |section: &str, name: &str, value: &str| {
            UnitFile { options: vec![UnitOption::new(section, name, value)] }.check().is_err()
        };
        assert!(refused("Service", "ExecStart", "/bin/a\nUser=root"));
        assert!(refused("Service", "ExecStart", "/bin/a\\"));
        assert!(refused("Service]\n[X", "ExecStart", "/bin/a"));
        assert!(refused("Service", "A=b", "c"));
        assert!(refused("Service", "#A", "c"));
        assert!(!refused("", "", ""), "fleet accepts an empty option");
        assert!(!refused("Service", "ExecStart", "/bin/a \\\n  b"));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused_without_a_panic(text in ".{0,400}") {
            let _ = UnitFile::parse(&text);
        }

        #[test]
        fn checked_file_reads_back_unchanged(
            options in prop::collection::vec(("[A-Z]?[a-z]{0,3}", "[A-Za-z-]{0,6}", "[ -~\\n\\\\]{0,20}"), 0..12)
        ) {
            let make = |(section, name, value): &(String, String, String)| {
                UnitOption::new(section, name, value.trim())
            };
            let file = UnitFile { options: options.iter().map(make).collect() };
            if file.check().is_ok() {
                let back = UnitFile::parse(&file.text()).unwrap();
                prop_assert_eq!(&back.options, &file.regrouped());
                prop_assert_eq!(back.hash(), file.hash());
            }
        }
    }
}
