//! Truncated unit files, as an interrupted writer leaves them. The loader reports a cut within a
//! line. It cannot detect a cut between two lines. Then each value equals that of the whole file,
//! except that the last one may lack the lines below the cut.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

mod memory;

use groundstate_units::text::diagnostic::Severity;
use groundstate_units::text::yaml::{self, Document, Limits, Node, Value};
use groundstate_units::unit::generation::Generation;
use groundstate_units::unit::key_table::KEYS;
use memory::card::{IRC_BOT, MADDY, one};
use std::fs;
use std::path::Path;

/// Values over several lines, of each kind, and several units in one file.
const LONG: [&str; 5] = [
    "unit: web\nprovides: http\nexec-start: /bin/x --config /etc/web.conf\nuser: www\n",
    "unit: lists\nprovides:\n  - a\n  - b\nwaits-for: [c,\n  d,\n  e]\nexec-start: /bin/x\n",
    "unit: maps\nenv:\n  A: one\n  B: \"two\"\nlimits: {nofile: 5,\n  core: 0}\nexec-start:\n  - /bin/x a\n  - /bin/x b\n",
    "unit: texts\ndescription: |\n  one\n  two\nenv: {A: 'b\n  c'}\ncondition-path: >\n  /a\n  b\nexec-start: /bin/x one\n  two \"three\n  four\"\n",
    "# c\nunit: first\nexec-start: /bin/x 1 # c\n...\n---\nunit: second\ntype: oneshot\n\nexec-start: /bin/x 2\nexec-stop: /bin/x 3\n---\nunit: third\n",
];

fn yaml_files(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            yaml_files(&path, found);
        } else if path.extension().is_some_and(|end| end == "yaml") {
            found.extend(fs::read_to_string(path));
        }
    }
}

fn read(text: &str) -> yaml::Reading {
    yaml::read(&"x".into(), text.as_bytes(), &Limits::UNIT_FILE)
}

/// Texts without a mistake: those of this file, all examples, and the fuzzer's corpus.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> =
        LONG.iter().chain([&MADDY, &IRC_BOT]).map(|t| (*t).to_owned()).collect();
    texts.extend(KEYS.iter().map(|key| format!("unit: x\n{}\n", key.example)));
    let top = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    yaml_files(&top.join("contrib"), &mut texts);
    for entry in fs::read_dir(top.join("tests/fuzz/corpus/unit_file")).unwrap() {
        texts.extend(fs::read_to_string(entry.unwrap().path()));
    }
    texts.retain(|text| read(text).diagnostics.is_empty());
    texts
}

/// Returns true if `part` equals `whole`, or its first lines.
fn begins(part: &Node, whole: &Node) -> bool {
    match (&part.value, &whole.value) {
        (Value::Scalar(part), _) if part.is_null() => true,
        (Value::Scalar(part), Value::Scalar(whole)) => {
            whole.text.starts_with(part.text.trim_end()) && part.quoted == whole.quoted
        }
        (Value::List(part), Value::List(whole)) => {
            part.len() <= whole.len() && part.iter().zip(whole).all(|(a, b)| begins(a, b))
        }
        (Value::Map(part), Value::Map(whole)) => {
            let mut pairs = part.iter().zip(whole);
            part.len() <= whole.len()
                && pairs.all(|(a, b)| a.key == b.key && begins(&a.node, &b.node))
        }
        _ => false,
    }
}

/// Checks the reading of a file that is cut after line `lines`.
fn check(cut: &[Document], whole: &[Document], lines: usize) {
    assert!(cut.len() <= whole.len());
    for (at, (part, all)) in cut.iter().zip(whole).enumerate() {
        let (Some(part), Some(all)) = (part.root.map(), all.root.map()) else {
            assert!(begins(&part.root, &all.root));
            continue;
        };
        for (index, (a, b)) in part.iter().zip(all).enumerate() {
            // Only the last value may continue below the cut.
            let is_last = at + 1 == cut.len() && index + 1 == part.len();
            assert_eq!((&a.key, a.at), (&b.key, b.at));
            assert!(a.node == b.node || is_last && begins(&a.node, &b.node), "{}", a.key);
        }
        assert!(part.len() <= all.len());
        let below = |n: usize| all[n].at.line as usize > lines;
        assert!(at + 1 == cut.len() || part.len() == all.len());
        assert!(part.len() == all.len() || below(part.len()), "a key above the cut is not there");
    }
}

/// Returns the units that run a process and have no fault.
fn sound(generation: &Generation) -> Vec<(String, Vec<u8>)> {
    let sound = generation.units.iter().filter(|u| u.fault.is_none() && u.kind.has_process());
    sound.map(|unit| (unit.name.to_string(), unit.run.to_vec())).collect()
}

#[test]
fn file_cut_between_two_lines_keeps_the_values_above_the_cut() {
    let (mut cuts, mut silent) = (0, 0);
    for text in texts() {
        let whole = read(&text).documents;
        for (end, _) in text.match_indices('\n') {
            let cut = &text[..=end];
            let reading = read(cut);
            cuts += 1;
            if reading.diagnostics.is_empty() {
                silent += 1;
                check(&reading.documents, &whole, cut.lines().count());
            }
        }
    }
    assert!(silent > 300 && cuts > silent, "{silent} of {cuts} cuts were not told");
}

#[test]
fn file_cut_within_a_line_is_reported_and_runs_only_units_above_the_cut() {
    let mut cuts = 0;
    for (index, text) in texts().iter().enumerate() {
        let whole = sound(&one(text));
        // A long text is cut at some places only, to save time.
        let ends = text.char_indices().skip(1).step_by(1 + text.len() / 700);
        for (end, _) in ends.filter(|(end, _)| !text[..*end].ends_with('\n')) {
            let cut = &text[..end];
            let told = read(cut).diagnostics.iter().any(|d| d.severity == Severity::Error);
            assert!(told, "{cut:?} is taken");
            cuts += 1;
            // Loading takes long, so only some cuts of the short examples are loaded.
            if index < LONG.len() || cuts % 13 == 0 {
                let odd = sound(&one(cut)).into_iter().find(|unit| !whole.contains(unit));
                assert_eq!(odd, None, "runs something else: {cut:?}");
            }
        }
    }
    assert!(cuts > 5_000, "{cuts}");
}
