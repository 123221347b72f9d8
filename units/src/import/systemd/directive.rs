//! Applies the rows of the table to the directives, in the order of the file.

use super::condition;
use super::conversion::Conversion;
use super::import_outcome::Outcome;
use super::span::{self, Span};
use super::table::{self, Directive, How};
use super::unit_text::UnitOption;
use crate::limit;
use crate::unit::key;
use std::collections::BTreeSet;

impl<'a> Conversion<'a> {
    pub(super) fn apply_rows(&mut self) {
        let options = self.options.clone();
        let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
        for option in options {
            let directive = (option.section.as_ref(), option.name.as_str());
            if !seen.insert(directive) {
                continue;
            }
            if !table::SECTIONS.contains(&directive.0) || directive.1.starts_with("X-") {
                continue;
            }
            let Some(row) = table::find(directive.0, directive.1) else {
                self.unknown(option);
                continue;
            };
            let all = self.all(directive.0, directive.1);
            self.apply(row, &all);
        }
        // Assignments that an empty one reset, or a later one replaced.
        for option in self.options.clone() {
            if table::find(&option.section, &option.name).is_some() {
                self.record_outcome(option, Outcome::Silent);
            }
        }
    }

    pub(super) fn unknown(&mut self, option: &'a UnitOption) {
        // The search for a similar name is expensive, and its result may not be reported.
        let full = self.manifest.diagnostics.len() >= limit::DIAGNOSTICS_PER_FILE;
        if !self.record_outcome(option, Outcome::Lost("unknown".to_string())) || full {
            return;
        }
        let known = table::rows().map(|row| row.name);
        let elsewhere = table::rows().find(|row| row.name == option.name).map(|row| row.section);
        let hint = match (elsewhere, key::nearest(&option.name, known)) {
            (Some("Process"), _) => "it is for units that run processes".to_string(),
            (Some(section), _) => format!("systemd knows it in [{section}] alone"),
            (None, Some(near)) => format!("did you mean {near}=?"),
            (None, None) => String::new(),
        };
        let message = format!("unknown directive {}= in [{}]", option.name, option.section);
        self.warn(option, "unknown-directive", &message, &hint);
    }

    pub(super) fn apply(&mut self, row: &Directive, options: &[&'a UnitOption]) {
        let Some(last) = options.last().copied() else { return };
        match row.how {
            How::Special => {}
            How::Silent => {
                for option in options {
                    self.record_outcome(option, Outcome::Silent);
                }
            }
            How::ByDesign(why) => options.iter().for_each(|option| self.leave_out(option, why)),
            How::Lost(how) => options.iter().for_each(|option| self.lose(option, how)),
            How::Refused(why) => {
                self.refuse(last, &format!("{}=: {why}", last.name), "");
            }
            How::Limit(name) => self.limit(name, last),
            How::Lines if row.key.starts_with("condition-") || row.key.starts_with("assert-") => {
                condition::convert(self, row.key, options);
            }
            How::Lines => {
                for option in options {
                    if let Some(text) = self.expand(option, &option.value) {
                        self.add_line(row.key, &text, option);
                    }
                }
            }
            How::Words => {
                for (text, option, at) in self.words(options) {
                    // Directories may have a trailing slash.
                    let text = if text.len() > 1 { text.trim_end_matches('/') } else { &text };
                    self.add(row.key, text, Some(option), at);
                }
            }
            How::Inverted => self.inverted(row.key, options),
            How::Text
            | How::Path
            | How::Boolean
            | How::Span
            | How::Timeout
            | How::Size
            | How::Choice(_) => {
                if let Some(text) = self.value(row.how, last) {
                    self.put(row.key, &text, last);
                }
            }
        }
    }

    pub(super) fn value(&mut self, how: How, option: &'a UnitOption) -> Option<String> {
        let text = self.expand(option, &option.value)?;
        let wrong = |this: &mut Self, what: &str| {
            this.lose(option, &format!("`{}` is no {what}", option.value));
            None
        };
        match how {
            How::Boolean => match span::boolean(&text) {
                Some(true) => Some("yes".to_string()),
                Some(false) => Some("no".to_string()),
                None => wrong(self, "boolean"),
            },
            How::Span | How::Timeout => match (span::parse(&text), how) {
                (Some(Span::Micros(0) | Span::Infinite), How::Timeout) => Some("none".to_string()),
                (Some(Span::Micros(micros)), _) => Some(span::native(micros)),
                (Some(Span::Infinite), _) => {
                    self.leave_out(option, "this value requests nothing");
                    None
                }
                (None, _) => wrong(self, "span of time"),
            },
            How::Choice(words) => match words.iter().find(|(word, _)| *word == text) {
                Some((_, native)) => Some((*native).to_string()),
                None => {
                    let message = format!("{}={}: no such value", option.name, option.value);
                    self.refuse(option, &message, "");
                    None
                }
            },
            How::Path if !text.starts_with('/') && !self.name.is_template() => {
                wrong(self, "absolute path")
            }
            How::Path | How::Text | How::Size | How::Words | How::Lines | How::Inverted => {
                Some(text)
            }
            How::Limit(_) | How::Special | How::Silent => Some(text),
            How::ByDesign(_) | How::Lost(_) | How::Refused(_) => None,
        }
    }

    pub(super) fn limit(&mut self, name: &str, option: &'a UnitOption) {
        let Some(text) = self.expand(option, &option.value) else { return };
        let timed = matches!(name, "cpu" | "rttime");
        let part = |part: &str| {
            let part = part.trim();
            // A signed value is a nice level; the kernel counts down from 20.
            if name == "nice"
                && part.starts_with(['+', '-'])
                && let Some(level @ -20..=19) = part.parse::<i64>().ok()
            {
                return (20 - level).to_string();
            }
            match span::parse(part) {
                Some(Span::Micros(micros))
                    if timed && !part.bytes().all(|b| b.is_ascii_digit()) =>
                {
                    (micros / if name == "cpu" { 1_000_000 } else { 1 }).to_string()
                }
                _ => part.to_string(),
            }
        };
        let parts: Vec<String> = text.split(':').map(part).collect();
        self.add_pair("limits", name, &parts.join(":"), option);
    }

    /// Handles lists in which a leading `~` removes entries: each word gets the mark of its line.
    pub(super) fn inverted(&mut self, key: &str, options: &[&'a UnitOption]) {
        for option in options {
            let Some(text) = self.expand(option, &option.value) else { continue };
            let (mark, rest) = match text.strip_prefix('~') {
                Some(rest) => ("~", rest),
                None => ("", text.as_str()),
            };
            for word in rest.split_whitespace() {
                self.add(key, &format!("{mark}{word}"), Some(option), option.value_at());
            }
        }
    }
}
