//! `--wait`: waits until no unit is starting, stopping or waiting. It shows a live line on a
//! terminal, one line per event in a pipe, and nothing with `--json`.
//!
//! Without `--wait`, a call at a terminal waits for the units that it changes. Other units may wait
//! for an event that never comes, and do not hold up this call.

use crate::arguments::Wait;
use crate::connection::Connection;
use crate::event_stream::EventStream;
use crate::exit::{Error, Exit};
use crate::log_source;
use crate::session::{self, Session};
use crate::style::{self, Style, Tone};
use groundstate_units::control::answer::{
    Cause, Event, Failure, Settled, Status, System, UnitStatus,
};
use groundstate_units::control::request::Verb;
use groundstate_units::machine::reason::State;
use nix::sys::signal::{SigSet, Signal, raise};
use std::collections::BTreeMap;
use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Log lines shown for each failed unit at the end.
const TAIL: u64 = 10;
/// Maximum number of failed units with a log; `status` names the others.
const SHOWN: usize = 5;
/// Interval for redrawing the live line.
const TICK: Duration = Duration::from_millis(500);
/// A shorter wait shows no live line.
const QUIET: Duration = Duration::from_secs(1);
/// Maximum number of units in a line with names.
const NAMED: usize = 3;

/// A wait that starts before the change, so that no event is missed.
pub(crate) struct Waiting {
    events: Option<EventStream>,
    extent: Extent,
    timeout: Option<Duration>,
}

/// The units to wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    None,
    All,
    Changed,
}

enum News {
    Event(Box<Event>),
    Settled(Result<System, Error>),
    Interrupted,
}

/// How a wait ended.
pub(crate) enum Ended {
    /// Nothing is in transition.
    Settled(System),
    /// None of the changed units is in transition.
    Rested(Vec<UnitStatus>),
    /// The timeout expired.
    TimedOut,
}

impl Waiting {
    /// Starts to listen if there is anything to wait for.
    pub(crate) fn prepare(session: &Session, wait: Wait) -> Result<Waiting, Error> {
        let extent = match wait {
            Wait { wait: true, .. } => Extent::All,
            Wait { no_wait: false, .. } if session.is_at_terminal() => Extent::Changed,
            Wait { .. } => Extent::None,
        };
        let mut waiting = Waiting { events: None, extent, timeout: wait.timeout };
        if extent != Extent::None && !session.json {
            let seq = session.init()?.map_or(0, |init| init.seq);
            waiting.events = Some(EventStream::begin(session.connect()?, true, seq, None)?);
        }
        Ok(waiting)
    }

    /// Waits if requested; otherwise returns `None`. `changed` has the units of this call.
    pub(crate) fn finish(
        self,
        session: &Session,
        changed: &[String],
    ) -> Result<Option<Ended>, Error> {
        if self.extent == Extent::None {
            return Ok(None);
        }
        let (sender, news) = mpsc::channel();
        let interrupt = Interrupt::catch(session, &sender);
        if let Some(events) = self.events {
            follow(events, sender.clone());
        }
        let mut line = Progress::new(session);
        let ended = match self.extent {
            Extent::Changed => rest(session, changed, &news, &mut line),
            Extent::None | Extent::All => {
                settle(session.connect()?, sender.clone());
                settled(session, self.timeout, &news, &mut line)
            }
        };
        line.clear();
        interrupt.release();
        match ended? {
            Some(ended) => Ok(Some(ended)),
            None => Err(interrupted(session)),
        }
    }
}

/// Waits for the whole system. Returns `None` after Ctrl-C.
fn settled(
    session: &Session,
    timeout: Option<Duration>,
    news: &Receiver<News>,
    line: &mut Progress,
) -> Result<Option<Ended>, Error> {
    let start = Instant::now();
    loop {
        let left = match timeout {
            Some(limit) => match limit.checked_sub(start.elapsed()) {
                Some(left) => left,
                None => return Ok(Some(Ended::TimedOut)),
            },
            None => TICK,
        };
        match news.recv_timeout(left.min(TICK)) {
            Ok(News::Event(event)) => line.event(&event),
            Ok(News::Settled(result)) => {
                while let Ok(News::Event(event)) = news.try_recv() {
                    line.event(&event);
                }
                return result.map(|system| Some(Ended::Settled(system)));
            }
            Ok(News::Interrupted) => return Ok(None),
            Err(RecvTimeoutError::Timeout) if line.is_due(start.elapsed()) => {
                // The wait for init's answer reports a lost connection.
                if let Ok(units) = units(session, |_| true) {
                    line.draw(start.elapsed(), &units);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(connection_lost()),
        }
    }
}

/// Waits until none of these units is in transition. Returns `None` after Ctrl-C.
fn rest(
    session: &Session,
    changed: &[String],
    news: &Receiver<News>,
    line: &mut Progress,
) -> Result<Option<Ended>, Error> {
    let start = Instant::now();
    loop {
        let units = units(session, |unit| changed.contains(&unit.unit))?;
        if !units.iter().any(is_moving) {
            return Ok(Some(Ended::Rested(units)));
        }
        if line.is_due(start.elapsed()) {
            line.draw(start.elapsed(), &units);
        }
        let mut next = Instant::now() + TICK;
        // One answer of init covers all events that have arrived.
        while let Ok(news) = news.recv_timeout(next.saturating_duration_since(Instant::now())) {
            match news {
                News::Interrupted => return Ok(None),
                News::Event(event)
                    if event.unit.as_ref().is_some_and(|unit| changed.contains(unit)) =>
                {
                    next = Instant::now();
                }
                News::Event(_) | News::Settled(_) => {}
            }
        }
    }
}

/// Returns the present state of the units that `is_asked` selects.
fn units(
    session: &Session,
    is_asked: impl Fn(&UnitStatus) -> bool,
) -> Result<Vec<UnitStatus>, Error> {
    let (status, _) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?;
    Ok(status.units.into_iter().filter(is_asked).collect())
}

/// Returns true if the unit may still reach another state. Like init, it does not count retries
/// after a verdict.
fn is_moving(unit: &UnitStatus) -> bool {
    let cause = unit.reason.as_ref().map(|reason| &reason.cause);
    match unit.state {
        State::Starting => !unit.verdict,
        State::Stopping => !matches!(cause, Some(Cause::Unkillable { .. })),
        State::Waiting | State::Reloading => true,
        State::Running | State::Exited | State::Failed | State::Disabled => false,
    }
}

/// Ctrl-C during a wait at a terminal: a thread receives the signal, so that the user is told that
/// only the wait ends.
struct Interrupt(Option<SigSet>);

impl Interrupt {
    fn catch(session: &Session, sender: &Sender<News>) -> Interrupt {
        let mut signal = SigSet::empty();
        signal.add(Signal::SIGINT);
        if !session.is_at_terminal() || is_ignored() || signal.thread_block().is_err() {
            return Interrupt(None);
        }
        let sender = sender.clone();
        thread::spawn(move || {
            if signal.wait().is_ok() {
                // After the wait no receiver is left.
                let _ = sender.send(News::Interrupted);
            }
        });
        Interrupt(Some(signal))
    }

    /// Gives the signal its usual effect again.
    fn release(self) {
        if let Some(signal) = self.0 {
            // A process that keeps the signal blocked is about to exit.
            let _ = signal.thread_unblock();
        }
    }
}

/// Returns true if the caller lets this process ignore SIGINT, as a shell does for `initctl … &` in a
/// script. The kernel would keep the signal for a thread that waits for it. proc_pid_status(5).
fn is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (Signal::SIGINT as u32 - 1) != 0)
}

/// Tells the user about Ctrl-C, and ends by the signal, as the shell expects.
fn interrupted(session: &Session) -> Error {
    if stderr().is_terminal() {
        // The terminal shows ^C.
        session::redraw("");
    }
    session.remark("initctl no longer waits; init continues, and `initctl status` shows the state");
    // The exit code tells the result too.
    let _ = raise(Signal::SIGINT);
    Error::Printed(Exit::Bad)
}

fn follow(mut events: EventStream, sender: Sender<News>) {
    thread::spawn(move || {
        while let Ok(Some(event)) = events.next() {
            let Ok(event) = session::read::<Event>(&event) else { return };
            if sender.send(News::Event(Box::new(event))).is_err() {
                return;
            }
        }
    });
}

fn settle(mut connection: Connection, sender: Sender<News>) {
    thread::spawn(move || {
        let result = match connection.ask_within::<Settled>(&Verb::Wait {}, None) {
            Ok(settled) => Ok(settled.system),
            Err(Error::Failed(Exit::NoInit, _)) => Err(connection_lost()),
            Err(error) => Err(error),
        };
        // After a timeout no receiver is left.
        let _ = sender.send(News::Settled(result));
    });
}

fn connection_lost() -> Error {
    let message = "init closed the connection during the wait";
    Error::Failed(
        Exit::NoInit,
        Failure::new(Failure::NO_INIT, message, "`initctl status` shows the state"),
    )
}

/// The progress shown while waiting.
struct Progress {
    silent: bool,
    live: bool,
    style: Style,
    drawn: bool,
}

impl Progress {
    fn new(session: &Session) -> Progress {
        let live = stderr().is_terminal();
        Progress { silent: session.json, live, style: session.style, drawn: false }
    }

    /// Prints a line in a pipe. On a terminal it prints failures only; the live line has the rest.
    fn event(&mut self, event: &Event) {
        let (Some(unit), Some(to)) = (&event.unit, event.to) else { return };
        if self.silent || self.live && to != State::Failed {
            return;
        }
        self.clear();
        let glyph = style::glyph(to, false).to_string();
        let mark = self.style.paint(style::tone(to, false), &glyph);
        let word = style::word(to, false, event.reason.as_ref());
        let why = style::reason_suffix(event.to, event.reason.as_ref());
        session::warn(&format!("  {mark} {unit} {word}{why}"));
    }

    /// Returns true if the wait takes long enough for a live line.
    fn is_due(&self, elapsed: Duration) -> bool {
        self.live && !self.silent && elapsed >= QUIET
    }

    fn draw(&mut self, elapsed: Duration, units: &[UnitStatus]) {
        let text = format!("{:>6}  {}", style::span(elapsed), waits_for(units));
        session::redraw(&self.style.cut(&text, 1));
        self.drawn = true;
    }

    fn clear(&mut self) {
        if self.drawn {
            session::redraw("");
            self.drawn = false;
        }
    }
}

/// Formats `waiting for web (starting), db (stopping) and 3 more`.
fn waits_for(units: &[UnitStatus]) -> String {
    let moving: Vec<&UnitStatus> = units.iter().filter(|unit| is_moving(unit)).collect();
    let name = |unit: &&UnitStatus| match &unit.reason {
        Some(reason) if unit.state == State::Waiting => format!("{} ({})", unit.unit, reason.text),
        _ => format!("{} ({})", unit.unit, unit.state.word()),
    };
    let names: Vec<String> = moving.iter().take(NAMED).map(name).collect();
    match moving.len().saturating_sub(NAMED) {
        _ if names.is_empty() => "waiting".to_string(),
        0 => format!("waiting for {}", names.join(", ")),
        more => format!("waiting for {} and {more} more", names.join(", ")),
    }
}

/// Returns the exit code of a finished wait. After a failure it prints the failed units with their
/// last log lines.
pub(crate) fn conclude(session: &Session, ended: Option<Ended>) -> Result<Exit, Error> {
    match ended {
        None => Ok(Exit::Done),
        Some(Ended::TimedOut) => {
            print_blockers(session)?;
            Ok(Exit::TimedOut)
        }
        Some(Ended::Rested(units)) => Ok(report(session, &units)),
        Some(Ended::Settled(System::Failed | System::Degraded)) => {
            print_failures(session)?;
            Ok(Exit::Bad)
        }
        Some(Ended::Settled(System::Running | System::Starting | System::Stopping)) => {
            Ok(Exit::Done)
        }
    }
}

/// Prints the states that the changed units have reached. Failed ones come with their log lines.
fn report(session: &Session, units: &[UnitStatus]) -> Exit {
    let is_bad =
        |unit: &&UnitStatus| unit.state == State::Failed || unit.verdict || unit.reload_failed;
    let (bad, good): (Vec<&UnitStatus>, Vec<&UnitStatus>) = units.iter().partition(is_bad);
    for unit in bad.iter().take(SHOWN) {
        session.remark(&failure(session, unit));
    }
    if let more @ 1.. = bad.len().saturating_sub(SHOWN) {
        session.remark(&format!("{} failed", style::count(more, "more unit")));
    }
    if !good.is_empty() {
        session.remark(&reached(&good));
    }
    if bad.is_empty() { Exit::Done } else { Exit::Bad }
}

/// Formats `web, db are running; cron is idle`, or the number of units if they are many.
fn reached(units: &[&UnitStatus]) -> String {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for unit in units {
        let word = style::word(unit.state, unit.degraded, unit.reason.as_ref());
        groups.entry(word).or_default().push(&unit.unit);
    }
    let group = |(word, names): (&String, &Vec<&str>)| {
        let be = if names.len() == 1 { "is" } else { "are" };
        let names = match names.len() {
            ..=NAMED => names.join(", "),
            many => style::count(many, "unit"),
        };
        format!("{names} {be} {word}")
    };
    groups.iter().map(group).collect::<Vec<_>>().join("; ")
}

fn print_failures(session: &Session) -> Result<(), Error> {
    if session.json {
        return Ok(());
    }
    let (status, _) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?;
    let failed: Vec<&UnitStatus> =
        status.units.iter().filter(|unit| unit.needed && failed_by_itself(unit)).collect();
    for unit in failed.iter().take(SHOWN) {
        session.remark(&failure(session, unit));
    }
    let word = status.system.as_str();
    let word = session.style.paint(style::system_tone(status.system), word);
    session.remark(&format!("the system is {word}; `initctl status` shows the units"));
    Ok(())
}

/// Formats a failed unit with the end of its log.
pub(crate) fn failure(session: &Session, unit: &UnitStatus) -> String {
    let style = &session.style;
    let why = match &unit.reason {
        Some(why) => why.text.as_str(),
        None if unit.reload_failed => "its reload failed",
        None => "",
    };
    let mut text = format!("{} {}: {why}", style.paint(Tone::Bad, "x"), unit.unit);
    for line in log_source::tail(session, &unit.unit, TAIL) {
        text.push_str("\n    | ");
        text.push_str(&line);
    }
    text
}

fn failed_by_itself(unit: &UnitStatus) -> bool {
    let Some(reason) = &unit.reason else { return false };
    let by_others = matches!(
        reason.cause,
        Cause::Dependency { .. } | Cause::Masked { .. } | Cause::Missing { .. } | Cause::On { .. }
    );
    (unit.state == State::Failed || unit.verdict) && !by_others
}

fn print_blockers(session: &Session) -> Result<(), Error> {
    if session.json {
        return Ok(());
    }
    let (status, _) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?;
    let moving = |unit: &&UnitStatus| {
        matches!(unit.state, State::Starting | State::Stopping | State::Waiting)
    };
    let text = match status.units.iter().any(|unit| moving(&unit)) {
        true => "timed out; still starting, stopping or waiting:",
        false => "timed out; by now no unit is starting, stopping or waiting",
    };
    session.remark(&session.style.paint(Tone::Bad, text));
    for unit in status.units.iter().filter(moving).take(2 * SHOWN) {
        let why = style::reason_suffix(Some(unit.state), unit.reason.as_ref());
        let glyph = style::glyph(unit.state, false);
        session.remark(&format!("  {glyph} {} {}{why}", unit.unit, unit.state.word()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn unit(name: &str, state: &str, with: Value) -> UnitStatus {
        let mut unit = json!({"unit": name, "type": "foreground-supervised", "state": state,
            "degraded": false, "idle": false, "reason": null});
        for (key, value) in with.as_object().unwrap() {
            unit[key] = value.clone();
        }
        serde_json::from_value(unit).unwrap()
    }

    #[test]
    fn unit_that_may_still_change_is_waited_for() {
        let stuck = json!({"reason": {"kind": "unkillable", "text": "", "pid": 7}});
        for (state, with, moves) in [
            ("starting", json!({}), true),
            ("starting", json!({"verdict": true}), false),
            ("stopping", json!({}), true),
            ("stopping", stuck, false),
            ("reloading", json!({}), true),
            ("waiting", json!({}), true),
            ("running", json!({}), false),
            ("exited", json!({}), false),
            ("failed", json!({}), false),
            ("disabled", json!({}), false),
        ] {
            assert_eq!(is_moving(&unit("web", state, with.clone())), moves, "{state} {with}");
        }
    }

    #[test]
    fn live_line_names_the_units_that_the_call_waits_for() {
        let on = json!({"reason": {"kind": "on", "text": "waits for db", "targets": ["db"]}});
        let mut units = vec![unit("up", "running", json!({})), unit("web", "waiting", on)];
        assert_eq!(waits_for(&units), "waiting for web (waits for db)");
        units.extend(["a", "b", "c"].map(|name| unit(name, "starting", json!({}))));
        let want = "waiting for web (waits for db), a (starting), b (starting) and 1 more";
        assert_eq!(waits_for(&units), want);
        assert_eq!(waits_for(&[]), "waiting");
    }

    #[test]
    fn reached_states_are_grouped_and_many_units_are_counted() {
        let units = ["a", "b", "c", "d"].map(|name| unit(name, "running", json!({})));
        let idle =
            [unit("x", "disabled", json!({})), unit("all", "running", json!({"degraded": true}))];
        let some: Vec<&UnitStatus> = units.iter().take(2).chain(&idle).collect();
        assert_eq!(reached(&some), "all is degraded; x is idle; a, b are running");
        assert_eq!(reached(&units.iter().collect::<Vec<_>>()), "4 units are running");
    }
}
