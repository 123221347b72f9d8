//! Output of fleetctl to stdout and stderr. Control characters in texts of machines and units are
//! replaced.

use super::progress;
use super::table::plain;
use groundstate_units::text::encoding::{visible, visible_json};
use std::io::Write;

/// Replaces control characters except line breaks.
fn cleaned(lines: &str) -> String {
    lines.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

/// Prints one or more lines to stdout. A closed stdout is ignored.
pub(super) fn say(line: &str) {
    progress::clear();
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{}", cleaned(line));
    let _ = out.flush();
}

/// Prints text to stdout. Returns false if stdout is closed.
pub(super) fn write(text: &str) -> bool {
    progress::clear();
    let mut out = std::io::stdout().lock();
    out.write_all(visible(text).as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// Clears the terminal and moves to its top.
pub(super) fn clear_terminal() {
    let _ = std::io::stdout().lock().write_all(b"\x1b[H\x1b[2J");
}

/// Prints one or more lines to stderr.
pub(super) fn warn(line: &str) {
    progress::clear();
    let _ = writeln!(std::io::stderr().lock(), "{}", cleaned(line));
}

/// Prints a JSON value to stdout.
pub(super) fn say_json<T: serde::Serialize>(value: &T) {
    write(&json_line(value));
}

/// Formats a JSON value with a line break.
pub(super) fn json_line<T: serde::Serialize>(value: &T) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    format!("{}\n", visible_json(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_has_no_control_characters() {
        assert_eq!(cleaned("a\u{1b}[2J\n\u{9b}1mb\r"), "a\u{fffd}[2J\n\u{fffd}1mb\u{fffd}");
        let value = "a\u{1b}\u{9b}\u{7f}é\u{202e}\u{e0041}";
        let text = json_line(&value);
        assert_eq!(text, "\"a\\u001b\\u009b\\u007fé\\u202e\\udb40\\udc41\"\n");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), value);
    }
}
