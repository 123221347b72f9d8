//! Checks of the fuzz target `import_openrc` for any bytes as an OpenRC service script:
//!
//! - Two conversions give the same.
//! - Every reported position is within the file.
//! - Each assignment at the top and each word of `depend()` has an outcome, and an omission is
//!   reported.
//! - The unit is written in the native form and read back unchanged.
//!
//! The settings end at the first NUL, and the script follows. If they start with a byte above 127,
//! bytes choose the script's lines.

use super::composed::Composed;
use groundstate_units::import::import_outcome::{Imported, Outcome};
use groundstate_units::import::openrc::convert;
use groundstate_units::limit;
use groundstate_units::spec::{Kind, Run};
use groundstate_units::text::diagnostic::{Diagnostic, Severity};
use groundstate_units::text::yaml;
use groundstate_units::unit::account::Accounts;
use groundstate_units::unit::manifest::Manifest;
use groundstate_units::unit::semantics;
use groundstate_units::unit::settings::Settings;
use groundstate_units::unit::yaml_writer;
use std::collections::BTreeSet;
use std::sync::Arc;

const SETTINGS: &str = "/etc/conf.d/net.a";

/// The kind of unit, if it contains anything of the script. Panics if a promise is broken.
pub fn import_openrc(bytes: &[u8]) -> Option<Kind> {
    let (text, told_of) = match bytes.first() {
        Some(first) if *first > 127 => composed(bytes.get(1..)?),
        Some(_) | None => {
            let at = bytes.iter().position(|byte| *byte == 0).map_or(0, |at| at + 1);
            (bytes.to_vec(), plain_assignments(bytes.get(at..)?))
        }
    };
    let at = text.iter().position(|byte| *byte == 0);
    let (settings, script) = match at.and_then(|at| text.split_at_checked(at)) {
        Some((settings, rest)) => (Some(settings), rest.get(1..)?),
        None => (None, text.as_slice()),
    };
    let (file, beside): (Arc<str>, Arc<str>) = ("/etc/init.d/net.a".into(), SETTINGS.into());
    let around = || settings.map(|bytes| (&beside, bytes));
    let imported = convert("net.a", &file, script, around());
    let again = convert("net.a", &file, script, around());
    assert_eq!(imported.outcomes, again.outcomes, "it depends on something else");
    places(&imported, &file, script, settings.unwrap_or_default());
    let outcomes: BTreeSet<u32> = lines(&imported, &file);
    for line in told_of {
        assert!(outcomes.contains(&line), "line {line} is dropped in silence");
    }
    left_out(&imported);
    let kind = read_back(&imported)?;
    imported
        .outcomes
        .iter()
        .any(|directive| matches!(directive.outcome, Outcome::Kept(_)))
        .then_some(kind)
}

fn lines(imported: &Imported, file: &str) -> BTreeSet<u32> {
    let here = imported.outcomes.iter().filter(|directive| *directive.at.file == *file);
    here.map(|directive| directive.at.line).collect()
}

fn places(imported: &Imported, file: &str, script: &[u8], settings: &[u8]) {
    let count = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
    let places = imported.outcomes.iter().map(|directive| &directive.at);
    for at in places.chain(imported.manifest.diagnostics.iter().map(|said| &said.at)) {
        let within = if *at.file == *file { count(script) } else { count(settings) };
        assert!((1..=within).contains(&(at.line as usize)), "{at} of {within} lines");
        assert!(*at.file == *file || *at.file == *SETTINGS, "{at}");
    }
}

fn left_out(imported: &Imported) {
    let said = &imported.manifest.diagnostics;
    for directive in &imported.outcomes {
        let is_left_out = matches!(
            directive.outcome,
            Outcome::Lost(_) | Outcome::Weaker(_) | Outcome::Refused(_)
        );
        let is_told = said.iter().any(|said| said.at == directive.at);
        let is_full = said.len() >= limit::DIAGNOSTICS_PER_FILE;
        assert!(!is_left_out || is_told || is_full, "left out without a word: {directive:?}");
    }
}

/// The kind of unit. Checks that it is unchanged when it is written and read.
fn read_back(imported: &Imported) -> Option<Kind> {
    let written = yaml_writer::write(&imported.manifest);
    let limits = yaml::Limits { bytes: usize::MAX, nodes: usize::MAX, ..yaml::Limits::UNIT_FILE };
    let Ok(documents) = yaml::parse("native", written.as_bytes(), &limits) else {
        panic!("cannot be read back:\n{written}")
    };
    let wrong = |found: &[Diagnostic]| {
        let errors = found.iter().filter(|said| said.severity == Severity::Error);
        errors.map(|said| said.message.clone()).collect::<Vec<_>>()
    };
    let mean = |manifest| semantics::read(manifest, &Settings::default(), &Accounts::default());
    let direct = mean(imported.manifest.clone());
    if !wrong(&imported.manifest.diagnostics).is_empty() {
        return None;
    }
    assert_eq!(wrong(&direct.diagnostics), Vec::<String>::new(), "{written}");
    let Some(document) = documents.first() else { panic!("nothing was written") };
    let again = mean(Manifest::read(&"native".into(), document));
    assert_eq!(wrong(&again.diagnostics), Vec::<String>::new(), "{written}");
    let (Some(direct), Some(again)) = (direct.draft, again.draft) else {
        panic!("no unit:\n{written}")
    };
    assert_eq!(
        (direct.kind, &direct.provides, run(&direct.run)),
        (again.kind, &again.provides, run(&again.run)),
        "means another thing when read back:\n{written}"
    );
    assert_eq!(direct.dependencies.len(), again.dependencies.len(), "{written}");
    Some(direct.kind)
}

/// The stored run without the mark of an imported unit.
fn run(stored: &[u8]) -> Option<Run> {
    let mut run = Run::decode(stored)?;
    if let Some(particular) = &mut run.particular {
        particular.lenient = false;
    }
    run.particular = run.particular.filter(|particular| particular.is_any());
    Some(run)
}

/// The numbers of lines that are certainly assignments, whatever the syntax of the shell. Stops at
/// the first line that may be anything else.
fn plain_assignments(script: &[u8]) -> BTreeSet<u32> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_=/.-:+%".contains(byte);
    let is_plain = |line: &&[u8]| line.iter().all(plain) && !WORDS_OF_THE_SHELL.contains(line);
    let lines = script.split(|byte| *byte == b'\n').take_while(is_plain);
    let is_one = |line: &[u8]| {
        let name = line.split(|byte| *byte == b'=').next().unwrap_or_default();
        let begins = name.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
        let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        line.contains(&b'=') && begins && name.iter().all(goes_on)
    };
    let ones = lines.zip(1..).filter(|(line, _)| is_one(line));
    ones.map(|(_, number)| number).collect()
}

/// Words of compound commands. After one of them, an assignment is perhaps not at the top level, or
/// the importer reads no further lines.
const WORDS_OF_THE_SHELL: [&[u8]; 12] = [
    b"if", b"then", b"else", b"elif", b"fi", b"while", b"until", b"for", b"do", b"done", b"case",
    b"esac",
];

/// Variables with a meaning, and one of the script's own.
const NAMES: [&str; 28] = [
    "command",
    "command_args",
    "command_args_background",
    "command_args_foreground",
    "command_background",
    "command_user",
    "pidfile",
    "directory",
    "chroot",
    "umask",
    "output_log",
    "error_log",
    "output_logger",
    "required_files",
    "required_dirs",
    "retry",
    "stopsig",
    "rc_ulimit",
    "capabilities",
    "notify",
    "supervisor",
    "start_stop_daemon_args",
    "supervise_daemon_args",
    "respawn_max",
    "respawn_delay",
    "description",
    "rc_need",
    "own",
];

const VALUES: [&str; 40] = [
    "/bin/a",
    "yes",
    "no",
    "-v",
    "'a b'",
    "\"a  b\"",
    "$own",
    "\"$own\"",
    "${own:-/run/x}",
    "${own%/*}",
    "${own##*/}",
    "\"${own:+-q}\"",
    "${own:=5}",
    "\"\\${RC_SVCNAME}\"",
    "www:www",
    "www",
    "/run/${RC_SVCNAME}.pid",
    "TERM/60/KILL/10",
    "5",
    "INT",
    "'-n 1024 -c unlimited'",
    "^cap_net_raw",
    "fd:3",
    "socket:ready",
    "supervise-daemon",
    "\"-u a -e B=c --ionice 2:3\"",
    "\"--frob -b -w 9\"",
    "$(date)",
    "`date`",
    "\"$HOME\"",
    "027",
    "a\\ b",
    "'\\'",
    "\"a\\\nb\"",
    "x#y",
    "*",
    "\"'\"",
    "",
    "$",
    "\u{e4}",
];

const LINES: [&str; 20] = [
    "need net.a localmount",
    "use logger",
    "want $own",
    "after *",
    "before \"a b\"",
    "provide net dns",
    "keyword -docker -timeout",
    "config /etc/a",
    "need !net",
    "if x; then need y; fi",
    "local own=a",
    "return 0",
    "ewarn a",
    "frob",
    "need ${own:-a} $1",
    "need a; use b",
    "after a \\\n b",
    "need a # need c",
    "case a in a) need d ;; esac",
    "need 'a'\"b\"c",
];

const FUNCTIONS: [&str; 8] = [
    "start_pre() { checkpath -d -m 0750 /run/a /run/b; }",
    "start_pre()\n{\n\tcheckpath -d -o www:www /var/lib/a\n}",
    "reload() { start-stop-daemon --signal HUP --pidfile $pidfile; }",
    "status() { :; }",
    "own() { command_args=x; }",
    "check() ( exit 0 )",
    "stop() { kill 5; }",
    "healthcheck() { cat <<X\n} a='\nX\n}",
];

/// A script, and its lines that must be reported: those with an assignment or a verb.
fn composed(bytes: &[u8]) -> (Vec<u8>, BTreeSet<u32>) {
    let mut from = Composed::of(bytes);
    let mut text = String::new();
    if from.one_in(4) {
        text.push_str(&format!("{}={}\n\0", from.pick(&NAMES), from.pick(&VALUES)));
    }
    let first = text.len();
    text.push_str("#!/sbin/openrc-run\ncommand=/bin/a\ncommand_background=yes\npidfile=/run/a\n");
    let mut told_of = BTreeSet::new();
    // With an open quote the meaning of later lines is uncertain.
    let mut is_sure = true;
    while !from.is_over() && text.len() < 8192 {
        let (name, value) = (from.pick(&NAMES), from.pick(&VALUES));
        match from.byte() % 16 {
            0..=7 => line(&mut text, first, &format!("{name}={value}"), &mut told_of),
            8 => line(&mut text, first, &format!(": ${{own:={value}}}"), &mut told_of),
            9 => line(&mut text, first, &format!("export own={value}"), &mut told_of),
            10..=12 => {
                text.push_str("depend() {\n");
                for _ in 0..from.byte() % 6 {
                    line(&mut text, first, from.pick(&LINES), &mut told_of);
                }
                text.push_str("}\n");
            }
            13 => text.push_str(&format!("{}\n", from.pick(&FUNCTIONS))),
            14 => {
                text.push_str("if [ -e /x ]; then\n");
                line(&mut text, first, &format!("{name}={value}"), &mut told_of);
                text.push_str("fi\n");
            }
            _ => {
                text.push_str(&format!("{}\n", from.text(12).replace(['\0', '\n'], " ")));
                is_sure = false;
            }
        }
        if !is_sure {
            told_of.clear();
        }
    }
    (text.into_bytes(), told_of)
}

/// Adds a line, or two joined ones, that must be reported.
fn line(text: &mut String, first: usize, line: &str, told_of: &mut BTreeSet<u32>) {
    let script = text.get(first..).unwrap_or_default();
    told_of.insert(u32::try_from(script.matches('\n').count() + 1).unwrap_or(u32::MAX));
    text.push_str(line);
    text.push('\n');
}
