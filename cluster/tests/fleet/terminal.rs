//! Texts of units and machines reach a terminal without control sequences.

use crate::stand::{Plan, Stand, write};
use groundstate_units::text::encoding::is_unprintable;
use std::process::Output;

/// C0, C1, colours, a title, reversed text, zero-width characters, and tags.
const ODD: &str = "q\u{1b}[31mq\u{1b}[2J\u{1b}]0;t\u{7}\u{8}\u{7f}\u{9b}31m\u{85}\u{202e}\u{2066}\u{61c}\
                   \u{200b}\u{200d}\u{2060}\u{feff}\u{ad}\u{e0041}z";

/// Commands that print texts of units, machines or their own command line.
const COMMANDS: &[&[&str]] = &[
    &["list-units"],
    &["list-units", "--full", "--fields=unit,machine,active,sub,load,hash,reason"],
    &["list-unit-files"],
    &["list-unit-files", "--full", "--fields=unit,hash,dstate,state,target,desc,global,reason"],
    &["list-machines"],
    &["list-machines", "--full"],
    &["cat", "odd"],
    &["cat", ODD],
    &["why", "odd"],
    &["why", "lost"],
    &["why", ODD],
    &["submit", "new.service"],
    &["submit", ODD],
    &["start", "--no-block", "new.service"],
    &["load", "--no-block", "off.service"],
    &["start", "--no-block", ODD],
    &["stop", ODD],
    &["unload", ODD],
    &["destroy", ODD],
    &["restart", ODD],
    &["rollout", "--timeout=2", "odd.service"],
    &["rollout", ODD],
    &["drain", ODD],
    &["drain", "m1"],
    &["undrain", "m1"],
    &["logs", "lost"],
    &["logs", ODD],
    &["backup", "kept.json"],
    &["restore", "odd.service"],
    &["restore", ODD],
    &["status", ODD],
    &["journal", ODD],
    &["ssh", ODD],
    &["--endpoint", ODD, "list-units"],
    &["--no-such-flag", ODD],
    &[ODD],
];

fn is_harmless(words: &[&str], output: &Output) {
    let bytes = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8(bytes).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let odd = text.chars().find(|c| is_unprintable(*c) && !matches!(c, '\n' | '\t'));
    assert_eq!(odd, None, "{words:?}: {text:?}");
}

#[test]
fn text_of_units_and_machines_is_escaped_by_every_command() {
    let stand = Stand::new(Plan {
        machines: vec![("m1", vec![("odd", ODD)]), ("m2", Vec::new())],
        ..Plan::default()
    });
    let option = |section: &str, name: &str, value: &str| serde_json::json!({ "section": section, "name": name, "value": value });
    for (name, desired, metadata) in [
        ("odd.service", "launched", None),
        ("lost.service", "launched", Some(ODD)),
        ("off.service", "inactive", None),
    ] {
        let mut options =
            vec![option("Unit", "Description", ODD), option("Service", "ExecStart", ODD)];
        options
            .extend(metadata.map(|odd| option("X-Fleet", "MachineMetadata", &format!("k={odd}"))));
        let body = serde_json::json!({ "desiredState": desired, "options": options });
        let put = stand.put(name, &body.to_string());
        assert_eq!(put.status, 201, "{put:?}");
    }
    write(
        &stand,
        "new.service",
        &format!("[Unit]\nDescription={ODD}\n[Service]\nExecStart={ODD}\n"),
    );
    write(
        &stand,
        "odd.service",
        &format!("[Unit]\nDescription=b{ODD}\n[Service]\nExecStart=/bin/false\n"),
    );
    for words in COMMANDS {
        is_harmless(words, &stand.fleetctl(words));
        is_harmless(words, &stand.fleetctl(&[&["--json"][..], words].concat()));
    }
}
