//! Text style: colours, glyphs, widths, time spans. Word and glyph always carry the same
//! information as the colour.

use anstyle::{AnsiColor, Style as Paint};
use groundstate_units::control::answer::{Cause, Reason, System};
use groundstate_units::machine::reason::State;
use groundstate_units::text::encoding::visible;
use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::fmt::Write;
use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;
use std::time::Duration;

/// The abilities of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    /// With colours.
    pub(crate) colour: bool,
    /// Columns; `None` for a pipe.
    pub(crate) width: Option<usize>,
}

/// The look of a unit, by its urgency for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tone {
    /// Needs attention.
    Bad,
    /// Needs attention later.
    Warning,
    /// In transition.
    Moving,
    /// The unit is healthy.
    Good,
    /// The unit does not matter to the operator now.
    Quiet,
}

impl Style {
    /// Plain text without a width limit.
    pub(crate) const PLAIN: Style = Style { colour: false, width: None };

    /// Paints `text` in the colour of `tone`.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        let paint = match tone {
            Tone::Bad => AnsiColor::Red.on_default().bold(),
            Tone::Warning => AnsiColor::Yellow.on_default(),
            Tone::Moving => AnsiColor::Cyan.on_default(),
            Tone::Good => AnsiColor::Green.on_default(),
            Tone::Quiet => Paint::new().dimmed(),
        };
        self.painted(paint, text)
    }

    /// A heading.
    pub(crate) fn bold(&self, text: &str) -> String {
        self.painted(Paint::new().bold(), text)
    }

    fn painted(&self, paint: Paint, text: &str) -> String {
        if self.colour && !text.is_empty() {
            let (mark, reset) = (mark(), paint.render_reset());
            format!("{mark}{}{mark}{text}{mark}{reset}{mark}", paint.render())
        } else {
            text.to_string()
        }
    }

    /// Cuts `text` to the rest of the line after `used` columns.
    pub(crate) fn cut(&self, text: &str, used: usize) -> String {
        let Some(width) = self.width else { return text.to_string() };
        let room = width.saturating_sub(used).max(16);
        if text.chars().count() <= room {
            return text.to_string();
        }
        let mut cut: String = text.chars().take(room.saturating_sub(1)).collect();
        cut.push('…');
        cut
    }

    /// Wraps `text` to lines that fit after `used` columns. Text in backticks is a command to copy
    /// and is never broken.
    pub(crate) fn wrap(&self, text: &str, used: usize) -> Vec<String> {
        self.wrap_from(text, used, used)
    }

    /// Wraps `text` behind `used` columns of its first line; the next lines are indented.
    pub(crate) fn hang(&self, text: &str, used: usize, indent: usize) -> String {
        self.wrap_from(text, used, indent).join(&format!("\n{}", " ".repeat(indent)))
    }

    fn wrap_from(&self, text: &str, first: usize, rest: usize) -> Vec<String> {
        let room = |used| self.width.map_or(usize::MAX, |width| width.saturating_sub(used).max(16));
        let (first, rest) = (room(first), room(rest));
        let mut is_command = false;
        let words = text.split(|c: char| {
            is_command ^= c == '`';
            c == ' ' && !is_command
        });
        let mut lines: Vec<String> = Vec::new();
        for word in words.filter(|word| !word.is_empty()) {
            // With one line, the word may be added to the first line.
            let room = if lines.len() < 2 { first } else { rest };
            match lines.last_mut() {
                Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_string()),
            }
        }
        lines
    }
}

/// Marks the start and the end of each colour sequence until printing. The mark is random, so that
/// no other text contains it.
fn mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    let random = || RandomState::new().build_hasher().finish();
    MARK.get_or_init(|| format!("\u{fdd0}{:016x}{:016x}", random(), random()))
}

/// Escapes text for printing: only the colours of [`Style`] remain as control sequences.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(mark()) {
        return visible(text);
    }
    let parts = text.split(mark()).enumerate();
    let part = |(at, part)| if at % 2 == 0 { visible(part) } else { Cow::Borrowed(part) };
    Cow::Owned(parts.map(part).collect())
}

/// Returns the tone of a state.
pub(crate) fn tone(state: State, degraded: bool) -> Tone {
    match state {
        State::Failed => Tone::Bad,
        State::Starting | State::Stopping | State::Reloading | State::Waiting => Tone::Moving,
        State::Running | State::Exited if degraded => Tone::Warning,
        State::Running | State::Exited => Tone::Good,
        State::Disabled => Tone::Quiet,
    }
}

/// Returns the word for a state, with `(dependency)` for a failed dependency, and the degraded
/// flag.
pub(crate) fn word(state: State, degraded: bool, reason: Option<&Reason>) -> String {
    let by_another = matches!(
        reason.map(|reason| &reason.cause),
        Some(Cause::Dependency { .. } | Cause::Masked { .. } | Cause::Missing { .. })
    );
    match (state, degraded) {
        (State::Failed, _) if by_another => "failed (dependency)".to_string(),
        (State::Running, true) => "degraded".to_string(),
        (state, true) => format!("{}, degraded", state.word()),
        (state, false) => state.word().to_string(),
    }
}

/// Formats the reason of a state for the end of a line. The reason of a start is the end of the
/// previous run.
pub(crate) fn reason_suffix(state: Option<State>, reason: Option<&Reason>) -> String {
    match (state, reason) {
        (_, None) => String::new(),
        (Some(State::Starting), Some(reason)) => format!(" (before: {})", reason.text),
        (_, Some(reason)) => format!(": {}", reason.text),
    }
}

/// Returns the tone of the system state.
pub(crate) fn system_tone(system: System) -> Tone {
    match system {
        System::Failed => Tone::Bad,
        System::Degraded => Tone::Warning,
        System::Starting | System::Stopping => Tone::Moving,
        System::Running => Tone::Good,
    }
}

/// Returns the glyph of a state, for output without colours.
pub(crate) fn glyph(state: State, degraded: bool) -> char {
    match state {
        State::Failed => 'x',
        State::Starting => '>',
        State::Stopping => '<',
        State::Waiting => '.',
        State::Running | State::Exited | State::Reloading if degraded => '~',
        State::Running | State::Reloading => '+',
        State::Exited => '=',
        State::Disabled => '-',
    }
}

/// Pads to `width` columns; counts characters, not bytes.
pub(crate) fn pad(text: &str, width: usize) -> String {
    let mut padded = text.to_string();
    let have = text.chars().count();
    padded.extend(std::iter::repeat_n(' ', width.saturating_sub(have)));
    padded
}

/// Formats a span by its two largest parts: `3d 4h`, `12m 5s`, `3.2s`, `20ms`.
pub(crate) fn span(of: Duration) -> String {
    let seconds = of.as_secs();
    let parts = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    if seconds < 1 {
        return format!("{}ms", of.as_millis());
    }
    if seconds < 10 {
        return format!("{}.{}s", seconds, of.subsec_millis() / 100);
    }
    let mut text = String::new();
    let mut rest = seconds;
    let mut written = 0;
    for (size, word) in parts {
        let count = rest / size;
        rest %= size;
        if count == 0 && written == 0 {
            continue;
        }
        if count > 0 {
            let gap = if written == 0 { "" } else { " " };
            // Writing to a String cannot fail.
            let _ = write!(text, "{gap}{count}{word}");
        }
        written += 1;
        if written == 2 {
            break;
        }
    }
    text
}

/// `1 unit`, `3 units`.
pub(crate) fn count(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_printed_by_their_two_largest_parts() {
        for (millis, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (3_210, "3.2s"),
            (12_000, "12s"),
            (60_000, "1m"),
            (725_000, "12m 5s"),
            (273_600_000, "3d 4h"),
            (86_400_000, "1d"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn end_of_the_previous_run_is_not_shown_as_the_reason_of_a_start() {
        let text = "its process was killed by signal KILL".to_string();
        let reason = Reason { text, cause: Cause::Other };
        let said = |state| reason_suffix(Some(state), Some(&reason));
        assert_eq!(said(State::Failed), ": its process was killed by signal KILL");
        assert_eq!(said(State::Starting), " (before: its process was killed by signal KILL)");
        assert_eq!(reason_suffix(None, None), "");
    }

    #[test]
    fn plain_style_writes_no_escape_sequence() {
        assert_eq!(Style::PLAIN.paint(Tone::Bad, "failed"), "failed");
        let colours = Style { colour: true, width: None };
        assert!(escaped(&colours.paint(Tone::Bad, "failed")).starts_with("\u{1b}["));
    }

    #[test]
    fn shown_text_keeps_only_colours_of_the_style() {
        let colours = Style { colour: true, width: None };
        let odd = "a\u{1b}[31m\u{9b}1m\u{202e}\u{200b}\u{e0041}\u{1b}]0;x\u{7}b\tc\n";
        let text = format!("{}{odd}", colours.paint(Tone::Bad, odd));
        let shown = escaped(&text);
        let rest = shown.strip_prefix("\u{1b}[1m\u{1b}[31m").unwrap();
        let (painted, plain) = rest.split_once("\u{1b}[0m").unwrap();
        assert_eq!(painted, plain);
        assert!(
            plain.starts_with("a\\x1b[31m\\xc2\\x9b1m") && plain.ends_with("b\tc\n"),
            "{plain}"
        );
        let unprintable = |c: char| {
            groundstate_units::text::encoding::is_unprintable(c) && !matches!(c, '\t' | '\n')
        };
        assert!(!plain.contains(unprintable), "{plain:?}");
    }

    #[test]
    fn wrapping_breaks_between_words_and_never_within_backticks() {
        let narrow = Style { colour: false, width: Some(40) };
        let text = "it is not tried again by itself: `initctl retry a-service`; `initctl logs x`";
        let lines = narrow.wrap(text, 15);
        assert_eq!(
            lines,
            [
                "it is not tried again by",
                "itself:",
                "`initctl retry a-service`;",
                "`initctl logs x`"
            ]
        );
        assert_eq!(Style::PLAIN.wrap(text, 15), [text]);
        assert!(narrow.wrap("", 15).is_empty());
    }

    #[test]
    fn text_is_cut_only_at_the_edge_of_a_terminal() {
        let narrow = Style { colour: false, width: Some(30) };
        assert_eq!(narrow.cut("0123456789012345678901234", 10), "0123456789012345678…");
        assert_eq!(Style::PLAIN.cut("0123456789012345678901234", 10).len(), 25);
    }
}
