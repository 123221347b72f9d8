//! Expands shell words without a shell: quotes and backslashes, `$x`, `${x}`, `${x:-y}`, `${x:=y}`,
//! `${x:+y}`, and `${x%/*}` and similar forms if the pattern is plain text and a star. The value of
//! anything else, above all of commands, is unknown.

use super::quoting;
use super::variables::{Value, Variables, Why};
use crate::limit;
use crate::text::encoding;
use std::collections::BTreeSet;

/// A part of a word.
#[derive(Debug)]
struct Part {
    text: String,
    /// The value of an unquoted variable, which is split at blanks.
    splits: bool,
}

/// An expanded word.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    parts: Vec<Part>,
    /// Variables in the word that have no value.
    pub(super) unset: BTreeSet<String>,
    /// The word has an unquoted `*` or `?`: file names may replace it.
    pub(super) pattern: bool,
}

/// Expands a word.
///
/// # Errors
/// The reason why its value is unknown.
pub(super) fn expand(raw: &str, variables: &mut Variables) -> Result<Expanded, Why> {
    if raw.starts_with('~') {
        return Err("`~` is the home of a user".into());
    }
    let mut expander = Expander { variables, into: Expanded::default(), length: 0 };
    expander.run(raw, false, 0)?;
    Ok(expander.into)
}

/// Returns the arguments in a text that the shell parses again, as `eval` does.
///
/// # Errors
/// The reason why they are unknown.
pub(super) fn arguments(text: &str, variables: &mut Variables) -> Result<Vec<String>, Why> {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (mut rest, mut found) = (joined.as_str(), Vec::new());
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return Ok(found) };
        if matches!(first, ';' | '&' | '|' | '<' | '>' | '(' | ')' | '#') {
            return Err(format!("`{first}` is for a shell").into());
        }
        let Some(length) = quoting::word(rest) else {
            return Err("a quote or a bracket that is not closed".into());
        };
        let (raw, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
        let word = expand(raw, variables)?;
        if word.pattern {
            return Err("`*` or `?` may become names of files".into());
        }
        found.extend(word.fields());
        rest = behind;
    }
}

impl Expanded {
    /// Returns the word as one text, as an assignment uses it.
    pub(super) fn text(&self) -> String {
        self.parts.iter().map(|part| part.text.as_str()).collect()
    }

    /// Returns the word as words, as a command uses it.
    pub(super) fn fields(&self) -> Vec<String> {
        let (mut fields, mut current): (Vec<String>, Option<String>) = (Vec::new(), None);
        for part in &self.parts {
            if !part.splits {
                current.get_or_insert_default().push_str(&part.text);
                continue;
            }
            if part.text.starts_with(char::is_whitespace) {
                fields.extend(current.take());
            }
            for (index, word) in part.text.split_whitespace().enumerate() {
                if index > 0 {
                    fields.extend(current.take());
                }
                current.get_or_insert_default().push_str(word);
            }
            if part.text.ends_with(char::is_whitespace) {
                fields.extend(current.take());
            }
        }
        fields.extend(current);
        fields
    }
}

struct Expander<'v> {
    variables: &'v mut Variables,
    into: Expanded,
    length: usize,
}

impl Expander<'_> {
    fn run(&mut self, raw: &str, quoted: bool, depth: usize) -> Result<(), Why> {
        if depth > limit::SCRIPT_DEPTH {
            return Err("brackets within brackets, too many of them".into());
        }
        let (mut rest, mut double) = (raw, quoted);
        while let Some(c) = rest.chars().next() {
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            match c {
                '\\' => rest = self.escape(rest, double)?,
                '\'' if !double && !quoted => {
                    let (inside, behind) = rest.split_once('\'').unwrap_or((rest, ""));
                    self.push(inside, false)?;
                    rest = behind;
                }
                '"' => {
                    double = !double;
                    self.push("", false)?;
                }
                '`' => return Err("a command in backquotes is not run".into()),
                '$' => rest = self.dollar(rest, double || quoted, depth)?,
                c => {
                    self.into.pattern |= matches!(c, '*' | '?') && !double && !quoted;
                    let end =
                        rest.find(['\\', '\'', '"', '`', '$', '*', '?']).unwrap_or(rest.len());
                    let (plain, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
                    self.push(c.encode_utf8(&mut [0; 4]), false)?;
                    self.push(plain, false)?;
                    rest = behind;
                }
            }
        }
        Ok(())
    }

    /// Handles the character after a backslash.
    fn escape<'r>(&mut self, rest: &'r str, double: bool) -> Result<&'r str, Why> {
        let Some(next) = rest.chars().next() else {
            self.push("\\", false)?;
            return Ok(rest);
        };
        if double && !matches!(next, '$' | '`' | '"' | '\\' | '\n') {
            self.push("\\", false)?;
        }
        if next != '\n' {
            self.push(next.encode_utf8(&mut [0; 4]), false)?;
        }
        Ok(rest.get(next.len_utf8()..).unwrap_or_default())
    }

    /// Handles the text after a dollar.
    fn dollar<'r>(&mut self, rest: &'r str, quoted: bool, depth: usize) -> Result<&'r str, Why> {
        let name = name_of(rest);
        if !name.is_empty() {
            self.value(name, quoted)?;
            return Ok(rest.get(name.len()..).unwrap_or_default());
        }
        match rest.chars().next() {
            Some('(') => {
                Err("the output of a command, `$(…)`, is not known before it is run".into())
            }
            Some('{') => {
                let inside = rest.get(1..).unwrap_or_default();
                let Some(length) = quoting::braced(inside, quoted) else {
                    return Err("a bracket that is not closed".into());
                };
                self.parameter(inside.get(..length).unwrap_or_default(), quoted, depth)?;
                Ok(inside.get(length + 1..).unwrap_or_default())
            }
            Some(c)
                if c.is_ascii_digit() || matches!(c, '@' | '*' | '#' | '?' | '$' | '!' | '-') =>
            {
                Err(format!("${c} is known to the shell alone").into())
            }
            _ => {
                self.push("$", false)?;
                Ok(rest)
            }
        }
    }

    /// Expands the content of `${…}`.
    fn parameter(&mut self, inside: &str, quoted: bool, depth: usize) -> Result<(), Why> {
        let name = name_of(inside);
        let behind = inside.get(name.len()..).unwrap_or_default();
        if name.is_empty() {
            return Err(format!("`${{{inside:.20}}}` is not read").into());
        }
        if behind.is_empty() {
            return self.value(name, quoted);
        }
        let (colon, operation) = match behind.strip_prefix(':') {
            Some(operation) => (true, operation),
            None => (false, behind),
        };
        let Some(sign) = operation.chars().next() else {
            return Err("a colon with nothing behind it".into());
        };
        let word = operation.get(sign.len_utf8()..).unwrap_or_default();
        let value = match self.variables.get(name) {
            Value::Set(value) => Some(value),
            Value::Unset => None,
            Value::Unknown(why) => return Err(why),
        };
        let counts = value.as_ref().is_some_and(|value| !colon || !value.is_empty());
        match (sign, value) {
            ('-' | '=', Some(value)) if counts => self.push(&value, !quoted),
            ('-', _) => self.run(word, quoted, depth + 1),
            ('=', _) => self.assign(name, word, quoted, depth),
            ('+', _) if counts => self.run(word, quoted, depth + 1),
            ('+', _) => Ok(()),
            ('%' | '#', value) if !colon => {
                let value = value.unwrap_or_default();
                let trimmed = trim(&value, sign, word)?;
                self.push(trimmed, !quoted)
            }
            _ => Err(format!("`${{{name}{behind:.20}}}` is not read").into()),
        }
    }

    /// `${name:=word}`.
    fn assign(&mut self, name: &str, word: &str, quoted: bool, depth: usize) -> Result<(), Why> {
        let mut inner =
            Expander { variables: self.variables, into: Expanded::default(), length: self.length };
        inner.run(word, quoted, depth + 1)?;
        let Expanded { parts, unset, .. } = inner.into;
        let value: String = parts.into_iter().map(|part| part.text).collect();
        self.into.unset.extend(unset);
        self.variables.set(name, Value::Set(value.clone()));
        self.push(&value, !quoted)
    }

    fn value(&mut self, name: &str, quoted: bool) -> Result<(), Why> {
        match self.variables.get(name) {
            Value::Set(value) => self.push(&value, !quoted),
            Value::Unset => {
                self.into.unset.insert(name.to_string());
                self.push("", !quoted)
            }
            Value::Unknown(why) => Err(why),
        }
    }

    fn push(&mut self, text: &str, splits: bool) -> Result<(), Why> {
        self.length = self.length.saturating_add(text.len());
        if self.length > limit::SCRIPT_VALUE {
            return Err("its expanded text is too long".into());
        }
        self.variables.spend(text.len())?;
        if let Some(odd) =
            text.chars().find(|c| !matches!(c, '\n' | '\t') && encoding::is_unprintable(*c))
        {
            return Err(format!("it holds the character U+{:04X}", u32::from(odd)).into());
        }
        if text.contains(char::REPLACEMENT_CHARACTER) {
            return Err("it is not UTF-8".into());
        }
        self.into.pattern |= splits && text.contains(['*', '?']);
        match self.into.parts.last_mut() {
            Some(part) if part.splits == splits && !splits => part.text.push_str(text),
            _ => self.into.parts.push(Part { text: text.to_string(), splits }),
        }
        Ok(())
    }
}

/// Returns the name at the start of a text.
fn name_of(text: &str) -> &str {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return "";
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// Expands `${x%word}` and similar forms, if the word is plain text with one star at its open end.
fn trim<'v>(value: &'v str, sign: char, word: &str) -> Result<&'v str, Why> {
    let (longest, word) = match word.strip_prefix(sign) {
        Some(word) => (true, word),
        None => (false, word),
    };
    let (star, plain) = match sign {
        '%' => (word.ends_with('*'), word.strip_suffix('*').unwrap_or(word)),
        _ => (word.starts_with('*'), word.strip_prefix('*').unwrap_or(word)),
    };
    if plain.contains(['*', '?', '[', '\\', '$', '`', '"', '\'']) || plain.is_empty() {
        return Err(format!("the pattern `{word:.20}` is not read").into());
    }
    let cut = match (sign, star, longest) {
        ('%', false, _) => value.strip_suffix(plain),
        ('%', true, false) => value.rsplit_once(plain).map(|(before, _)| before),
        ('%', true, true) => value.split_once(plain).map(|(before, _)| before),
        (_, false, _) => value.strip_prefix(plain),
        (_, true, false) => value.split_once(plain).map(|(_, behind)| behind),
        (_, true, true) => value.rsplit_once(plain).map(|(_, behind)| behind),
    };
    Ok(cut.unwrap_or(value))
}
