//! The words of `depend()`, and those that settings add (`rc_need` and similar): openrc-run(8),
//! "DEPENDENCIES" and "FILES". Every word has an outcome.

use super::expansion::expand;
use super::reading::{Reading, SCRIPT, assignment, is_harmless};
use super::script::{Command, Script, Word};
use super::unit::Unit;
use super::variables::{Variables, Why};
use crate::import::import_outcome::Outcome;
use crate::limit;
use crate::text::diagnostic::Place;
use crate::text::name::Name;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The verbs.
pub(super) const VERBS: [&str; 8] =
    ["need", "use", "want", "before", "after", "provide", "keyword", "config"];

/// A word after a verb.
#[derive(Debug)]
pub(super) struct Relation {
    section: &'static str,
    /// The verb as written, or the variable in its place.
    name: String,
    verb: &'static str,
    /// The word, or the text in its place.
    word: Result<String, (String, Why)>,
    at: Place,
}

/// All relations of a script and its settings.
#[derive(Debug, Default)]
pub(super) struct Relations {
    list: Vec<Relation>,
    /// Other lines of `depend()`: name, rest, place, and whether it matters.
    others: Vec<(String, String, Place, Option<Why>)>,
}

/// The section of `depend()` in an outcome.
const DEPEND: &str = "depend";

/// Reads the relations.
pub(super) fn read(
    reading: &mut Reading,
    script: &Script<'_>,
    file: &Arc<str>,
    name: &str,
) -> Relations {
    let mut relations = Relations::default();
    let last = script.functions.iter().rposition(|function| function.name == "depend");
    let is_depend = |command: &&Command<'_>| {
        let function = command.within.and_then(|number| script.functions.get(number));
        function.is_some_and(|function| function.name == "depend")
    };
    let commands: Vec<&Command<'_>> = script.commands.iter().filter(is_depend).collect();
    let local: BTreeSet<&str> = commands.iter().flat_map(|command| locals(command)).collect();
    let certain = last.and_then(|at| script.functions.get(at)).is_some_and(|one| one.certain);
    let mut ended = false;
    for command in commands {
        let holds = certain && command.certain && command.within == last && !ended;
        ended |= command.words.first().is_some_and(|word| matches!(word.raw, "return" | "exit"));
        relations.command(command, holds, &local, reading, file);
    }
    for verb in VERBS {
        relations.added(verb, reading, name, &local);
    }
    relations
}

/// Returns the variables that a command assigns.
fn locals<'a>(command: &'a Command<'_>) -> Vec<&'a str> {
    let first = command.words.first().map_or("", |word| word.raw);
    let declares = matches!(first, "local" | "export" | "for" | "read" | "readonly" | "unset");
    let names = command.words.iter().filter_map(|word| match assignment(word.raw) {
        Some((name, _)) => Some(name),
        None => declares.then_some(word.raw),
    });
    names.collect()
}

impl Relations {
    fn command(
        &mut self,
        command: &Command<'_>,
        certain: bool,
        local: &BTreeSet<&str>,
        reading: &mut Reading,
        file: &Arc<str>,
    ) {
        let Some((first, words)) = command.words.split_first() else { return };
        let Some(verb) = VERBS.into_iter().find(|verb| *verb == first.raw) else {
            return self.other(*first, words, file);
        };
        let before = self.list.len();
        for word in words {
            let own = names_in(word.raw).find(|name| local.contains(name));
            let found = match (certain, own) {
                (false, _) => Err("it holds only under a condition, which is not read".into()),
                (true, Some(name)) => Err(format!("${name} is set in depend()").into()),
                (true, None) => fields(*word, &mut reading.variables),
            };
            let at = word.at.of(file);
            match found {
                Ok(fields) => {
                    for field in fields {
                        self.push(DEPEND, first.raw, verb, Ok(field), at.clone());
                    }
                }
                Err(why) => {
                    self.push(DEPEND, first.raw, verb, Err((word.raw.to_string(), why)), at)
                }
            }
        }
        if self.list.len() == before {
            let raw: Vec<&str> = words.iter().map(|word| word.raw).collect();
            self.others.push((first.raw.to_string(), raw.join(" "), first.at.of(file), None));
        }
    }

    /// Handles a line of `depend()` that has no verb.
    fn other(&mut self, first: Word<'_>, words: &[Word<'_>], file: &Arc<str>) {
        let quiet = is_harmless(first.raw) || matches!(first.raw, "return" | "exit");
        let sets = matches!(first.raw, "local" | "for" | "export" | "readonly" | "unset")
            || assignment(first.raw).is_some();
        // openrc-run reads variables such as `rc_need` again after depend().
        let added = words.iter().chain([&first]).any(|word| word.raw.starts_with("rc_"));
        let why = (!quiet && (!sets || added)).then(|| Why::from("it is not read"));
        if let (Some((name, value)), []) = (assignment(first.raw), words) {
            let other = (name.to_string(), value.to_string(), first.at.of(file), why);
            return self.others.push(other);
        }
        let rest: Vec<&str> = words.iter().map(|word| word.raw).collect();
        self.others.push((first.raw.to_string(), rest.join(" "), first.at.of(file), why));
    }

    /// Reads `rc_need` and similar variables: the first with a value counts.
    fn added(
        &mut self,
        verb: &'static str,
        reading: &mut Reading,
        name: &str,
        local: &BTreeSet<&str>,
    ) {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let own: String = name.chars().map(plain).collect();
        for variable in [format!("rc_{own}_{verb}"), format!("rc_{verb}")] {
            let Some(at) = reading.place(&variable) else { continue };
            let section = section_of(reading, &variable);
            let found = match local.contains(variable.as_str()) {
                true => Err("depend() sets it again".into()),
                false => reading.text(&variable),
            };
            match found {
                Ok(None) => continue,
                Ok(Some(text)) => {
                    for word in text.split_whitespace() {
                        self.push(section, &variable, verb, Ok(word.to_string()), at.clone());
                    }
                }
                Err(why) => {
                    self.push(section, &variable, verb, Err((String::new(), why)), at);
                }
            }
            return;
        }
    }

    fn push(
        &mut self,
        section: &'static str,
        name: &str,
        verb: &'static str,
        word: Result<String, (String, Why)>,
        at: Place,
    ) {
        let word = match self.list.len().cmp(&limit::SCRIPT_RELATIONS) {
            Ordering::Less => word,
            Ordering::Equal => {
                Err((String::new(), "it and all later words exceed the limit".into()))
            }
            Ordering::Greater => return,
        };
        self.list.push(Relation { section, name: name.to_string(), verb, word, at });
    }

    /// Adds the relations to the unit, and records their outcomes.
    pub(super) fn apply(&self, unit: &mut Unit) {
        for (name, rest, at, why) in &self.others {
            let outcome = match why {
                None => Outcome::ByDesign("it adds no dependency of its own".to_string()),
                Some(why) => {
                    Outcome::Lost(format!("{why}: what it adds to the dependencies is missing"))
                }
            };
            unit.record_outcome(DEPEND, name, rest, at, outcome);
        }
        let mut removed: BTreeSet<(&str, &str)> = BTreeSet::new();
        for relation in &self.list {
            if let Some(word) = relation.word.as_ref().ok().and_then(|word| word.strip_prefix('!'))
            {
                removed.insert((relation.verb, word));
            }
        }
        let provided = self.provided(unit, &removed);
        for relation in &self.list {
            let outcome = relation.outcome(unit, &removed, &provided);
            let value = match &relation.word {
                Ok(word) => word,
                Err((raw, _)) => raw,
            };
            unit.record_outcome(relation.section, &relation.name, value, &relation.at, outcome);
        }
    }

    /// The unit's own names, on which it cannot depend.
    fn provided(&self, unit: &Unit, removed: &BTreeSet<(&str, &str)>) -> BTreeSet<String> {
        let words = self.list.iter().filter(|relation| relation.verb == "provide");
        let words = words.filter_map(|relation| relation.word.as_ref().ok());
        let kept = words.filter(|word| !removed.contains(&("provide", word.as_str())));
        kept.cloned().chain([unit.name.clone()]).collect()
    }
}

impl Relation {
    fn outcome(
        &self,
        unit: &mut Unit,
        removed: &BTreeSet<(&str, &str)>,
        provided: &BTreeSet<String>,
    ) -> Outcome {
        let word = match &self.word {
            Ok(word) => word.as_str(),
            Err((_, why)) => return Outcome::Lost(format!("{why}: it is missing")),
        };
        if word.starts_with('!') {
            return Outcome::ByDesign("it removes another word".to_string());
        }
        if removed.contains(&(self.verb, word)) {
            return Outcome::ByDesign("another word removes it".to_string());
        }
        match self.verb {
            "config" => {
                Outcome::ByDesign("dependencies are not recomputed when files change".to_string())
            }
            "keyword" => keyword(word, &self.at, unit),
            _ => self.target(word, unit, provided),
        }
    }

    fn target(&self, word: &str, unit: &mut Unit, provided: &BTreeSet<String>) -> Outcome {
        if word == "*" {
            let how = "it means all services, which are unknown here";
            return Outcome::Lost(how.to_string());
        }
        if let Err(error) = Name::new(word) {
            return Outcome::Lost(format!("{error}: it is missing"));
        }
        if self.verb != "provide" && provided.contains(word) {
            return Outcome::ByDesign("the unit provides that itself".to_string());
        }
        if unit.edges >= limit::DEPENDENCIES {
            return Outcome::Lost("the unit has too many dependencies already".to_string());
        }
        let (keys, mark): (&[&str], &str) = match self.verb {
            "need" => (&["depends-ms", "restart-with"], ""),
            "want" => (&["waits-for"], "?"),
            "use" | "after" => (&["after"], ""),
            "before" => (&["before"], ""),
            _ => (&["provides"], ""),
        };
        for key in keys {
            unit.add(key, &format!("{word}{mark}"), &self.at);
        }
        Outcome::Kept(keys.join(", "))
    }
}

/// Returns the words to which one word after a verb expands.
fn fields(word: Word<'_>, variables: &mut Variables) -> Result<Vec<String>, Why> {
    expand(word.raw, variables).map(|expanded| expanded.fields())
}

/// Returns the variables in a word, as `$name` or `${name`.
fn names_in(raw: &str) -> impl Iterator<Item = &str> {
    raw.split('$').skip(1).map(|behind| {
        let behind = behind.strip_prefix('{').unwrap_or(behind);
        let end = behind.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        behind.get(..end.unwrap_or(behind.len())).unwrap_or_default()
    })
}

fn section_of(reading: &Reading, variable: &str) -> &'static str {
    let found = reading.assignments.iter().rev().find(|one| one.name == variable);
    found.map_or(SCRIPT, |one| one.section)
}

/// Handles a word after `keyword`.
fn keyword(word: &str, at: &Place, unit: &mut Unit) -> Outcome {
    let plain = word.strip_prefix('-').or(word.strip_prefix("no")).unwrap_or(word);
    let place = match plain {
        "docker" | "lxc" | "openvz" | "podman" | "rkt" | "systemd-nspawn" => plain,
        "containers" => "container",
        "xenu" => "xen",
        "timeout" if unit.takes("start-timeout") => {
            unit.put("start-timeout", "none", at);
            return Outcome::Kept("start-timeout".to_string());
        }
        "timeout" => {
            return Outcome::ByDesign("a unit without a process has no timeouts".to_string());
        }
        "shutdown" | "stop" => {
            let how = "it is stopped when the system is shut down, as every unit is";
            return Outcome::Lost(how.to_string());
        }
        "jail" | "prefix" | "vserver" | "uml" | "xen0" | "wsl" | "hibernate" => {
            return Outcome::ByDesign("init does not detect such a system".to_string());
        }
        _ => return Outcome::Lost("no such keyword is known".to_string()),
    };
    if !unit.takes("condition-virtualization") {
        return Outcome::Lost("a unit without a process has no conditions".to_string());
    }
    unit.add("condition-virtualization", &format!("!{place}"), at);
    Outcome::Kept("condition-virtualization".to_string())
}
