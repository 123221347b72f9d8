//! The options in `start_stop_daemon_args` and `supervise_daemon_args`, of start-stop-daemon(8) and
//! supervise-daemon(8), with their native keys.

/// The meaning of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A native key with the value unchanged.
    Key(&'static str),
    /// `user` or `user:group`.
    User,
    /// `NAME=value`.
    Variable,
    /// A file to append output to.
    Output(&'static str),
    /// Milliseconds to check that the daemon stays alive.
    Wait,
    /// `class` or `class:level`.
    Io,
    /// Equal to the variable of that name.
    As(&'static str),
    /// Enabled, like the variable of that name with `yes`.
    Yes(&'static str),
    /// Has no effect here.
    Needless(&'static str),
    /// The import leaves the option out, with this effect.
    Lost(&'static str),
    /// Cannot be expressed in a unit.
    Other(&'static str),
}

use Meaning::{As, Io, Key, Lost, Needless, Other, Output, User, Variable, Wait, Yes};

/// An option: letter, name, whether it takes a value, and meaning.
struct Row(char, &'static str, bool, Meaning);

const OURS: &str = "that is init's to do";
const LOG: &str = "its output goes to the log of init instead";

#[rustfmt::skip]
const ROWS: [Row; 37] = [
    Row('u', "user", true, User),
    Row('c', "chuid", true, User),
    Row('g', "group", true, Key("group")),
    Row('d', "chdir", true, Key("working-dir")),
    Row('k', "umask", true, Key("umask")),
    Row('N', "nicelevel", true, Key("nice")),
    Row('\0', "oom-score-adj", true, Key("oom-score-adjust")),
    Row('r', "chroot", true, Key("root-dir")),
    Row('e', "env", true, Variable),
    Row('I', "ionice", true, Io),
    Row('1', "stdout", true, Output("stdout")),
    Row('2', "stderr", true, Output("stderr")),
    Row('w', "wait", true, Wait),
    Row('D', "respawn-delay", true, As("respawn_delay")),
    Row('R', "retry", true, As("retry")),
    Row('s', "signal", true, As("stopsig")),
    Row('p', "pidfile", true, As("pidfile")),
    Row('b', "background", false, Yes("command_background")),
    Row('\0', "no-new-privs", false, Yes("no_new_privs")),
    Row('\0', "capabilities", true, As("capabilities")),
    Row('\0', "notify", true, As("notify")),
    Row('x', "exec", true, Other("it names the program once more")),
    Row('a', "startas", true, Other("it starts another program than `command` names")),
    Row('3', "stdout-logger", true, Lost(LOG)),
    Row('4', "stderr-logger", true, Lost(LOG)),
    Row('\0', "secbits", true, Lost("its secure bits are init's")),
    Row('\0', "scheduler", true, Lost("it is scheduled as init is")),
    Row('\0', "scheduler-priority", true, Lost("it is scheduled as init is")),
    Row('m', "make-pidfile", false, Needless("init knows the process")),
    Row('n', "name", true, Needless("init knows the process")),
    Row('i', "interpreted", false, Needless("init knows the process")),
    Row('S', "start", false, Needless(OURS)),
    Row('P', "progress", false, Needless(OURS)),
    Row('q', "quiet", false, Needless(OURS)),
    Row('v', "verbose", false, Needless(OURS)),
    Row('o', "oknodo", false, Needless(OURS)),
    Row('C', "nocolor", false, Needless(OURS)),
];

/// One option as written.
#[derive(Debug)]
pub(super) struct Given {
    /// The name with two dashes, or the text if it is no option.
    pub(super) name: String,
    pub(super) value: String,
    /// The meaning; `None` if unknown.
    pub(super) meaning: Option<Meaning>,
}

/// Parses options from words. `supervised` selects those of supervise-daemon, a few of which
/// differ.
pub(super) fn read(words: &[String], supervised: bool) -> Vec<Given> {
    let mut given = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if let Some(long) = word.strip_prefix("--").filter(|long| !long.is_empty()) {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            let row = ROWS.iter().find(|row| row.1 == name).or_else(|| respawn(name, supervised));
            let takes = row.is_some_and(|row| row.2);
            let value = match value {
                Some(value) => Some(value.to_string()),
                None if takes => rest.next().cloned(),
                None => None,
            };
            given.push(one(format!("--{name}"), value, row));
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            short(letters, &mut rest, supervised, &mut given);
        } else {
            given.push(one(word.clone(), None, None));
        }
    }
    given
}

/// `-x value`, `-xvalue`, `-xyz`.
fn short<'w>(
    letters: &str,
    rest: &mut impl Iterator<Item = &'w String>,
    supervised: bool,
    given: &mut Vec<Given>,
) {
    let mut letters = letters.chars();
    while let Some(letter) = letters.next() {
        let respawn = match (supervised, letter) {
            (true, 'm') => respawn("respawn-max", true),
            (true, 'P') => respawn("respawn-period", true),
            (true, 'a') => respawn("healthcheck-timer", true),
            (true, 'A') => respawn("healthcheck-delay", true),
            _ => None,
        };
        let row = respawn.or_else(|| ROWS.iter().find(|row| row.0 == letter));
        if row.is_some_and(|row| row.2) {
            let tail = letters.as_str();
            let value = if tail.is_empty() { rest.next().cloned() } else { Some(tail.to_string()) };
            given.push(one(format!("-{letter}"), value, row));
            return;
        }
        given.push(one(format!("-{letter}"), None, row));
    }
}

/// Returns the option of that name if only supervise-daemon has it.
fn respawn(name: &str, supervised: bool) -> Option<&'static Row> {
    const MORE: [Row; 4] = [
        Row('a', "healthcheck-timer", true, Lost("init runs no health checks")),
        Row('A', "healthcheck-delay", true, Lost("init runs no health checks")),
        Row('m', "respawn-max", true, As("respawn_max")),
        Row('P', "respawn-period", true, As("respawn_period")),
    ];
    MORE.iter().find(|row| supervised && row.1 == name)
}

fn one(name: String, value: Option<String>, row: Option<&Row>) -> Given {
    let missing = row.is_some_and(|row| row.2) && value.is_none();
    let meaning = row.filter(|_| !missing).map(|row| row.3);
    Given { name, value: value.unwrap_or_default(), meaning }
}
