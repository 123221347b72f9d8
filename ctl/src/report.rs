//! Formats the errors of a set of unit files, for `check` and for a refused reload.

use crate::style::{Style, Tone};
use groundstate_units::control::answer::{Report, Said};
use groundstate_units::text::diagnostic::Severity;
use std::fmt::Write;

/// Formats each as `FILE:LINE:COL: error: …` with the line, a caret and a hint.
pub(crate) fn render(report: &Report, style: &Style) -> String {
    report.diagnostics.iter().map(|said| one(said, style)).collect()
}

fn one(said: &Said, style: &Style) -> String {
    let tone = match said.severity {
        Severity::Error => Tone::Bad,
        Severity::Warning => Tone::Uneasy,
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
        assert_eq!(one(&said(), &Style::PLAIN), want);
    }

    #[test]
    fn caret_is_under_its_column_even_after_tabs() {
        let said = Said { excerpt: "a:\t[b, cc]".to_string(), column: 8, ..said() };
        assert_eq!(caret(&said).as_deref(), Some("  \t    ^~"));
        let beyond = Said { column: 80, ..said };
        assert_eq!(caret(&beyond), None);
    }
}
