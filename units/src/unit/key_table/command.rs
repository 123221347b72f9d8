//! Keys: additional commands, stop and reload.

use super::{NONE, PIDFILE, PROCESS, key};
use crate::spec::{KillMode, OomPolicy};
use crate::unit::key::{Class::Run, Key, Shape};

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("exec-condition", Shape::ExecLines, Run, PROCESS, NONE, "none",
        "Commands that run before all others, in order, and can skip the unit. An exit status of 1 to 254 skips it. A skipped unit counts as exited, and satisfies all dependencies but depends-on. 255 or a signal fails it.",
        "exec-condition: /usr/bin/test -e /etc/web.conf"),
    key("exec-start-post", Shape::ExecLines, Run, PROCESS, NONE, "none",
        "Commands that run once the unit is ready, in order. The unit is active when they have exited. A failed command fails the start. `$MAINPID` is its main process.",
        "exec-start-post: /usr/bin/logger web is up"),
    key("exec-stop-post", Shape::ExecLines, Run, PROCESS, NONE, "none",
        "Commands that run after each end of the unit, also after a failed start. No process of the unit is left then, unless kill-mode is process or none. $SERVICE_RESULT is success, exit-code, signal, core-dump, timeout, watchdog, oom-kill, exec-condition, protocol or resources. $EXIT_CODE is exited, killed or dumped. $EXIT_STATUS is the status or signal.",
        "exec-stop-post: /bin/rm -f /run/web.lock"),
    key("kill-mode", Shape::Choice(&KillMode::WORDS), Run, PROCESS, NONE, "group",
        "The processes that init signals at a stop. group: the main process gets the stop signal; after its exit the others get TERM. mixed: after its exit the others get KILL. process: only the main process; the others keep running. none: no process; init only runs exec-stop.",
        "kill-mode: mixed"),
    key("stop-final-signal", Shape::Signal, Run, PROCESS, NONE, "KILL",
        "The signal for the remaining processes at the stop timeout. Processes that survive it are killed two seconds later.",
        "stop-final-signal: QUIT"),
    key("kill-final", Shape::Boolean, Run, PROCESS, NONE, "yes",
        "Whether the remaining processes are killed at the stop timeout. With `no` the unit is then shown as failed. It starts again after they have exited.",
        "kill-final: no"),
    key("stop-hup", Shape::Boolean, Run, PROCESS, NONE, "no",
        "Whether HUP follows the stop signal at once, as shells need it.",
        "stop-hup: yes"),
    key("reload-signal", Shape::Signal, Run, PROCESS, NONE, "none",
        "The signal that `initctl reload-unit` sends to the main process, if the unit has no exec-reload. With neither, init refuses the request. A foreground-notified unit answers RELOADING=1, and READY=1 at the end.",
        "reload-signal: HUP"),
    key("watchdog", Shape::Timeout, Run, PROCESS, NONE, "none",
        "The longest time between two messages WATCHDOG=1 of the unit. After it the unit has failed: it gets ABRT, and `restart` decides. $WATCHDOG_USEC has the time, and $WATCHDOG_PID the pid of the process that must send them.",
        "watchdog: 30s"),
    key("abort-timeout", Shape::Timeout, Run, PROCESS, NONE, "the stop timeout",
        "The time between the watchdog's ABRT and KILL, for example to write a core dump.",
        "abort-timeout: 2min"),
    key("oom-policy", Shape::Choice(&OomPolicy::WORDS), Run, PROCESS, NONE, "stop",
        "The effect of an out-of-memory kill of one of its processes. continue: none. stop: the unit fails, and its other processes are stopped. kill: the kernel kills all of them at once. init sees such kills with cgroup v2 only; with cgroup v1 they look like SIGKILL.",
        "oom-policy: continue"),
    key("main-pid", Shape::Choice(&["guess", "none"]), Run, PIDFILE, NONE, "what pid-file says",
        "The main process of a daemon without a pid file. guess: the only process that is left after the launcher's exit; no process if several are left. none: there is no main process, and the unit is up while it has processes.",
        "main-pid: guess"),
    key("ignore-sigpipe", Shape::Boolean, Run, PROCESS, NONE, "no",
        "Whether its processes start with SIGPIPE ignored. A write to a closed pipe then fails instead of killing the process.",
        "ignore-sigpipe: yes"),
];
