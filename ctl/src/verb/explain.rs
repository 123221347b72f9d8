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
        None => session.show(&all(), || list(&session.style))?,
        Some(name) => match several(name) {
            Some((title, keys)) => {
                session.show(&these(&keys), || short(&title, &keys, &session.style))?
            }
            None => one(session, name)?,
        },
    }
    Ok(Exit::Done)
}

/// Returns the keys of a type, or those with a prefix that is not a key itself, and a title.
pub(super) fn several(name: &str) -> Option<(String, Vec<&'static Key>)> {
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
        let line = format!("  {} {}", style::pad(key.name, NAME), first_sentence(key.doc));
        let _ = writeln!(text, "{}", style.cut(&line, 0));
    }
    let _ = writeln!(text, "\n{}", style.paint(Tone::Quiet, "initctl explain KEY says more"));
    text
}

fn these(keys: &[&Key]) -> Value {
    json!({
        "schema": 1,
        "keys": keys.iter().map(|key| as_json(key)).collect::<Vec<_>>(),
        "settings": [],
    })
}

fn one(session: &Session, name: &str) -> Result<(), Error> {
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
        field("needed", &format!("by {}", key.required.words()));
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

/// Wraps a paragraph.
fn indented(text: &str, style: &Style) -> String {
    let width = style.width.unwrap_or(80).clamp(40, 100) - 2;
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let length = lines.last().map_or(0, |line| line.chars().count());
        if length > 0 && length + 1 + word.chars().count() > width {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

pub(super) fn list(style: &Style) -> String {
    let mut text = format!("{}\n", style.bold("keys of a unit file"));
    for key in KEYS {
        let line = format!("  {} {}", style::pad(key.name, NAME), first_sentence(key.doc));
        let _ = writeln!(text, "{}", style.cut(&line, 0));
    }
    let _ = writeln!(text, "\n{}", style.bold("keys of init.yaml"));
    for setting in SETTINGS {
        let line = format!("  {} {}", style::pad(setting.name, NAME), first_sentence(setting.doc));
        let _ = writeln!(text, "{}", style.cut(&line, 0));
    }
    let _ = writeln!(text, "\n{}", style.paint(Tone::Quiet, "initctl explain KEY says more"));
    text
}

fn first_sentence(text: &str) -> &str {
    // A dot within a quotation does not end the sentence.
    let ends =
        |(at, _): &(usize, &str)| text.get(..*at).unwrap_or_default().matches('`').count() % 2 == 0;
    let end = text.match_indices(". ").find(ends);
    end.and_then(|(at, _)| text.get(..at)).unwrap_or(text).trim_end_matches('.')
}

fn all() -> Value {
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
    fn a_type_and_a_beginning_have_their_keys() {
        let names = |name: &str| -> Vec<&str> {
            several(name).into_iter().flat_map(|(_, keys)| keys).map(|key| key.name).collect()
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
    fn a_summary_ends_where_its_sentence_ends() {
        assert_eq!(first_sentence("One. Two."), "One");
        assert_eq!(first_sentence("All of `. -`, and more. Two."), "All of `. -`, and more");
    }
}
