//! Notifications of a run: ready, reloading, stopping, more time, watchdog pings. [`super::fact`]
//! handles its exit.

use super::mutant::Mutant;
use super::phase::Failure;
use super::phase::{Form, Kill, Phase, Stop, Then};
use super::{Ix, Machine};
use crate::machine::action::{Action, StopReason};
use crate::machine::reason::Reason;
use crate::spec::Readiness;
use crate::text::time::Time;
use std::time::Duration;

impl Machine {
    pub(super) fn executed(&mut self, now: Time, ix: Ix) {
        let Phase::Starting(run, _) = &self.cell(ix).phase else { return };
        match run.definition.readiness {
            Readiness::Exec | Readiness::Instant => self.ready(now, ix),
            Readiness::Wait(span) => self.amend(ix, |phase| {
                if let Phase::Starting(_, start) = phase {
                    start.ready_at = Some(now.after(span));
                }
            }),
            Readiness::Reported | Readiness::Exit => {}
        }
    }

    /// Handles the readiness of a starting run, or the end of a reload.
    pub(super) fn ready(&mut self, now: Time, ix: Ix) {
        if self.planted(Mutant::ReadyAfterStop) && self.cell(ix).phase.is_told() {
            return self.amend(ix, |phase| {
                if let Some(run) = std::mem::take(phase).into_run() {
                    *phase = Phase::Ready(run, Form::Running { ping_by: None }, now);
                }
            });
        }
        let phase = std::mem::take(&mut self.cell_mut(ix).phase);
        self.disarm(ix, &phase);
        let ping_by = |watchdog: Option<Duration>| watchdog.map(|every| now.after(every));
        match phase {
            Phase::Starting(run, start) if run.definition.readiness != Readiness::Exit => {
                let form = if start.leaves {
                    Form::leaving(&run, now)
                } else {
                    Form::Running { ping_by: ping_by(run.watchdog) }
                };
                self.put_phase(ix, Phase::Ready(run, form, now));
                self.became_active(ix);
            }
            Phase::Ready(run, Form::Reloading { ping_by, .. }, since) => {
                self.put_phase(ix, Phase::Ready(run, Form::Running { ping_by }, since));
            }
            other @ (Phase::Starting(_, _)
            | Phase::Ready(_, _, _)
            | Phase::Stopping(_, _)
            | Phase::Idle
            | Phase::Backoff(_)
            | Phase::Failed(_)) => self.put_phase(ix, other),
        }
    }

    /// Handles RELOADING=1 (`by_itself`), or the start of a reload that init runs.
    pub(super) fn reloading(&mut self, now: Time, ix: Ix, by_itself: bool) {
        // The limit of the run, because a run that has to stop keeps its old definition.
        let run = self.cell(ix).phase.run();
        let limit = run.and_then(|run| run.definition.live.start_timeout);
        self.amend(ix, |phase| match phase {
            Phase::Ready(_, form @ Form::Running { .. }, _) => {
                let Form::Running { ping_by } = *form else { return };
                let until = limit.map(|span| now.after(span));
                *form = Form::Reloading { ping_by, until, announced: by_itself };
            }
            Phase::Ready(_, Form::Reloading { announced, .. }, _) => *announced |= by_itself,
            Phase::Ready(_, Form::Exited { .. } | Form::Leaving { .. }, _)
            | Phase::Idle
            | Phase::Starting(_, _)
            | Phase::Stopping(_, _)
            | Phase::Backoff(_)
            | Phase::Failed(_) => {}
        });
    }

    /// Handles STOPPING=1: the run ends by itself and has its stop timeout for that.
    pub(super) fn leaving(&mut self, now: Time, ix: Ix) {
        if self.planted(Mutant::LeavingForEver) {
            return;
        }
        self.amend(ix, |phase| match phase {
            Phase::Ready(run, form @ (Form::Running { .. } | Form::Reloading { .. }), _) => {
                *form = Form::leaving(run, now);
            }
            Phase::Starting(_, start) => start.leaves = true,
            Phase::Ready(_, Form::Exited { .. } | Form::Leaving { .. }, _)
            | Phase::Stopping(_, _)
            | Phase::Idle
            | Phase::Backoff(_)
            | Phase::Failed(_) => {}
        });
    }

    /// Handles the end of a reload that init ran, by exec-reload or the reload-signal.
    pub(super) fn reloaded(&mut self, ix: Ix, done: bool) {
        self.amend(ix, |phase| {
            let Phase::Ready(run, form, _) = phase else { return };
            run.reload_failed = !done;
            if let Form::Reloading { ping_by, announced, .. } = *form
                && !(announced && done)
            {
                *form = Form::Running { ping_by };
            }
        });
    }

    pub(super) fn extend(&mut self, now: Time, ix: Ix, span: Duration) {
        let shorter = self.planted(Mutant::ExtensionShortens);
        let promptly = self.stops_promptly(ix) && !self.planted(Mutant::PromptStopProlonged);
        let later = |at: &mut Option<Time>| {
            let until = now.after(span);
            *at = at.map(|at| if shorter { until } else { at.max(until) });
        };
        self.amend(ix, |phase| match phase {
            Phase::Starting(_, start) => later(&mut start.ready_by),
            Phase::Ready(run, form, _) => {
                match form {
                    Form::Reloading { until: at, .. } | Form::Leaving { by: at } => later(at),
                    Form::Running { .. } | Form::Exited { .. } => {}
                }
                if form.is_working() {
                    run.extended = run.extended.max(Some(now.after(span)));
                }
            }
            Phase::Stopping(_, Stop { kill: Kill::At(at), .. }) if !promptly => later(at),
            Phase::Stopping(_, _) | Phase::Idle | Phase::Backoff(_) | Phase::Failed(_) => {}
        });
    }

    /// Handles a watchdog ping. With `every`, the run promises pings at this interval from now on;
    /// zero means no pings.
    pub(super) fn ping(&mut self, now: Time, ix: Ix, every: Option<Duration>) {
        if every.is_none() && self.planted(Mutant::PingUnheard) {
            return;
        }
        self.amend(ix, |phase| {
            let Some(run) = phase.run_mut() else { return };
            if let Some(every) = every {
                run.watchdog = Some(every).filter(|every| !every.is_zero());
            }
            let due = run.watchdog.map(|every| now.after(every));
            match phase {
                Phase::Ready(_, Form::Running { ping_by }, _)
                | Phase::Ready(_, Form::Reloading { ping_by, .. }, _) => *ping_by = due,
                Phase::Ready(_, Form::Exited { .. } | Form::Leaving { .. }, _)
                | Phase::Starting(_, _)
                | Phase::Stopping(_, _)
                | Phase::Idle
                | Phase::Backoff(_)
                | Phase::Failed(_) => {}
            }
        });
    }

    pub(super) fn watchdog(&mut self, now: Time, ix: Ix, out: &mut Vec<Action>) {
        self.overdue(now, ix, Reason::Watchdog, StopReason::Watchdog, out);
    }

    pub(super) fn run_timeout(&mut self, now: Time, ix: Ix, out: &mut Vec<Action>) {
        if !self.planted(Mutant::RunsForEver) {
            self.overdue(now, ix, Reason::RunTimeout, StopReason::RunTimeout, out);
        }
    }

    /// Stops and fails a run that announced STOPPING=1 but did not exit in time.
    pub(super) fn fail_leaving(&mut self, now: Time, ix: Ix, out: &mut Vec<Action>) {
        let message = "it sent STOPPING=1, but did not exit within its stop-timeout".to_string();
        let reason = Reason::Protocol { message };
        self.overdue(now, ix, reason, StopReason::RunTimeout, out);
    }

    /// Fails a working run because of a timeout.
    fn overdue(
        &mut self,
        now: Time,
        ix: Ix,
        reason: Reason,
        stop: StopReason,
        out: &mut Vec<Action>,
    ) {
        if matches!(&self.cell(ix).phase, Phase::Ready(_, form, _) if form.is_working()) {
            let failure = Failure::new(reason);
            let then =
                if self.cell(ix).must_stop { Then::Idle } else { Then::Fail(Box::new(failure)) };
            self.tell(now, ix, stop, then, out);
        }
    }
}
