//! Text of units reaches a terminal without control characters.

use super::systemctl_shim::shim;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::{Sandbox, program};
use groundstate_units::text::encoding::is_unprintable;
use std::process::{Command, Output, Stdio};

/// C0, C1, colours, a title, bidirectional overrides, zero-width characters, and tags.
const ODD: &str = "q\u{1b}[31mq\u{1b}[2J\u{1b}]0;t\u{7}\u{8}\u{7f}\u{9b}31m\u{85}\u{202e}\u{2066}\u{61c}\
                   \u{200b}\u{200d}\u{2060}\u{feff}\u{ad}\u{e0041}z";
/// The colours that initctl uses.
const PAINTS: [&str; 7] =
    ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[36m"];

/// Verbs of initctl that print text of units or of their own command line.
const VERBS: &[&[&str]] = &[
    &["status"],
    &["status", "--all"],
    &["status", "odd"],
    &["status", "bad"],
    &["why", "odd"],
    &["why", "bad"],
    &["why", "gone"],
    &["blame"],
    &["critical-chain"],
    &["plot"],
    &["graph"],
    &["graph", "--dot"],
    &["graph", "--mermaid"],
    &["tree"],
    &["tree", "odd"],
    &["logs"],
    &["logs", "odd"],
    &["events"],
    &["events", "-n", "100"],
    &["check"],
    &["cat", "odd"],
    &["cat", "bad"],
    &["cat", ODD],
    &["convert", ODD],
    &["explain"],
    &["explain", ODD],
    &["plan"],
    &["plan", "odd"],
    &["timers"],
    &["sockets"],
    &["stats"],
    &["source", "list"],
    &["want", "odd"],
    &["want", "bad"],
    &["want", ODD],
    &["retry", "bad"],
    &["restart", "odd"],
    &["reload"],
    &["mask", ODD],
    &["enable", ODD],
    &["prefer", ODD, ODD],
    &["kill", "odd", "--signal", ODD],
    &["upgrade", "--binary", ODD],
    &["runlevel"],
    &[ODD],
    &["--socket", ODD, "status"],
];

/// Verbs of systemctl that print such text.
const OF_SYSTEMCTL: &[&[&str]] = &[
    &["status"],
    &["status", "odd", "bad"],
    &["list-units"],
    &["list-units", "--all", "-o", "json"],
    &["list-unit-files"],
    &["list-dependencies", "odd"],
    &["list-jobs"],
    &["list-timers"],
    &["list-sockets"],
    &["show"],
    &["show", "odd"],
    &["show", "bad", "-p", "Description"],
    &["cat", "odd"],
    &["is-active", ODD],
    &["is-enabled", ODD],
    &["start", ODD],
    &["start", "bad"],
    &["enable", ODD],
    &["status", ODD],
    &[ODD],
];

/// Quotes the text as a YAML string.
fn quoted(text: &str) -> String {
    let escape = |c: char| match is_unprintable(c) {
        true => format!("\\U{:08x}", u32::from(c)),
        false => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

fn assert_harmless(words: &[&str], painted: bool, output: &Output) {
    let bytes = [&output.stdout[..], &output.stderr[..]].concat();
    let mut text = String::from_utf8(bytes).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    assert!(!text.contains("q\u{1b}"), "{words:?}: {text:?}");
    if painted {
        PAINTS.iter().for_each(|paint| text = text.replace(paint, ""));
    }
    let odd = text.chars().find(|c| is_unprintable(*c) && !matches!(c, '\n' | '\t'));
    assert_eq!(odd, None, "{words:?}: {text:?}");
}

fn initctl(init: &Init, words: &[&str]) {
    let plain = init.initctl(words);
    assert_harmless(words, false, &plain);
    assert_harmless(words, false, &init.initctl(&[&["--json"], words].concat()));
    let mut command = Command::new(program("GROUNDSTATE_INITCTL", "initctl"));
    command.arg("--socket").arg(init.sandbox.path("run/control.sock")).args(["--color", "always"]);
    let painted = command.args(words).stdin(Stdio::null()).output().unwrap();
    assert_harmless(words, true, &painted);
}

#[test]
fn text_of_units_is_escaped_by_every_verb() {
    let files = Sandbox::new();
    let odd = quoted(ODD);
    let path = quoted(&format!("/no/such/{ODD}"));
    files.unit(
        "odd",
        &format!(
            "type: foreground-notified\ndescription: {odd}\nenv: {{ODD: {odd}}}\n\
             exec-start: DAEMON --notify --control DIR/odd"
        ),
    );
    files.unit("bad", &format!("description: {odd}\nexec-start: {path}\nafter: odd"));
    files.unit("gone", &format!("description: {odd}\nwait-file: {path}\nexec-start: DAEMON"));
    files.unit("goal", "type: virtual\nwants: odd, bad, gone");
    let init = Boot::new(files).start("goal");
    init.when_state("odd", "running");
    init.when_state("bad", "failed");
    init.sandbox.order("odd", &format!("say {ODD}"));
    init.sandbox.order("odd", &format!("notify STATUS={ODD}"));
    until("its line is in the log", || {
        let said = init.initctl(&["logs", "odd"]).stdout;
        String::from_utf8_lossy(&said).contains("[2J").then_some(())
    });
    let main = init.main_of("odd").0.to_string();
    let units = init.sandbox.at("units");
    let new = init.sandbox.at("units/odd.yaml");
    let those = [&["check", &units], &["check", &new], &["convert", &new], &["whose", &main]];
    for words in VERBS.iter().copied().chain(those.iter().map(|words| &words[..])) {
        initctl(&init, words);
    }
    for words in OF_SYSTEMCTL {
        assert_harmless(words, false, &shim(&init, "systemctl", words));
    }
    let forms =
        ["short", "short-iso", "cat", "json", "json-pretty", "json-sse", "verbose", "export", ODD];
    for form in forms {
        let words = ["-u", "odd", "-o", form];
        assert_harmless(&words, false, &shim(&init, "journalctl", &words));
    }
    assert_harmless(&["-u", ODD], false, &shim(&init, "journalctl", &["-u", ODD]));
    init.finish();
}
