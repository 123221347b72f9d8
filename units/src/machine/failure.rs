//! Failures and retries: consecutive failures, the verdict, the backoff with its floor, and
//! `restart-limit`.

use super::cell::Cell;
use super::mutant::Mutant;
use super::phase::{Failure, Form, Phase};
use super::{Ix, Machine};
use crate::limit;
use crate::machine::reason::Reason;
use crate::spec::{DependencyKind, Exit, Kind, Live, Restart, RestartLimit, SuccessStatus};
use crate::text::time::Time;
use crate::unit::generation::UnitId;
use std::sync::Arc;
use std::time::Duration;

/// Returns true if `restart` starts another run after this failure or success; `exit` is the exit
/// of the main process. The classes are those of systemd.service(5).
pub(super) fn is_restarted(live: &Live, failure: Option<&Reason>, exit: Option<Exit>) -> bool {
    let listed = |list: &SuccessStatus| exit.is_some_and(|exit| list.lists(exit));
    if listed(&live.restart_except) {
        return false;
    }
    if listed(&live.restart_also) {
        return true;
    }
    match (live.restart, failure) {
        (Restart::Always, _) | (Restart::OnSuccess, None) => true,
        (Restart::Never, _) | (Restart::OnSuccess, Some(_)) | (_, None) => false,
        (Restart::OnFailure, Some(_)) => true,
        (Restart::OnAbnormal, Some(reason)) => !matches!(reason, Reason::Exit(Exit::Code(_))),
        (Restart::OnAbort, Some(reason)) => matches!(reason, Reason::Exit(Exit::Signal { .. })),
        (Restart::OnWatchdog, Some(reason)) => *reason == Reason::Watchdog,
    }
}

/// The least delay from the 10th consecutive failure on, and after any failure of a unit that a
/// timer fires.
pub(super) const FLOOR: Duration = Duration::from_millis(100);

/// Returns the least time between the end of a run and the next start after this many consecutive
/// failures.
pub(super) fn delay(live: &Live, failures: u32) -> Duration {
    const FLOOR_FROM: u32 = 10;
    let doubled = |base: Duration, times: u32| {
        base.saturating_mul(1u32.checked_shl(times).unwrap_or(u32::MAX))
    };
    let wished = doubled(live.restart_delay, failures.saturating_sub(1));
    if failures < FLOOR_FROM {
        return wished.min(live.restart_delay_max);
    }
    let floor = doubled(FLOOR, failures - FLOOR_FROM);
    wished.max(floor).min(live.restart_delay_max.max(FLOOR))
}

impl Cell {
    /// Records a failure and returns true if the restart limit is reached.
    fn is_exhausted(&mut self, live: &Live, now: Time) -> bool {
        match live.restart_limit {
            RestartLimit::None => false,
            RestartLimit::InARow(most) => self.failures >= most.max(1),
            RestartLimit::Within(most, span) => {
                let most = most.clamp(1, limit::FAILURES) as usize;
                self.recent.push_back(now);
                while self.recent.front().is_some_and(|at| now.since(*at) > span) {
                    self.recent.pop_front();
                }
                while self.recent.len() > most {
                    self.recent.pop_front();
                }
                self.recent.len() >= most
            }
        }
    }
}

impl Machine {
    /// Counts the failure of a run that is gone, and decides about the next try.
    pub(super) fn count_failure(&mut self, now: Time, ix: Ix, failure: Failure) {
        let Some(live) = self.live(ix) else { return self.set_phase(ix, Phase::Idle) };
        let needs_change = failure.needs_change && !self.planted(Mutant::ExecErrorRetried);
        let is_final = needs_change || !self.is_retried(&live, &failure);
        let slow = failure.reason == Reason::StartTimeout;
        let is_hopeless = is_final || (slow && !self.planted(Mutant::StartTimeoutNoVerdict));
        let late = u32::from(self.planted(Mutant::VerdictOneLate));
        let unlimited = self.planted(Mutant::RestartLimitIgnored);
        let (floorless, doubled, constant) = (
            self.planted(Mutant::NoFloor),
            self.planted(Mutant::DelayOneAhead),
            self.planted(Mutant::DelayConstant),
        );
        let cell = self.cell_mut(ix);
        if !cell.needed && failure.of_stop {
            return self.set_phase(ix, Phase::Failed(failure.reason));
        }
        if !cell.needed {
            return self.set_phase(ix, Phase::Idle);
        }
        let had_verdict = cell.verdict;
        cell.failures = cell.failures.saturating_add(1);
        cell.ended = now;
        cell.untried = false;
        cell.verdict |= is_hopeless || cell.failures >= live.failure_verdict + late;
        cell.last = Some(Box::new(failure.reason.clone()));
        cell.connection_lost = false;
        let failures = match cell.failures {
            _ if constant => 1,
            n if floorless => n.min(9),
            n => n + u32::from(doubled),
        };
        let exhausted = cell.is_exhausted(&live, now) && !unlimited;
        if exhausted || is_final {
            let stood = std::mem::replace(&mut cell.verdict, true) && had_verdict;
            self.set_phase(ix, Phase::Failed(failure.reason.clone()));
            if stood && !self.planted(Mutant::OneAlarmForAll) {
                self.alarm_again(ix);
            }
            self.over_for_good(ix, &failure.reason);
        } else {
            let at = now.after(delay(&live, failures));
            let at = if self.planted(Mutant::NoDelay) { now } else { at };
            let at = if self.planted(Mutant::BackoffForEver) { Time::NEVER } else { at };
            self.set_phase(ix, Phase::Backoff(at));
        }
    }

    /// Handles a final failure while the verdict of an earlier one still counts. The units of
    /// `on-failure` that have exited run again.
    fn alarm_again(&mut self, ix: Ix) {
        let graph = Arc::clone(&self.graph);
        let edges = graph.edges(UnitId(ix)).iter();
        let alarms = edges.filter(|edge| edge.kind == DependencyKind::OnFailure);
        for alarm in alarms.filter_map(|edge| edge.provider) {
            if matches!(self.cell(alarm.0).phase, Phase::Ready(_, Form::Exited { .. }, _)) {
                self.ask_restart(alarm.0);
            }
        }
    }

    /// Returns true if the class of `restart` retries this failure.
    fn is_retried(&self, live: &Live, failure: &Failure) -> bool {
        let exit = failure.exit.filter(|_| !self.planted(Mutant::RestartListsIgnored));
        let known = match live.restart {
            Restart::Never => !self.planted(Mutant::NeverIsOnFailure),
            Restart::OnSuccess | Restart::OnAbnormal | Restart::OnAbort | Restart::OnWatchdog => {
                !self.planted(Mutant::ClassesAreOnFailure)
            }
            Restart::OnFailure | Restart::Always => true,
        };
        !known || is_restarted(live, Some(&failure.reason), exit)
    }

    /// Forgets the earlier failures if the run was active for `restart-reset`, however the run
    /// ended.
    pub(super) fn reset_old_failures(&mut self, ix: Ix) {
        let long = self.cell(ix).phase.run().is_some_and(|run| {
            run.active_for.is_some_and(|active| active >= run.definition.live.restart_reset)
        });
        if long && !self.planted(Mutant::RestartResetIgnored) {
            let cell = self.cell_mut(ix);
            cell.failures = 0;
            cell.recent.clear();
        }
    }

    /// Handles a successful run that init repeats, as `restart` says. The success is not counted.
    pub(super) fn again(&mut self, now: Time, ix: Ix) {
        let delay = self.live(ix).map_or(Duration::ZERO, |live| live.restart_delay);
        let needed = self.cell(ix).needed;
        if self.planted(Mutant::AgainIsCounted) {
            self.cell_mut(ix).failures += 1;
        }
        self.set_phase(ix, if needed { Phase::Backoff(now.after(delay)) } else { Phase::Idle });
    }

    /// Forgets the verdict, the backoff, a final failure and a failure that is not counted yet. With
    /// `count` (for a retry, and when the unit leaves the needed set) it also forgets the number of
    /// failures and the last reason. A restart keeps both.
    pub(super) fn forgive(&mut self, ix: Ix, count: bool) {
        let count = count && !self.planted(Mutant::RetryKeepsCount);
        let cell = self.cell_mut(ix);
        cell.verdict = false;
        if count {
            cell.failures = 0;
            cell.recent.clear();
            if !cell.connection_lost {
                cell.last = None;
            }
        }
        match &mut cell.phase {
            Phase::Backoff(_) | Phase::Failed(_) => return self.set_phase(ix, Phase::Idle),
            Phase::Stopping(_, stop) => stop.forgive(),
            Phase::Idle | Phase::Starting(_, _) | Phase::Ready(_, _, _) => {}
        }
        self.mark(ix);
    }

    /// Returns the present keys of class *live* of a unit, or `None` for a removed one.
    pub(super) fn live(&self, ix: Ix) -> Option<Arc<Live>> {
        self.unit(ix).map(|unit| unit.live.clone())
    }

    /// Returns true for a kind whose purpose is to end successfully.
    pub(super) fn ends_by_itself(kind: Kind) -> bool {
        matches!(kind, Kind::Oneshot | Kind::BackgroundScripted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::settings::Settings;

    fn live(restart: Restart) -> Live {
        let kind = Kind::ForegroundSupervised;
        Live { restart, ..Live::standard(kind, &Settings::default()) }
    }

    /// The columns are those of the table of exit causes in systemd.service(5).
    const COLUMNS: [Restart; 7] = [
        Restart::Never,
        Restart::Always,
        Restart::OnSuccess,
        Restart::OnFailure,
        Restart::OnAbnormal,
        Restart::OnAbort,
        Restart::OnWatchdog,
    ];

    #[test]
    fn restart_follows_the_table_of_exit_causes() {
        let signal = |core| Some(Reason::Exit(Exit::Signal { signal: 11, core }));
        for (cause, row) in [
            (None, "-xx----"),
            (Some(Reason::Exit(Exit::Code(1))), "-x-x---"),
            (signal(false), "-x-xxx-"),
            (signal(true), "-x-xxx-"),
            (Some(Reason::StartTimeout), "-x-xx--"),
            (Some(Reason::StopTimeout), "-x-xx--"),
            (Some(Reason::RunTimeout), "-x-xx--"),
            (Some(Reason::Watchdog), "-x-xx-x"),
        ] {
            for (restart, cell) in COLUMNS.into_iter().zip(row.chars()) {
                let found = is_restarted(&live(restart), cause.as_ref(), None);
                assert_eq!(found, cell == 'x', "{restart:?} after {cause:?}");
            }
        }
    }

    #[test]
    fn listed_statuses_prevent_or_force_a_restart_regardless_of_restart() {
        let list = || SuccessStatus { codes: vec![43], signals: vec![6] };
        for exit in [Exit::Code(43), Exit::Signal { signal: 6, core: true }] {
            let reason = Reason::Exit(exit);
            for restart in COLUMNS {
                let forced = Live { restart_also: list(), ..live(restart) };
                assert!(is_restarted(&forced, Some(&reason), Some(exit)), "{restart:?}");
                let prevented = Live { restart_except: list(), ..forced };
                assert!(!is_restarted(&prevented, Some(&reason), Some(exit)), "{restart:?}");
            }
        }
    }
}
