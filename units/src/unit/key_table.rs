//! The table of [`crate::unit::key`]. This file has the keys of every unit; the files below it have
//! the keys of processes, one file per area.

mod command;
mod condition;
mod directory;
mod environment;
mod readiness;
mod relation;
mod restart;
mod sandbox;
mod share;
mod trigger;

pub use sandbox::SANDBOX;

use crate::spec::{Kind, Log, NotifyAccess, OnChange};
use crate::unit::key::{Class, Key, Kinds, Shape, nearest};

const ALL: Kinds = Kinds::ALL;
const NONE: Kinds = Kinds::NONE;
const TRIGGERS: Kinds = Kinds::of(&[Kind::Socket, Kind::Timer, Kind::Path]);
const PROCESS: Kinds = Kinds::of(&[
    Kind::ForegroundNotified,
    Kind::ForegroundSupervised,
    Kind::BackgroundPidfile,
    Kind::BackgroundScripted,
    Kind::Oneshot,
]);
const FOREGROUND: Kinds = Kinds::of(&[Kind::ForegroundNotified, Kind::ForegroundSupervised]);
/// Types that need a command.
const STARTED: Kinds = Kinds::of(&[
    Kind::ForegroundNotified,
    Kind::ForegroundSupervised,
    Kind::BackgroundPidfile,
    Kind::BackgroundScripted,
]);
const SUPERVISED: Kinds = Kinds::of(&[Kind::ForegroundSupervised]);
const PIDFILE: Kinds = Kinds::of(&[Kind::BackgroundPidfile]);
/// Types whose units can be exited.
const ENDING: Kinds = Kinds::of(&[
    Kind::ForegroundNotified,
    Kind::ForegroundSupervised,
    Kind::BackgroundPidfile,
    Kind::Oneshot,
]);
/// Types whose units can be running.
const RUNNING: Kinds = Kinds::of(&[
    Kind::ForegroundNotified,
    Kind::ForegroundSupervised,
    Kind::BackgroundPidfile,
    Kind::BackgroundScripted,
]);
/// Types whose units can fail by themselves.
const FAILING: Kinds = PROCESS.and(TRIGGERS);

#[rustfmt::skip]
#[allow(clippy::too_many_arguments, reason = "a row of the table has this many columns")]
const fn key(
    name: &'static str, shape: Shape, class: Class, types: Kinds, required: Kinds,
    default: &'static str, doc: &'static str, example: &'static str,
) -> Key {
    Key { name, shape, class, types, required, default, doc, example }
}

use Class::{Identity, Live, Run};

/// The areas, in the order of the documentation.
const AREAS: [&[Key]; 10] = [
    GENERAL,
    relation::KEYS,
    restart::KEYS,
    command::KEYS,
    readiness::KEYS,
    environment::KEYS,
    directory::KEYS,
    share::KEYS,
    trigger::KEYS,
    condition::KEYS,
];

/// Every key.
pub const KEYS: &[Key] = &joined::<{ count() }>();

const fn count() -> usize {
    let (mut all, mut areas) = (0, AREAS.as_slice());
    while let [first, rest @ ..] = areas {
        all += first.len();
        areas = rest;
    }
    all
}

#[allow(clippy::indexing_slicing, reason = "done by the compiler, which would tell")]
const fn joined<const N: usize>() -> [Key; N] {
    let mut all = [GENERAL[0]; N];
    let (mut next, mut areas) = (0, AREAS.as_slice());
    while let [first, rest @ ..] = areas {
        let mut keys = *first;
        while let [key, others @ ..] = keys {
            all[next] = *key;
            next += 1;
            keys = others;
        }
        areas = rest;
    }
    all
}

#[rustfmt::skip]
const GENERAL: &[Key] = &[
    key("unit", Shape::Name, Identity, ALL, ALL, "there must be one",
        "The unit's name: letters, digits and `: _ . @ -`, at most 255, not beginning with `-` or `.`. It matters to files and logs; operators speak of targets. `name` is another spelling of it.",
        "unit: maddy"),
    key("name", Shape::Name, Identity, ALL, NONE, "the same as unit",
        "Another spelling of `unit`. Both may be given when they say the same.",
        "name: irc-bot"),
    key("description", Shape::Text, Live, ALL, NONE, "empty",
        "One line for people, shown by status.",
        "description: IMAP and SMTP server"),
    key("type", Shape::Choice(&Kind::WORDS), Run, ALL, NONE,
        "foreground-supervised with an exec-start, virtual without",
        "How the unit lives. foreground-notified: a process that says READY=1 by the sd_notify protocol. foreground-supervised: a process that counts as ready while it runs, after ready-wait, or at a line that matches ready-grep. background-pidfile: a daemon that forks into the background and leaves a pid file. background-scripted: start, stop and reload are scripts. oneshot: a command run once; afterwards the unit is exited, which is active. virtual: no process, only dependencies. socket, timer and path are triggers that bring in the target they activate.",
        "type: foreground-notified"),
    key("provides", Shape::Names, Live, ALL, NONE, "the unit's name",
        "The targets this unit stands for. All dependencies name targets. Where several units provide one target, the policy's `prefer` chooses; nothing is chosen by file order.",
        "provides: imapd, smtpd"),
    key("default-instance", Shape::Form("what stands behind the @"), Identity, ALL, NONE, "none",
        "Of a template, a unit named `name@`: the instance that is made without anybody depending on it. Templates themselves are no units; a dependency on `name@x`, or its place in the goal, makes `name@x`, with %i and the other specifiers of systemd replaced in every value; `%%` is a percent sign.",
        "default-instance: tty1"),
    key("exec-start", Shape::ExecStart, Run, PROCESS, STARTED, "there must be one; a oneshot may do with exec-start-pre or exec-stop",
        "The command. No shell is involved: words, quotes, escapes, `$NAME` (a whole word, split), `${NAME}` and `$$`. The program is an absolute path, or a bare name that is looked up in PATH. Before it may stand `-` (a failure counts as success), `+` (as init itself, without the unit's user and limits of rights), `!` (as init's own user), `@` (the next word is the program's name for itself), `:` (no variable is replaced). Quote the whole value when it holds `: ` or ` #`.",
        "exec-start: /usr/bin/maddy run"),
    key("exec-start-pre", Shape::ExecLines, Run, PROCESS, NONE, "none",
        "Commands run to their end before exec-start, in order, as the same user. One that fails fails the start, unless a `-` stands before it.",
        "exec-start-pre: /usr/bin/install -d -o www /run/www"),
    key("exec-stop", Shape::ExecLines, Run, PROCESS, NONE, "none: the stop signal is sent",
        "Commands that stop the unit, instead of the stop signal to its main process. `$MAINPID` is its main process, as long as that lives. A command that fails is followed by the signal; what has not ended at the stop timeout gets SIGKILL.",
        "exec-stop: /bin/kill -TERM $MAINPID"),
    key("exec-reload", Shape::ExecLines, Run, PROCESS, NONE, "none: reload-unit is refused",
        "Commands by which the unit takes in its own changed configuration, run by `initctl reload-unit`. One that fails leaves the unit running.",
        "exec-reload: /bin/kill -USR1 $MAINPID"),
    key("pid-file", Shape::Path, Run, PIDFILE, NONE, "there must be one, or main-pid",
        "Where the daemon leaves the number of its main process. The number is believed only of a process that belongs to the unit.",
        "pid-file: /run/nginx.pid"),
    key("ready-wait", Shape::Duration, Run, SUPERVISED, NONE, "ready as soon as it runs",
        "Ready when it still runs after this long. Not together with ready-grep.",
        "ready-wait: 2s"),
    key("ready-grep", Shape::Pattern, Run, FOREGROUND, NONE, "none",
        "Ready when a line of its output, or of its error output, matches. For a foreground-notified unit whichever comes first counts, the line or READY=1. The syntax is that of the Rust crate regex: no look-around, no back-references, linear time.",
        "ready-grep: ^connected to"),
    key("notify-access", Shape::Choice(&NotifyAccess::WORDS), Run, PROCESS, NONE, "main; none where nothing is expected",
        "Whose messages on the notify socket count: those of the main process, of what init itself started for the unit (exec), of all its processes, or none.",
        "notify-access: all"),
    key("wait-file", Shape::Paths, Run, PROCESS, NONE, "none",
        "Paths that have to exist before the first command is run, such as device nodes. Looked for until the start times out.",
        "wait-file: /dev/ttyUSB0"),
    key("needs-path", Shape::Paths, Live, ALL, NONE, "none",
        "Paths this unit uses: where a unit mounts one of the directories on the way (it provides `var-lib.mount` for /var/lib), that is a depends-ms of this unit. Brings the mount in; silent where nothing is mounted.",
        "needs-path: /var/lib/postgresql"),
    key("remain", Shape::Boolean, Run, ENDING, NONE, "yes for a oneshot, no otherwise",
        "Whether the unit stays active when its run has ended well. yes: exit 0 is a success, the unit is exited, and exec-stop waits for the stop. no: the run is over. exec-stop (where the run had been ready) and exec-stop-post are run, processes that are left are ended as kill-mode says, and runtime directories are removed. The unit is shown as exited, and waits-for and depends-ms stay satisfied; for depends-on and requires-active it is not active. A trigger's firing, `initctl restart` or a changed definition runs it again.",
        "remain: no"),
    key("run-timeout", Shape::Timeout, Live, RUNNING, NONE, "none",
        "How long it may be active; longer is a failure (run-timeout).",
        "run-timeout: 24h"),
    key("start-timeout", Shape::Timeout, Live, PROCESS, NONE, "60s",
        "How long a start may take until the unit counts as failed and is killed. The time it waits for dependencies does not count.",
        "start-timeout: 5min"),
    key("stop-timeout", Shape::Timeout, Live, PROCESS, NONE, "10s",
        "How long a stop may take until everything left of the unit is killed.",
        "stop-timeout: 30s"),
    key("stop-signal", Shape::Signal, Live, PROCESS, NONE, "TERM",
        "The signal a stop begins with; what does not end by it is killed at the stop timeout.",
        "stop-signal: QUIT"),
    key("stop-promptly", Shape::Boolean, Live, PROCESS, NONE, "no",
        "When it is to stop it is told at once, not after the units that depend on it are down, and nothing it says prolongs its stop: for what has to be down by a certain time, whatever else is. Units that depend on it are told to stop at the same time.",
        "stop-promptly: yes"),
    key("success-status", Shape::Statuses, Live, PROCESS, NONE, "exit 0 of a oneshot or script, nothing else",
        "Exit statuses and signals that are no failure. A supervised unit that ends so is exited, which is active, and is not restarted (but see restart: always).",
        "success-status: [0, 143, TERM]"),
    key("log", Shape::Choice(&Log::WORDS), Run, PROCESS, NONE, "file",
        "Where its output goes: the logger (file), the kernel log, /dev/log, the console, wherever init's own goes, or nowhere.",
        "log: console"),
    key("on-change", Shape::Choice(&OnChange::WORDS), Live, PROCESS, NONE, "restart",
        "What a reload that changed its definition does to an up unit: replace the run, run exec-reload, or keep the run and show it as stale.",
        "on-change: keep"),
    key("essential", Shape::Boolean, Live, PROCESS, NONE, "no",
        "A reload never restarts it, whatever changed; it is shown as stale instead.",
        "essential: yes"),
    key("user", Shape::Account, Run, PROCESS, NONE, "init's own user",
        "Who it runs as, by name in /etc/passwd or by number. Sets its groups, HOME, USER, LOGNAME and SHELL too. A number that passwd does not know needs `group` as well.",
        "user: www-data"),
    key("group", Shape::Account, Run, PROCESS, NONE, "the user's first group",
        "Its group, by name in /etc/group or by number.",
        "group: www-data"),
    key("supplementary-groups", Shape::Accounts, Run, PROCESS, NONE, "those /etc/group lists the user in",
        "Further groups, besides those /etc/group lists the user in. At most 32 in all.",
        "supplementary-groups: [ssl-cert, video]"),
    key("env", Shape::Environment, Run, PROCESS, NONE, "none",
        "Environment variables. They win over those of env-file and of the settings.",
        "env:\n  LANG: C.UTF-8\n  PORT: 8080"),
    key("env-file", Shape::EnvFiles, Run, PROCESS, NONE, "none",
        "Files of `NAME=value` lines, read before each command. One that is missing fails the start, unless a `-` stands before its path.",
        "env-file: [/etc/default/web, -/etc/default/web.local]"),
    key("working-dir", Shape::Form("an absolute path, with or without a `-` before it, or `~`"), Run, PROCESS, NONE, "/",
        "The directory its processes start in, entered as the unit's user. With a `-` before it may be missing, and `/` stands in; `~` is the user's home.",
        "working-dir: /var/lib/web"),
    key("umask", Shape::Umask, Run, PROCESS, NONE, "022",
        "Permission bits that files made by its processes do not get, in octal.",
        "umask: 077"),
    key("limits", Shape::Limits, Run, PROCESS, NONE, "init's own, as it found them",
        "Resource limits, see getrlimit(2): as, core, cpu, data, fsize, locks, memlock, msgqueue, nice, nofile, nproc, rss, rtprio, rttime, sigpending, stack. One value sets the soft and the hard limit, `soft:hard` each; sizes take K, M, G, T; `infinity` is no limit.",
        "limits:\n  nofile: 1024:4096\n  core: infinity"),
];

/// Returns the key of that name.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Returns the key that was probably meant; names of other init systems are known too.
pub fn meant(name: &str) -> Option<&'static str> {
    const ELSEWHERE: [(&str, &str); 24] = [
        ("command", "exec-start"),
        ("exec", "exec-start"),
        ("execstart", "exec-start"),
        ("execstartpre", "exec-start-pre"),
        ("execstop", "exec-stop"),
        ("stop-command", "exec-stop"),
        ("execreload", "exec-reload"),
        ("environment", "env"),
        ("environment-file", "env-file"),
        ("environmentfile", "env-file"),
        ("working-directory", "working-dir"),
        ("workingdirectory", "working-dir"),
        ("pidfile", "pid-file"),
        ("run-as", "user"),
        ("restart-sec", "restart-delay"),
        ("timeout", "start-timeout"),
        ("kill-signal", "stop-signal"),
        ("requires", "depends-ms"),
        ("binds-to", "depends-on"),
        ("depends", "depends-on"),
        ("needs", "depends-ms"),
        ("need", "depends-ms"),
        ("use", "after"),
        ("provide", "provides"),
    ];
    let swapped = name.to_ascii_lowercase().replace('_', "-");
    let known = ELSEWHERE.iter().find(|(word, _)| *word == swapped).map(|(_, key)| *key);
    known.or_else(|| nearest(name, KEYS.iter().map(|key| key.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::DependencyKind;

    #[test]
    fn each_key_stands_once_in_the_table_with_all_its_words() {
        for (index, key) in KEYS.iter().enumerate() {
            assert!(
                KEYS.iter().skip(index + 1).all(|other| other.name != key.name),
                "{}",
                key.name
            );
            assert!(key.doc.len() > 30 && key.doc.ends_with('.'), "{}", key.name);
            assert!(!key.default.is_empty() && !key.example.is_empty(), "{}", key.name);
            assert!(key.required.0 & !key.types.0 == 0, "{}", key.name);
            assert_ne!(key.types, Kinds::NONE, "{}", key.name);
        }
    }

    #[test]
    fn each_dependency_list_is_a_key() {
        let keyed = |kind: &DependencyKind| *kind != DependencyKind::Accepts;
        for kind in DependencyKind::ALL.into_iter().filter(keyed) {
            assert_eq!(find(kind.as_str()).unwrap().dependency(), Some(kind));
        }
    }

    #[test]
    fn a_slip_of_the_pen_is_understood() {
        for (written, key) in [
            ("exec_start", "exec-start"),
            ("ExecStart", "exec-start"),
            ("dependson", "depends-on"),
            ("wait-for", "waits-for"),
            ("provide", "provides"),
            ("usr", "user"),
            ("Environment", "env"),
        ] {
            assert_eq!(meant(written), Some(key), "{written}");
        }
        assert_eq!(meant("colour-of-the-sky"), None);
    }
}
