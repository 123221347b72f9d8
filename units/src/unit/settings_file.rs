//! Reads init.yaml: the table of settings, and their parsing. [`crate::unit::settings`] defines
//! them.
//!
//! A boot continues whatever the file contains: a setting with an error keeps its default, and a
//! file that cannot be parsed gives all defaults. Both are reported as errors.

use crate::limit;
use crate::spec::value;
use crate::text::diagnostic::{Diagnostic, Severity};
use crate::text::name::Name;
use crate::text::yaml::{self, Node, Value};
use crate::unit::field::Field;
use crate::unit::key;
use crate::unit::reaction::Reaction;
use crate::unit::settings::{Echo, Settings};
use std::sync::Arc;

/// One key of init.yaml.
#[derive(Clone, Copy, Debug)]
pub struct SettingKey {
    /// The name.
    pub name: &'static str,
    /// The form of the value.
    pub words: &'static str,
    /// The default, in words.
    pub default: &'static str,
    /// The documentation.
    pub doc: &'static str,
}

/// The file of fstab(5).
const FSTAB: [&str; 1] = ["/etc/fstab"];
/// The unit directories of systemd, and those of the output of generators, in order of precedence:
/// systemd.unit(5).
const SYSTEMD_DIRS: [&str; 8] = [
    "/run/groundstate/generator.early",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/groundstate/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/groundstate/generator.late",
];

#[rustfmt::skip]
const fn setting(
    name: &'static str, words: &'static str, default: &'static str, doc: &'static str,
) -> SettingKey {
    SettingKey { name, words, default, doc }
}

/// Every key, in the order of the documentation.
#[rustfmt::skip]
pub const SETTINGS: &[SettingKey] = &[
    setting("default-target", "a target", "multi-user", "The default goal; init's command line overrides it."),
    setting("emergency-target", "a target", "emergency", "The goal if the provider of the boot's goal is missing, masked or broken."),
    setting("max-starting", "a whole number", "0: no limit", "The number of units that may be starting at the same time."),
    setting("start-timeout", "a duration, or `none`", "60s", "The default of the unit key."),
    setting("stop-timeout", "a duration, or `none`", "10s", "The default of the unit key."),
    setting("restart", "one of the words of the unit key", "on-failure", "The default of the unit key, for foreground units, background-pidfile and triggers."),
    setting("restart-delay", "a duration", "200ms", "The default of the unit key."),
    setting("restart-delay-max", "a duration", "60s", "The default of the unit key."),
    setting("restart-reset", "a duration", "60s", "The default of the unit key."),
    setting("failure-verdict", "a whole number, 1 or more", "3", "The default of the unit key."),
    setting("shutdown-deadline", "a duration", "90s; in a container 9s", "The longest time of a shutdown; after it the remaining processes are killed. Then a machine syncs and unmounts its file systems. That takes at most 90 seconds if no disk makes progress, and at most 150 seconds if a slow disk still writes."),
    setting("watchdog", "a duration", "none", "On a machine: init feeds `/dev/watchdog` from its event loop. The hardware reboots the machine if init is stuck for this long. Init feeds it during the shutdown too."),
    setting("ctrl-alt-del", "reboot, poweroff, halt, none, or a target", "reboot", "On a machine: the effect of Ctrl-Alt-Del, for which the kernel sends SIGINT. A target becomes the goal, as by `initctl set-target`. In a container and as a supervisor SIGINT stops all units and exits."),
    setting("power-key", "reboot, poweroff, halt, none, or a target", "poweroff", "On a machine: the effect of SIGPWR. A daemon that watches the power key or the power supply sends this signal to PID 1."),
    setting("keyboard-request", "reboot, poweroff, halt, none, or a target", "none", "On a machine: the effect of Alt-Up at a console, for which the kernel sends SIGWINCH."),
    setting("unit-dirs", "a list of absolute paths", "/etc/groundstate/units and /usr/lib/groundstate/units", "The directories of unit files. A file hides those of the same name in later directories. `units` in the runtime directory comes second."),
    setting("import-dirs", "a list of absolute paths, `systemd` and `fstab`", "none", "Directories of other init systems whose unit files are imported, after the unit directories. `systemd` means systemd's own directories, with generator.early, generator and generator.late of /run/groundstate in the places that systemd gives them. `fstab` means /etc/fstab: each line becomes a mount or swap unit with systemd's name for it. A unit file of that name below /etc or /run overrides the line. Links in .wants and .requires directories count; an [Install] section counts only after `initctl enable`. systemd's own units are not imported, except networkd, resolved and timesyncd. The default is none, because an enabled unit of a package would start beside its native replacement."),
    setting("log-dir", "an absolute path", "/var/log/groundstate", "The directory of the log files."),
    setting("state-dir", "an absolute path", "/var/lib/groundstate", "The directory of data that outlives a boot: the last firings of persistent timers."),
    setting("log-size", "a size", "16MiB", "The size at which a log file is rotated."),
    setting("log-keep", "a whole number", "4", "The number of rotated files that are kept of each log."),
    setting("log-dir-after", "a target", "none: at once", "The target after which log files are opened. Until it is active the logger keeps its lines in memory."),
    setting("log-readers", "a group", "adm", "The group that may read logs, besides root and init's own user."),
    setting("sources", "a map: `fleet: {uid: 0}`", "none", "Named sets of units that a controller of that uid may put."),
    setting("env", "a map, or a list of `NAME=value`", "none", "Environment variables of every unit."),
    setting("env-pass", "names, or `*`", "`*` in a container or as a supervisor, none on a booted machine", "Variables of init's own environment that units get."),
    setting("echo", "yes, no or raw", "yes in a container or as a supervisor, else no", "Whether the logger copies each line to init's own output. yes: as `TARGET | line`. raw: unchanged."),
    setting("exit-with", "a target", "none", "The target whose final end stops all units; init then exits with its status."),
    setting("default-policy", "enable or disable", "enable", "Whether wanted-by and required-by of a unit count if the policy does not name it."),
];

/// Reads the settings of a file, and its diagnostics.
pub fn read(file: &Arc<str>, bytes: &[u8]) -> (Settings, Vec<Diagnostic>) {
    let mut settings = Settings::default();
    let reading = yaml::read(file, bytes, &yaml::Limits::UNIT_FILE);
    let mut found = reading.diagnostics;
    if let Some(second) = reading.documents.get(1) {
        let message = "a second document; init.yaml has only one";
        found.push(Diagnostic::error("shape", second.root.at.of(file), message));
    }
    let Some(document) = reading.documents.first() else { return (settings, found) };
    if document.broken {
        return (settings, found);
    }
    let field = Field { file, key: "init.yaml", node: &document.root };
    for pair in field.map(&mut found) {
        if pair.key.starts_with(key::PRIVATE) {
            continue;
        }
        if SETTINGS.iter().all(|setting| setting.name != pair.key) {
            let meant = key::nearest(&pair.key, SETTINGS.iter().map(|setting| setting.name));
            let hint = match meant {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "keys of your own begin with x-".to_string(),
            };
            let message = format!("unknown setting `{}`", pair.key);
            let error = Diagnostic::error("unknown-key", pair.at.of(file), message);
            found.push(error.with_hint(hint));
            continue;
        }
        let field = Field { file, key: &pair.key, node: &pair.node };
        set(&mut settings, field, &mut found);
    }
    if found.iter().any(|found| found.severity == Severity::Error)
        && let Ok(text) = std::str::from_utf8(bytes)
    {
        crate::text::encoding::add_excerpts(&mut found, file, text);
    }
    (settings, found)
}

fn set(settings: &mut Settings, field: Field<'_>, found: &mut Vec<Diagnostic>) {
    match field.key {
        "default-target" => put(&mut settings.default_target, field.name(found)),
        "emergency-target" => put(&mut settings.emergency_target, field.name(found)),
        "max-starting" => {
            let parse = |text: &str| value::count(text, 0, 1_000_000);
            put(&mut settings.max_starting, field.value(found, parse));
        }
        "start-timeout" => put(&mut settings.start_timeout, field.value(found, value::timeout)),
        "stop-timeout" => put(&mut settings.stop_timeout, field.value(found, value::timeout)),
        "restart" => settings.restart = field.word(found),
        "restart-delay" => put(&mut settings.restart_delay, field.value(found, value::duration)),
        "restart-delay-max" => {
            put(&mut settings.restart_delay_max, field.value(found, value::duration));
        }
        "restart-reset" => put(&mut settings.restart_reset, field.value(found, value::duration)),
        "failure-verdict" => {
            let parse = |text: &str| value::count(text, 1, 1_000_000);
            put(&mut settings.failure_verdict, field.value(found, parse));
        }
        "shutdown-deadline" => {
            settings.shutdown_deadline = field.value(found, deadline);
        }
        "watchdog" => {
            settings.watchdog = field.value(found, deadline);
        }
        "ctrl-alt-del" => put(&mut settings.reactions.ctrl_alt_del, reaction(field, found)),
        "power-key" => put(&mut settings.reactions.power_key, reaction(field, found)),
        "keyboard-request" => {
            put(&mut settings.reactions.keyboard_request, reaction(field, found));
        }
        "unit-dirs" => settings.unit_dirs = paths(field, found),
        "import-dirs" => {
            put(&mut settings.import_dirs, import_dirs(field, found));
        }
        "log-dir" => settings.log_dir = field.value(found, value::path),
        "state-dir" => settings.state_dir = field.value(found, value::path),
        "log-size" => put(&mut settings.log_size, field.value(found, log_size)),
        "log-keep" => {
            let parse = |text: &str| value::count(text, 0, 1_000);
            put(&mut settings.log_keep, field.value(found, parse));
        }
        "log-dir-after" => settings.log_dir_after = field.name(found),
        "log-readers" => {
            put(&mut settings.log_readers, field.text(found).map(|scalar| scalar.text.clone()));
        }
        "sources" => sources(settings, field, found),
        "env" => settings.env = field.environment(found),
        "env-pass" => settings.env_pass = env_pass(field, found),
        "echo" => settings.echo = echo(field, found),
        "exit-with" => settings.exit_with = field.name(found),
        "default-policy" => {
            let index = field.choice(found, &["enable", "disable"]);
            put(&mut settings.enabled_by_default, index.map(|index| index == 0));
        }
        _ => {}
    }
}

fn put<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

fn reaction(field: Field<'_>, found: &mut Vec<Diagnostic>) -> Option<Reaction> {
    field.name(found).map(Reaction::from)
}

fn deadline(text: &str) -> Result<std::time::Duration, value::Mistake> {
    value::timeout(text)?.ok_or_else(|| value::Mistake {
        message: "`none` is not a time".to_string(),
        hint: "leave the key out, or give a long time: `1h`",
    })
}

fn log_size(text: &str) -> Result<u64, value::Mistake> {
    let size = value::size(text)?;
    if size < 4096 {
        let message = format!("`{text}` is too small for a log file");
        return Err(value::Mistake { message, hint: "4K or more" });
    }
    Ok(size)
}

fn paths(field: Field<'_>, found: &mut Vec<Diagnostic>) -> Option<Vec<String>> {
    let nodes = field.list(found);
    if nodes.is_empty() || nodes.len() > limit::UNIT_DIRS {
        field.error(
            found,
            "value",
            format!("`{}` has {} paths", field.key, nodes.len()),
            "1 to 32",
        );
        return None;
    }
    let path = |node| field.within(node).value(found, value::path);
    nodes.iter().map(path).collect()
}

/// Returns paths. The words `systemd` and `fstab` stand for paths. The value is a list, or a text
/// with these words only: `systemd, fstab`.
fn import_dirs(field: Field<'_>, found: &mut Vec<Diagnostic>) -> Option<Vec<String>> {
    let own = |word: &str| match word.trim() {
        "systemd" => Some(SYSTEMD_DIRS.as_slice()),
        "fstab" => Some(FSTAB.as_slice()),
        _ => None,
    };
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_string()).collect::<Vec<_>>();
    if let Some(scalar) = field.node.scalar() {
        let words: Option<Vec<_>> = scalar.text.split(',').map(own).collect();
        if words.is_none() {
            // Other texts are no list.
            field.list(found);
        }
        return words.map(|words| owned(&words.concat()));
    }
    let mut all = Vec::new();
    for node in field.list(found) {
        match node.scalar().and_then(|scalar| own(&scalar.text)) {
            Some(words) => all.extend(owned(words)),
            None => all.push(field.within(node).value(found, value::path)?),
        }
    }
    if all.is_empty() || all.len() > limit::UNIT_DIRS {
        let message = format!("`{}` has {} paths", field.key, all.len());
        field.error(found, "value", message, "1 to 32");
        return None;
    }
    Some(all)
}

fn env_pass(field: Field<'_>, found: &mut Vec<Diagnostic>) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for node in field.one_or_list() {
        let Some(text) = field.within(node).text(found) else { continue };
        for name in text.text.split(',').map(str::trim) {
            if name == "*" || crate::unit::exec_line::is_variable(name) {
                names.push(name.to_string());
            } else {
                let message = format!("`{name}` is not a valid name of a variable");
                field.within(node).error(found, "value", message, "names, or '*' for all");
            }
        }
    }
    Some(names)
}

fn echo(field: Field<'_>, found: &mut Vec<Diagnostic>) -> Option<Echo> {
    field.value(found, |text| match (text, value::boolean(text)) {
        ("raw", _) => Ok(Echo::Raw),
        (_, Ok(true)) => Ok(Echo::Yes),
        (_, Ok(false)) => Ok(Echo::No),
        (_, Err(mistake)) => Err(value::Mistake { hint: "write `yes`, `no` or `raw`", ..mistake }),
    })
}

fn sources(settings: &mut Settings, field: Field<'_>, found: &mut Vec<Diagnostic>) {
    for pair in field.map(found) {
        let name = match Name::new(&pair.key) {
            Ok(name) => name,
            Err(error) => {
                found.push(Diagnostic::error("name", pair.at.of(field.file), error.to_string()));
                continue;
            }
        };
        let source = Field { key: "uid", ..field.within(&pair.node) };
        let Some(uid) = uid_node(&pair.node) else {
            let message = format!("the source `{name}` must have only `uid: NUMBER`");
            source.error(found, "shape", message, "write `fleet: {uid: 0}`");
            continue;
        };
        let uid = source.within(uid).value(found, |text| {
            let message = format!("`{text}` is not a user number");
            crate::unit::account::id(text).ok_or(value::Mistake { message, hint: "a plain number" })
        });
        settings.sources.extend(uid.map(|uid| (name, uid)));
    }
}

fn uid_node(node: &Node) -> Option<&Node> {
    match &node.value {
        Value::Map(pairs) if pairs.len() == 1 => node.get("uid"),
        Value::Map(_) | Value::Scalar(_) | Value::List(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::event::Shutdown;
    use crate::unit::key_table::KEYS;
    use std::time::Duration;

    fn settings(text: &str) -> (Settings, Vec<Diagnostic>) {
        read(&Arc::from("init.yaml"), text.as_bytes())
    }

    #[test]
    fn texts_of_keys_are_short_sentences_that_name_the_actor() {
        let settings = SETTINGS.iter().map(|key| (key.name, key.doc));
        for (name, doc) in KEYS.iter().map(|key| (key.name, key.doc)).chain(settings) {
            // Text in backticks counts as a word.
            let parts = doc.split('`').enumerate();
            let text: String =
                parts.map(|(at, part)| if at % 2 == 0 { part } else { "x" }).collect();
            for sentence in text.split(". ") {
                let words: Vec<&str> = sentence.split_whitespace().collect();
                assert!(words.len() <= 25, "{name}: {sentence}");
                for vague in ["who", "what", "whatever"] {
                    assert!(!words.contains(&vague), "{name}: {sentence}");
                }
            }
        }
    }

    #[test]
    fn every_setting_is_parsed_from_a_file() {
        let text = "default-target: server\nemergency-target: rescue\nmax-starting: 4\n\
            start-timeout: none\nstop-timeout: 5s\nrestart: always\nrestart-delay: 1\n\
            restart-delay-max: 2min\nrestart-reset: 3min\nfailure-verdict: 1\n\
            shutdown-deadline: 30s\nwatchdog: 20s\nctrl-alt-del: none\npower-key: rescue\n\
            keyboard-request: halt\nimport-dirs: systemd\nunit-dirs: [/a, /b]\nlog-dir: /l\nstate-dir: /s\nlog-size: 1M\nlog-keep: 0\n\
            log-dir-after: var\nlog-readers: staff\nsources:\n  fleet: {uid: 7}\nenv: {A: b}\n\
            env-pass: '*'\necho: raw\nexit-with: job\ndefault-policy: disable\nx-mine: 1\n";
        let (settings, found) = settings(text);
        assert_eq!(found, Vec::new());
        let default = Settings::default();
        assert_eq!(settings.default_target.as_str(), "server");
        assert_eq!(
            (settings.start_timeout, settings.restart_delay),
            (None, Duration::from_secs(1))
        );
        assert_eq!(settings.sources.values().copied().collect::<Vec<_>>(), [7]);
        assert_eq!(settings.env_pass, Some(vec!["*".to_string()]));
        assert_eq!((settings.echo, settings.enabled_by_default), (Some(Echo::Raw), false));
        let (now, then) = (format!("{settings:?}"), format!("{default:?}"));
        let same = |word: &str| now.contains(word) && then.contains(word);
        assert!(!same("max_starting: 0") && !same("log_keep: 4") && !same("exit_with: None"));
        assert_eq!(SETTINGS.len(), text.matches('\n').count() - 2);
    }

    #[test]
    fn words_of_import_dirs_are_replaced_by_paths() {
        let dirs = |text: &str| settings(&format!("import-dirs: {text}\n"));
        let (both, found) = dirs("systemd, fstab");
        assert_eq!((both.import_dirs.len(), found.len()), (9, 0));
        assert_eq!(dirs("[fstab, /x]").0.import_dirs, ["/etc/fstab", "/x"]);
        for wrong in ["systemd, fstap", "[fstab, x]", "[]"] {
            let (settings, found) = dirs(wrong);
            assert_eq!((settings.import_dirs.len(), found.len()), (0, 1), "{wrong}");
        }
    }

    #[test]
    fn machine_key_setting_is_a_shutdown_a_goal_or_nothing() {
        let default = Settings::default().reactions;
        assert_eq!(default.ctrl_alt_del, Reaction::End(Shutdown::Reboot));
        assert_eq!(default.power_key, Reaction::End(Shutdown::Poweroff));
        assert_eq!(default.keyboard_request, Reaction::Nothing);
        let text = "ctrl-alt-del: none\npower-key: rescue\nkeyboard-request: poweroff\n";
        let (settings, found) = settings(text);
        assert_eq!(found, Vec::new());
        assert_eq!(settings.reactions.ctrl_alt_del, Reaction::Nothing);
        assert_eq!(settings.reactions.keyboard_request, Reaction::End(Shutdown::Poweroff));
        let goals = settings.reactions.goals().map(|(setting, goal)| (setting, goal.as_str()));
        assert_eq!(goals.collect::<Vec<_>>(), [("power-key", "rescue")]);
        let (settings, found) = self::settings("ctrl-alt-del: ../x\npower-key: [a, b]\n");
        assert_eq!((settings.reactions, found.len()), (default, 2));
        let told = |key: &str| SETTINGS.iter().find(|it| it.name == key).unwrap().words;
        for key in ["ctrl-alt-del", "power-key", "keyboard-request"] {
            assert_eq!(told(key), "reboot, poweroff, halt, none, or a target");
        }
    }

    #[test]
    fn invalid_setting_is_reported_and_keeps_its_default() {
        let (settings, found) = settings("default-traget: x\nmax-starting: -1\nlog-keep: 9\n");
        assert_eq!((settings.max_starting, settings.log_keep), (0, 9));
        let places: Vec<_> = found.iter().map(|d| (d.at.line, d.at.column, &*d.code)).collect();
        assert_eq!(places, [(1, 1, "unknown-key"), (2, 15, "value")]);
        assert_eq!(found[0].hint, "did you mean `default-target`?");
        assert_eq!(found[1].excerpt, "max-starting: -1");
    }

    #[test]
    fn unparsable_settings_file_gives_the_defaults() {
        let (settings, found) = settings("log-keep: 9\nx: [\n");
        assert_eq!(settings, Settings::default());
        assert_eq!(found.len(), 1);
        assert_eq!(self::settings("").0, Settings::default());
        assert!(self::settings("# nothing\n").1.is_empty());
    }
}
