//! One line of a unit's log as it is stored, in a file and in the logger's memory:
//!
//! ```text
//! 2026-11-21T05:12:26.123Z 17 what the service wrote
//! 2026-11-21T05:12:26.124Z 17+ the first 64 KiB of a long line, which goes on in the
//! 2026-11-21T05:12:26.124Z 17 next stored line
//! 2026-11-21T05:12:26.125Z 17<3> an error
//! 2026-11-21T05:12:27.001Z - 12 lines lost: No space left on device
//! ```
//!
//! Time, run, text. The run is that of the pipe the text came through, so that no service can write
//! a line in another's name; `-` is the logger itself. A syslog(3) level follows the run if a key
//! of the unit sets one; a line without a level has level info. The text is the bytes between two
//! newlines, without the prefix that `log-level-prefix` removes, and otherwise unchanged.
//! Characters that act on a terminal are escaped when a line is shown ([`printable`]), not when it
//! is stored.
//!
//! Pure: init's logger writes the files; it and `initctl` read them.

use crate::machine::event::RunId;
use crate::text::encoding;
use crate::text::log_level;
use crate::text::name::Name;
use crate::text::wall_clock::WallTime;
use crate::unit::assembly::hash;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::Write;

/// One stored line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// The time at which the logger read the line.
    pub time: WallTime,
    /// The run; `None` for a note of the logger.
    pub run: Option<RunId>,
    /// The level, 0 to 7. `None` means info, or notice for a note of the logger.
    pub level: Option<u8>,
    /// The line is too long: the next stored line of this run continues it.
    pub continued: bool,
    /// The text without the newline.
    pub text: &'a [u8],
}

impl<'a> LogLine<'a> {
    /// Reads one stored line, with or without its newline. Returns `None` for anything else, such
    /// as a line torn by a power loss.
    pub fn parse(stored: &'a [u8]) -> Option<LogLine<'a>> {
        let stored = stored.strip_suffix(b"\n").unwrap_or(stored);
        let (time, rest) = split_at_space(stored)?;
        let (run, text) = split_at_space(rest)?;
        let time = WallTime::parse(std::str::from_utf8(time).ok()?)?;
        let run = std::str::from_utf8(run).ok()?;
        if run == "-" {
            return Some(LogLine { time, run: None, level: None, continued: false, text });
        }
        let (number, continued) = match run.strip_suffix('+') {
            Some(number) => (number, true),
            None => (run, false),
        };
        let (number, level) = match number.split_once('<') {
            Some((number, mark)) => (number, Some(level_in(mark.as_bytes())?)),
            None => (number, None),
        };
        // u64::from_str takes a sign; a stored run has none.
        if !number.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        Some(LogLine { time, run: Some(RunId(number.parse().ok()?)), level, continued, text })
    }

    /// Returns the level; a note of the logger has level notice.
    pub fn priority(&self) -> u8 {
        priority(self.run, self.level)
    }

    /// Appends the stored form, newline included.
    pub fn render(&self, to: &mut Vec<u8>) {
        Prefix::new(self.time, self.run).put(self.level, self.continued, to);
        to.extend_from_slice(self.text);
        to.push(b'\n');
    }
}

fn split_at_space(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == b' ')?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

fn priority(run: Option<RunId>, level: Option<u8>) -> u8 {
    level.unwrap_or(if run.is_some() { log_level::INFO } else { log_level::NOTICE })
}

/// The level in `3>`.
fn level_in(mark: &[u8]) -> Option<u8> {
    match mark {
        [digit @ b'0'..=b'7', b'>'] => Some(digit - b'0'),
        _ => None,
    }
}

/// The level at the start of a line, as in `<3>`: sd-daemon(3).
pub fn level_prefix(head: &[u8]) -> Option<u8> {
    head.strip_prefix(b"<").and_then(level_in)
}

/// The prefix of a stored line, made once for all lines of one read.
#[derive(Clone, Debug)]
pub struct Prefix {
    /// Time and run.
    head: String,
    is_note: bool,
}

impl Prefix {
    /// Creates the prefix for lines read at `time` from `run`.
    pub fn new(time: WallTime, run: Option<RunId>) -> Prefix {
        let head = match run {
            Some(RunId(run)) => format!("{time} {run}"),
            None => format!("{time} -"),
        };
        Prefix { head, is_note: run.is_none() }
    }

    /// Appends the prefix, including the space before the text.
    pub fn put(&self, level: Option<u8>, continued: bool, to: &mut Vec<u8>) {
        to.extend_from_slice(self.head.as_bytes());
        if !self.is_note {
            if let Some(level) = level.filter(|level| *level < 8) {
                to.extend_from_slice(&[b'<', b'0'.saturating_add(level), b'>']);
            }
            to.extend_from_slice(if continued { b"+" } else { b"" });
        }
        to.push(b' ');
    }
}

/// The longest unit name that is used unchanged as a file name: NAME_MAX less `.log` and the suffix
/// of rotation (`.4294967295`).
const PLAIN_NAME: usize = 255 - 4 - 11;

/// The file name of a unit's log in the log directory: `UNIT.log`; rotated files are `UNIT.log.1`
/// (the youngest) and so on. A name too long for a file is cut and gets a `~`, which no unit name
/// contains, and a hash of the whole name.
pub fn file_name(unit: &Name) -> String {
    let name = unit.as_str();
    if name.len() <= PLAIN_NAME {
        return format!("{name}.log");
    }
    // FNV-1a, 64 bits.
    let hash = hash(name.as_bytes());
    let head = name.get(..PLAIN_NAME - 17).unwrap_or_default();
    format!("{head}~{hash:016x}.log")
}

/// One line in the form of `log.sock` and `initctl logs --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownLine {
    /// RFC 3339, UTC, milliseconds.
    pub time: String,
    /// The unit.
    pub unit: String,
    /// The run; null for a note of the logger.
    pub run: Option<RunId>,
    /// `output` (stdout and stderr share one pipe, so their order is kept), or `logger`. With
    /// messages of the unit `dev-log`, a client writes `syslog`, `kernel` or `kmsg`.
    pub stream: Cow<'static, str>,
    /// The syslog(3) level, 0 to 7, if the unit sets one. Absent means info, or notice for a note
    /// of the logger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u8>,
    /// The text; invalid UTF-8 becomes U+FFFD.
    pub line: String,
    /// The next line of this run continues this one.
    pub continued: bool,
}

impl ShownLine {
    /// Creates the shown form of a stored line of `unit`.
    pub fn new(unit: &str, line: &LogLine<'_>) -> ShownLine {
        ShownLine {
            time: line.time.to_string(),
            unit: unit.to_string(),
            run: line.run,
            stream: Cow::Borrowed(if line.run.is_some() { "output" } else { "logger" }),
            level: line.level,
            line: String::from_utf8_lossy(line.text).into_owned(),
            continued: line.continued,
        }
    }

    /// Returns the level; a note of the logger has level notice.
    pub fn priority(&self) -> u8 {
        priority(self.run, self.level)
    }
}

/// Returns true for a character that acts on a terminal. A tab is exempt, because services use tabs
/// for columns.
fn is_unprintable(c: char) -> bool {
    encoding::is_unprintable(c) && c != '\t'
}

/// Returns the text with everything escaped that acts on a terminal or is invisible. Unprintable
/// characters ([`encoding::is_unprintable`]) except tab, and invalid UTF-8, become `\xNN`. A
/// carriage return at the very end is dropped, because many programs end lines with one.
pub fn printable(text: &[u8]) -> Cow<'_, str> {
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    if let Ok(clean) = std::str::from_utf8(text)
        && !clean.chars().any(is_unprintable)
    {
        return Cow::Borrowed(clean);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_unprintable(c) {
                escape(&mut shown, c.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                shown.push(c);
            }
        }
        escape(&mut shown, chunk.invalid());
    }
    Cow::Owned(shown)
}

fn escape(to: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(to, "\\x{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AT: u64 = 1_795_238_746_123;

    #[test]
    fn stored_line_consists_of_time_run_and_text() {
        let mut file = Vec::new();
        let time = WallTime::from_millis(AT);
        let line =
            LogLine { time, run: Some(RunId(17)), level: None, continued: false, text: b"a  b" };
        line.render(&mut file);
        LogLine { continued: true, ..line }.render(&mut file);
        LogLine { run: None, text: b"note", ..line }.render(&mut file);
        LogLine { level: Some(3), ..line }.render(&mut file);
        LogLine { level: Some(0), continued: true, ..line }.render(&mut file);
        let want = "2026-11-21T05:25:46.123Z 17 a  b\n\
                    2026-11-21T05:25:46.123Z 17+ a  b\n\
                    2026-11-21T05:25:46.123Z - note\n\
                    2026-11-21T05:25:46.123Z 17<3> a  b\n\
                    2026-11-21T05:25:46.123Z 17<0>+ a  b\n";
        assert_eq!(String::from_utf8(file).unwrap(), want);
    }

    #[test]
    fn malformed_stored_line_is_refused() {
        for bad in [
            &b""[..],
            b"text",
            b"2026-11-21T05:25:46.123Z",
            b"2026-11-21T05:25:46.123Z 17",
            b"2026-11-21T05:25:46.123Z x text",
            b"2026-11-21T05:25:46.123Z +17 text",
            b"2026-11-21T05:25:46.123Z 17++ text",
            b"2026-11-21T05:25:46.123Z -1 text",
            b"2026-11-21T05:25:46.123Z 17<8> text",
            b"2026-11-21T05:25:46.123Z 17<> text",
            b"2026-11-21T05:25:46.123Z 17+<3> text",
            b"2026-11-21T05:25:46.123Z <3> text",
            b"2026-11-21 17 text",
        ] {
            assert_eq!(LogLine::parse(bad), None, "{:?}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn printable_text_shows_control_characters_as_escapes() {
        for (text, shown) in [
            (&b"plain \xc3\xa4\ttab"[..], "plain ä\ttab"),
            (b"\x1b[2Jgone", "\\x1b[2Jgone"),
            (b"10%\r20%\r", "10%\\x0d20%"),
            (b"\xff\x00", "\\xff\\x00"),
            ("zero\u{200b}width".as_bytes(), "zero\\xe2\\x80\\x8bwidth"),
            ("tag\u{e0041}".as_bytes(), "tag\\xf3\\xa0\\x81\\x81"),
            ("c1 \u{9b}2J \u{202e}".as_bytes(), "c1 \\xc2\\x9b2J \\xe2\\x80\\xae"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }

    #[test]
    fn log_file_names_of_units_are_distinct_and_within_name_max() {
        let name = |text: &str| Name::new(text).unwrap();
        assert_eq!(file_name(&name("web")), "web.log");
        let (a, b) = ("x".repeat(254) + "a", "x".repeat(254) + "b");
        assert_ne!(file_name(&name(&a)), file_name(&name(&b)));
        for length in 1..=255 {
            let file = file_name(&name(&"x".repeat(length)));
            assert!(file.len() + 11 <= 255 && file.ends_with(".log"), "{length}");
        }
    }

    proptest! {
        #[test]
        fn rendered_line_is_parsed_back_unchanged(
            run in proptest::option::of(any::<u64>()),
            level in proptest::option::of(0..8u8),
            continued: bool,
            text in proptest::collection::vec(any::<u8>().prop_filter("newline", |b| *b != b'\n'), 0..99),
        ) {
            let line = LogLine {
                time: WallTime::from_millis(AT),
                run: run.map(RunId),
                level: level.filter(|_| run.is_some()),
                continued: continued && run.is_some(),
                text: &text,
            };
            let mut stored = Vec::new();
            line.render(&mut stored);
            prop_assert_eq!(LogLine::parse(&stored), Some(line));
        }

        #[test]
        fn printable_text_never_contains_a_control_character(
            text in proptest::collection::vec(any::<u8>(), 0..99),
        ) {
            prop_assert!(!printable(&text).chars().any(is_unprintable));
        }
    }
}
