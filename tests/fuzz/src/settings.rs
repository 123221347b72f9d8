//! Checks of the fuzz target `settings` for any bytes as init.yaml: they are settings, all mistakes
//! are reported within the file, and there is no panic; whatever was wrong, the result can be
//! passed to PID 1. A first byte above 127 makes a file from the table of settings.

use super::composed::Composed;
use groundstate_units::unit::generation::Generation;
use groundstate_units::unit::settings::Settings;
use groundstate_units::unit::settings_file::{SETTINGS, SettingKey, read};

/// The settings, if nothing is wrong. Panics if a promise is broken.
pub fn settings(bytes: &[u8]) -> Option<Settings> {
    let (first, rest) = bytes.split_first()?;
    let text = if *first < 128 { rest.to_vec() } else { composed(rest).into_bytes() };
    let lines = text.split(|byte| matches!(byte, b'\n' | b'\r')).count() + 1;
    let (settings, found) = read(&"init.yaml".into(), &text);
    for said in &found {
        assert!(said.at.line as usize <= lines, "{said}");
    }
    let generation = Generation { settings: settings.clone(), ..Generation::default() };
    assert_eq!(
        Generation::decode(&generation.encode()).map(|it| it.settings),
        Ok(settings.clone())
    );
    found.is_empty().then_some(settings)
}

const VALUES: [&str; 30] = [
    "a",
    "b",
    "multi-user",
    "0",
    "1",
    "3",
    "60s",
    "none",
    "200ms",
    "1min 30s",
    "always",
    "never",
    "on-failure",
    "/a/b",
    "[/a, /b]",
    "[systemd]",
    "16MiB",
    "4",
    "adm",
    "{fleet: {uid: 0}}",
    "{fleet: {uid: -1}}",
    "{A: b}",
    "[A=b]",
    "'*'",
    "[PATH, 'LC_*']",
    "yes",
    "no",
    "raw",
    "enable",
    "disable",
];

/// One in four has lines that may be wrong.
fn composed(bytes: &[u8]) -> String {
    let mut from = Composed::of(bytes);
    let is_odd = from.one_in(4);
    let (mut text, mut taken) = (String::new(), Vec::new());
    while !from.is_over() {
        let key = from.pick(SETTINGS);
        if taken.contains(&key.name) && !(is_odd && from.one_in(64)) {
            continue;
        }
        taken.push(key.name);
        let value = match from.byte() {
            0 if is_odd => from.text(24),
            1 if is_odd => format!("[{}, {}]", from.pick(&VALUES), from.pick(&VALUES)),
            2 if is_odd => from.pick(&VALUES).to_string(),
            _ => fitting(key, &mut from).to_string(),
        };
        text.push_str(&format!("{}: {value}\n", key.name));
    }
    text
}

/// A valid value.
fn fitting(key: SettingKey, from: &mut Composed<'_>) -> &'static str {
    let begins = |with: &str| key.words.starts_with(with);
    match () {
        () if begins("a target") => "multi-user",
        () if begins("a duration") => from.pick(&["60s", "200ms", "1min 30s"]),
        () if begins("a whole number") => from.pick(&["3", "1", "1000"]),
        () if begins("a list of absolute") => "[/a, /b]",
        () if begins("an absolute path") => "/a/b",
        () if begins("a size") => from.pick(&["16MiB", "1G"]),
        () if begins("a group") => "adm",
        () if begins("names") => from.pick(&["'*'", "[PATH, HOME]"]),
        () if begins("enable") => from.pick(&["enable", "disable"]),
        () if begins("yes") => from.pick(&["yes", "no", "raw"]),
        () if begins("reboot, ") => from.pick(&["poweroff", "none", "rescue"]),
        () if begins("one of the words") => from.pick(&["always", "never"]),
        () if key.name == "sources" => "{fleet: {uid: 0}}",
        () => from.pick(&["{A: b}", "[A=b]"]),
    }
}
