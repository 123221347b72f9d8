//! The style rules that a program can check. Each complaint says how to fix it. The lists of
//! exceptions may only get shorter: an unneeded entry is a failure too.
#![allow(clippy::expect_used, reason = "a walk that fails ends the test")]

use groundstate_tests::imports::Imports;
use groundstate_tests::named::named;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The lines of code that a file may have, without the unit tests at its end.
const FILE_LINES: usize = 800;
/// Tables and generated files that may be longer than [`FILE_LINES`], each with its reason.
const LONG_FILES: [(&str, &str); 0] = [];

/// A folder with the files of one crate, and the order in which they may import each other.
struct Layout {
    folder: &'static str,
    /// The number of files that may import each other in circles.
    circles: usize,
    /// Lines of top-level modules. A module imports from later lines only. Empty means any order.
    layers: &'static [&'static str],
}

const LAYOUTS: [Layout; 6] = [
    Layout {
        folder: "units/src/",
        circles: 0,
        layers: &[
            "load simulator",
            "scenario",
            "control",
            "machine",
            "graph import",
            "unit",
            "trigger",
            "spec",
            "text",
            "limit",
        ],
    },
    Layout {
        folder: "init/src/",
        circles: 0,
        layers: &[
            "event_loop",
            "restore",
            "upgrade",
            "boot crash",
            "control shutdown",
            "service trigger",
            "loader notify",
            "logger spawn",
            "fd",
            "process_tracking",
            "options",
            "output",
            "state",
            "base",
            "sys",
        ],
    },
    Layout {
        folder: "ctl/src/",
        circles: 0,
        layers: &[
            "journalctl",
            "argv_aliases systemctl",
            "verb",
            "waiting",
            "event_stream log_source",
            "session",
            "arguments connection policy_file report",
            "exit files machine span spelling style",
        ],
    },
    Layout {
        folder: "cluster/src/",
        // The simulated world and its parts.
        circles: 19,
        layers: &[
            "fleetctl sim",
            "fleetd",
            "api engine",
            "etcd_cache txn_split",
            "registry store suspicious_read_guard",
            "agent fence scheduler trust",
            "move_order snapshot",
            "native_unit placement record wire",
            "enabling flap_damping key memory_store requirement signature",
            "clock desired documents glob log machine mutant secret transaction unit_file unit_name",
        ],
    },
    Layout {
        folder: "tests/src/",
        circles: 0,
        layers: &[
            "faults",
            "chaos injector storm sweep",
            "crash flapping held reloads",
            "boot corpus machine",
            "client sandbox silent tracer",
            "deadline lateness listener replay",
            "daemon extent imports law named not_run process status",
        ],
    },
    Layout { folder: "tests/tests/namespaces/", circles: 0, layers: &[] },
];
/// Files that may pause: after the event loop has ended, on a failing poll, in a child that waits
/// for a file, and in retries before anything runs.
const PAUSES: [&str; 10] = [
    "init/src/base/retry.rs",
    "init/src/event_loop/mod.rs",
    "init/src/output/parent_notify.rs",
    "init/src/shutdown/mod.rs",
    "init/src/output/console_log.rs",
    "init/src/crash/mod.rs",
    "init/src/shutdown/mod.rs",
    "init/src/shutdown/unmount/mod.rs",
    "init/src/shutdown/final_exec.rs",
    "init/src/spawn/command_builder.rs",
];
/// Documents whose tables name tests: the stage `tables` checks that those have passed.
const TABLES: [&str; 9] = [
    "units/README.md",
    "cluster/README.md",
    "docs/internals/attacks.md",
    "tests/COVERAGE.md",
    "tests/probes.tsv",
    "tests/directives.tsv",
    "tests/tricky.tsv",
    "tests/faults.tsv",
    "tests/promises.tsv",
];
/// Files that print on the command line before anything runs.
const PRINTERS: [&str; 1] = ["init/src/options.rs"];

/// One file of the repository.
struct Source {
    /// The path from the top of the repository.
    path: String,
    text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn within(&self, folder: &str) -> bool {
        self.path.starts_with(folder)
    }

    /// The lines with their numbers, without the unit tests at the end of the file.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = |line: &&str| *line != "#[cfg(test)]";
        self.text.lines().take_while(tests).enumerate().map(|(at, line)| (at + 1, line))
    }
}

/// Every text file of the repository that is not generated by a build.
fn sources() -> Vec<Source> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ has a parent");
    let mut found = Vec::new();
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<PathBuf> =
            fs::read_dir(&folder).expect("a folder").map(|e| e.expect("an entry").path()).collect();
        entries.sort();
        for path in entries {
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
            if path.is_dir() && !path.is_symlink() {
                if !["target", ".git", ".work", "bin", "node_modules"].contains(&name.as_str())
                    || path.ends_with("src/bin")
                {
                    folders.push(path);
                }
            } else if name != ".git"
                && name != "Cargo.lock"
                && let Ok(text) = fs::read_to_string(&path)
            {
                let path = path.strip_prefix(top).expect("below the top");
                found.push(Source { path: path.to_string_lossy().into_owned(), text });
            }
        }
    }
    assert!(found.iter().filter(|s| s.is_rust()).count() > 10, "the walk finds the sources");
    found
}

fn none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// Returns true if `line` contains `word` as a separate word.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
}

/// The part of a line before a comment.
fn uncommented(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

#[test]
fn every_source_file_starts_with_a_description() {
    let bare = |s: &Source| s.is_rust() && !s.text.starts_with("//!");
    none(
        sources()
            .iter()
            .filter(|s| bare(s))
            .map(|s| {
                format!(
                    "{}:1: begin with `//!`: what it is, what it is not, what to read next",
                    s.path
                )
            })
            .collect(),
    );
}

#[test]
fn file_over_the_length_alarm_is_reported() {
    let mut complaints = Vec::new();
    for source in sources().iter().filter(|s| s.is_rust()) {
        let lines = source.code().count();
        let path = &source.path;
        match LONG_FILES.iter().any(|f| f.0 == path) {
            false if lines > FILE_LINES => {
                complaints.push(format!("{path}: {lines} lines of code: split it by noun"));
            }
            true if lines <= FILE_LINES => {
                complaints.push(format!("{path}: short enough: take it off LONG_FILES"));
            }
            _ => {}
        }
    }
    none(complaints);
}

fn imports(sources: &[Source], folder: &str) -> Imports {
    let files = sources.iter().filter(|s| s.is_rust());
    Imports::of(files.filter_map(|s| Some((s.path.strip_prefix(folder)?, s.text.as_str()))))
}

#[test]
fn files_do_not_import_each_other_in_a_circle() {
    let sources = sources();
    let mut complaints = Vec::new();
    for Layout { folder, circles: allowed, .. } in LAYOUTS {
        let imports = imports(&sources, folder);
        let circles = imports.circles();
        let count: usize = circles.iter().map(Vec::len).sum();
        if count > allowed {
            let lists: Vec<String> = circles.iter().map(|files| files.join(", ")).collect();
            complaints.push(format!(
                "{folder}: {count} files in circles, {allowed} are allowed: move what both sides \
                 use into a file below both\n  {}",
                lists.join("\n  ")
            ));
        }
    }
    none(complaints);
}

#[test]
fn imports_run_downwards_in_the_layers_of_a_crate() {
    let sources = sources();
    let mut complaints = Vec::new();
    for Layout { folder, layers, .. } in LAYOUTS.iter().filter(|l| !l.layers.is_empty()) {
        let upward = imports(&sources, folder).upward(layers);
        complaints.extend(upward.into_iter().map(|what| {
            format!("{folder}{what}: move what it needs down, or change the layers in LAYOUTS")
        }));
    }
    none(complaints);
}

#[test]
fn unsafe_code_is_confined_to_one_folder() {
    // fleetd cannot use init's modules, and needs only malloc_trim(3).
    let allowed =
        |s: &&Source| s.within("init/src/sys/") || s.within("cluster/src/fleetd/memory.rs");
    let mut complaints = Vec::new();
    for source in sources().iter().filter(|s| s.is_rust() && !allowed(s)) {
        for (at, line) in source.text.lines().enumerate() {
            let code = uncommented(line);
            if has_word(code, "unsafe") && !code.contains('"') {
                complaints.push(format!(
                    "{}:{}: unsafe: wrap the call in init/src/sys/",
                    source.path,
                    at + 1
                ));
            }
        }
    }
    none(complaints);
}

#[test]
fn core_does_no_input_or_output() {
    let bans = [
        ("std::fs", "text comes in as an argument"),
        ("std::net", "facts come in as events"),
        ("std::process", "deeds go out as actions"),
        ("std::thread", "the core has one thread: its caller's"),
        ("std::env", "settings come in as arguments"),
        ("SystemTime", "use units::time, which is handed in"),
        ("time::Instant", "use units::time, which is handed in"),
        ("HashMap", "use BTreeMap: its order is the same each time"),
        ("HashSet", "use BTreeSet: its order is the same each time"),
    ];
    let mut complaints = Vec::new();
    for source in sources().iter().filter(|s| s.is_rust() && s.within("units/src/")) {
        for (at, line) in source.code() {
            let code = uncommented(line);
            let group = code.trim_start().strip_prefix("use std::{").unwrap_or_default();
            for (ban, instead) in bans {
                let grouped =
                    ban.strip_prefix("std::").is_some_and(|module| has_word(group, module));
                if grouped || has_word(code, ban) {
                    complaints.push(format!("{}:{at}: {ban}: {instead}", source.path));
                }
            }
        }
    }
    none(complaints);
}

/// The types of the state, and the fields without which init cannot continue.
const REQUIRED: &str = "tests/required_fields.tsv";

/// A line `Type<tab>field field …` for each type that is read and has fields without a default.
fn required_fields(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let (mut has_default, mut attributes) = (false, String::new());
    // The type of the current body, the indentation of its end, and its fields without a default.
    let mut body: Option<(&str, usize, Vec<&str>)> = None;
    let code = source.text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    for line in code.lines() {
        let (word, indent) = (line.trim(), line.len() - line.trim_start().len());
        if word.starts_with("//") {
            continue;
        }
        let is_open = attributes.matches('[').count() > attributes.matches(']').count();
        if word.starts_with("#[") || is_open {
            attributes.push_str(word);
            continue;
        }
        let own = std::mem::take(&mut attributes);
        match &mut body {
            None => {
                let is_read = own.contains("Deserialize");
                let is_applied = own.contains("apply(_ => #[serde(default");
                has_default = own.contains("serde(default");
                let words: Vec<&str> = word.split(' ').collect();
                let at = words.iter().position(|it| ["struct", "enum"].contains(it));
                let named = at.and_then(|at| words.get(at..)?.first_chunk::<2>());
                if let Some([kind, name]) = named.filter(|_| is_read && word.ends_with('{')) {
                    has_default &= is_applied || *kind == "struct";
                    let name = name.split('<').next().unwrap_or_default();
                    body = Some((name, indent, Vec::new()));
                }
            }
            Some((name, end, fields)) if word == "}" && indent == *end => {
                if !fields.is_empty() {
                    found.push(format!("{name}\t{}", fields.join(" ")));
                }
                body = None;
            }
            Some((_, _, fields)) => {
                let Some((before, of)) = word.split_once(": ") else { continue };
                let name = before.rsplit(' ').next().unwrap_or_default();
                let is_optional = of.starts_with("Option<") && !own.contains("with");
                let may_miss = own.contains("default") || own.contains("serde(skip");
                let is_default = has_default && !own.contains("skip_apply");
                if !(is_default || is_optional || may_miss) {
                    fields.push(name);
                }
            }
        }
    }
    found
}

#[test]
fn a_field_of_the_state_may_be_missing_unless_the_table_says_why_not() {
    let mut found = Vec::new();
    let sources = sources();
    for source in sources.iter().filter(|it| it.is_rust()) {
        let is_state = source.within("init/src/") || source.within("units/src/");
        let others = ["units/src/control/", "units/src/scenario", "units/src/simulator/"];
        if is_state && !others.iter().any(|folder| source.within(folder)) {
            found.extend(required_fields(source));
        }
    }
    found.sort();
    let table = sources.iter().find(|it| it.path == REQUIRED).expect("the table is there");
    let rows = table.text.lines().filter(|line| !line.starts_with('#'));
    let mut listed: Vec<String> = rows.map(str::to_string).collect();
    listed.sort();
    let missing = |from: &[String], of: &[String]| -> Vec<String> {
        from.iter().filter(|it| !of.contains(it)).cloned().collect()
    };
    let without = missing(&found, &listed).into_iter().map(|it| {
        format!("{it}: give the field `#[serde(default)]`, or it breaks upgrades ({REQUIRED})")
    });
    let stale = missing(&listed, &found).into_iter().map(|it| format!("{REQUIRED}: {it}: delete"));
    none(without.chain(stale).collect());
}

#[test]
fn only_tools_print() {
    let mut complaints = Vec::new();
    let quiet = |s: &Source| {
        (s.within("init/src/") || s.within("units/src/")) && !PRINTERS.contains(&s.path.as_str())
    };
    for source in sources().iter().filter(|s| s.is_rust() && quiet(s)) {
        for (at, line) in source.code() {
            for macro_name in ["println!", "eprintln!", "print!", "eprint!", "dbg!"] {
                if uncommented(line).trim_start().starts_with(macro_name) {
                    let instead =
                        "units hands back text, init writes through its console without waiting";
                    complaints.push(format!("{}:{at}: {macro_name}: {instead}", source.path));
                }
            }
        }
    }
    none(complaints);
}

#[test]
fn no_test_sleeps_or_is_ignored() {
    let sleeps = [concat!("thread::", "sleep"), concat!("clock::", "pause(")];
    let ignore = concat!("#[", "ignore");
    let mut complaints = Vec::new();
    for source in sources().iter().filter(|s| s.is_rust()) {
        for (at, line) in source.text.lines().enumerate() {
            let is_pause = |sleep: &&&str| {
                line.contains(**sleep)
                    && (**sleep == sleeps[0] || !PAUSES.contains(&source.path.as_str()))
            };
            for sleep in sleeps.iter().filter(is_pause) {
                let place = format!("{}:{}", source.path, at + 1);
                complaints.push(format!("{place}: {sleep}: wait for the fact, with a deadline"));
            }
            if line.trim_start().starts_with(ignore) {
                complaints.push(format!(
                    "{}:{}: make the test pass or take it out",
                    source.path,
                    at + 1
                ));
            }
        }
    }
    none(complaints);
}

#[test]
fn file_is_named_by_its_noun() {
    let vague = ["util", "utils", "helper", "helpers", "common", "misc", "stuff"];
    let stem =
        |s: &Source| Path::new(&s.path).file_stem().map(|n| n.to_string_lossy().into_owned());
    let folder = |s: &Source| s.path.split('/').any(|part| vague.contains(&part));
    none(
        sources()
            .iter()
            .filter(|s| folder(s) || stem(s).is_some_and(|name| vague.contains(&name.as_str())))
            .map(|s| format!("{}: name it by what is in it", s.path))
            .collect(),
    );
}

#[test]
fn repository_refers_to_nothing_outside_it() {
    let bans = [
        (concat!("/wo", "rk/"), "a path of one machine: say it relative to the repository"),
        (concat!("/ro", "ot/."), "a path of one machine: say it relative to the repository"),
        (concat!("/sha", "red/"), "not part of the repository: say the fact itself"),
        (concat!("accept", "ance.md"), "not part of the repository: say the fact itself"),
        (
            concat!("design", ".md"),
            "not part of the repository: name ARCHITECTURE.md or say the fact",
        ),
        (concat!("interfaces", ".md"), "not part of the repository: say the fact itself"),
        (concat!("the br", "ief"), "not part of the repository: say the fact itself"),
        (concat!("crates", ".io"), "the place packages come from is the reader's business"),
        (concat!("docs", ".rs"), "name the crate and the item"),
        (concat!("issue", " #"), "say what it is about"),
        ("\u{a7}", "a section of nothing that is here: say the rule itself"),
    ];
    let mut complaints = Vec::new();
    for source in &sources() {
        for (at, line) in source.text.lines().enumerate() {
            let lower = line.to_lowercase();
            for (ban, instead) in bans {
                if lower.contains(ban) {
                    complaints.push(format!("{}:{}: `{ban}`: {instead}", source.path, at + 1));
                }
            }
        }
    }
    none(complaints);
}

/// Words that leave the actor or the time of a sentence open, each with its replacement.
const VAGUE: [(&str, &str); 9] = [
    (concat!("no", "body"), "say which process, user, unit or client there is not"),
    (concat!("no", "bodys"), "say which process, user, unit or client there is not"),
    (concat!("some", "body"), "name the process, user, unit or client"),
    (concat!("who", "ever"), "name the process, user, unit or client"),
    (concat!("beg", "un"), "say started"),
    (concat!("a", "new"), "say again, or restart, reread, recreate"),
    (concat!("of ", "before"), "say previous or old"),
    (concat!("is let ", "go of"), "say released, dropped or closed"),
    (concat!("can ", "not"), "write cannot"),
];
/// The account of that name, as unit files, passwd and programs write it.
const ACCOUNT: [&str; 4] = [
    concat!("user: no", "body"),
    concat!("User=no", "body"),
    concat!("\"no", "body\""),
    concat!("no", "body:x:65534:65534:no", "body:"),
];
/// Texts that are kept as they are: a file and its text, each with its reason.
const KEPT_WORDS: [(&str, &str); 2] = [
    // fleet's own message, which scripts compare.
    ("cluster/src/fleetctl/creation.rs", concat!("Warning: can ", "not replace Unit(")),
    ("cluster/tests/fleet/fleetctl.rs", concat!("can ", "not replace Unit(a.service)")),
];

/// Returns a line in lower case, with the words of its names apart.
fn apart(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut was_small = false;
    for c in line.chars() {
        if was_small && c.is_ascii_uppercase() {
            text.push(' ');
        }
        was_small = c.is_ascii_lowercase();
        text.push(if c == '_' { ' ' } else { c.to_ascii_lowercase() });
    }
    text
}

/// The records of earlier runs in `tests/ledger` keep their words.
#[test]
fn text_and_names_use_no_vague_word() {
    let mut complaints = Vec::new();
    let mut unused: BTreeSet<(&str, &str)> = KEPT_WORDS.into_iter().collect();
    for source in sources().iter().filter(|source| !source.within("tests/ledger/")) {
        for (at, line) in source.text.lines().enumerate() {
            let mut line = line.to_owned();
            ACCOUNT.iter().for_each(|account| line = line.replace(account, ""));
            for kept in KEPT_WORDS.iter().filter(|(path, _)| *path == source.path) {
                if line.contains(kept.1) {
                    unused.remove(kept);
                    line = line.replace(kept.1, "");
                }
            }
            let text = apart(&line);
            for (word, instead) in VAGUE.iter().filter(|(word, _)| has_word(&text, word)) {
                complaints.push(format!("{}:{}: `{word}`: {instead}", source.path, at + 1));
            }
        }
        if apart(&source.path).split('/').any(|part| VAGUE.iter().any(|it| has_word(part, it.0))) {
            complaints.push(format!("{}: name it without a vague word", source.path));
        }
    }
    complaints.extend(unused.iter().map(|(path, _)| format!("{path}: delete it from KEPT_WORDS")));
    none(complaints);
}

#[test]
fn each_test_that_a_table_names_exists() {
    let sources = sources();
    let is_document =
        |source: &&Source| [".md", ".tsv"].iter().any(|end| source.path.ends_with(end));
    let (documents, programs): (Vec<_>, Vec<_>) = sources.iter().partition(is_document);
    let part = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let words: BTreeSet<&str> =
        programs.iter().flat_map(|source| source.text.split(|c| !part(c))).collect();
    let is_written = |name: &str| match name.split("::").all(|step| step.chars().all(part)) {
        true => name.rsplit("::").next().is_some_and(|last| words.contains(last)),
        // A scenario has a sentence as its name.
        false => name.contains(' ') && programs.iter().any(|source| source.text.contains(name)),
    };
    let is_table = |source: &&&Source| TABLES.contains(&source.path.as_str());
    let tables: Vec<_> = documents.iter().filter(is_table).collect();
    let mut complaints = Vec::new();
    for table in &tables {
        let names = named(&table.path, &table.text).into_iter();
        complaints.extend(
            names
                .filter(|(_, name)| !is_written(name))
                .map(|(line, name)| format!("{}:{line}: `{name}` is no test", table.path)),
        );
    }
    assert_eq!(tables.len(), TABLES.len(), "each of {TABLES:?} is there");
    none(complaints);
}

#[test]
fn style_guard_detects_violations() {
    assert!(has_word("let x = unsafe { 1 };", "unsafe"));
    assert!(!has_word("unsafe_code = deny", "unsafe"));
    assert_eq!(uncommented("call(); // std::fs"), "call(); ");
    assert_eq!(apart("is_SetBy(aUnit)"), "is set by(a unit)");
}
