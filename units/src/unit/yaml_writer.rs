//! Writes a manifest as text, for `initctl convert`. Reading it back gives the same manifest,
//! except for places and the quotes around values.

use crate::text::encoding;
use crate::text::yaml::{Node, Scalar, Value};
use crate::unit::key_table::KEYS;
use crate::unit::manifest::{Entry, Manifest};
use std::fmt::Write;

/// Writes the keys of a manifest in the order of the documentation, each on its own lines.
pub fn write(manifest: &Manifest) -> String {
    let mut text = String::new();
    if let Some(name) = &manifest.name {
        line(&mut text, 0, "unit", &scalar(name.as_str()));
    }
    for key in KEYS {
        if let Some(entry) = manifest.entry(key.name) {
            // Foreign files often name units that are not installed.
            let is_weak = matches!(key.name, "wants" | "on-failure" | "on-success");
            write_entry(&mut text, entry, if manifest.imported && is_weak { "?" } else { "" });
        }
    }
    text
}

fn write_entry(text: &mut String, entry: &Entry, mark: &str) {
    let key = entry.key.name;
    match &entry.node.value {
        Value::Scalar(value) => line(text, 0, key, &bare_or(value)),
        Value::List(list) => {
            let marked = |word: &Scalar| Scalar {
                text: format!("{}{mark}", word.text),
                quoted: word.quoted,
            };
            let words = list.iter().filter_map(Node::scalar).map(marked);
            let words: Vec<String> = words.map(|word| bare_or(&word)).collect();
            let flow = |word: &String| !word.contains([',', '[', ']', '{', '}', ' ', '"', '\'']);
            let short = words.iter().map(String::len).sum::<usize>() < 80;
            if short && words.iter().all(flow) {
                line(text, 0, key, &format!("[{}]", words.join(", ")));
            } else {
                line(text, 0, key, "");
                words.iter().for_each(|word| put(text, format_args!("- {word}\n")));
            }
        }
        Value::Map(pairs) => {
            line(text, 0, key, "");
            for pair in pairs {
                if let Some(value) = pair.node.scalar() {
                    line(text, 2, &scalar(&pair.key), &bare_or(value));
                }
            }
        }
    }
}

fn line(text: &mut String, indent: usize, key: &str, value: &str) {
    let space = if value.is_empty() { "" } else { " " };
    put(text, format_args!("{:indent$}{key}:{space}{value}\n", ""));
}

fn put(text: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = text.write_fmt(words);
}

fn bare_or(value: &Scalar) -> String {
    if value.is_null() { "null".to_string() } else { scalar(&value.text) }
}

/// Writes a text as a YAML scalar, without quotes if it is unambiguous.
pub fn scalar(text: &str) -> String {
    // The reader refuses other characters unless they are escaped.
    let plain = |c: char| !encoding::is_unprintable(c);
    let first = text.chars().next();
    let safe_start = first.is_some_and(|c| {
        c.is_ascii_alphanumeric() || matches!(c, '/' | '$' | '_' | '+' | '.' | '(' | '=')
    });
    let null = Scalar { text: text.to_string(), quoted: false }.is_null();
    let safe = safe_start
        && !null
        && text.chars().all(plain)
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with([':', ' '])
        && !text.contains([',', '[', ']', '{', '}', '\t'])
        && text != "...";
    if safe {
        return text.to_string();
    }
    if text.chars().all(plain) && !text.contains('\t') {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            c if plain(c) => quoted.push(c),
            c if u32::from(c) > 0xffff => {
                put(&mut quoted, format_args!("\\U{:08x}", u32::from(c)));
            }
            c => put(&mut quoted, format_args!("\\u{:04x}", u32::from(c))),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::yaml;

    #[track_caller]
    fn back(text: &str) -> Node {
        let limits = &yaml::Limits::UNIT_FILE;
        let found =
            yaml::parse("x", text.as_bytes(), limits).unwrap_or_else(|d| panic!("{text}{d:?}"));
        found.into_iter().next().unwrap().root
    }

    #[test]
    fn written_scalar_is_read_back_unchanged() {
        for text in [
            "",
            "~",
            "null",
            "a: b",
            "a #b",
            "- a",
            "'x'",
            "\"",
            "[a]",
            "a, b",
            "/bin/x -c 'y'",
            "yes",
            "%i",
            "!x",
            "*.gz",
            "&a",
            "tab\there",
            "two\nlines",
            "ends ",
            " starts",
            "...",
            "---",
            "?",
            ":",
            "a:",
            "\\x41",
            "ä",
            "|!/a",
            "@x",
            "`b`",
            "#c",
            "{}",
            "007",
            "\u{202e}turned",
            "a\u{85}b\u{2028}\u{1}c\u{7f}",
        ] {
            let node = back(&format!("k: {}\n", scalar(text)));
            let value = node.get("k").unwrap().scalar().unwrap().clone();
            assert!(!value.is_null() && value.text == text, "{text:?} → {value:?}");
        }
    }

    #[test]
    fn written_manifest_is_read_back_unchanged() {
        let text = "unit: a\nprovides: [a, b.service]\nexec-start:\n- \"/bin/sh -c 'x: y'\"\n- /bin/true\nenv:\n  A: '%'\n  B: ''\n";
        let document =
            yaml::parse("x", text.as_bytes(), &yaml::Limits::UNIT_FILE).unwrap().remove(0);
        let manifest = Manifest::read(&"x".into(), &document);
        assert_eq!(back(&write(&manifest)).map().unwrap().len(), 4);
        let again = Manifest::read(
            &"x".into(),
            &yaml::parse("x", write(&manifest).as_bytes(), &yaml::Limits::UNIT_FILE)
                .unwrap()
                .remove(0),
        );
        assert_eq!(write(&again), write(&manifest));
        let line = again.entry("exec-start").unwrap().node.list().unwrap()[0].scalar().unwrap();
        assert_eq!(line.text, "/bin/sh -c 'x: y'");
    }

    proptest::proptest! {
        #[test]
        fn any_text_written_as_a_scalar_is_read_back_unchanged(text in "([a-c:#,\\[\\]{}'\"\\\\&*!|>%@` ~?-]|\\t|\\n|ä){0,24}") {
            let node = back(&format!("k:\n- {}\n", scalar(&text)));
            let list = node.get("k").unwrap().list().unwrap();
            proptest::prop_assert_eq!(&list[0].scalar().unwrap().text, &text);
        }
    }
}
