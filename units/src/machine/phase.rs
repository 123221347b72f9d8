//! The phases of a unit. Each phase holds the data that exists only in it: a run exists only while
//! the unit is up, a deadline only while something is awaited. [`super::shown`] computes the shown
//! state from them.

use super::run::Run;
use super::timer::TimerKind;
use crate::machine::reason::Reason;
use crate::spec::Exit;
use crate::text::fields::is_default;
use crate::text::time::Time;
use serde::{Deserialize, Serialize};
use serde_with::apply;

/// The phase of a unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// The unit is down and may start when it is needed.
    #[default]
    Idle,
    /// The run is not ready.
    Starting(Box<Run>, Start),
    /// The run is active.
    Ready(Box<Run>, Form, /* since */ Time),
    /// The run, or its remaining processes, were told to stop.
    Stopping(Box<Run>, Stop),
    /// Down until this time.
    Backoff(Time),
    /// Down; init does not retry it by itself.
    Failed(Reason),
}

/// One failure of one run, counted when the run is gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) reason: Reason,
    /// A retry would fail the same way, for example because a file or a user is missing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) needs_change: bool,
    /// The exit of the main process, if it exited; restart-except and restart-also look at it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) exit: Option<Exit>,
    /// A stop command failed; shown even if the unit is not needed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) of_stop: bool,
}

impl Failure {
    pub(super) fn new(reason: Reason) -> Failure {
        Failure { reason, needs_change: false, exit: None, of_stop: false }
    }
}

/// A start in progress.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Start {
    pub(super) began: Time,
    /// Deadline of `start-timeout`.
    pub(super) ready_by: Option<Time>,
    /// The run holds a slot of `max-starting` until this time.
    pub(super) slot_until: Option<Time>,
    /// End of `ready-wait`, once the main command runs.
    pub(super) ready_at: Option<Time>,
    /// The run has sent STOPPING=1: it becomes [`Form::Leaving`] when it is active.
    pub(super) leaves: bool,
}

/// The forms of an active run.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Form {
    /// The run works.
    Running {
        /// Deadline of the next watchdog ping.
        ping_by: Option<Time>,
    },
    /// Reloading its configuration.
    Reloading {
        /// See [`Form::Running`].
        ping_by: Option<Time>,
        /// Deadline of the reload.
        until: Option<Time>,
        /// The service sent RELOADING=1 itself, and will send READY=1.
        announced: bool,
    },
    /// The main process has exited successfully.
    Exited {
        /// The exit; `None` if the run was skipped.
        exit: Option<Exit>,
        /// The condition that was not met.
        skipped: Option<String>,
        /// The time of the next run, if `restart` repeats a success.
        again: Option<Time>,
        /// The unit does not remain: the whole run has ended and nothing is left to stop.
        over: bool,
    },
    /// The run has sent STOPPING=1 and ends by itself.
    Leaving {
        /// Deadline, `stop-timeout` after STOPPING=1; after it the run has failed.
        by: Option<Time>,
    },
}

impl Form {
    /// The form of a run that sends STOPPING=1 now.
    pub(super) fn leaving(run: &Run, now: Time) -> Form {
        Form::Leaving { by: run.definition.live.stop_timeout.map(|span| now.after(span)) }
    }

    /// The main process has not exited.
    pub(super) fn is_working(&self) -> bool {
        !matches!(self, Form::Exited { .. })
    }
}

/// A stop in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Stop {
    pub(super) kill: Kill,
    /// `stop-timeout` has passed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) timed_out: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) then: Then,
}

impl Stop {
    /// Drops the failure of the run, so that it is not counted when the run is gone.
    pub(super) fn forgive(&mut self) {
        if matches!(self.then, Then::Fail(_)) {
            self.then = Then::Idle;
        }
    }

    /// Lets another run follow a run that has succeeded, because one was requested meanwhile.
    pub(super) fn follow(&mut self) {
        if matches!(self.then, Then::Rest { .. }) {
            self.then = Then::Idle;
        }
    }
}

/// The progress of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kill {
    /// The run was told to stop; SIGKILL follows at this time.
    At(Option<Time>),
    /// SIGKILL was sent; the run is unkillable from this time on.
    Sent(Time),
    /// The run survived SIGKILL and is unkillable.
    Hopeless,
}

/// The next step once the run is gone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) enum Then {
    /// The unit becomes idle; it starts again if it is still needed.
    #[default]
    Idle,
    /// The failure is counted.
    Fail(Box<Failure>),
    /// The run has succeeded and `restart` repeats it: the unit starts again after the delay, and
    /// nothing is counted.
    Again,
    /// The run has succeeded and is over: the unit stays exited until a restart, a firing, a changed
    /// definition, the loss of a depends-on provider, or a new need.
    Rest {
        /// The exit of the main process.
        exit: Exit,
        /// The time at which the run became active.
        #[serde(default, skip_serializing_if = "is_default")]
        since: Time,
    },
}

impl Phase {
    pub(super) fn run(&self) -> Option<&Run> {
        match self {
            Phase::Starting(run, _) | Phase::Ready(run, _, _) | Phase::Stopping(run, _) => {
                Some(run)
            }
            Phase::Idle | Phase::Backoff(_) | Phase::Failed(_) => None,
        }
    }

    pub(super) fn run_mut(&mut self) -> Option<&mut Run> {
        match self {
            Phase::Starting(run, _) | Phase::Ready(run, _, _) | Phase::Stopping(run, _) => {
                Some(run)
            }
            Phase::Idle | Phase::Backoff(_) | Phase::Failed(_) => None,
        }
    }

    pub(super) fn into_run(self) -> Option<Box<Run>> {
        match self {
            Phase::Starting(run, _) | Phase::Ready(run, _, _) | Phase::Stopping(run, _) => {
                Some(run)
            }
            Phase::Idle | Phase::Backoff(_) | Phase::Failed(_) => None,
        }
    }

    /// Returns the run; if it was active, it leaves that state now.
    pub(super) fn into_ended(self, now: Time) -> Option<Box<Run>> {
        let active_for =
            if let Phase::Ready(_, _, since) = self { Some(now.since(since)) } else { None };
        let mut run = self.into_run()?;
        run.active_for = active_for.or(run.active_for);
        Some(run)
    }

    pub(super) fn is_up(&self) -> bool {
        self.run().is_some()
    }

    pub(super) fn is_told(&self) -> bool {
        matches!(self, Phase::Stopping(_, _))
    }

    pub(super) fn is_skipped(&self) -> bool {
        matches!(self, Phase::Ready(_, Form::Exited { skipped: Some(_), .. }, _))
    }

    /// Returns true if the run has succeeded and the unit does not remain.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Phase::Ready(_, Form::Exited { over: true, .. }, _))
    }

    pub(super) fn is_hopeless(&self) -> bool {
        matches!(self, Phase::Stopping(_, Stop { kill: Kill::Hopeless, .. }))
    }

    pub(super) fn holds_slot(&self) -> bool {
        matches!(self, Phase::Starting(_, Start { slot_until: Some(_), .. }))
    }

    /// Returns the deadlines of this phase.
    pub(super) fn deadlines(&self) -> [Option<(Time, TimerKind)>; 3] {
        let due = |at: Option<Time>, kind| at.map(|at| (at, kind));
        match self {
            Phase::Idle | Phase::Failed(_) => [None; 3],
            Phase::Starting(_, start) => [
                due(start.ready_at, TimerKind::ReadyWait),
                due(start.slot_until, TimerKind::Slot),
                due(start.ready_by, TimerKind::StartTimeout),
            ],
            Phase::Ready(run, Form::Running { ping_by }, since) => [
                due(*ping_by, TimerKind::Watchdog),
                None,
                due(run.run_by(*since), TimerKind::RunTimeout),
            ],
            Phase::Ready(run, Form::Reloading { ping_by, until, .. }, since) => [
                due(*ping_by, TimerKind::Watchdog),
                due(*until, TimerKind::Reload),
                due(run.run_by(*since), TimerKind::RunTimeout),
            ],
            Phase::Ready(run, Form::Leaving { by }, since) => {
                [due(*by, TimerKind::Leaving), None, due(run.run_by(*since), TimerKind::RunTimeout)]
            }
            Phase::Ready(_, Form::Exited { again, .. }, _) => {
                [due(*again, TimerKind::Again), None, None]
            }
            Phase::Stopping(_, Stop { kill, .. }) => match kill {
                Kill::At(at) => [due(*at, TimerKind::Kill), None, None],
                Kill::Sent(at) => [Some((*at, TimerKind::Hopeless)), None, None],
                Kill::Hopeless => [None; 3],
            },
            Phase::Backoff(at) => [Some((*at, TimerKind::Retry)), None, None],
        }
    }
}
