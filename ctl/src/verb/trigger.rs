//! `timers` and `sockets`: pending triggers.

use crate::exit::{Error, Exit};
use crate::session::{self, Session};
use crate::span;
use crate::style::{self, Style};
use groundstate_units::control::answer::{Sockets, Timers};
use groundstate_units::control::request::Verb;
use groundstate_units::text::wall_clock::WallTime;
use std::fmt::Write;

/// `timers`.
pub(crate) fn timers(session: &Session) -> Result<Exit, Error> {
    let (timers, value) = session.ask_as::<Timers>(Verb::Timers {})?;
    session.show(&value, || render_timers(&timers, &session.style))?;
    Ok(Exit::Done)
}

/// `sockets`.
pub(crate) fn sockets(session: &Session) -> Result<Exit, Error> {
    let (sockets, value) = session.ask_as::<Sockets>(Verb::Sockets {})?;
    session.show(&value, || render_sockets(&sockets, &session.style))?;
    Ok(Exit::Done)
}

/// Lists the timer that fires next first, and timers without a next time last.
pub(super) fn render_timers(answer: &Timers, style: &Style) -> String {
    let now = WallTime::parse(&answer.now).unwrap_or_else(session::now);
    let mut timers: Vec<_> = answer.timers.iter().collect();
    timers.sort_by_key(|timer| (timer.next.is_none(), &timer.next, &timer.unit));
    let mut rows = vec![["next", "left", "last", "unit", "activates"].map(str::to_string)];
    for timer in timers {
        let dash = || "-".to_string();
        let left = timer.next.as_deref().map(|at| style::span(span::until(at, now)));
        let waiting = timer.state.is_active();
        rows.push([
            timer.next.as_deref().map_or_else(dash, span::local),
            left.unwrap_or_else(|| if waiting { dash() } else { timer.state.word().to_string() }),
            timer.last.as_deref().map_or_else(dash, span::local),
            timer.unit.clone(),
            timer.activates.clone().unwrap_or_else(dash),
        ]);
    }
    table(&rows, style)
}

pub(super) fn render_sockets(answer: &Sockets, style: &Style) -> String {
    let mut rows = vec![["listens at", "unit", "state", "activates"].map(str::to_string)];
    for socket in &answer.sockets {
        let state = match (&socket.accepts, &socket.rests_until) {
            (_, Some(until)) => format!("paused until {}", span::local(until)),
            (Some(accepts), None) if socket.state.is_active() => {
                let failed = match accepts.failed {
                    0 => String::new(),
                    count => format!(", {count} failed"),
                };
                format!("{} of {} connections{failed}", accepts.connections.len(), accepts.most)
            }
            (_, None) if socket.waits => "listening".to_string(),
            (_, None) => socket.state.word().to_string(),
        };
        let activates = socket.activates.clone().unwrap_or_else(|| "-".to_string());
        let row = |listen: &str| {
            [listen.to_string(), socket.unit.clone(), state.clone(), activates.clone()]
        };
        rows.extend(socket.listen.iter().map(|listen| row(listen)));
    }
    let mut text = table(&rows, style);
    for socket in &answer.sockets {
        if let Some(last) = socket.accepts.as_ref().and_then(|it| it.last_failure.as_ref()) {
            let (unit, peer, time, reason) =
                (&last.unit, &last.peer, span::local(&last.time), &last.reason);
            let _ = writeln!(text, "{}: {unit}, for {peer}, at {time}: {reason}", socket.unit);
        }
    }
    text
}

/// Formats columns as wide as needed; the first row is the heading.
fn table<const N: usize>(rows: &[[String; N]], style: &Style) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| style::pad(cell, *width)).collect();
        let line = cells.join("  ");
        let line = line.trim_end();
        let _ = match index {
            0 => writeln!(text, "{}", style.bold(line)),
            _ => writeln!(text, "{line}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::control::answer::{SocketStatus, TimerStatus};
    use groundstate_units::machine::reason::State;

    #[test]
    fn timers_are_sorted_by_next_firing() {
        let timer = |unit: &str, next: Option<&str>, state| TimerStatus {
            unit: unit.to_string(),
            state,
            next: next.map(str::to_string),
            last: None,
            activates: Some("job".to_string()),
        };
        let answer = Timers {
            schema: 1,
            now: "2026-01-01T00:00:00.000Z".to_string(),
            timers: vec![
                timer("a", None, State::Disabled),
                timer("b", Some("2026-01-02T00:00:00.000Z"), State::Running),
                timer("c", Some("2026-01-01T00:00:05.000Z"), State::Running),
            ],
        };
        let text = render_timers(&answer, &Style::PLAIN);
        let units: Vec<&str> =
            text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3)).collect();
        assert_eq!(units, ["c", "b", "a"], "{text}");
        assert!(text.contains("5.0s") && text.contains("idle"), "{text}");
    }

    #[test]
    fn sockets_table_has_a_line_for_each_address() {
        let socket = SocketStatus {
            unit: "front".to_string(),
            state: State::Running,
            listen: vec!["listen-stream *:80".to_string(), "listen-fifo /run/x".to_string()],
            waits: true,
            rests_until: None,
            activates: Some("web".to_string()),
            accepts: None,
        };
        let mut answer = Sockets { schema: 1, sockets: vec![socket] };
        let text = render_sockets(&answer, &Style::PLAIN);
        let want = "listens at          unit   state      activates\n\
                    listen-stream *:80  front  listening  web\n\
                    listen-fifo /run/x  front  listening  web\n";
        assert_eq!(text, want);
        answer.sockets[0].rests_until = Some("2026-01-01T00:00:05.000Z".to_string());
        let text = render_sockets(&answer, &Style::PLAIN);
        assert!(text.contains("  paused until 2026-01-01T00:00:05.000Z  web\n"), "{text}");
    }
}
