//! Imports realistic scripts and checks the native unit and the diagnostics.

use super::convert;
use crate::import::import_outcome::{Imported, Outcome, Score};
use crate::limit;
use crate::text::diagnostic::Severity;
use crate::text::yaml;
use crate::unit::account::Accounts;
use crate::unit::manifest::Manifest;
use crate::unit::semantics;
use crate::unit::settings::Settings;
use crate::unit::yaml_writer;
use sample::{EARLY, FACILITIES, RED_HAT, SAMPLES, TWO_NAMES, WITHOUT};

mod damaged;
mod sample;

fn import(name: &str, text: &str) -> Imported {
    convert(name, &name.into(), text.as_bytes(), &format!("/etc/init.d/{name}"))
}

/// Imports a script with these header lines.
fn with(lines: &str) -> Imported {
    import("web", &format!("#!/bin/sh\n### BEGIN INIT INFO\n{lines}### END INIT INFO\nexit 0\n"))
}

/// Returns the values of a key, one per line. Empty if the unit has no such key.
fn values(imported: &Imported, key: &str) -> Vec<String> {
    let Some(entry) = imported.manifest.entry(key) else { return Vec::new() };
    if let Some(pairs) = entry.node.map() {
        return pairs.iter().map(|pair| pair.key.clone()).collect();
    }
    let one = std::slice::from_ref(&entry.node);
    let list = entry.node.list().unwrap_or(one);
    list.iter().map(|node| node.scalar().unwrap().text.clone()).collect()
}

fn told(imported: &Imported) -> Vec<(u32, String)> {
    let found = imported.manifest.diagnostics.iter();
    found.map(|said| (said.at.line, said.message.clone())).collect()
}

/// Returns the outcome of the line with that number.
#[track_caller]
fn outcome_of(imported: &Imported, line: u32) -> &Outcome {
    let found: Vec<_> =
        imported.outcomes.iter().filter(|directive| directive.at.line == line).collect();
    assert_eq!(found.len(), 1, "line {line}");
    &found[0].outcome
}

fn kept(keys: &str) -> Outcome {
    Outcome::Kept(keys.to_string())
}

fn lost(how: &str) -> Outcome {
    Outcome::Lost(how.to_string())
}

#[test]
fn script_runs_with_start_and_stop_like_systemd_sysv_generator() {
    let shell = import("shell", TWO_NAMES);
    for (key, value) in [
        ("type", &["background-scripted"][..]),
        ("provides", &["shell", "shell.service", "shelld", "shelld.service"]),
        ("description", &["A shell from afar"]),
        ("depends-ms", &["sysinit.target?"]),
        ("waits-for", &["keys?"]),
        ("after", &["basic.target", "remote-fs.target", "syslog", "firewall"]),
        ("exec-start", &["/etc/init.d/shell start"]),
        ("exec-stop", &["/etc/init.d/shell stop"]),
        ("exec-reload", &["/etc/init.d/shell reload"]),
        ("wanted-by", &["multi-user"]),
        ("restart", &["never"]),
        ("kill-mode", &["process"]),
        ("start-timeout", &["5min"]),
        ("stop-timeout", &["5min"]),
        ("success-status", &["0", "5", "6"]),
        ("env", &["SYSTEMCTL_SKIP_REDIRECT", "_SYSTEMCTL_SKIP_REDIRECT"]),
    ] {
        assert_eq!(values(&shell, key), value, "{key}");
    }
    assert_eq!(shell.manifest.name.as_ref().unwrap().as_str(), "shell");
    assert_eq!(told(&shell), []);
    assert_eq!(Score::of(&shell.outcomes), Score { honoured: 9, all: 9 });
    assert_eq!(outcome_of(&shell, 5), &kept("after, waits-for"));
    assert!(matches!(outcome_of(&shell, 6), Outcome::ByDesign(_)));
}

#[test]
fn script_of_level_s_has_only_the_dependencies_it_names() {
    let clock = import("clock.sh", EARLY);
    assert_eq!(clock.manifest.name.as_ref().unwrap().as_str(), "clock");
    assert_eq!(values(&clock, "exec-start"), ["/etc/init.d/clock.sh start"]);
    assert_eq!(values(&clock, "wanted-by"), ["sysinit.target"]);
    assert_eq!(values(&clock, "waits-for"), ["mountdevs?"]);
    assert_eq!(values(&clock, "before"), ["checkroot"]);
    assert_eq!(values(&clock, "depends-ms"), [""; 0]);
    assert_eq!(values(&clock, "after"), [""; 0]);
    assert_eq!(values(&clock, "exec-reload"), [""; 0]);
    assert_eq!(told(&clock), []);
}

#[test]
fn script_without_a_header_is_imported_with_a_diagnostic() {
    let here = import("here", WITHOUT);
    assert_eq!(values(&here, "exec-start"), ["/etc/init.d/here start"]);
    assert_eq!(values(&here, "wanted-by"), [""; 0]);
    assert_eq!(values(&here, "success-status"), [""; 0]);
    assert_eq!(here.outcomes, []);
    assert_eq!(here.manifest.diagnostics[0].code, "no-header");
    assert_eq!(here.manifest.diagnostics.len(), 1);
}

#[test]
fn chkconfig_comments_are_read_only_at_the_top_of_the_file() {
    let cache = import("cache", RED_HAT);
    assert_eq!(values(&cache, "wanted-by"), ["multi-user"]);
    assert_eq!(values(&cache, "description"), ["Keeps answers near the client."]);
    assert_eq!(values(&cache, "type"), ["background-pidfile"]);
    assert_eq!(values(&cache, "pid-file"), ["/run/cached.pid"]);
    assert_eq!(cache.outcomes.len(), 6);
    assert_eq!(outcome_of(&cache, 7), &kept("description"));
    let order =
        "its priorities 85 and 15: `after` takes names, not numbers; the rest is in wanted-by";
    assert_eq!(outcome_of(&cache, 5), &lost(order));
    let said = told(&cache);
    assert_eq!(said[0].0, 1);
    assert_eq!(said[1], (5, format!("chkconfig: {order}")));
    assert_eq!(said.len(), 2);
    let both = import(
        "a",
        "# chkconfig: - 1 2\n### BEGIN INIT INFO\n# Default-Start: 1\n### END INIT INFO\n",
    );
    assert_eq!(values(&both, "wanted-by"), ["rescue.target"]);
    assert_eq!(outcome_of(&both, 1), &Outcome::ByDesign("the LSB header has it".to_string()));
    let by_hand = import("a", "# chkconfig: - 1 2\n");
    assert_eq!(values(&by_hand, "wanted-by"), [""; 0]);
    assert_eq!(
        outcome_of(&import("a", "# chkconfig: 35\n"), 1),
        &lost("it is not `LEVELS START STOP`")
    );
}

#[test]
fn each_facility_becomes_its_target() {
    let all = import("all-of-it", FACILITIES);
    assert_eq!(values(&all, "provides"), ["all-of-it", "all-of-it.service", "rpcbind"]);
    assert_eq!(values(&all, "waits-for"), ["network-online.target?", "nss-lookup.target?"]);
    assert_eq!(
        values(&all, "after"),
        [
            "basic.target",
            "local-fs.target",
            "remote-fs.target",
            "time-sync.target",
            "syslog",
            "display-manager",
        ]
    );
    assert_eq!(values(&all, "before"), ["last"]);
    assert_eq!(
        (values(&all, "stdin"), values(&all, "start-idle")),
        (vec!["tty".into()], vec!["yes".into()])
    );
    assert_eq!(told(&all).len(), 0, "{:?}", told(&all));
    let portmap = with("# Required-Start: $portmap\n# Required-Stop: $network\n");
    assert_eq!(values(&portmap, "waits-for"), ["rpcbind?"]);
    assert_eq!(values(&portmap, "after")[1..], ["network-online.target"]);
}

#[test]
fn start_after_all_is_imported_as_start_idle() {
    let last = with("# Required-Start: $all db\n# X-Start-Before: $all\n");
    assert_eq!(values(&last, "start-idle"), ["yes"]);
    assert_eq!(values(&last, "waits-for"), ["db?"]);
    let how = "`$all`: it waits until no other unit is starting, for five seconds at most; \
               the rest is in start-idle, waits-for";
    assert_eq!(outcome_of(&last, 3), &lost(how));
    assert!(matches!(outcome_of(&last, 4), Outcome::Lost(_)));
    assert_eq!(told(&last).len(), 2);
}

#[test]
fn unsupported_header_line_is_reported_at_its_place() {
    for (line, how) in [
        ("Required-Start: $moon", "`$moon`: unknown facility"),
        ("Provides: $moon", "`$moon`: unknown facility"),
        ("Provides: a/b", "`a/b`: no unit's name"),
        ("Provides: a@", "`a@`: no unit's name"),
        ("Required-Start: ../x ok", "`../x`: no unit's name; the rest is in waits-for"),
        ("Should-Start: web", "`web`: the unit provides it itself"),
        ("Default-Start: 0", "`0`: a shutdown starts no units"),
        ("Default-Start: 2 9", "`9`: unknown level; the rest is in wanted-by"),
        ("X-Moon: full", "unknown"),
        ("nothing of that kind", "no `NAME: VALUE`"),
    ] {
        let web = with(&format!("# {line}\n"));
        assert_eq!(outcome_of(&web, 3), &lost(how), "{line}");
        let word = line.split_once(':').map_or(line, |(word, _)| word);
        assert_eq!(told(&web), [(3, format!("{word}: {how}"))], "{line}");
        assert_eq!((web.outcomes[0].at.column, web.manifest.diagnostics[0].at.column), (3, 3));
    }
    let pid_files = import("a", "# pidfile: run/a\n# pidfile: /run/a\n# pidfile: /run/b\n");
    assert_eq!(values(&pid_files, "pid-file"), ["/run/a"]);
    assert_eq!(outcome_of(&pid_files, 1), &lost("it is not an absolute path"));
    assert!(matches!(outcome_of(&pid_files, 3), Outcome::Lost(_)));
}

#[test]
fn contradictory_order_is_reported_and_the_first_word_counts() {
    let web = with("# X-Start-Before: db\n# Required-Start: db webd\n# Provides: web webd\n");
    assert_eq!(values(&web, "waits-for"), ["db?"]);
    assert_eq!(values(&web, "before"), [""; 0]);
    assert_eq!(outcome_of(&web, 3), &lost("`db` comes before it already"));
    assert_eq!(
        outcome_of(&web, 4),
        &lost("`webd`: the unit provides it itself; the rest is in waits-for")
    );
}

#[test]
fn stop_order_is_the_reversed_start_order() {
    let web =
        with("# Required-Start: a\n# Should-Start: b\n# Required-Stop: a c\n# Should-Stop: b\n");
    assert_eq!(values(&web, "after")[1..], ["b", "c"]);
    assert_eq!(outcome_of(&web, 5), &kept("after"));
    assert!(matches!(outcome_of(&web, 6), Outcome::ByDesign(_)));
}

#[test]
fn unclosed_header_is_an_error_at_its_start() {
    let open =
        import("a", "#!/bin/sh\n### BEGIN INIT INFO\n# Provides: a\n\nexit 0\n# Should-Start: x\n");
    let errors =
        || open.manifest.diagnostics.iter().filter(|said| said.severity == Severity::Error);
    assert_eq!(
        errors().map(|said| (said.at.line, said.code.as_str())).collect::<Vec<_>>(),
        [(2, "header")]
    );
    assert_eq!(open.outcomes.len(), 1);
    let end = import("a", "### BEGIN INIT INFO\n# Provides: a\n");
    assert_eq!(end.manifest.diagnostics[0].code, "header");
    let two = with("# Provides: b\n### END INIT INFO\nx\n### BEGIN INIT INFO\n# Provides: c\n");
    assert_eq!(values(&two, "provides"), ["web", "web.service", "b", "b.service"]);
    assert_eq!(outcome_of(&two, 7), &lost("the first header counts"));
}

#[test]
fn keywords_are_matched_ignoring_case() {
    let web = with("#provides: b\n# REQUIRED-START:c\n#\tX-interactive:  no\n#\n");
    assert_eq!(values(&web, "waits-for"), ["c?"]);
    assert_eq!(web.outcomes.len(), 3);
    assert_eq!(web.outcomes[1].name, "Required-Start");
    assert_eq!(told(&web), []);
}

#[test]
fn only_a_description_may_continue_on_the_next_line() {
    let web = with("# Description: one\n#  two: three\n#\tfour\n# Provides: b\n#   five\n");
    assert_eq!(values(&web, "description"), ["one two: three four"]);
    assert_eq!(outcome_of(&web, 5), &kept("description"));
    assert_eq!(outcome_of(&web, 7), &lost("no `NAME: VALUE`"));
    let behind = with("# Description: one\n### END INIT INFO\n#  two\n");
    assert_eq!((values(&behind, "description"), behind.outcomes.len()), (vec!["one".into()], 1));
    let apart = import("a", "# description: one \\\n\n# two\n");
    assert_eq!((values(&apart, "description"), apart.outcomes.len()), (vec!["one".into()], 1));
    let odd = with("# Short-Description: a \u{1}\u{7f}b\u{85}\n# Short-Description: c\n");
    assert_eq!(values(&odd, "description"), ["a b"]);
    assert!(matches!(outcome_of(&odd, 4), Outcome::ByDesign(_)));
}

#[test]
fn invalid_script_name_and_oversized_script_are_errors() {
    for name in ["a b", "-x", "a@", ".hidden", "", ".sh", "\u{e4}"] {
        let odd = import(name, TWO_NAMES);
        assert_eq!(odd.manifest.name, None);
        assert_eq!(odd.manifest.diagnostics[0].code, "name", "{name}");
    }
    let large = vec![b'#'; limit::IMPORTED_FILE + 1];
    let large = convert("a", &"a".into(), &large, "/a");
    assert_eq!(large.manifest.diagnostics[0].code, "too-large");
    let lines = format!("### BEGIN INIT INFO\n{}", "# X: y\n".repeat(limit::IMPORTED_OPTIONS + 1));
    let many = import("a", &lines);
    assert_eq!(many.outcomes.len(), limit::IMPORTED_OPTIONS);
    assert!(many.manifest.diagnostics.iter().any(|said| said.code == "too-large"));
}

#[test]
fn script_with_any_path_is_called_by_that_path() {
    let odd = convert("web", &"web".into(), WITHOUT.as_bytes(), "/a b/\"d\"/web");
    let text = &values(&odd, "exec-start")[0];
    let (line, _) = crate::unit::exec_line::parse(text).unwrap();
    let words = crate::unit::exec_line::expand(&line, &|_| None, None).unwrap();
    assert_eq!(words, ["/a b/\"d\"/web", "start"]);
}

#[test]
fn converted_script_is_read_back_without_a_diagnostic() {
    for (name, text) in SAMPLES {
        let imported = import(name, text);
        let written = yaml_writer::write(&imported.manifest);
        let documents = yaml::parse("x", written.as_bytes(), &yaml::Limits::UNIT_FILE).unwrap();
        let manifest = Manifest::read(&"x".into(), &documents[0]);
        assert_eq!(manifest.entries.len(), imported.manifest.entries.len());
        let read = semantics::read(manifest, &Settings::default(), &Accounts::default());
        assert_eq!(read.diagnostics, Vec::new(), "{written}");
        assert!(read.draft.is_some_and(|draft| draft.fault.is_none()));
    }
}
