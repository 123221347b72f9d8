//! Waits for units to reach their desired state.
//! It polls often at first and then every 250 ms; one attempt is 2 s of that. While no server
//! answers, it keeps polling, because the request stays in effect. Without a limit on attempts, it
//! gives up on a unit that is hopeless for a whole attempt:
//! - The engine records a reason against its placement.
//! - The machine cannot read its file.
//! - init does not restart the failed unit.

use super::arguments::Waiting;
use super::client::hash_of;
use super::output::{say, warn};
use super::progress;
use super::session::{Session, is_global, short};
use super::trouble::Trouble;
use crate::desired::Desired;
use crate::wire::{Unit, UnitState, Why};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Duration of one attempt.
const ATTEMPT: Duration = Duration::from_secs(2);
const FIRST_LOOK: Duration = Duration::from_millis(10);
const LOOK: Duration = Duration::from_millis(250);

/// How long a command waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// No waiting.
    None,
    /// This number of attempts.
    Attempts(u32),
    /// Without a limit.
    Endless,
}

impl Patience {
    /// The maximum time to wait.
    pub(super) fn limit(self) -> Duration {
        match self {
            Patience::None => Duration::ZERO,
            Patience::Attempts(most) => ATTEMPT.saturating_mul(most),
            Patience::Endless => Duration::MAX,
        }
    }

    /// Returns true if the wait that began at `began` has timed out.
    pub(super) fn is_over(self, began: Instant) -> bool {
        began.elapsed() >= self.limit()
    }
}

impl Waiting {
    /// `--no-block` takes precedence.
    pub(super) fn patience(self) -> Patience {
        if self.no_block {
            return Patience::None;
        }
        match u32::try_from(self.block_attempts) {
            Ok(0) | Err(_) => Patience::Endless,
            Ok(attempts) => Patience::Attempts(attempts),
        }
    }
}

/// A sequence of polls without an answer; the warning is printed once.
#[derive(Default)]
pub(super) struct Outage {
    warned: bool,
}

impl Outage {
    /// Returns the result of a poll, or `None` if no server answered and the next poll may succeed.
    ///
    /// # Errors
    /// Any other error.
    pub(super) fn bridged<T>(&mut self, seen: Result<T, Trouble>) -> Result<Option<T>, Trouble> {
        match seen {
            Err(trouble) if trouble.passing => {
                if !std::mem::replace(&mut self.warned, true) {
                    warn(&format!("{}; still waiting", trouble.message));
                }
                Ok(None)
            }
            other => {
                self.warned = false;
                other.map(Some)
            }
        }
    }
}

/// Waits for all units within a common time limit and reports each. It never waits for global
/// units. For global units and with `--no-block`, it reports only that the request was sent.
pub(super) async fn until(
    session: &mut Session,
    names: &[String],
    desired: Desired,
    patience: Patience,
    word: &str,
) -> Result<(), Trouble> {
    let (mut failed, began) = (Vec::new(), Instant::now());
    for name in names {
        let client = &mut session.client;
        let unit = answered(patience.limit(), async || client.unit(name).await).await?;
        let Some(unit) = unit else {
            failed.push(format!("unit {name} was destroyed in the meantime"));
            continue;
        };
        if is_global(&unit) {
            say(&format!("Triggered global unit {name} {word}"));
            if word == "start" {
                warn_of_refusals(session, name).await;
            }
        } else if patience == Patience::None {
            say(&format!("Triggered unit {name} {word}"));
        } else {
            match arrive_by(session, name, desired, (patience, began), word == "start").await {
                Ok(unit) => {
                    let place = session.place_suffix(&unit).await;
                    say(&format!("Unit {name} {}{place}", unit.current_state));
                }
                Err(trouble) => failed.push(trouble.message),
            }
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Trouble::new(failed.join("\n"))),
    }
}

/// Warns on how many machines a global unit cannot run, with reasons. Prints nothing if the server
/// does not answer.
async fn warn_of_refusals(session: &mut Session, name: &str) {
    if let Ok(Some(why)) = session.client.why(name).await
        && why.refusals > 0
    {
        warn(&format!(
            "Unit {name} cannot run on {} machines: {}",
            why.refusals,
            text_with_reasons(&why)
        ));
    }
}

/// Retries until a server answers, within a time limit.
///
/// # Errors
/// Any other error, or the last one at the time limit.
pub(super) async fn answered<T>(
    limit: Duration,
    mut ask: impl AsyncFnMut() -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    let began = Instant::now();
    let mut outage = Outage::default();
    loop {
        let answer = ask().await;
        if began.elapsed() >= limit {
            return answer;
        }
        if let Some(answer) = outage.bridged(answer)? {
            return Ok(answer);
        }
        sleep(LOOK).await;
    }
}

/// Waits for one unit. If `running` is set, init must also report it as loaded and active.
pub(super) async fn arrive(
    session: &mut Session,
    name: &str,
    desired: Desired,
    patience: Patience,
    running: bool,
) -> Result<Unit, Trouble> {
    arrive_by(session, name, desired, (patience, Instant::now()), running).await
}

/// Like [`arrive`], with the given start of the wait.
async fn arrive_by(
    session: &mut Session,
    name: &str,
    desired: Desired,
    (patience, since): (Patience, Instant),
    running: bool,
) -> Result<Unit, Trouble> {
    let began = Instant::now();
    let mut look = FIRST_LOOK;
    let mut hopeless_since: Option<Instant> = None;
    let mut warned = false;
    let mut outage = Outage::default();
    loop {
        let seen = outage.bridged(look_at(session, name, desired, running).await)?;
        let seen = match seen {
            Some(Look::Arrived(unit)) => return Ok(*unit),
            Some(Look::OnItsWay { hopeless, is }) => {
                progress::show(name, &format!("{is}, waiting to be {desired}"), began);
                hopeless
            }
            None => {
                progress::show(name, &format!("no server answers, waiting to be {desired}"), began);
                None
            }
        };
        if patience.is_over(since) {
            let why = reason(session, name).await;
            return Err(Trouble::new(format!(
                "timed out waiting for unit {name} to report state {desired}{why}"
            )));
        }
        match seen {
            None => hopeless_since = None,
            Some(reasons) => {
                let since = *hopeless_since.get_or_insert_with(Instant::now);
                if patience == Patience::Endless && since.elapsed() >= ATTEMPT {
                    return Err(Trouble::new(format!("unit {name} {reasons}")));
                }
            }
        }
        if began.elapsed() >= ATTEMPT && !warned && patience == Patience::Endless {
            warned = true;
            let why = reason(session, name).await;
            warn(&format!("waiting for unit {name} to be {desired}{why}"));
        }
        sleep(look).await;
        look = (look * 2).min(LOOK);
    }
}

/// The progress of a unit.
enum Look {
    Arrived(Box<Unit>),
    /// Not in the desired state yet. A reason tells why it will not reach that state.
    OnItsWay {
        hopeless: Option<String>,
        /// Its state in the meantime.
        is: String,
    },
}

async fn look_at(
    session: &mut Session,
    name: &str,
    desired: Desired,
    running: bool,
) -> Result<Look, Trouble> {
    let unit = session.client.unit(name).await?;
    let unit = unit.ok_or_else(|| Trouble::new(format!("unit {name} was destroyed")))?;
    let there = unit.current_state == desired.as_str();
    let state = if there && running { session.client.state(name).await? } else { None };
    let own = state.as_ref().filter(|state| state.hash == hash_of(&unit));
    if own.is_some_and(|state| state.ended == "skipped") {
        warn(&format!("unit {name} does not run{}", reason(session, name).await));
    }
    if there && (!running || state.as_ref().is_some_and(is_running) || own.is_some_and(has_run)) {
        return Ok(Look::Arrived(Box::new(unit)));
    }
    let hopeless = hopeless(session, &unit, desired, there).await?;
    Ok(Look::OnItsWay { hopeless, is: state_text(&unit, state.as_ref()) })
}

/// Formats a state such as `launched on 01234567... (activating auto-restart)`.
fn state_text(unit: &Unit, state: Option<&UnitState>) -> String {
    let on = match unit.machine_id.as_str() {
        "" => String::new(),
        id => format!(" on {}", short(id)),
    };
    let doing =
        state.map(|state| format!(" ({} {})", state.systemd_active_state, state.systemd_sub_state));
    format!("{}{on}{}", unit.current_state, doing.unwrap_or_default())
}

/// Returns why the unit will not reach its desired state, if a reason is known.
async fn hopeless(
    session: &mut Session,
    unit: &Unit,
    desired: Desired,
    there: bool,
) -> Result<Option<String>, Trouble> {
    if desired == Desired::Inactive {
        return Ok(None);
    }
    if unit.machine_id.is_empty() {
        let why = if there { None } else { session.client.why(&unit.name).await? };
        let why = why.filter(|why| why.unplaceable);
        return Ok(why.map(|why| format!("cannot be placed: {}", text_with_reasons(&why))));
    }
    let Some(state) = session.client.state(&unit.name).await? else { return Ok(None) };
    let failed = state.systemd_active_state == "failed" || state.ended == "failed";
    let failed = desired == Desired::Launched && failed;
    if state.systemd_load_state != "error" && !failed {
        return Ok(None);
    }
    let why = session.client.why(&unit.name).await?;
    Ok(Some(format!("has failed: {}", why.map(|why| text_with_reasons(&why)).unwrap_or_default())))
}

fn is_running(state: &UnitState) -> bool {
    state.systemd_active_state == "active" && state.systemd_load_state == "loaded"
}

/// Returns true if the unit has ended as done or skipped.
pub(super) fn has_run(state: &UnitState) -> bool {
    ["done", "skipped"].contains(&state.ended.as_str())
}

/// Returns `: …` if a reason is known.
async fn reason(session: &mut Session, name: &str) -> String {
    let why = session.client.why(name).await.ok().flatten();
    let state = session.client.state(name).await.ok().flatten();
    let doing =
        state.map(|state| format!(" ({} {})", state.systemd_active_state, state.systemd_sub_state));
    let why = why.map(|why| format!(": {}", text_with_reasons(&why))).unwrap_or_default();
    format!("{why}{}", doing.unwrap_or_default())
}

/// Returns the sentence and each machine's reason below it.
pub(super) fn text_with_reasons(why: &Why) -> String {
    let machines = why.machines.iter().map(|(id, words)| format!("\n  {id}: {words}"));
    format!("{}{}", why.text, machines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_block_wins_and_zero_or_negative_attempts_mean_no_limit() {
        let patience = |no_block, block_attempts| Waiting { no_block, block_attempts }.patience();
        assert_eq!(patience(true, 0), Patience::None);
        assert_eq!(patience(true, 9), Patience::None);
        assert_eq!(patience(false, 99), Patience::Attempts(99));
        assert_eq!(patience(false, 0), Patience::Endless);
        assert_eq!(patience(false, -9), Patience::Endless);
    }
}
