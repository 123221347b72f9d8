//! `--wait`: waits until no unit is starting, stopping or waiting. It shows a live line on a
//! terminal, one line per event in a pipe, and nothing with `--json`.

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
use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Log lines shown for each failed unit at the end.
const TAIL: u64 = 10;
/// Maximum number of failed units with a log; `status` names the others.
const SHOWN: usize = 5;
/// Interval for redrawing the live line.
const TICK: Duration = Duration::from_millis(500);

/// A wait that starts before the change, so that no event is missed.
pub(crate) struct Waiting {
    events: Option<EventStream>,
    wait: Wait,
}

enum News {
    Event(Box<Event>),
    Settled(Result<System, Error>),
}

/// How a wait ended.
pub(crate) enum Ended {
    /// Nothing is in transition.
    Settled(System),
    /// The timeout expired.
    TimedOut,
}

impl Waiting {
    /// Starts to listen if there is anything to wait for.
    pub(crate) fn prepare(session: &Session, wait: Wait) -> Result<Waiting, Error> {
        if !wait.wait || session.json {
            return Ok(Waiting { events: None, wait });
        }
        let seq = session.init()?.map_or(0, |init| init.seq);
        let events = EventStream::begin(session.connect()?, true, seq, None)?;
        Ok(Waiting { events: Some(events), wait })
    }

    /// Waits if requested; otherwise returns `None`.
    pub(crate) fn finish(self, session: &Session) -> Result<Option<Ended>, Error> {
        if !self.wait.wait {
            return Ok(None);
        }
        let (sender, news) = mpsc::channel();
        if let Some(events) = self.events {
            follow(events, sender.clone());
        }
        settle(session.connect()?, sender);
        let start = Instant::now();
        let mut line = Progress::new(session);
        loop {
            let left = match self.wait.timeout {
                Some(limit) => match limit.checked_sub(start.elapsed()) {
                    Some(left) => left,
                    None => {
                        line.clear();
                        return Ok(Some(Ended::TimedOut));
                    }
                },
                None => TICK,
            };
            match news.recv_timeout(left.min(TICK)) {
                Ok(News::Event(event)) => line.event(&event, start.elapsed()),
                Ok(News::Settled(result)) => {
                    while let Ok(News::Event(event)) = news.try_recv() {
                        line.event(&event, start.elapsed());
                    }
                    line.clear();
                    return result.map(|system| Some(Ended::Settled(system)));
                }
                Err(RecvTimeoutError::Timeout) => line.draw(start.elapsed()),
                Err(RecvTimeoutError::Disconnected) => return Err(connection_lost()),
            }
        }
    }
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
    last: String,
    moving: Vec<String>,
    drawn: bool,
}

impl Progress {
    fn new(session: &Session) -> Progress {
        let live = stderr().is_terminal();
        Progress {
            silent: session.json,
            live,
            style: session.style,
            last: "waiting".to_string(),
            moving: Vec::new(),
            drawn: false,
        }
    }

    fn event(&mut self, event: &Event, elapsed: Duration) {
        let (Some(unit), Some(to)) = (&event.unit, event.to) else { return };
        self.moving.retain(|name| name != unit);
        if matches!(to, State::Starting | State::Stopping) {
            self.moving.push(unit.clone());
        }
        let why = style::reason_suffix(event.to, event.reason.as_ref());
        self.last = format!("{unit} {}{why}", style::word(to, false, event.reason.as_ref()));
        if self.silent {
            return;
        }
        if self.live && to != State::Failed {
            self.draw(elapsed);
            return;
        }
        self.clear();
        let glyph = style::glyph(to, false).to_string();
        let mark = self.style.paint(style::tone(to, false), &glyph);
        session::warn(&format!("  {mark} {}", self.last));
    }

    fn draw(&mut self, elapsed: Duration) {
        if self.silent || !self.live {
            return;
        }
        let on = match self.moving.as_slice() {
            [] => String::new(),
            [one] => format!("   on {one}"),
            [one, rest @ ..] => format!("   on {one} and {} more", rest.len()),
        };
        let text = format!("{:>6}  {}{on}", style::span(elapsed), self.last);
        let text = self.style.cut(&text, 1);
        session::redraw(&text);
        self.drawn = true;
    }

    fn clear(&mut self) {
        if self.drawn {
            session::redraw("");
            self.drawn = false;
        }
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
        Some(Ended::Settled(System::Failed | System::Degraded)) => {
            print_failures(session)?;
            Ok(Exit::Bad)
        }
        Some(Ended::Settled(System::Running | System::Starting | System::Stopping)) => {
            Ok(Exit::Done)
        }
    }
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
    let why = unit.reason.as_ref().map(|why| why.text.clone()).unwrap_or_default();
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
