//! Reads a script and its settings from top to bottom: assignments, exports, functions, and
//! unreadable parts. [`super::declare`] and [`super::wrapping`] make the unit; [`super::relation`]
//! handles `depend()`.

use super::expansion::{self, expand};
use super::quoting::is_name;
use super::script::{Command, Script, Word};
use super::variables::{Value, Variables, Why};
use crate::text::diagnostic::Place;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The section of a script's assignments in an outcome.
pub(super) const SCRIPT: &str = "script";
/// The section of the settings' assignments.
pub(super) const SETTINGS: &str = "conf.d";

/// An assignment or export of a variable.
#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) section: &'static str,
    pub(super) name: String,
    /// The value as written.
    pub(super) raw: String,
    pub(super) at: Place,
}

/// A top-level command that is no assignment.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) section: &'static str,
    /// The first word.
    pub(super) name: String,
    /// The other words.
    pub(super) raw: String,
    pub(super) at: Place,
    /// The reason why its effect is unknown; `None` if it only tests or prints something.
    pub(super) matters: Option<Why>,
}

/// The result of reading.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) assignments: Vec<Assignment>,
    pub(super) variables: Variables,
    /// Exported variables.
    pub(super) exported: BTreeMap<String, Place>,
    /// Variables used in a value that have no value themselves.
    pub(super) unset: BTreeMap<String, (&'static str, Place)>,
    pub(super) passed: Vec<Passed>,
    /// The place of each function's last definition.
    pub(super) functions: BTreeMap<String, Place>,
    /// Reasons why parts could not be read.
    pub(super) broken: Vec<(Place, &'static str)>,
}

impl Reading {
    pub(super) fn of(name: &str, file: &str) -> Reading {
        Reading {
            assignments: Vec::new(),
            variables: Variables::of(name, file),
            exported: BTreeMap::new(),
            unset: BTreeMap::new(),
            passed: Vec::new(),
            functions: BTreeMap::new(),
            broken: Vec::new(),
        }
    }

    /// Reads one file, with the values of previous files.
    pub(super) fn read(&mut self, section: &'static str, file: &Arc<str>, script: &Script<'_>) {
        for function in &script.functions {
            self.functions.insert(function.name.to_string(), function.at.of(file));
        }
        let mut pass = Pass { reading: self, section, file, ended: false };
        for command in script.commands.iter().filter(|command| command.within.is_none()) {
            pass.command(command);
        }
        if let Some((at, why)) = script.broken {
            self.variables.forget("the file could not be read to its end".into());
            self.broken.push((at.of(file), why));
        }
    }

    /// Returns the value as a text, or `None` if it has none or an empty one.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Why> {
        match self.variables.get(name) {
            Value::Set(value) => {
                self.variables.spend(value.len())?;
                Ok(Some(value).filter(|value| !value.trim().is_empty()))
            }
            Value::Unset => Ok(None),
            Value::Unknown(why) => Err(why),
        }
    }

    /// Returns the value as the words that result when the shell parses it again, as openrc-run
    /// makes it do.
    pub(super) fn words(&mut self, name: &str) -> Result<Vec<String>, Why> {
        match self.text(name)? {
            Some(text) => expansion::arguments(&text, &mut self.variables),
            None => Ok(Vec::new()),
        }
    }

    /// Like [`Reading::words`], for a value that must be one word.
    pub(super) fn word(&mut self, name: &str) -> Result<Option<String>, Why> {
        let mut words = self.words(name)?;
        match words.len() {
            0 => Ok(None),
            1 => Ok(words.pop()),
            _ => Err("it is more than one word".into()),
        }
    }

    /// Returns true for `yes`, `true`, `on` or `1`.
    pub(super) fn is_yes(&mut self, name: &str) -> Result<bool, Why> {
        let text = self.text(name)?.unwrap_or_default();
        Ok(["yes", "true", "on", "1"].iter().any(|word| text.trim().eq_ignore_ascii_case(word)))
    }

    /// Returns the script's additional commands, as far as known.
    pub(super) fn extra_commands(&self) -> BTreeSet<String> {
        let names = ["extra_commands", "extra_started_commands", "extra_stopped_commands", "opts"];
        let texts = names.iter().filter_map(|name| self.variables.last_assigned(name));
        texts
            .flat_map(|text| text.split_whitespace().map(str::to_string).collect::<Vec<_>>())
            .collect()
    }

    /// Returns the place of the last assignment.
    pub(super) fn place(&self, name: &str) -> Option<Place> {
        let found = self.assignments.iter().rev().find(|assignment| assignment.name == name);
        found.map(|assignment| assignment.at.clone())
    }
}

/// One file while it is read.
struct Pass<'r> {
    reading: &'r mut Reading,
    section: &'static str,
    file: &'r Arc<str>,
    /// An `exit` or similar command came before.
    ended: bool,
}

/// Splits a word `name=value`.
pub(super) fn assignment(raw: &str) -> Option<(&str, &str)> {
    raw.split_once('=').filter(|(name, _)| is_name(name))
}

/// Returns `name` and `value` of `${name:=value}`, quoted or not.
fn default(raw: &str) -> Option<(&str, &str)> {
    let bare = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')).unwrap_or(raw);
    let (name, value) = bare.strip_prefix("${")?.strip_suffix('}')?.split_once('=')?;
    let name = name.strip_suffix(':').unwrap_or(name);
    is_name(name).then_some((name, value))
}

/// Commands that only test or print something.
pub(super) fn is_harmless(name: &str) -> bool {
    const NAMES: [&str; 22] = [
        ":", "[", "case", "ebegin", "echo", "eend", "eerror", "eindent", "einfo", "einfon",
        "eoutdent", "esyslog", "ewarn", "ewarnn", "ewend", "false", "printf", "test", "true",
        "veinfo", "vewarn", "yesno",
    ];
    NAMES.contains(&name)
}

impl Pass<'_> {
    fn command(&mut self, command: &Command<'_>) {
        let certain = command.certain && !self.ended;
        let count = command.words.iter().take_while(|word| is_assigning(word.raw)).count();
        let (assigning, rest) = command.words.split_at_checked(count).unwrap_or_default();
        let Some((first, arguments)) = rest.split_first() else {
            assigning.iter().for_each(|word| self.assign(*word, certain));
            return;
        };
        // Such an assignment applies to that command only.
        for word in assigning {
            self.pass(*word, &[], Some("an assignment for one command only".into()));
        }
        match first.raw {
            "export" | "readonly" => {
                for word in arguments {
                    self.declare(*word, first.raw == "export", certain);
                }
            }
            ":" => {
                for word in arguments {
                    self.defaults(*word, certain);
                }
            }
            "unset" if certain && arguments.iter().all(|word| is_name(word.raw)) => {
                for word in arguments {
                    self.reading.variables.set(word.raw, Value::Unset);
                    self.note(word.raw, "", word);
                }
            }
            "for" => {
                if let Some(name) = arguments.first() {
                    let why = "it takes one value after another";
                    self.reading.variables.set(name.raw, Value::Unknown(why.into()));
                }
                self.pass(*first, arguments, None);
            }
            "exit" | "return" => {
                self.ended = true;
                self.pass(*first, arguments, None);
            }
            name if is_harmless(name) && !self.reading.functions.contains_key(name) => {
                self.pass(*first, arguments, None)
            }
            name => self.unread(name, *first, arguments),
        }
    }

    /// Passes over a command whose effect is unknown. If it may set variables, all values become
    /// unknown.
    fn unread(&mut self, name: &str, first: Word<'_>, arguments: &[Word<'_>]) {
        let own = self.reading.functions.contains_key(name);
        let sets = [".", "source", "eval", "read", "set", "unset", "local", "getopts", "alias"];
        if own
            || sets.contains(&name)
            || !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        {
            let line = first.at.line;
            self.reading
                .variables
                .forget(format!("`{name:.20}` in line {line} may set anything").into());
        }
        let why = format!("`{name:.40}` is run each time the script is read");
        self.pass(first, arguments, Some(why.into()));
    }

    fn pass(&mut self, first: Word<'_>, arguments: &[Word<'_>], matters: Option<Why>) {
        arguments.iter().chain([&first]).for_each(|word| self.doubt(word));
        let raw: Vec<&str> = arguments.iter().map(|word| word.raw).collect();
        self.reading.passed.push(Passed {
            section: self.section,
            name: first.raw.to_string(),
            raw: raw.join(" "),
            at: first.at.of(self.file),
            matters,
        });
    }

    fn note(&mut self, name: &str, raw: &str, word: &Word<'_>) {
        self.reading.assignments.push(Assignment {
            section: self.section,
            name: name.to_string(),
            raw: raw.to_string(),
            at: word.at.of(self.file),
        });
    }

    fn assign(&mut self, word: Word<'_>, certain: bool) {
        let Some((name, raw)) = assignment(word.raw) else {
            // The form `name+=value` of other shells.
            let name = word.raw.split('+').next().unwrap_or_default();
            let why = "`+=` is not known to sh";
            self.reading.variables.set(name, Value::Unknown(why.into()));
            return self.note(name, word.raw, &word);
        };
        self.note(name, raw, &word);
        let value = if certain { self.expanded(raw, &word) } else { Err(condition(&word)) };
        if value.is_err() {
            self.doubt(&word);
        }
        self.reading.variables.set(name, value.map_or_else(Value::Unknown, Value::Set));
    }

    fn expanded(&mut self, raw: &str, word: &Word<'_>) -> Result<String, Why> {
        let expanded = expand(raw, &mut self.reading.variables)?;
        self.unset(expanded.unset.iter(), word);
        Ok(expanded.text())
    }

    fn unset<'n>(&mut self, names: impl Iterator<Item = &'n String>, word: &Word<'_>) {
        for name in names {
            let at = (self.section, word.at.of(self.file));
            self.reading.unset.entry(name.clone()).or_insert(at);
        }
    }

    /// `export name`, `export name=value`.
    fn declare(&mut self, word: Word<'_>, exports: bool, certain: bool) {
        let name = assignment(word.raw).map_or(word.raw, |(name, _)| name);
        if !is_name(name) {
            return self.pass(word, &[], Some("it is not a name of a variable".into()));
        }
        match assignment(word.raw) {
            Some(_) => self.assign(word, certain),
            None => self.note(name, "", &word),
        }
        if exports {
            self.reading.exported.insert(name.to_string(), word.at.of(self.file));
            if !certain {
                self.reading.variables.set(name, Value::Unknown(condition(&word)));
            }
        }
    }

    /// `: ${name:=value}`.
    fn defaults(&mut self, word: Word<'_>, certain: bool) {
        let Some((name, raw)) = default(word.raw) else {
            return self.pass(Word { raw: ":", at: word.at }, &[word], None);
        };
        self.note(name, raw, &word);
        let filled = match certain {
            true => expand(word.raw, &mut self.reading.variables),
            false => Err(condition(&word)),
        };
        match filled {
            Ok(expanded) => self.unset(expanded.unset.iter(), &word),
            Err(why) => {
                self.doubt(&word);
                self.reading.variables.set(name, Value::Unknown(why));
            }
        }
    }

    /// A word that is not expanded here may still assign variables, by `${name:=value}`.
    fn doubt(&mut self, word: &Word<'_>) {
        for behind in word.raw.split("${").skip(1) {
            let Some((name, _)) = behind.split_once('=') else { continue };
            let name = name.strip_suffix(':').unwrap_or(name);
            if is_name(name) {
                let why = format!("it may get a value in line {}", word.at.line);
                self.reading.variables.set(name, Value::Unknown(why.into()));
            }
        }
    }
}

fn condition(word: &Word<'_>) -> Why {
    format!("it is assigned under a condition in line {}", word.at.line).into()
}

/// Returns true for a word that starts with a name and `=` or `+=`.
fn is_assigning(raw: &str) -> bool {
    raw.split_once('=').is_some_and(|(name, _)| is_name(name.strip_suffix('+').unwrap_or(name)))
}
