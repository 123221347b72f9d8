//! The phases of a unit, each with the data that exists only in it: a run only
//! where something is up, a deadline only where something is awaited. What an
//! operator sees is computed from them in [`super::shown`].

use super::run::Run;
use super::timer::TimerKind;
use crate::machine::reason::Reason;
use crate::spec::Exit;
use crate::text::time::Time;
use serde::{Deserialize, Serialize};

/// Where a unit stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// Down, and nothing is known against a start.
    #[default]
    Idle,
    /// Its run is not ready.
    Starting(Box<Run>, Start),
    /// Its run is active.
    Ready(Box<Run>, Form, /* since */ Time),
    /// Its run was told to stop, or what is left of it was.
    Stopping(Box<Run>, Stop),
    /// Down until then.
    Backoff(Time),
    /// Down for good, as far as the machine goes.
    Failed(Reason),
}

/// One failure of one run, counted when the run is gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) reason: Reason,
    /// Another try by itself would fail the same way: a missing file, a bad user.
    pub(super) needs_change: bool,
    /// How its main process ended, where that was the failure.
    pub(super) exit: Option<Exit>,
    /// A command of the stop failed: it is shown of a unit that is not needed, too.
    #[serde(skip)]
    pub(super) of_stop: bool,
}

impl Failure {
    pub(super) fn new(reason: Reason) -> Failure {
        Failure { reason, needs_change: false, exit: None, of_stop: false }
    }
}

/// A start under way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Start {
    pub(super) began: Time,
    /// `start-timeout`.
    pub(super) ready_by: Option<Time>,
    /// Its place under `max-starting`, until it gives it back.
    pub(super) slot_until: Option<Time>,
    /// `ready-wait`, once it runs.
    pub(super) ready_at: Option<Time>,
    /// It has said that it is ending: it is [`Form::Leaving`] once it counts as active.
    pub(super) leaves: bool,
}

/// The forms of active.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Form {
    /// Working.
    Running {
        /// When the next ping is due at the latest.
        ping_by: Option<Time>,
    },
    /// Taking in a new configuration.
    Reloading {
        /// See [`Form::Running`].
        ping_by: Option<Time>,
        /// When it is given up.
        until: Option<Time>,
        /// The service said so itself, and will say READY=1.
        announced: bool,
    },
    /// Its process has ended as it should.
    Exited {
        /// How; None when it was skipped.
        exit: Option<Exit>,
        /// The condition that was not met.
        skipped: Option<String>,
        /// `restart: always`: when it runs again.
        again: Option<Time>,
        /// The unit does not remain: all of the run has ended, and nothing is left to stop.
        over: bool,
    },
    /// It has said that it is ending, by itself.
    Leaving {
        /// It has failed then: `stop-timeout` from what it said on.
        by: Option<Time>,
    },
}

impl Form {
    /// The run says now that it is ending.
    pub(super) fn leaving(run: &Run, now: Time) -> Form {
        Form::Leaving { by: run.definition.live.stop_timeout.map(|span| now.after(span)) }
    }

    /// Its process has not ended.
    pub(super) fn is_working(&self) -> bool {
        !matches!(self, Form::Exited { .. })
    }
}

/// A stop under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Stop {
    pub(super) kill: Kill,
    /// `stop-timeout` has passed.
    pub(super) timed_out: bool,
    pub(super) then: Then,
}

impl Stop {
    /// Drops the failure of the run: it is not counted once the run is gone.
    pub(super) fn forgive(&mut self) {
        if matches!(self.then, Then::Fail(_)) {
            self.then = Then::Idle;
        }
    }

    /// A run that has ended well is followed by another one, for that was asked for meanwhile.
    pub(super) fn follow(&mut self) {
        if matches!(self.then, Then::Rest { .. }) {
            self.then = Then::Idle;
        }
    }
}

/// How far the stop has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kill {
    /// Told; KILL follows then.
    At(Option<Time>),
    /// KILL sent; hopeless then.
    Sent(Time),
    /// It outlived KILL: can not be killed.
    Hopeless,
}

/// What comes when the run is gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Then {
    /// Idle; a unit that is still needed starts again.
    Idle,
    /// The failure is counted.
    Fail(Box<Failure>),
    /// `restart: always` after a success: again after the delay, uncounted.
    Again,
    /// The run has ended well and is over: the unit stays exited until a restart, a firing or a new need.
    Rest {
        /// How its main process ended.
        exit: Exit,
        /// Since when it was active.
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

    /// The run, which leaves active now if it was.
    pub(super) fn into_ended(self, now: Time) -> Option<Box<Run>> {
        let since = match &self {
            Phase::Ready(_, _, since) => Some(*since),
            Phase::Idle
            | Phase::Starting(_, _)
            | Phase::Stopping(_, _)
            | Phase::Backoff(_)
            | Phase::Failed(_) => None,
        };
        let mut run = self.into_run()?;
        run.active_for = since.map(|since| now.since(since)).or(run.active_for);
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

    /// The run has ended well, and its unit does not remain.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Phase::Ready(_, Form::Exited { over: true, .. }, _))
    }

    pub(super) fn is_hopeless(&self) -> bool {
        matches!(self, Phase::Stopping(_, Stop { kill: Kill::Hopeless, .. }))
    }

    pub(super) fn holds_slot(&self) -> bool {
        matches!(self, Phase::Starting(_, Start { slot_until: Some(_), .. }))
    }

    /// What is awaited in this phase.
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
