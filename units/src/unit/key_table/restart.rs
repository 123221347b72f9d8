//! Keys: restarts after the end of a run.

use super::{FAILING, NONE, PROCESS, key};
use crate::spec::Restart;
use crate::unit::key::{Class::Live, Key, Shape};

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("restart", Shape::Choice(&Restart::WORDS), Live, FAILING, NONE,
        "on-failure; never for oneshot and background-scripted",
        "When init starts the unit again after its end. on-failure: after a failure. always: also after a success. never: not at all. on-success: only after a success. on-abnormal: after a signal, a timeout or the watchdog. on-abort: after a signal. on-watchdog: after the watchdog. Each exit of a supervised unit without a stop request is a failure, even exit 0. success-status lists exceptions.",
        "restart: always"),
    key("restart-except", Shape::Statuses, Live, PROCESS, NONE, "none",
        "Exit statuses and signals of the main process that cause no restart. They override `restart`.",
        "restart-except: [2, 78]"),
    key("restart-also", Shape::Statuses, Live, PROCESS, NONE, "none",
        "Exit statuses and signals of the main process that cause a restart. They override `restart`; restart-except overrides them.",
        "restart-also: [75, HUP]"),
    key("restart-delay", Shape::Duration, Live, FAILING, NONE, "200ms",
        "The delay of the first retry. It doubles with each further failure, up to restart-delay-max. From the tenth failure on there is always a delay.",
        "restart-delay: 1.5"),
    key("restart-delay-max", Shape::Duration, Live, FAILING, NONE, "60s",
        "The longest delay between retries.",
        "restart-delay-max: 5min"),
    key("restart-reset", Shape::Duration, Live, FAILING, NONE, "60s",
        "The active time of a run after which earlier failures no longer count.",
        "restart-reset: 10min"),
    key("restart-limit", Shape::RestartLimit, Live, FAILING, NONE, "none: it is retried for ever",
        "The number of failures after which init gives up. `5`: in a row; `5/10s`: within this time, 256 at most. `initctl retry` or a changed definition starts the unit again.",
        "restart-limit: 5/10s"),
    key("failure-verdict", Shape::Count(1, 1_000_000), Live, FAILING, NONE, "3",
        "The number of failures in a row after which dependents see the unit as failed. init still retries it.",
        "failure-verdict: 1"),
];
