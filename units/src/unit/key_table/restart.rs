//! Keys: restarts after the end of a run.

use super::{FAILING, NONE, PROCESS, key};
use crate::spec::Restart;
use crate::unit::key::{Class::Live, Key, Shape};

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("restart", Shape::Choice(&Restart::WORDS), Live, FAILING, NONE,
        "on-failure; never for oneshot and background-scripted",
        "When it is started again. on-failure: after a failure. always: after a success too. never. on-success: only after a success. on-abnormal: after a failure that is no exit status (a signal, a time-out, the watchdog). on-abort: after a signal. on-watchdog: after the watchdog's. For a supervised unit each exit without a stop request is a failure, exit 0 too, unless success-status lists it.",
        "restart: always"),
    key("restart-except", Shape::Statuses, Live, PROCESS, NONE, "none",
        "Exit statuses and signals of the main process that no restart follows, whatever `restart` says.",
        "restart-except: [2, 78]"),
    key("restart-also", Shape::Statuses, Live, PROCESS, NONE, "none",
        "Exit statuses and signals of the main process that a restart follows, whatever `restart` says; but restart-except comes first.",
        "restart-also: [75, HUP]"),
    key("restart-delay", Shape::Duration, Live, FAILING, NONE, "200ms",
        "The pause before the first retry; it doubles with each failure in a row up to restart-delay-max. From the tenth on there is a pause whatever is written here.",
        "restart-delay: 1.5"),
    key("restart-delay-max", Shape::Duration, Live, FAILING, NONE, "60s",
        "The longest pause between retries.",
        "restart-delay-max: 5min"),
    key("restart-reset", Shape::Duration, Live, FAILING, NONE, "60s",
        "Once a run has been active this long, the failures before it are forgotten.",
        "restart-reset: 10min"),
    key("restart-limit", Shape::RestartLimit, Live, FAILING, NONE, "none: it is retried for ever",
        "After this many failures in a row (`5`), or within a time (`5/10s`; 256 at most), the failure is final until `initctl retry` or a changed definition.",
        "restart-limit: 5/10s"),
    key("failure-verdict", Shape::Count(1, 1_000_000), Live, FAILING, NONE, "3",
        "After this many failures in a row the unit counts as failed for those that wait for it, while it is still retried.",
        "failure-verdict: 1"),
];
