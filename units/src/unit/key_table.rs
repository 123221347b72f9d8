//! The table of all keys of a unit file. This file has the general keys; each file below it has the
//! keys of one area.

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
/// Types whose units can be exited after a success.
const ENDING: Kinds = Kinds::of(&[
    Kind::ForegroundNotified,
    Kind::ForegroundSupervised,
    Kind::BackgroundPidfile,
    Kind::Oneshot,
]);
/// Types with a process that runs while the unit is active.
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

#[allow(
    clippy::indexing_slicing,
    reason = "evaluated at compile time, which refuses a wrong index"
)]
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
    key("unit", Shape::Name, Identity, ALL, ALL, "required",
        "The unit's name, for files and logs; operators use targets. It has letters, digits and `: _ . @ -`, and at most 255 characters. It does not start with `-` or `.`. `name` is another spelling of this key.",
        "unit: maddy"),
    key("name", Shape::Name, Identity, ALL, NONE, "the same as unit",
        "Another spelling of `unit`. A file may have both if they are the same.",
        "name: irc-bot"),
    key("description", Shape::Text, Live, ALL, NONE, "empty",
        "One line for people, shown by status.",
        "description: IMAP and SMTP server"),
    key("type", Shape::Choice(&Kind::WORDS), Run, ALL, NONE,
        "foreground-supervised with an exec-start, virtual without",
        "How init starts the unit and when it counts as ready. foreground-notified: a process that sends READY=1 by the sd_notify protocol. foreground-supervised: a process that is ready as soon as it runs, after ready-wait, or at a line that matches ready-grep. background-pidfile: a daemon that forks into the background and writes a pid file. background-scripted: start, stop and reload are scripts. oneshot: a command that runs once; after its success the unit is exited (see remain). virtual: no process, only dependencies. socket, timer and path are triggers that start the target in `activates`.",
        "type: foreground-notified"),
    key("provides", Shape::Names, Live, ALL, NONE, "the unit's name",
        "The targets this unit provides. All dependencies name targets. If several units provide one target, the policy's `prefer` chooses; the order of files does not matter.",
        "provides: imapd, smtpd"),
    key("default-instance", Shape::Form("the text after the @"), Identity, ALL, NONE, "none",
        "The instance of this template that exists without a dependency on it. A template is named `name@`; it is not a unit itself. A dependency on `name@x`, or `name@x` in the goal, creates that instance. %i and the other specifiers of systemd are replaced in every value; `%%` is a percent sign.",
        "default-instance: tty1"),
    key("exec-start", Shape::ExecStart, Run, PROCESS, STARTED, "required, except for a oneshot with exec-start-pre or exec-stop",
        "The command. No shell is involved: words, quotes, escapes, `$NAME` (a whole word, split), `${NAME}` and `$$`. The program is an absolute path, or a bare name that is searched in PATH. A prefix changes how the command runs. `-`: a failure counts as success. `+`: as init itself, without the unit's user and without its restrictions. `!`: as init's own user. `@`: the next word is argument 0. `:`: no variable is replaced. Quote the whole value if it contains `: ` or ` #`.",
        "exec-start: /usr/bin/maddy run"),
    key("exec-start-pre", Shape::ExecLines, Run, PROCESS, NONE, "none",
        "Commands that run before exec-start, in order, as the same user. A failed command fails the start, unless it has the prefix `-`.",
        "exec-start-pre: /usr/bin/install -d -o www /run/www"),
    key("exec-stop", Shape::ExecLines, Run, PROCESS, NONE, "none: the stop signal is sent",
        "Commands that stop the unit, instead of the stop signal to its main process. `$MAINPID` is its main process while that runs. If a command fails, init sends the signal. At the stop timeout the remaining processes get SIGKILL.",
        "exec-stop: /bin/kill -TERM $MAINPID"),
    key("exec-reload", Shape::ExecLines, Run, PROCESS, NONE, "none: see reload-signal",
        "Commands of `initctl reload-unit`: the service reads its own configuration again. If one fails, the unit keeps running.",
        "exec-reload: /bin/kill -USR1 $MAINPID"),
    key("pid-file", Shape::Path, Run, PIDFILE, NONE, "required without main-pid",
        "The file in which the daemon writes the pid of its main process. init accepts only a process that belongs to the unit.",
        "pid-file: /run/nginx.pid"),
    key("ready-wait", Shape::Duration, Run, SUPERVISED, NONE, "ready as soon as it runs",
        "The unit is ready if it still runs after this time. It excludes ready-grep.",
        "ready-wait: 2s"),
    key("ready-grep", Shape::Pattern, Run, FOREGROUND, NONE, "none",
        "The unit is ready at the first line of its output that matches, stderr included. For a foreground-notified unit the line or READY=1 counts, whichever comes first. The syntax is that of the Rust crate regex: no look-around, no back-references, linear time.",
        "ready-grep: ^connected to"),
    key("notify-access", Shape::Choice(&NotifyAccess::WORDS), Run, PROCESS, NONE, "main; none if init expects no message",
        "The processes from which init accepts notify messages. main: the main process. exec: processes that init started for the unit. all: all its processes. none: no process.",
        "notify-access: all"),
    key("wait-file", Shape::Paths, Run, PROCESS, NONE, "none",
        "Paths that must exist before the first command runs, such as device nodes. init looks for them until the start timeout.",
        "wait-file: /dev/ttyUSB0"),
    key("needs-path", Shape::Paths, Live, ALL, NONE, "none",
        "Paths this unit uses, together with their mounts. If a unit mounts a directory on the way, it becomes a depends-ms of this unit. For /var/lib that is the unit that provides `var-lib.mount`. Without such a unit the key has no effect.",
        "needs-path: /var/lib/postgresql"),
    key("remain", Shape::Boolean, Run, ENDING, NONE, "yes for a oneshot, no otherwise",
        "Whether the unit stays active after a successful run. yes: the unit is exited, and exec-stop runs at the stop. no: the run is over. After a run with `no`, init runs exec-stop (if the run was ready) and exec-stop-post. It stops remaining processes by kill-mode and removes runtime directories. The unit is then shown as exited. It satisfies waits-for and depends-ms, but not depends-on and requires-active. A trigger, `initctl restart` or a changed definition runs it again.",
        "remain: no"),
    key("run-timeout", Shape::Timeout, Live, RUNNING, NONE, "none",
        "The longest time the unit may be active; after it the unit fails (run-timeout).",
        "run-timeout: 24h"),
    key("start-timeout", Shape::Timeout, Live, PROCESS, NONE, "60s",
        "The longest time of a start; after it the unit is killed and counts as failed. Time in which it waits for dependencies does not count.",
        "start-timeout: 5min"),
    key("stop-timeout", Shape::Timeout, Live, PROCESS, NONE, "10s",
        "The longest time of a stop; after it all remaining processes are killed.",
        "stop-timeout: 30s"),
    key("stop-signal", Shape::Signal, Live, PROCESS, NONE, "TERM",
        "The first signal of a stop. Processes that ignore it are killed at the stop timeout.",
        "stop-signal: QUIT"),
    key("stop-promptly", Shape::Boolean, Live, PROCESS, NONE, "no",
        "Whether init stops it at once, without waiting for the units that depend on it. Those get their stop at the same time. Messages of the unit do not extend its stop. For services that must be down by a certain time.",
        "stop-promptly: yes"),
    key("success-status", Shape::Statuses, Live, PROCESS, NONE, "exit 0 of a oneshot or script, nothing else",
        "Exit statuses and signals that are not failures. A supervised unit that ends with one of them is exited (see remain). It is restarted only with `restart: always` or `restart: on-success`.",
        "success-status: [0, 143, TERM]"),
    key("log", Shape::Choice(&Log::WORDS), Run, PROCESS, NONE, "file",
        "The destination of its output. file: the logger. kmsg: the kernel log. syslog: /dev/log. console: the console. inherit: init's own output. null: discarded.",
        "log: console"),
    key("on-change", Shape::Choice(&OnChange::WORDS), Live, PROCESS, NONE, "restart",
        "The effect of a reload that changed the definition of a running unit. restart: replace the run. reload: reload the unit by its exec-reload or reload-signal. keep: keep the run and show it as stale.",
        "on-change: keep"),
    key("essential", Shape::Boolean, Live, PROCESS, NONE, "no",
        "Whether a reload never restarts it. After a change it is shown as stale instead.",
        "essential: yes"),
    key("user", Shape::Account, Run, PROCESS, NONE, "init's own user",
        "The user of its processes, by name in /etc/passwd or by number. It also sets the groups, HOME, USER, LOGNAME and SHELL. A number that passwd does not have also needs `group`.",
        "user: www-data"),
    key("group", Shape::Account, Run, PROCESS, NONE, "the user's first group",
        "The group of its processes, by name in /etc/group or by number.",
        "group: www-data"),
    key("supplementary-groups", Shape::Accounts, Run, PROCESS, NONE, "the user's groups in /etc/group",
        "Further groups, besides those of the user in /etc/group. At most 32 in all.",
        "supplementary-groups: [ssl-cert, video]"),
    key("env", Shape::Environment, Run, PROCESS, NONE, "none",
        "Environment variables. They override those of env-file and init.yaml.",
        "env:\n  LANG: C.UTF-8\n  PORT: 8080"),
    key("env-file", Shape::EnvFiles, Run, PROCESS, NONE, "none",
        "Files of `NAME=value` lines, read before each command. A missing file fails the start, unless its path has the prefix `-`.",
        "env-file: [/etc/default/web, -/etc/default/web.local]"),
    key("working-dir", Shape::Form("an absolute path, with or without a `-` before it, or `~`"), Run, PROCESS, NONE, "/",
        "The working directory of its processes, entered as the unit's user. With the prefix `-` it may be missing; then it is `/`. `~` is the user's home.",
        "working-dir: /var/lib/web"),
    key("umask", Shape::Umask, Run, PROCESS, NONE, "022",
        "Permission bits that new files of its processes do not get, in octal.",
        "umask: 077"),
    key("limits", Shape::Limits, Run, PROCESS, NONE, "init's own at its start",
        "Resource limits, see getrlimit(2). Names: as, core, cpu, data, fsize, locks, memlock, msgqueue, nice, nofile, nproc, rss, rtprio, rttime, sigpending, stack. One value sets the soft and the hard limit, `soft:hard` each. Sizes take K, M, G, T; `infinity` removes the limit.",
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
    fn each_key_has_one_row_with_all_its_texts() {
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
    fn each_dependency_kind_has_a_key() {
        let keyed = |kind: &DependencyKind| *kind != DependencyKind::Accepts;
        for kind in DependencyKind::ALL.into_iter().filter(keyed) {
            assert_eq!(find(kind.as_str()).unwrap().dependency(), Some(kind));
        }
    }

    #[test]
    fn misspelled_key_is_mapped_to_the_intended_one() {
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
