//! Damaged scripts: each header line has an outcome, whatever the file contains.

use super::super::convert;
use super::sample::SAMPLES;
use crate::text::yaml;
use crate::unit::account::Accounts;
use crate::unit::semantics;
use crate::unit::settings::Settings;
use crate::unit::yaml_writer;

/// Finds header lines in the simplest way: comments with text between the two marks.
fn lines_of_blocks(text: &str) -> Vec<u32> {
    let (mut inside, mut lines) = (false, Vec::new());
    for (line, number) in text.split('\n').zip(1..) {
        let comment = line.strip_prefix('#').map(str::trim);
        match (line.trim_end(), comment) {
            ("### BEGIN INIT INFO", _) => inside = true,
            ("### END INIT INFO", _) => inside = false,
            (_, Some(comment)) if inside && !comment.is_empty() => lines.push(number),
            (_, Some(_)) => {}
            (line, None) => inside &= line.is_empty(),
        }
    }
    lines
}

#[track_caller]
fn each_line_has_one_outcome(name: &str, text: &[u8]) {
    let imported = convert(name, &name.into(), text, "/etc/init.d/x");
    let text = String::from_utf8_lossy(text);
    let outcomes = imported.outcomes.iter().filter(|directive| &*directive.section == "INIT INFO");
    let outcomes: Vec<u32> = outcomes.map(|directive| directive.at.line).collect();
    assert_eq!(outcomes, lines_of_blocks(&text), "{text}");
    let written = yaml_writer::write(&imported.manifest);
    let limits = yaml::Limits::UNIT_FILE;
    assert!(yaml::parse("x", written.as_bytes(), &limits).is_ok(), "{written}");
    let all = u32::try_from(text.split('\n').count()).unwrap();
    for said in &imported.manifest.diagnostics {
        assert!((1..=all).contains(&said.at.line), "{said}");
    }
    semantics::read(imported.manifest, &Settings::default(), &Accounts::default());
}

#[test]
fn damaged_sample_is_converted_without_a_panic_and_each_line_has_an_outcome() {
    for (name, text) in SAMPLES {
        for at in 0..text.len() {
            each_line_has_one_outcome(name, &text.as_bytes()[..at]);
            let mut changed = text.as_bytes().to_vec();
            changed[at] ^= 1 << (at % 8);
            each_line_has_one_outcome(name, &changed);
        }
    }
}

proptest::proptest! {
    #[test]
    fn each_line_of_any_header_has_an_outcome(
        text in "(### (BEGIN|END) INIT INFO\n|# (Provides|Required-Start|Should-Stop|X-Start-Before|Default-Start|Description|X-Own|pidfile|chkconfig): |[ab$@:/#\t-]|\\$all|\\$network|/run/x|[0-6S]|\n|\n# |\n#  |reload\\)){0,60}",
    ) {
        each_line_has_one_outcome("a", text.as_bytes());
    }
}
