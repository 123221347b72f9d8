//! The unsupported parts of directives that are otherwise imported. The importer, `initctl check`
//! and `initctl convert` print these texts. `tests/directives.tsv` has the same ones.

use crate::import::systemd::span::{self, Span};

/// The condition for reporting a gap.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// The gap is reported whenever the directive is used.
    Used,
    /// The gap is reported if this function accepts the value.
    Value(fn(&str) -> bool),
    /// The code of the directive reports the gap, as a warning or an error.
    Told,
}

/// An unsupported part of a directive.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// The section in the file. `Process` stands for each section of a unit that runs processes.
    pub section: &'static str,
    /// The name in the file. A `*` at its end stands for any rest.
    pub name: &'static str,
    /// The unsupported part, in words.
    pub how: &'static str,
    /// The condition for reporting it.
    pub when: When,
}

impl Gap {
    /// Returns true if the gap concerns the directive of that name.
    pub(super) fn is_of(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == self.name,
        }
    }
}

pub(in super::super) const UPHELD: &str =
    "a unit that it pulls in restarts as its own Restart= says";
pub(in super::super) const STOPPED_WITH: &str =
    "the unit stops with the named units, and starts again if it is still needed";
pub(in super::super) const BOUND: &str = "without After= the unit waits for the other one too";
pub(in super::super) const UNORDERED: &str =
    "without After= or Before= a failure of the other unit does not keep this one from starting";
pub(in super::super) const JOB_MODE: &str =
    "a unit started by a failure or a success joins the goal and replaces no unit";
pub(in super::super) const ROOTED: &str =
    "no command runs with full rights within a root directory";
pub(in super::super) const UNCOUNTED: &str =
    "starts after a success do not count for the limit of starts";
pub(in super::super) const NOT_EXECUTED: &str =
    "a program that cannot be executed is not tried again until the unit is started by hand";
pub(in super::super) const BY_HAND: &str =
    "only failures count: a start by hand or by a trigger is neither counted nor refused";
const REMEMBERED: &str = "at most 256 failures within the interval are counted";
pub(in super::super) const NO_ACTION: &str = "a failure of this unit does not end the system";
pub(in super::super) const ALARMED: &str = "the named unit also starts while this unit is \
     retried, after several failures in a row or a start timeout; if it restarts on exit, it stops \
     once this unit is active";
const AT_STOP: &str = "the named unit starts only after a success of this unit, even if this \
     unit remains active; a stop does not start it, nor does a success of a unit activated by a \
     timer, socket or path";
pub(in super::super) const ACCEPTED: &str =
    "a unit that also has a datagram socket, a FIFO or the like is refused";
pub(in super::super) const GROWS: &str =
    "the delay doubles with each failure up to RestartMaxDelaySec=";
pub(in super::super) const NOT_WOKEN: &str = "a sleeping machine is not woken";
pub(in super::super) const STAYS: &str = "a timer stays while it is needed";
const WILDCARDS: &str = "wildcards are not expanded: it is read as the name of one file";
const ASSERTED: &str = "the unit fails if it is not met";
pub(in super::super) const CONDITIONS: &str = "a target, socket, timer or path has no conditions";
const MEMORY: &str = "the memory of the machine is compared, also in a container";
const FIRST_BOOT: &str = "only the machine id at the time of the start counts";
const POSITION: &str = "the position within the window is not stable: the timer fires at its \
     end, or earlier together with another timer";
pub(crate) const AT_SHUTDOWN: &str = "a shutdown or a sleep starts no units, so a unit wanted by \
     shutdown.target, sleep.target and the like does not run";
pub(crate) const AT_SHUTDOWN_HINT: &str =
    "a unit with RemainAfterExit=yes that is up runs its ExecStop= at a shutdown";

fn is_glob(value: &str) -> bool {
    value.contains(['*', '?', '['])
}

/// Returns true if the position of a timer within the window matters.
fn is_wide(value: &str) -> bool {
    matches!(span::parse(value), Some(Span::Micros(micros)) if micros > 1_000_000)
}

const fn told(section: &'static str, name: &'static str, how: &'static str) -> Gap {
    Gap { section, name, how, when: When::Told }
}

const fn used(section: &'static str, name: &'static str, how: &'static str) -> Gap {
    Gap { section, name, how, when: When::Used }
}

const fn value(
    section: &'static str,
    name: &'static str,
    how: &'static str,
    affected: fn(&str) -> bool,
) -> Gap {
    Gap { section, name, how, when: When::Value(affected) }
}

/// Returns true if the machine does not remember this many failures.
fn is_many(value: &str) -> bool {
    value.parse().is_ok_and(|count: u32| count > crate::limit::FAILURES)
}

/// All gaps.
#[rustfmt::skip]
pub(super) const GAPS: &[Gap] = &[
    told("Unit", "Upholds", UPHELD),
    told("Install", "UpheldBy", UPHELD),
    told("Install", "UpheldBy", AT_SHUTDOWN),
    told("Install", "WantedBy", AT_SHUTDOWN),
    told("Install", "RequiredBy", AT_SHUTDOWN),
    told("Unit", "StopPropagatedFrom", STOPPED_WITH),
    told("Unit", "BindsTo", BOUND),
    told("Unit", "BindTo", BOUND),
    told("Unit", "Requires", UNORDERED),
    told("Unit", "RequiresOverridable", UNORDERED),
    value("Process", "EnvironmentFile", WILDCARDS, is_glob),
    told("Unit", "OnFailureJobMode", JOB_MODE),
    told("Unit", "OnSuccessJobMode", JOB_MODE),
    told("Service", "PermissionsStartOnly", ROOTED),
    told("Service", "Restart", UNCOUNTED),
    told("Service", "Restart", NOT_EXECUTED),
    told("Service", "RestartSteps", GROWS),
    told("Unit", "StartLimitIntervalSec", BY_HAND),
    told("Unit", "StartLimitInterval", BY_HAND),
    told("Unit", "StartLimitBurst", BY_HAND),
    value("Unit", "StartLimitBurst", REMEMBERED, is_many),
    told("Service", "StartLimitInterval", BY_HAND),
    told("Service", "StartLimitBurst", BY_HAND),
    value("Service", "StartLimitBurst", REMEMBERED, is_many),
    told("Unit", "StartLimitAction", NO_ACTION),
    told("Service", "StartLimitAction", NO_ACTION),
    told("Unit", "OnFailure", ALARMED),
    used("Unit", "OnSuccess", AT_STOP),
    told("Unit", "Condition*", CONDITIONS),
    told("Unit", "Assert*", CONDITIONS),
    used("Unit", "Assert*", ASSERTED),
    used("Unit", "ConditionMemory", MEMORY),
    used("Unit", "AssertMemory", MEMORY),
    used("Unit", "ConditionFirstBoot", FIRST_BOOT),
    used("Unit", "AssertFirstBoot", FIRST_BOOT),
    told("Socket", "Accept", ACCEPTED),
    told("Timer", "WakeSystem", NOT_WOKEN),
    told("Timer", "RemainAfterElapse", STAYS),
    value("Timer", "AccuracySec", POSITION, is_wide),
];
