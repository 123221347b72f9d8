//! Converts a script to a native manifest: a unit that runs it with `start` and `stop`, and the
//! outcome of each line of its header. Settings of systemd-sysv-generator(8) are written out if
//! they differ from the native defaults.

use super::header::Line;
use super::table::Word;
use crate::import::import_outcome::{ImportOutcome, Outcome};
use crate::limit;
use crate::text::diagnostic::Severity;
use crate::text::encoding;
use crate::text::yaml::{Node, Spot};
use crate::unit::key_table;
use crate::unit::manifest::Manifest;
use std::collections::{BTreeMap, BTreeSet};

/// Limit of reported losses of one line, and of the characters of each.
const LOSSES: usize = 8;
const LOSS: usize = 160;

/// The outcome of a line so far.
#[derive(Clone, Debug, Default)]
pub(super) struct LineOutcome {
    /// The native keys of the line.
    kept: Vec<&'static str>,
    /// The lost parts.
    lost: Vec<String>,
    /// The reason why the line is not needed, if it is not.
    needless: Option<&'static str>,
}

pub(super) struct Conversion<'a> {
    pub(super) manifest: Manifest,
    pub(super) lines: &'a [Line],
    pub(super) line_outcomes: Vec<LineOutcome>,
    /// All targets of the unit.
    pub(super) own: BTreeSet<String>,
    /// Targets to which the unit has an order already, with the key of each.
    pub(super) said: BTreeMap<String, &'static str>,
    /// Entries that lists contain already.
    pub(super) held: BTreeMap<&'static str, BTreeSet<String>>,
}

impl<'a> Conversion<'a> {
    /// The header lines of an item, with the numbers under which their outcomes are recorded,
    /// continuation lines included.
    pub(super) fn all(&self, word: Word) -> Vec<(usize, &'a Line)> {
        let lines = self.lines.iter().enumerate();
        lines.filter(|(_, line)| line.word == Some(word) && line.block <= 1).collect()
    }

    /// Returns the place of the start of the file.
    pub(super) fn at(&self) -> Spot {
        self.manifest.at
    }

    /// Returns the outcome of each line, and reports losses.
    pub(super) fn outcomes(&mut self) -> Vec<ImportOutcome> {
        let mut outcomes = Vec::new();
        for (line, so_far) in self.lines.iter().zip(std::mem::take(&mut self.line_outcomes)) {
            let outcome = outcome(line, &so_far);
            if let Outcome::Lost(how) = &outcome {
                let name = if line.name.is_empty() { &line.value } else { &line.name };
                let message = format!("{}: {how}", shown(name));
                self.manifest.tell_at(Severity::Warning, "dropped", line.at, &message, "");
            }
            outcomes.push(ImportOutcome {
                section: line.section.clone(),
                name: line.name.clone(),
                value: line.value.clone(),
                at: line.at.of(&self.manifest.file),
                outcome,
            });
        }
        outcomes
    }

    /// Reports a part of a line that is left out with an effect.
    pub(super) fn lose(&mut self, index: usize, how: &str) {
        let Some(so_far) = self.line_outcomes.get_mut(index) else { return };
        match so_far.lost.len() {
            ..LOSSES => so_far.lost.push(shown(how)),
            LOSSES => so_far.lost.push("and more".to_string()),
            _ => {}
        }
    }

    /// Records that the rest of a line is not needed.
    pub(super) fn need_not(&mut self, index: usize, why: &'static str) {
        if let Some(so_far) = self.line_outcomes.get_mut(index) {
            so_far.needless.get_or_insert(why);
        }
    }

    /// Records that a part of a line is in that key.
    pub(super) fn note_kept(&mut self, index: usize, key: &'static str) {
        if let Some(so_far) = self.line_outcomes.get_mut(index)
            && !so_far.kept.contains(&key)
        {
            so_far.kept.push(key);
        }
    }

    pub(super) fn keep(&mut self, index: usize, key: &'static str, text: &str, at: Spot) {
        self.put(key, text, at);
        self.note_kept(index, key);
    }

    /// Sets a value; the first one counts.
    pub(super) fn put(&mut self, key: &str, text: &str, at: Spot) {
        if self.manifest.entry(key).is_none() {
            self.enter(key, at, Node::quoted(at, text));
        }
    }

    pub(super) fn enter(&mut self, key: &str, at: Spot, node: Node) {
        // A test checks that each key exists.
        if let Some(key) = key_table::find(key) {
            self.manifest.enter(key, &at.of(&self.manifest.file), node);
        }
    }

    /// Adds an entry to a list; duplicates count once.
    pub(super) fn add(&mut self, key: &'static str, text: &str, index: Option<usize>, at: Spot) {
        let held = self.held.entry(key).or_default();
        if held.len() >= limit::DEPENDENCIES && !held.contains(text) {
            if let Some(index) = index {
                self.lose(index, &format!("`{text}`: more than {} of them", limit::DEPENDENCIES));
            }
            return;
        }
        if let Some(index) = index {
            self.note_kept(index, key);
        }
        let held = self.held.entry(key).or_default();
        if !held.insert(text.to_string()) {
            return;
        }
        if let Some(key) = key_table::find(key) {
            self.manifest.append(key, &at.of(&self.manifest.file), Node::quoted(at, text));
        }
    }
}

fn shown(words: &str) -> String {
    words.chars().filter(|c| !encoding::is_unprintable(*c)).take(LOSS).collect()
}

/// Losses have precedence.
fn outcome(line: &Line, so_far: &LineOutcome) -> Outcome {
    if line.block > 1 {
        return Outcome::Lost("the first header counts".to_string());
    }
    match (line.word, so_far.kept.is_empty(), so_far.lost.is_empty(), so_far.needless) {
        (None, ..) if line.name.is_empty() => Outcome::Lost("no `NAME: VALUE`".to_string()),
        (None, ..) => Outcome::Lost("unknown".to_string()),
        (_, _, false, _) => {
            let kept = if so_far.kept.is_empty() {
                String::new()
            } else {
                format!("; the rest is in {}", so_far.kept.join(", "))
            };
            Outcome::Lost(format!("{}{kept}", so_far.lost.join("; ")))
        }
        (_, false, true, _) => Outcome::Kept(so_far.kept.join(", ")),
        (_, true, true, Some(why)) => Outcome::ByDesign(why.to_string()),
        (_, true, true, None) => Outcome::Lost("not understood".to_string()),
    }
}
