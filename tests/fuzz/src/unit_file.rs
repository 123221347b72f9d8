//! Checks of the fuzz target `unit_file` for any bytes as a unit file:
//!
//! - They are parsed and interpreted without a panic.
//! - Every reported position is within the file.
//! - A unit without a mistake is unchanged when it is written and read back.
//!
//! A first byte below 128: the rest is the text. Otherwise the rest chooses keys and values of the
//! table of keys.

use super::composed::Composed;
use groundstate_units::spec::Kind;
use groundstate_units::text::diagnostic::Severity;
use groundstate_units::text::yaml;
use groundstate_units::unit::account::Accounts;
use groundstate_units::unit::assembly::Draft;
use groundstate_units::unit::key::{Key, Shape};
use groundstate_units::unit::key_table::KEYS;
use groundstate_units::unit::manifest::Manifest;
use groundstate_units::unit::semantics;
use groundstate_units::unit::settings::Settings;
use groundstate_units::unit::yaml_writer;
use std::sync::Arc;

/// Values of all forms, valid and nearly valid.
const VALUES: [&str; 66] = [
    "a",
    "b",
    "c",
    "a?",
    "a, b",
    "yes",
    "no",
    "0",
    "1",
    "5",
    "022",
    "0755",
    "65536",
    "-1",
    "5s",
    "500ms",
    "1min 30s",
    "none",
    "null",
    "~",
    "''",
    "/bin/a",
    "/bin/a -x $Y ${Z} $$",
    "/a/b",
    "-/a",
    "/a/../b",
    "TERM",
    "9",
    "SIGHUP",
    "[0, HUP]",
    "5/10s",
    "on-failure",
    "always",
    "never",
    "oneshot",
    "virtual",
    "foreground-supervised",
    "foreground-notified",
    "background-pidfile",
    "background-scripted",
    "socket",
    "timer",
    "path",
    "www",
    "0:0",
    "[a, b]",
    "{A: b, C: d}",
    "{nofile: 10, core: 'infinity'}",
    "A=b",
    "64MiB",
    "1G",
    "50%",
    "Mon..Fri *-*-* 08:00",
    "daily",
    "8080",
    "127.0.0.1:80",
    "'[::1]:22'",
    "'@name'",
    "ready .*",
    "'^ready$'",
    "file",
    "null",
    "[CHOWN, KILL]",
    "strict",
    "idle",
    "*",
];

/// The unit, if it has no mistake. Panics if a promise is broken.
pub fn unit_file(bytes: &[u8]) -> Option<Draft> {
    let (first, rest) = bytes.split_first()?;
    let text = if *first < 128 { rest.to_vec() } else { composed(rest).into_bytes() };
    let file = "a.yaml".into();
    let lines = text.split(|byte| matches!(byte, b'\n' | b'\r')).count() + 1;
    let reading = yaml::read(&file, &text, &yaml::Limits::UNIT_FILE);
    for said in &reading.diagnostics {
        assert!(said.at.line as usize <= lines, "{said}");
    }
    let mut fine = None;
    for document in &reading.documents {
        let manifest = Manifest::read(&file, document);
        let written = yaml_writer::write(&manifest);
        let meant = semantics::read(manifest, &Settings::default(), &Accounts::default());
        for said in &meant.diagnostics {
            assert!(said.at.line as usize <= lines, "{said}");
        }
        let wrong = |said: &groundstate_units::text::diagnostic::Diagnostic| {
            said.severity == Severity::Error
        };
        let Some(draft) = meant.draft.filter(|draft| draft.fault.is_none()) else {
            assert!(
                document.broken || meant.diagnostics.iter().any(wrong),
                "refused without a word"
            );
            continue;
        };
        assert!(!meant.diagnostics.iter().any(wrong), "a mistake and no fault");
        assert_eq!(places_apart(draft.clone()), again(&written), "\n{written}");
        fine = Some(draft);
    }
    fine
}

/// Parses the written text.
fn again(written: &str) -> Draft {
    let limits = yaml::Limits { bytes: usize::MAX, nodes: usize::MAX, ..yaml::Limits::UNIT_FILE };
    let documents = yaml::parse("a.yaml", written.as_bytes(), &limits);
    let Ok([document]) = documents.as_deref() else { panic!("cannot be read back:\n{written}") };
    let manifest = Manifest::read(&"a.yaml".into(), document);
    let meant = semantics::read(manifest, &Settings::default(), &Accounts::default());
    let Some(draft) = meant.draft else { panic!("no unit any more:\n{written}") };
    places_apart(draft)
}

/// The draft without its line and the order of keys.
fn places_apart(mut draft: Draft) -> Draft {
    (draft.at.line, draft.at.column) = (0, 0);
    draft.dependencies.iter_mut().for_each(|edge| edge.line = 0);
    draft.dependencies.sort_by_key(|edge| (edge.kind.as_str(), edge.target.clone()));
    if draft.kind.is_trigger() {
        // Listen addresses and watched paths are kept as written.
        (draft.run_hash, draft.run) = (0, Arc::default());
    }
    draft
}

/// A unit of some type with keys of it, each once, as in the table of keys; one in four has lines
/// that may be wrong.
fn composed(bytes: &[u8]) -> String {
    let mut from = Composed::of(bytes);
    let is_odd = from.one_in(4);
    let kind = from.pick(&Kind::ALL);
    let (mut text, mut taken) =
        (format!("unit: u\ntype: {}\n", kind.as_str()), vec!["unit", "name", "type"]);
    for key in KEYS.iter().filter(|key| key.required.has(kind) && key.name != "unit") {
        taken.push(key.name);
        text.push_str(&format!("{}\n", key.example));
    }
    while !from.is_over() {
        let key = from.pick(KEYS);
        if is_odd && from.one_in(16) {
            text.push_str(&odd(&mut from, key));
        } else if key.types.has(kind) && !taken.contains(&key.name) {
            taken.push(key.name);
            text.push_str(&format!("{}\n", key.example));
        }
    }
    text
}

/// A line with any kind of mistake.
fn odd(from: &mut Composed<'_>, key: Key) -> String {
    let value = value(from, key.shape);
    let shown = match from.byte() % 8 {
        0 => format!("[{value}, {}]", from.pick(&VALUES)),
        1 => format!("\n- {value}\n- {}", from.pick(&VALUES)),
        2 => format!("\n  {value}: {}", from.pick(&VALUES)),
        3 => yaml_writer::scalar(&from.text(40)),
        4 => from.text(20),
        _ => value,
    };
    let more = ["", "", "---\n", "...\n", "# x\n", "\t", "unit: v\n", "x-mine: 1\n"];
    format!("{}: {shown}\n{}", key.name, from.pick(&more))
}

/// Mostly a valid value.
fn value(from: &mut Composed<'_>, shape: Shape) -> String {
    let count = |least: u32, most: u32, byte: u8| match byte {
        0 => most.to_string(),
        1 => most.saturating_add(1).to_string(),
        byte => least.saturating_add(u32::from(byte)).min(most).to_string(),
    };
    let any: &[&str] = match shape {
        Shape::Choice(words) if !words.is_empty() => words,
        Shape::Count(least, most) => return count(least, most, from.byte()),
        Shape::Name | Shape::Names | Shape::Targets => &["a", "b", "u", "a, b", "a?", "[a, 'b?']"],
        Shape::Boolean => &["yes", "no", "true"],
        Shape::Duration | Shape::Timeout => &["5s", "500ms", "1min 30s", "0", "none", "1d"],
        Shape::Signal => &["TERM", "9", "SIGUSR1"],
        Shape::ExecStart | Shape::ExecLines => {
            &["/bin/a", "-/bin/b 'c d'", "[/bin/a, /bin/b]", "@/bin/a b"]
        }
        Shape::Path | Shape::Paths | Shape::EnvFiles => &["/a", "/a/b", "[/a, /b]", "-/c"],
        Shape::Account | Shape::Accounts => &["0", "root", "1000"],
        Shape::Umask => &["022", "0077", "'0'"],
        Shape::Environment => &["{A: b}", "[A=b]", "{}"],
        Shape::Limits => &["{nofile: 10}", "{core: infinity}", "{nproc: '1:2'}"],
        Shape::Text
        | Shape::Choice(_)
        | Shape::Statuses
        | Shape::RestartLimit
        | Shape::Pattern
        | Shape::Form(_)
        | Shape::Forms(_) => &VALUES,
    };
    from.pick(any).to_string()
}
