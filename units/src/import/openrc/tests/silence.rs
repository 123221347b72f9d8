//! The importer drops nothing silently: for any script, damaged or not, each assignment and each
//! word of `depend()` has an outcome, and the resulting unit is valid.

use super::{examples, import};
use crate::import::import_outcome::Imported;
use crate::limit;
use crate::text::diagnostic::Severity;
use crate::text::yaml;
use crate::unit::account::Accounts;
use crate::unit::manifest::Manifest;
use crate::unit::semantics;
use crate::unit::settings::Settings;
use crate::unit::yaml_writer;
use std::collections::BTreeSet;

/// Finds the lines that must have an outcome, by a simple scan. These are assignments outside of
/// functions, and verbs within `depend()` up to the first line that ends a function or belongs to
/// another one.
fn expected(text: &str) -> (BTreeSet<u32>, BTreeSet<(u32, String)>) {
    let (mut assignments, mut words) = (BTreeSet::new(), BTreeSet::new());
    let (mut function, mut goes_on, mut last) = (String::new(), None::<u32>, "");
    for (line, number) in text.lines().zip(1..) {
        let (bare, before) = (line.trim(), std::mem::replace(&mut last, line));
        if let Some((name, _)) = line.split_once("()") {
            function = name.to_string();
        } else if bare == "}" {
            function.clear();
        } else if function == "depend" {
            let bare = bare.split('#').next().unwrap_or_default();
            let mut parts = bare.split_whitespace();
            let is_verb = |word: &str| super::super::relation::VERBS.contains(&word);
            if goes_on.is_none() && !parts.next().is_some_and(is_verb) {
                continue;
            }
            let all = if goes_on.is_some() { bare } else { bare.split_once(' ').unwrap().1 };
            goes_on = all.ends_with('\\').then_some(number);
            let plain = all.trim_end_matches('\\').split_whitespace();
            words.extend(plain.map(|word| (number, word.to_string())));
        } else if function.is_empty() {
            let bare = bare.strip_prefix(": ${").or(bare.strip_prefix("export ")).unwrap_or(bare);
            let name = bare.split(['=', ':']).next().unwrap_or_default();
            let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let inside = before.ends_with("of");
            if !name.is_empty() && is_name && !inside {
                assignments.insert(number);
            }
        }
    }
    (assignments, words)
}

#[test]
fn each_assignment_and_each_word_of_depend_has_an_outcome() {
    let (mut assignment_count, mut word_count) = (0, 0);
    for (name, text) in examples::ALL {
        let imported = import(name, text);
        let (assignments, words) = expected(text);
        for line in &assignments {
            let told = imported.outcomes.iter().any(|directive| directive.at.line == *line);
            assert!(told, "{name}: line {line} is dropped in silence");
        }
        for (line, word) in &words {
            // The outcome of a word with a variable may show the expanded text.
            let told = imported.outcomes.iter().any(|directive| {
                directive.at.line == *line && (directive.value == *word || word.contains('$'))
            });
            assert!(told, "{name}: {word} in line {line} is dropped in silence");
        }
        assignment_count += assignments.len();
        word_count += words.len();
    }
    let enough = assignment_count >= 40 && word_count >= 20;
    assert!(enough, "{assignment_count} and {word_count}");
}

/// Writes the unit and reads it back. The reader reports no error unless the importer reported one.
/// Returns the text, or nothing if the importer reported an error.
#[track_caller]
fn check_reading_back(imported: &Imported) -> Option<String> {
    let errors = imported.manifest.diagnostics.iter();
    if errors.clone().any(|said| said.severity == Severity::Error) {
        return None;
    }
    let text = yaml_writer::write(&imported.manifest);
    let limits = yaml::Limits { bytes: usize::MAX, nodes: usize::MAX, ..yaml::Limits::UNIT_FILE };
    let documents = yaml::parse("native", text.as_bytes(), &limits).unwrap();
    let manifest = Manifest::read(&"native".into(), &documents[0]);
    let read = semantics::read(manifest, &Settings::default(), &Accounts::default());
    let odd = |code: &str| !["missing-user", "missing-group", "shared-directory"].contains(&code);
    let found = read.diagnostics.iter().filter(|said| odd(&said.code));
    let errors: Vec<_> = found.filter(|said| said.severity == Severity::Error).collect();
    assert_eq!(errors, Vec::<&crate::text::diagnostic::Diagnostic>::new(), "{text}");
    Some(text)
}

#[test]
fn each_converted_example_is_read_back_without_an_error() {
    for (name, text) in examples::ALL {
        assert!(check_reading_back(&import(name, text)).is_some(), "{name}");
    }
}

#[test]
fn example_with_any_cut_or_flipped_bit_is_converted_without_a_panic() {
    for (name, text) in examples::ALL {
        for end in 0..text.len() {
            check_reading_back(&import(name, &text[..end]));
        }
        for at in 0..text.len() {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] ^= 1 << (at % 8);
            let file = "/etc/init.d/x".into();
            let imported = super::convert(name, &file, &bytes, Some((&file, &bytes)));
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
            assert!(imported.outcomes.iter().all(|directive| directive.at.line as usize <= lines));
            check_reading_back(&imported);
        }
    }
}

#[test]
fn repeatedly_doubled_value_is_refused_as_too_long() {
    let bomb: String = (0..64).map(|_| "a=$a$a\n").collect();
    let text = format!("#!/sbin/openrc-run\na=xx\n{bomb}command=/bin/a\ncommand_args=\"$a\"\n");
    super::scripted(&import("a", &text), "too long");
    let value = "x".repeat(limit::SCRIPT_VALUE);
    let many: String = (0..64).map(|_| "b=$a\n").collect();
    let text = format!("a={value}\n{many}command=/bin/a\ncommand_args=$b\n");
    super::scripted(&import("a", &text), "exceed the size limit");
    let deep = format!("command_args={}x{}\n", "${a:-".repeat(5000), "}".repeat(5000));
    super::scripted(&super::web(&deep), "brackets within brackets");
}

#[test]
fn heavily_repeated_construct_is_converted_and_read_back() {
    let many = limit::SCRIPT_COMMANDS + 8;
    for piece in [
        "a=1\n",
        "f() { :; }\n",
        "if x; then\n",
        "(",
        "{ ",
        "a='$(",
        "cat <<X\n",
        "case a in\n",
        "depend() { need b; }\n",
        ". x\n",
        "export a$b=c\n",
        "\\\n",
        "a;",
        "`",
        "\"${a:-\"",
        "$(",
        "need $a\n",
        ": ${a:=b}\n",
    ] {
        check_reading_back(&import("a", &piece.repeat(many)));
        check_reading_back(&import("a", &format!("depend() {{\n{}}}\n", piece.repeat(many))));
    }
    let words = format!("depend() {{\nneed {}\n}}\n", "ab ".repeat(60_000));
    check_reading_back(&import("a", &words));
    let locals: String = (0..8_000).map(|at| format!("local l{at}\nneed $m{at}\n")).collect();
    check_reading_back(&import("a", &format!("depend() {{\n{locals}}}\n")));
}

proptest::proptest! {
    #[test]
    fn any_lines_are_converted_without_a_panic(
        lines in proptest::collection::vec(
            "(#.*|a=.{0,9}|command(_args)?=[\"']?.{0,9}[\"']?|depend\\(\\) \\{|\\}|need .{0,9}|if x|then|fi|: \\$\\{a:=.{0,5}\\}|.{0,20})", 0..20)
    ) {
        check_reading_back(&import("a", &lines.join("\n")));
    }
}
