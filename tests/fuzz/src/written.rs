//! Turns bytes into keys and values written to the cluster's etcd: unchanged, or as choices among
//! keys, fields and values of all records. The checks are in `stored_value`.

use super::composed::Composed;
use super::fleet::{MACHINES, UNITS, keys};
use cluster::record::LARGEST;

/// Writes separated by two NULs: a key below the root, a NUL, a value.
pub fn plain(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut writes = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = rest.windows(2).position(|two| two == [0, 0]).unwrap_or(rest.len());
        let (piece, behind) = rest.split_at(end);
        rest = behind.get(2..).unwrap_or_default();
        let at = piece.iter().position(|byte| *byte == 0).unwrap_or(piece.len());
        let (key, value) = piece.split_at(at);
        let key = format!("{}{}", keys().root(), String::from_utf8_lossy(key));
        writes.push((key, value.get(1..).unwrap_or_default().to_vec()));
    }
    writes
}

/// Valid values by field.
const FITTING: [(&str, &[&str]); 21] = [
    ("id", &["\"c1\"", "\"c2\""]),
    ("machine", &["\"m1\"", "\"m2\"", "\"m3\""]),
    ("options", &[]),
    ("signature", &["null", "{\"serial\":1,\"value\":\"x\"}"]),
    ("desired", &["\"launched\"", "\"loaded\"", "\"inactive\""]),
    ("hash", &["\"x\"", "\"\""]),
    ("first", &["[]", "[\"m1\"]", "null"]),
    ("before", &["null", "{\"options\":[]}"]),
    ("text", &["\"no machine\"", "\"\""]),
    ("machines", &["{}", "{\"m1\":\"full\"}"]),
    ("ip", &["\"10.0.0.1\"", "\"\""]),
    ("metadata", &["{}", "{\"region\":\"far\"}"]),
    ("boot", &["\"boot\""]),
    ("instance", &["\"one\"", "null"]),
    ("version", &["\"1\""]),
    ("listen", &["null", "\"10.0.0.1:1\""]),
    ("value", &["null", "\"v\"", "\"\""]),
    ("load", &["\"loaded\""]),
    ("active", &["\"active\"", "\"failed\""]),
    ("sub", &["\"running\"", "\"dead\""]),
    ("reached", &["\"launched\"", "\"inactive\""]),
];
/// The kinds of keys, and the fields of their records.
const KINDS: [(&str, &[&str]); 13] = [
    ("unit", &["options", "signature"]),
    ("desired", &["desired"]),
    ("place", &["machine"]),
    ("global", &["desired", "hash", "first", "before"]),
    ("why", &["text", "machines"]),
    ("schedule", &["desired", "hash", "first", "before"]),
    ("claim", &["machine", "instance"]),
    ("state", &["hash", "load", "active", "sub", "reached"]),
    ("machine", &["ip", "metadata", "boot", "instance", "version", "listen"]),
    ("metadata", &["value"]),
    ("drain", &[]),
    ("cluster", &["id"]),
    ("leader", &["machine"]),
];
const ODD: [&str; 14] = [
    "null",
    "0",
    "-1",
    "1e400",
    "true",
    "{}",
    "[]",
    "[[]]",
    "\"\"",
    "\"../x\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"uninitialized\"",
    "{\"m1\":{}}",
];
const ASKS: [&str; 8] = [
    "MachineID",
    "MachineOf",
    "MachineMetadata",
    "Conflicts",
    "Global",
    "Replaces",
    "Exclusive",
    "X-ConditionMachineBootID",
];
const ASKED: [&str; 10] = [
    "true",
    "m1",
    "a.service",
    "*",
    "[a-",
    "region=here",
    "region=far",
    "\\n",
    "\\\\\\n",
    "b@*.service",
];

/// Up to four composed writes.
pub fn composed(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut from = Composed::of(bytes);
    let mut writes = Vec::new();
    for _ in 0..=from.byte() % 4 {
        let (kind, fields) = from.pick(&KINDS);
        let mut unit = from.pick(&UNITS).to_string();
        if from.one_in(16) {
            unit = from.text(12);
        }
        let id = from.pick(&MACHINES);
        let key = match kind {
            "cluster" | "leader" => kind.to_string(),
            "machine" | "drain" => format!("{kind}/{id}"),
            "metadata" => format!("metadata/{id}/{}", from.pick(&["region", "role", ""])),
            "schedule" | "claim" | "state" => format!("{kind}/{id}/{unit}"),
            _ => format!("{kind}/{unit}"),
        };
        let mut value = record_of(&mut from, fields).into_bytes();
        match from.byte() % 64 {
            0 => value = vec![b'['; 1024],
            1 => value.resize(LARGEST + usize::from(from.byte() % 2), b' '),
            2 => value = from.raw(32).to_vec(),
            3..12 => from.damage(&mut value, 2),
            _ => {}
        }
        writes.push((format!("{}{key}", keys().root()), value));
    }
    writes
}

fn record_of(from: &mut Composed<'_>, fields: &[&str]) -> String {
    let version = if from.one_in(32) { from.pick(&["2", "0", "\"1\"", "4294967296"]) } else { "1" };
    let mut text = format!("{{\"v\":{version}");
    for field in fields {
        let fitting = FITTING.iter().find(|(name, _)| name == field).map_or(&[][..], |it| it.1);
        let value = match from.byte() % 32 {
            31 => from.pick(&ODD).to_string(),
            30 => continue,
            29 => format!("{:?}", from.text(8)),
            _ if fitting.is_empty() => options(from),
            _ => from.pick(fitting).to_string(),
        };
        text.push_str(&format!(",\"{field}\":{value}"));
    }
    text + "}"
}

/// Options of a unit file, as a list.
pub fn options(from: &mut Composed<'_>) -> String {
    let exec = r#"{"section":"Service","name":"ExecStart","value":"/bin/sleep 9"}"#;
    let mut all = vec![exec.to_string()];
    for _ in 0..from.byte() % 4 {
        let (name, value) = (from.pick(&ASKS), from.pick(&ASKED));
        let section = if from.one_in(8) { from.pick(&["", "]", "X-Native"]) } else { "X-Fleet" };
        all.push(format!(r#"{{"section":"{section}","name":"{name}","value":"{value}"}}"#));
    }
    format!("[{}]", all.join(","))
}
