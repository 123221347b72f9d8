//! When a run is followed by another: what `restart` says of an end, how long the next
//! try waits, and when a run has been active for too long. What is stored of it:
//! [`crate::oracle`]; how an end is told: [`crate::oracle::facts`].

use crate::oracle::{Failure, Phase, Run};
use crate::spec::{Exit, Live, Restart};
use crate::time::Time;
use std::time::Duration;

/// When a working run has been active for too long.
pub(crate) fn run_by(run: &Run) -> Time {
    let working = matches!(run.phase, Phase::Running | Phase::Reloading);
    match (run.live.run_timeout, run.active_since) {
        (Some(span), Some(since)) if working => since.after(span).max(run.extended),
        _ => Time::NEVER,
    }
}

/// `restart` has another run follow a failure, or a success with this exit.
pub(crate) fn again(live: &Live, end: Result<Failure, Exit>) -> bool {
    let exit = match end {
        Err(exit) | Ok(Failure::Ended(exit) | Failure::Starved(exit)) => Some(exit),
        Ok(_) => None,
    };
    if exit.is_some_and(|exit| live.restart_except.lists(exit)) {
        return false;
    }
    if exit.is_some_and(|exit| live.restart_also.lists(exit)) {
        return true;
    }
    let signal = matches!(end, Ok(Failure::Ended(Exit::Signal { .. })));
    let code = matches!(end, Ok(Failure::Ended(Exit::Code(_))));
    match live.restart {
        Restart::Always => true,
        Restart::Never => false,
        Restart::OnSuccess => end.is_err(),
        Restart::OnFailure => end.is_ok(),
        Restart::OnAbnormal => end.is_ok() && !code,
        Restart::OnAbort => signal,
        Restart::OnWatchdog => end == Ok(Failure::Watchdog),
    }
}

/// From the 10th failure in a row no try comes sooner.
const FLOOR: Duration = Duration::from_millis(100);

/// How long after the `n`th failure in a row the next try waits.
pub fn delay(n: u32, first: Duration, most: Duration) -> Duration {
    let doubled = |span: Duration, times: u32| span.saturating_mul(1 << times.min(31));
    let wished = doubled(first, n.saturating_sub(1));
    match n {
        0..10 => wished.min(most),
        _ => wished.max(doubled(FLOOR, n - 10)).min(most.max(FLOOR)),
    }
}
