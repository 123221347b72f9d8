//! The order of a script among other units: its dependencies for start and stop, and the targets
//! that want it. A required unit is pulled in. If no unit provides it, the script starts without
//! it.

use super::conversion::Conversion;
use super::header::Line;
use super::table::{self, Word};
use crate::import::systemd::UnitName;
use crate::text::name::Name;

pub(super) fn convert(this: &mut Conversion<'_>) {
    let is_early = wanted(this);
    if !is_early {
        // Every imported service has these dependencies; see `systemd/implied.rs`.
        imply(this, "depends-ms", "sysinit.target?");
        imply(this, "after", "basic.target");
    }
    for (word, key) in [
        (Word::Required, "waits-for"),
        (Word::Should, "after"),
        (Word::Before, "before"),
        // `after` also orders stops: the unit stops before the named one.
        (Word::StoppedAfter, "after"),
    ] {
        for (index, line) in this.all(word) {
            for name in line.value.split_whitespace() {
                one(this, index, line, name, key);
            }
            this.need_not(index, "it has no names");
        }
    }
}

fn imply(this: &mut Conversion<'_>, key: &'static str, target: &str) {
    let at = this.at();
    this.add(key, target, None, at);
    this.said.insert(target.trim_end_matches('?').to_string(), key);
}

/// Handles one name of a line.
fn one(this: &mut Conversion<'_>, index: usize, line: &Line, name: &str, key: &'static str) {
    let (target, key) = match name.strip_prefix('$') {
        Some(table::ALL) if key == "before" => {
            return this.lose(index, "`$all`: no unit waits until this unit is active");
        }
        Some(table::ALL) if line.word == Some(Word::StoppedAfter) => {
            return this.need_not(index, "units that need it stop before it");
        }
        Some(table::ALL) => {
            let how = "`$all`: it waits until no other unit is starting, for five seconds at most";
            this.put("start-idle", "yes", line.at);
            this.note_kept(index, "start-idle");
            return this.lose(index, how);
        }
        Some(facility) => {
            let Some(known) = table::FACILITIES.iter().find(|known| known.name == facility) else {
                return this.lose(index, &format!("`{name}`: unknown facility"));
            };
            // A facility belongs to the system: `Should-Start` pulls it in like `Required-Start`.
            let is_start = matches!(line.word, Some(Word::Required | Word::Should));
            let key = match key {
                "before" => "before",
                _ if known.is_wanted && is_start => "waits-for",
                _ => "after",
            };
            (known.target, key)
        }
        None => (name.strip_suffix(".sh").unwrap_or(name), key),
    };
    if Name::new(target).is_err() || UnitName::of(target).is_template() {
        return this.lose(index, &format!("`{name}`: no unit's name"));
    }
    if this.own.contains(target) {
        return this.lose(index, &format!("`{name}`: the unit provides it itself"));
    }
    match this.said.get(target).copied() {
        Some(known) if (known == "before") != (key == "before") => {
            let how = if known == "before" { "after" } else { "before" };
            this.lose(index, &format!("`{name}` comes {how} it already"));
        }
        // The order of the start implies the order of the stop.
        Some(_) if line.word == Some(Word::StoppedAfter) => {
            this.need_not(index, "a unit that starts after another stops before it");
        }
        Some(known) => this.note_kept(index, known),
        None => {
            let optional = if key == "waits-for" { "?" } else { "" };
            this.add(key, &format!("{target}{optional}"), Some(index), line.at);
            this.said.insert(target.to_string(), key);
        }
    }
}

/// Adds the targets that want the unit. Returns true if it starts before all others.
fn wanted(this: &mut Conversion<'_>) -> bool {
    let mut is_early = false;
    let start = this.all(Word::Start);
    for (index, line) in &start {
        for level in line.value.chars().filter(|c| !c.is_whitespace()) {
            is_early |= goal(this, *index, line, level) == Some(table::EARLY);
        }
        this.need_not(*index, "no goal wants it by default");
    }
    for (index, _) in this.all(Word::Stop) {
        this.need_not(index, "a change of goal stops units that are not needed");
    }
    for (index, line) in this.all(Word::Chkconfig) {
        if !start.is_empty() {
            this.need_not(index, "the LSB header has it");
            continue;
        }
        let words: Vec<&str> = line.value.split_whitespace().collect();
        let [levels, first, last] = words.as_slice() else {
            this.lose(index, "it is not `LEVELS START STOP`");
            continue;
        };
        for level in levels.chars().filter(|level| *level != '-') {
            goal(this, index, line, level);
        }
        let how = format!("its priorities {first} and {last}: `after` takes names, not numbers");
        this.lose(index, &how);
    }
    is_early
}

fn goal(this: &mut Conversion<'_>, index: usize, line: &Line, level: char) -> Option<&'static str> {
    match table::goal(level) {
        Some(Some(goal)) => {
            this.add("wanted-by", goal, Some(index), line.at);
            return Some(goal);
        }
        Some(None) => {
            this.lose(index, &format!("`{level}`: a shutdown starts no units"));
        }
        None => this.lose(index, &format!("`{level}`: unknown level")),
    }
    None
}
