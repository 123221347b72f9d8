//! Checks of the fuzz target `import_sysv` for any bytes as a script of /etc/init.d:
//!
//! - They are imported, written in the native form, read back and interpreted, without a panic.
//! - Every reported position is within the file.
//! - Each line of the header has exactly one outcome, and a lost one is reported.
//! - A script imported without a mistake has none natively, and is read back unchanged.
//!
//! A first byte below 128: the rest is the script. Otherwise the rest chooses lines of a header.
//! The first byte chooses the name in either case.

use super::composed::Composed;
use super::import::run;
use groundstate_units::import::import_outcome::{Imported, Outcome};
use groundstate_units::import::sysv::convert;
use groundstate_units::limit;
use groundstate_units::spec::Kind;
use groundstate_units::text::diagnostic::Severity;
use groundstate_units::text::yaml;
use groundstate_units::unit::account::Accounts;
use groundstate_units::unit::manifest::Manifest;
use groundstate_units::unit::semantics;
use groundstate_units::unit::settings::Settings;
use groundstate_units::unit::yaml_writer;
use std::collections::BTreeSet;

const NAMES: [&str; 8] = ["a", "b.sh", "web", "web@1", "a", "b.sh", "web", "-x"];

/// The kind of unit, if it is one. Panics if a promise is broken.
pub fn import_sysv(bytes: &[u8]) -> Option<Kind> {
    let (first, rest) = bytes.split_first()?;
    let text = if *first < 128 { rest.to_vec() } else { composed(rest).into_bytes() };
    let name = NAMES[usize::from(*first) % NAMES.len()];
    let imported = convert(name, &name.into(), &text, &format!("/etc/init.d/{name}"));
    each_line_has_its_fate(&imported, &String::from_utf8_lossy(&text));
    let written = yaml_writer::write(&imported.manifest);
    let found = &imported.manifest.diagnostics;
    let is_wrong = found.iter().any(|said| said.severity == Severity::Error);
    let limits = yaml::Limits { bytes: usize::MAX, nodes: usize::MAX, ..yaml::Limits::UNIT_FILE };
    let Ok(documents) = yaml::parse("native", written.as_bytes(), &limits) else {
        panic!("cannot be read back:\n{written}")
    };
    let direct = semantics::read(imported.manifest, &Settings::default(), &Accounts::default());
    if is_wrong {
        return None;
    }
    let Some(document) = documents.first() else { panic!("nothing was written") };
    let again = Manifest::read(&"native".into(), document);
    let again = semantics::read(again, &Settings::default(), &Accounts::default());
    for meaning in [&direct, &again] {
        let mistake = meaning.diagnostics.iter().find(|said| said.severity == Severity::Error);
        assert!(mistake.is_none(), "{mistake:?}\n{written}");
    }
    let (Some(direct), Some(again)) = (direct.draft, again.draft) else {
        panic!("no unit:\n{written}")
    };
    assert_eq!(
        (direct.kind, &direct.provides, &direct.wanted_by, run(&direct.run)),
        (again.kind, &again.provides, &again.wanted_by, run(&again.run)),
        "means another thing when read back:\n{written}"
    );
    Some(direct.kind)
}

fn each_line_has_its_fate(imported: &Imported, text: &str) {
    let lines = text.split('\n').count();
    let told = &imported.manifest.diagnostics;
    told.iter().for_each(|said| assert!(said.at.line as usize <= lines, "{said}"));
    let told_at: BTreeSet<u32> = told.iter().map(|said| said.at.line).collect();
    let mut of_block = Vec::new();
    for directive in &imported.outcomes {
        let is_told =
            told_at.contains(&directive.at.line) || told.len() == limit::DIAGNOSTICS_PER_FILE;
        let is_left_out = matches!(directive.outcome, Outcome::Lost(_) | Outcome::Refused(_));
        assert!(is_told || !is_left_out, "left out without a word: {directive:?}");
        of_block.extend((&*directive.section == "INIT INFO").then_some(directive.at.line));
    }
    assert_eq!(
        of_block,
        lines_of_blocks(text),
        "a line of the header without its outcome:\n{text}"
    );
}

/// The lines of a header, by a simple scan of the text: non-empty comments between its two marks,
/// or until another kind of line.
fn lines_of_blocks(text: &str) -> Vec<u32> {
    let (mut inside, mut lines) = (false, Vec::new());
    for (line, number) in text.trim_start_matches('\u{feff}').split('\n').zip(1..) {
        let line = line.trim_end();
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words.as_slice(), line.strip_prefix('#')) {
            (["###", "BEGIN", "INIT", "INFO"], Some(_)) => inside = true,
            (["###", "END", "INIT", "INFO"], Some(_)) if inside => inside = false,
            (_, Some(comment)) if !comment.trim().is_empty() => {
                lines.extend(inside.then_some(number));
            }
            (_, Some(_)) => {}
            (_, None) => inside &= line.is_empty(),
        }
    }
    lines
}

const KEYWORDS: [&str; 15] = [
    "Provides",
    "Required-Start",
    "Required-Stop",
    "Should-Start",
    "Should-Stop",
    "X-Start-Before",
    "X-Stop-After",
    "Default-Start",
    "Default-Stop",
    "Short-Description",
    "Description",
    "X-Interactive",
    "chkconfig",
    "pidfile",
    "processname",
];
const WORDS: [&str; 20] = [
    "a",
    "web",
    "db",
    "db.sh",
    "$local_fs",
    "$remote_fs",
    "$network",
    "$named",
    "$portmap",
    "$syslog",
    "$time",
    "$all",
    "$moon",
    "2",
    "345",
    "S",
    "1",
    "0",
    "true",
    "/run/a.pid",
];

/// One in four has lines that may be wrong.
fn composed(bytes: &[u8]) -> String {
    let mut from = Composed::of(bytes);
    let is_odd = from.one_in(4);
    let mut text = String::from("#!/bin/sh\n");
    for mark in ["### BEGIN INIT INFO\n", "### END INIT INFO\n", ""] {
        for _ in 0..from.byte() % 16 {
            let line = match from.byte() {
                0 if is_odd => from.text(24),
                1 if is_odd => format!("#{}", from.text(24)),
                2 if is_odd => {
                    from.pick(&["### BEGIN INIT INFO", "exit 0", "\u{feff}"]).to_string()
                }
                3..16 => format!("#\t{}", from.pick(&WORDS)),
                _ => {
                    let words = (0..from.byte() % 6).map(|_| from.pick(&WORDS));
                    let words: Vec<&str> = words.collect();
                    format!("# {}: {}", from.pick(&KEYWORDS), words.join(" "))
                }
            };
            text.push_str(&format!("{line}\n"));
        }
        if !(is_odd && from.one_in(16)) {
            text.push_str(mark);
        }
    }
    let labels = ["start) a;;", "reload) a;;", "restart|reload)", "# reload)"];
    format!("{text}case \"$1\" in\n  {}\nesac\n", from.pick(&labels))
}
