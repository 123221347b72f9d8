//! `explain`: the meaning of a key of a unit file or init.yaml, from the parser's own table.

use crate::arguments;
use crate::exit::{Error, Exit};
use crate::session::{self, Session};
use crate::style::{self, Style, Tone};
use groundstate_units::spec::Kind;
use groundstate_units::unit::key::{self, Key};
use groundstate_units::unit::key_table::{self, KEYS};
use groundstate_units::unit::settings_file::{SETTINGS, SettingKey};
use serde_json::{Value, json};
use std::fmt::Write;

/// Width of the names in a list; few are longer.
const NAME: usize = 26;
/// Minimum length of a summary that is cut before the end of its sentence.
const MIN_SUMMARY: usize = 24;

/// Looks the key up and prints it.
pub(crate) fn run(session: &Session, asked: &arguments::Explain) -> Result<Exit, Error> {
    if asked.man {
        session::print(&groundstate_units::unit::man_page::man_page())?;
        return Ok(Exit::Done);
    }
    if asked.schema {
        session::print_json(&groundstate_units::unit::json_schema::json_schema())?;
        return Ok(Exit::Done);
    }
    match asked.key.as_deref() {
        None => session.show(&all_as_json(), || list(&session.style))?,
        Some(name) => match key_group(name) {
            Some((title, keys)) => {
                session.show(&keys_as_json(&keys), || short(&title, &keys, &session.style))?
            }
            None => print_key(session, name)?,
        },
    }
    Ok(Exit::Done)
}

/// Returns the keys of a type, or those with a prefix that is not a key itself, and a title.
pub(super) fn key_group(name: &str) -> Option<(String, Vec<&'static Key>)> {
    if key_table::find(name).is_some() || SETTINGS.iter().any(|setting| setting.name == name) {
        return None;
    }
    if let Some(kind) = Kind::ALL.iter().find(|kind| kind.as_str() == name) {
        // Keys of few types come first: common keys are less informative.
        let mut keys: Vec<&Key> = KEYS.iter().filter(|key| key.types.has(*kind)).collect();
        keys.sort_by_key(|key| Kind::ALL.iter().filter(|kind| key.types.has(**kind)).count() > 3);
        return Some((format!("keys of a {name} unit"), keys));
    }
    let begins = |key: &&Key| key.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
    let keys: Vec<&Key> = KEYS.iter().filter(begins).collect();
    (!keys.is_empty()).then(|| (format!("keys that begin with {name}"), keys))
}

pub(super) fn short(title: &str, keys: &[&Key], style: &Style) -> String {
    let mut text = format!("{}\n", style.bold(title));
    for key in keys {
        text.push_str(&row(key.name, key.doc, style));
    }
    let _ = writeln!(text, "\n{}", style.paint(Tone::Quiet, "initctl explain KEY says more"));
    text
}

fn keys_as_json(keys: &[&Key]) -> Value {
    json!({
        "schema": 1,
        "keys": keys.iter().map(|key| as_json(key)).collect::<Vec<_>>(),
        "settings": [],
    })
}

fn print_key(session: &Session, name: &str) -> Result<(), Error> {
    let name = name.trim_end_matches(':');
    let unit_key = key_table::find(name);
    let setting = SETTINGS.iter().find(|setting| setting.name == name);
    if unit_key.is_none() && setting.is_none() {
        let known = KEYS.iter().map(|key| key.name).chain(SETTINGS.iter().map(|key| key.name));
        let near = key_table::meant(name).or_else(|| key::nearest(name, known));
        let hint = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`initctl explain` lists all keys".to_string(),
        };
        return Err(Error::usage(format!("there is no key `{name}`"), hint));
    }
    let value = json!({
        "schema": 1,
        "key": unit_key.map(as_json),
        "setting": setting.map(setting_as_json),
    });
    session.show(&value, || {
        let mut text = unit_key.map(|key| full(key, &session.style)).unwrap_or_default();
        if let Some(setting) = setting {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&setting_in_full(setting, &session.style));
        }
        text
    })
}

pub(super) fn full(key: &Key, style: &Style) -> String {
    let shape = style.hang(&key.shape.words(), key.name.chars().count() + 2, 4);
    let mut text = format!("{}: {shape}\n", style.bold(key.name));
    let _ = writeln!(text, "{}", indented(key.doc, style));
    let mut field = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {} {value}", style.paint(Tone::Quiet, &style::pad(name, 8)));
        }
    };
    field("default", &style.hang(key.default, 11, 11));
    field("types", &style.hang(&key.types.words(), 11, 11));
    if key.required != key::Kinds::NONE {
        field("needed", &style.hang(&format!("by {}", key.required.words()), 11, 11));
    }
    field("reload", key.class.words());
    for (at, line) in key.example.lines().enumerate() {
        field(if at == 0 { "example" } else { "" }, line);
    }
    text
}

pub(super) fn setting_in_full(setting: &SettingKey, style: &Style) -> String {
    format!(
        "{}: {}   (in init.yaml)\n{}\n  {} {}\n",
        style.bold(setting.name),
        setting.words,
        indented(setting.doc, style),
        style.paint(Tone::Quiet, "default "),
        setting.default
    )
}

/// Wraps a text. Each value that it explains (`always: …`) starts a line of its own.
fn indented(text: &str, style: &Style) -> String {
    let width = style.width.unwrap_or(80).clamp(40, 100);
    let style = Style { width: Some(width), ..*style };
    let mut lines: Vec<(usize, String)> = Vec::new();
    for sentence in sentences(text) {
        let name = sentence.split(": ").next().filter(|name| *name != sentence);
        let explains = name.is_some_and(|name| {
            !name.contains(' ') && !name.starts_with(|c: char| c.is_ascii_uppercase())
        });
        let indent = if explains { 4 } else { 2 };
        match lines.last_mut() {
            Some((2, line)) if !explains => line.push_str(&format!(" {sentence}")),
            Some(_) | None => lines.push((indent, sentence.to_string())),
        }
    }
    let line = |(indent, text): &(usize, String)| {
        format!("{}{}", " ".repeat(*indent), style.hang(text, *indent, *indent))
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Splits a text into its sentences. A dot within a quotation does not end one.
fn sentences(text: &str) -> Vec<&str> {
    let quoted =
        |at: usize| text.get(..at).is_some_and(|before| before.matches('`').count() % 2 == 1);
    let ends = text.match_indices(". ").map(|(at, _)| at + 1).filter(|at| !quoted(*at));
    let mut found = Vec::new();
    let mut start = 0;
    for end in ends.chain([text.len()]) {
        found.extend(text.get(start..end).map(str::trim));
        start = end;
    }
    found
}

pub(super) fn list(style: &Style) -> String {
    let mut text = format!("{}\n", style.bold("keys of a unit file"));
    for key in KEYS {
        text.push_str(&row(key.name, key.doc, style));
    }
    let _ = writeln!(text, "\n{}", style.bold("keys of init.yaml"));
    for setting in SETTINGS {
        text.push_str(&row(setting.name, setting.doc, style));
    }
    let _ = writeln!(text, "\n{}", style.paint(Tone::Quiet, "initctl explain KEY says more"));
    text
}

/// Formats a key with the start of its text: the first sentence, or as many whole clauses or words
/// of it as fit.
fn row(name: &str, doc: &str, style: &Style) -> String {
    let name = style::pad(name, NAME);
    let whole = first_sentence(doc);
    let width = style.width.unwrap_or(usize::MAX);
    let room = width.saturating_sub(3 + name.chars().count()).max(MIN_SUMMARY);
    let fits = |at: &usize| {
        let head = whole.get(..*at).unwrap_or_default();
        head.chars().count() <= room && head.matches('(').count() == head.matches(')').count()
    };
    let last = |ends: &[&str]| {
        let places = ends.iter().flat_map(|end| whole.match_indices(end).map(|(at, _)| at));
        places.filter(fits).filter(|at| *at >= MIN_SUMMARY).max()
    };
    let said = match whole.chars().count() <= room {
        true => whole.to_string(),
        false => match (last(&["; ", ", ", ": ", " ("]), last(&[" "])) {
            (Some(at), _) => whole.get(..at).unwrap_or(whole).to_string(),
            (None, Some(at)) => format!("{} …", whole.get(..at).unwrap_or(whole)),
            (None, None) => style.cut(whole, width.saturating_sub(room)),
        },
    };
    format!("  {name} {said}\n")
}

fn first_sentence(text: &str) -> &str {
    sentences(text).first().copied().unwrap_or_default().trim_end_matches('.')
}

fn all_as_json() -> Value {
    json!({
        "schema": 1,
        "keys": KEYS.iter().map(as_json).collect::<Vec<_>>(),
        "settings": SETTINGS.iter().map(setting_as_json).collect::<Vec<_>>(),
    })
}

fn as_json(key: &Key) -> Value {
    json!({
        "key": key.name,
        "value": key.shape.words(),
        "default": key.default,
        "types": key.types.words(),
        "reload": key.class.words(),
        "doc": key.doc,
        "example": key.example,
    })
}

fn setting_as_json(setting: &SettingKey) -> Value {
    json!({
        "key": setting.name,
        "value": setting.words,
        "default": setting.default,
        "doc": setting.doc,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explain_lists_the_keys_of_a_type_or_of_a_prefix() {
        let names = |name: &str| -> Vec<&str> {
            key_group(name).into_iter().flat_map(|(_, keys)| keys).map(|key| key.name).collect()
        };
        let timer = names("timer");
        assert!(timer.starts_with(&["activates"]), "{timer:?}");
        assert!(timer.contains(&"timer-calendar") && timer.contains(&"unit"), "{timer:?}");
        assert!(!timer.contains(&"exec-start") && !timer.contains(&"path-exists"), "{timer:?}");
        assert!(names("cgroup").iter().all(|name| name.starts_with("cgroup-")));
        assert!(names("cgroup").contains(&"cgroup-memory-max"));
        for none in ["depends-on", "restart", "nosuch", ""] {
            assert!(names(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn summary_of_a_key_ends_with_its_sentence() {
        assert_eq!(first_sentence("One. Two."), "One");
        assert_eq!(first_sentence("All of `. -`, and more. Two."), "All of `. -`, and more");
    }
}
