//! Keys: additional commands, stop and reload.

use super::{NONE, PIDFILE, PROCESS, key};
use crate::spec::{KillMode, OomPolicy};
use crate::unit::key::{Class::Run, Key, Shape};

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("exec-condition", Shape::ExecLines, Run, PROCESS, NONE, "none",
        "Commands run before all others, in order. One that exits with 1 to 254 skips the unit: it counts as exited, and satisfies all but depends-on. 255 or a signal fails it.",
        "exec-condition: /usr/bin/test -e /etc/web.conf"),
    key("exec-start-post", Shape::ExecLines, Run, PROCESS, NONE, "none",
        "Commands run once the unit is ready, in order; it counts as active when they have ended. One that fails fails the start. `$MAINPID` is its main process.",
        "exec-start-post: /usr/bin/logger web is up"),
    key("exec-stop-post", Shape::ExecLines, Run, PROCESS, NONE, "none",
        "Commands run when no process of the unit is left, however it came to its end, a failed start included. $SERVICE_RESULT (success, exit-code, signal, core-dump, timeout, watchdog, oom-kill, exec-condition, protocol, resources), $EXIT_CODE (exited, killed, dumped) and $EXIT_STATUS say how it ended.",
        "exec-stop-post: /bin/rm -f /run/web.lock"),
    key("kill-mode", Shape::Choice(&KillMode::WORDS), Run, PROCESS, NONE, "group",
        "The processes that init signals at a stop. group: the main process gets the stop signal, and when it has exited the rest gets TERM. mixed: the rest gets KILL at once. process: the main process alone; its other processes keep running. none: no process; init only runs exec-stop.",
        "kill-mode: mixed"),
    key("stop-final-signal", Shape::Signal, Run, PROCESS, NONE, "KILL",
        "The signal for what is left at the stop timeout. What survives another one than KILL is killed two seconds later.",
        "stop-final-signal: QUIT"),
    key("kill-final", Shape::Boolean, Run, PROCESS, NONE, "yes",
        "Whether anything is killed at the stop timeout. With `no` the unit is shown failed then, and starts again once what is left has ended.",
        "kill-final: no"),
    key("stop-hup", Shape::Boolean, Run, PROCESS, NONE, "no",
        "Sends HUP right after the stop signal, as shells want it.",
        "stop-hup: yes"),
    key("reload-signal", Shape::Signal, Run, PROCESS, NONE, "none",
        "What `initctl reload-unit` sends to the main process, where there is no exec-reload. A foreground-notified unit says RELOADING=1, and READY=1 when it is done.",
        "reload-signal: HUP"),
    key("watchdog", Shape::Timeout, Run, PROCESS, NONE, "none",
        "The unit says WATCHDOG=1 at least this often, or it has failed: it gets ABRT and is started again as `restart` says. $WATCHDOG_USEC tells it the time, $WATCHDOG_PID for whom it is meant.",
        "watchdog: 30s"),
    key("abort-timeout", Shape::Timeout, Run, PROCESS, NONE, "the stop timeout",
        "How long the unit may take to end after its watchdog's ABRT, to write its core for example, until it is killed.",
        "abort-timeout: 2min"),
    key("oom-policy", Shape::Choice(&OomPolicy::WORDS), Run, PROCESS, NONE, "stop",
        "What it means that the kernel has killed a process of the unit for want of memory. continue: nothing. stop: the unit has failed, and the rest of it is stopped. kill: the kernel kills all of it at once. init learns of such kills from cgroup v2 only; under cgroup v1 the process has died of SIGKILL.",
        "oom-policy: continue"),
    key("main-pid", Shape::Choice(&["guess", "none"]), Run, PIDFILE, NONE, "what pid-file says",
        "For a daemon that goes into the background without a pid file. guess: the one process that is left when the launcher has ended is the main process; where several are left there is none. none: there is no main process; the unit is up as long as any process of it is.",
        "main-pid: guess"),
    key("ignore-sigpipe", Shape::Boolean, Run, PROCESS, NONE, "no",
        "Its processes begin with SIGPIPE ignored: a write to a closed pipe is an error, and not their end.",
        "ignore-sigpipe: yes"),
];
