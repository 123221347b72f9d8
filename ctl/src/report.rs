//! Formats the diagnostics of a set of unit files, for `check` and for a reload. Errors are printed
//! last, so that many warnings do not scroll them off the screen.

use crate::style::{self, Style, Tone};
use groundstate_units::control::answer::{Report, Said};
use groundstate_units::import::is_foreign;
use groundstate_units::text::diagnostic::Severity;
use std::cmp::Reverse;
use std::fmt::Write;

/// Formats each diagnostic as `FILE:LINE:COL: error: …` with the line, a caret and a hint.
pub(crate) fn render(report: &Report, style: &Style) -> String {
    render_all(&errors_last(report.diagnostics.iter()), style)
}

/// Formats a [`Digest`].
pub(crate) fn render_digest(diagnostics: &[Said], style: &Style) -> String {
    let digest = Digest::of(diagnostics);
    let mut text = render_all(&digest.advice, style);
    if let Some(line) = &digest.left_out {
        let _ = writeln!(text, "{line}");
    }
    text + &render_all(&digest.errors, style)
}

/// The diagnostics that a reload prints, in this order. The warnings of imported files are the same
/// at each reload, and the operator rarely changes these files. One line stands for all of them.
pub(crate) struct Digest<'r> {
    /// Notes and warnings of native files.
    pub(crate) advice: Vec<&'r Said>,
    /// The line for the warnings of imported files, unless there are none.
    pub(crate) left_out: Option<String>,
    /// Errors of all files.
    pub(crate) errors: Vec<&'r Said>,
}

impl<'r> Digest<'r> {
    /// Selects the diagnostics.
    pub(crate) fn of(diagnostics: &'r [Said]) -> Digest<'r> {
        let is_error = |said: &&Said| said.severity == Severity::Error;
        let (errors, others): (Vec<_>, Vec<_>) = diagnostics.iter().partition(is_error);
        let (left_out, advice): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|said| is_imported(&said.file));
        let is_warning = |said: &&&Said| said.severity == Severity::Warning;
        let left_out = match left_out.iter().filter(is_warning).count() {
            0 => None,
            number => {
                let warnings = style::count(number, "warning");
                let them = if number == 1 { "it" } else { "them" };
                Some(format!("{warnings} in imported files: `initctl check` lists {them}"))
            }
        };
        Digest { advice: errors_last(advice.into_iter()), left_out, errors }
    }

    /// Returns the diagnostics that are printed in full.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &'r Said> {
        self.advice.iter().chain(&self.errors).copied()
    }
}

/// Returns true for a file of another init system that `check` reads. `check` does not read the
/// files of a source, which are in a directory `sources/NAME`.
fn is_imported(file: &str) -> bool {
    is_foreign(file) && file.rsplit('/').nth(2) != Some("sources")
}

fn errors_last<'r>(diagnostics: impl Iterator<Item = &'r Said>) -> Vec<&'r Said> {
    let mut sorted: Vec<&Said> = diagnostics.collect();
    sorted.sort_by_key(|said| Reverse(said.severity));
    sorted
}

fn render_all(diagnostics: &[&Said], style: &Style) -> String {
    diagnostics.iter().map(|said| render_one(said, style)).collect()
}

fn render_one(said: &Said, style: &Style) -> String {
    let tone = match said.severity {
        Severity::Error => Tone::Bad,
        Severity::Warning => Tone::Warning,
        Severity::Note => Tone::Moving,
    };
    let place = style.bold(&format!("{}:{}:{}:", said.file, said.line, said.column));
    let word = style.paint(tone, &format!("{}:", said.severity));
    let mut text = format!("{place} {word} {}\n", said.message);
    if !said.excerpt.is_empty() && said.line > 0 {
        let lead = format!("{:>5} | ", said.line);
        let _ = writeln!(text, "{}{}", style.paint(Tone::Quiet, &lead), said.excerpt);
        if let Some(caret) = caret(said) {
            let rule = style.paint(Tone::Quiet, "      | ");
            let _ = writeln!(text, "{rule}{}", style.paint(tone, &caret));
        }
    }
    if !said.hint.is_empty() {
        let hint = style.hang(&said.hint, 12, 12);
        let _ = writeln!(text, "      {} {hint}", style.paint(Tone::Good, "hint:"));
    }
    for spot in &said.related {
        let _ = writeln!(text, "      also: {}:{}:{}", spot.file, spot.line, spot.column);
    }
    text
}

/// Returns `    ^~~~` under the word at the column. Tabs stay, to keep the alignment.
fn caret(said: &Said) -> Option<String> {
    let before = usize::try_from(said.column.checked_sub(1)?).ok()?;
    let mut caret: String =
        said.excerpt.chars().take(before).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    if said.excerpt.chars().count() < before {
        return None;
    }
    caret.push('^');
    let word = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | '/');
    let length = said.excerpt.chars().skip(before).take_while(word).count();
    caret.extend(std::iter::repeat_n('~', length.saturating_sub(1)));
    Some(caret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::control::answer::Spot;

    fn said() -> Said {
        Said {
            severity: Severity::Error,
            code: "unknown-key".to_string(),
            file: "units/web.yaml".to_string(),
            line: 7,
            column: 1,
            message: "unknown key `depend-on`".to_string(),
            hint: "did you mean `depends-on`?".to_string(),
            related: vec![Spot { file: "units/db.yaml".to_string(), line: 2, column: 3 }],
            excerpt: "depend-on: db".to_string(),
        }
    }

    #[test]
    fn diagnostic_is_printed_with_place_message_line_and_hint() {
        let want = "units/web.yaml:7:1: error: unknown key `depend-on`\n    \
                    7 | depend-on: db\n      \
                    | ^~~~~~~~~\n      \
                    hint: did you mean `depends-on`?\n      \
                    also: units/db.yaml:2:3\n";
        assert_eq!(render_one(&said(), &Style::PLAIN), want);
    }

    fn said_of(severity: Severity, file: &str) -> Said {
        let (file, message) = (file.to_string(), "m".to_string());
        Said { severity, file, message, line: 1, column: 1, ..empty() }
    }

    fn empty() -> Said {
        Said { hint: String::new(), related: Vec::new(), excerpt: String::new(), ..said() }
    }

    #[test]
    fn report_has_errors_last_and_keeps_the_order_within_a_severity() {
        use Severity::{Error, Note, Warning};
        let order = [(Error, "a"), (Warning, "b"), (Error, "c"), (Note, "d"), (Warning, "e")];
        let diagnostics = order.map(|(severity, file)| said_of(severity, file)).to_vec();
        let text = render(&Report { diagnostics, ..Report::default() }, &Style::PLAIN);
        let files: String = text.lines().filter_map(|line| line.chars().next()).collect();
        assert_eq!(files, "dbeac");
    }

    #[test]
    fn digest_counts_the_warnings_of_imported_files_and_prints_all_others_in_full() {
        use Severity::{Error, Note, Warning};
        let mut diagnostics = vec![
            said_of(Error, "/lib/systemd/system/e.service"),
            said_of(Error, "/u/a.yaml"),
            said_of(Warning, "/u/a.yaml"),
            said_of(Note, "/u/a.yaml"),
            said_of(Note, "/etc/systemd/system/n.service"),
            said_of(Warning, "/run/groundstate/sources/fleet/s.service"),
            said_of(Warning, "/etc/fstab"),
        ];
        let want = |line: &str| {
            format!(
                "/u/a.yaml:1:1: note: m\n/u/a.yaml:1:1: warning: m\n\
                 /run/groundstate/sources/fleet/s.service:1:1: warning: m\n{line}\
                 /lib/systemd/system/e.service:1:1: error: m\n/u/a.yaml:1:1: error: m\n"
            )
        };
        let one = "1 warning in imported files: `initctl check` lists it\n";
        assert_eq!(render_digest(&diagnostics, &Style::PLAIN), want(one));
        diagnostics.push(said_of(Warning, "/etc/systemd/system/w.timer.d/own.conf"));
        let two = "2 warnings in imported files: `initctl check` lists them\n";
        assert_eq!(render_digest(&diagnostics, &Style::PLAIN), want(two));
        diagnostics.truncate(6);
        assert_eq!(render_digest(&diagnostics, &Style::PLAIN), want(""));
    }

    #[test]
    fn caret_is_under_its_column_even_after_tabs() {
        let said = Said { excerpt: "a:\t[b, cc]".to_string(), column: 8, ..said() };
        assert_eq!(caret(&said).as_deref(), Some("  \t    ^~"));
        let beyond = Said { column: 80, ..said };
        assert_eq!(caret(&beyond), None);
    }
}
