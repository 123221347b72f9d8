//! The places of mistakes between files: the name, on its line, in its own file. The loader reports
//! nothing about paths that it must not access.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

mod memory;

use memory::{Memory, told};

fn loaded(files: &[(&str, &str)]) -> Vec<String> {
    let mut memory = Memory::new(&[]);
    for (file, text) in files {
        memory.put(&format!("/etc/groundstate/units/{file}"), text);
    }
    told(&memory.load(None).generation)
}

#[test]
fn ring_is_reported_at_the_name_in_each_line() {
    let found = loaded(&[
        ("a.yaml", "unit: a\nwaits-for: c, b\nexec-start: /bin/x\n"),
        ("b.yaml", "unit: b\nexec-start: /bin/x\ndepends-on:\n  - a\n"),
        ("c.yaml", "unit: c\nexec-start: /bin/x\n"),
    ]);
    assert_eq!(found, ["a.yaml:2:15 error ring", "b.yaml:4:5 error ring"]);
}

#[test]
fn missing_name_in_a_drop_in_is_reported_at_the_drop_in() {
    let found = loaded(&[
        ("a.yaml", "unit: a\nexec-start: /bin/x\n"),
        ("a.d/10-more.yaml", "description: x\nwaits-for: nosuch\n"),
    ]);
    assert_eq!(found, ["10-more.yaml:2:12 error missing-target"]);
}

/// A path on an unreachable server counts neither as existing nor as missing.
#[test]
fn unreachable_path_is_not_reported_as_missing() {
    let text = "unit: a\nexec-start: /far/x\nworking-dir: /far\nenv-file: [/far/y, /y]\n";
    let mut memory = Memory::new(&[("/u/x.yaml", text)]);
    memory.far = Some("/far".to_string());
    assert_eq!(told(&memory.check("/u")), ["x.yaml:4:11 warning missing-file"]);
}
