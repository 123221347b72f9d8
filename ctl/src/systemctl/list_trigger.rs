//! `list-timers` and `list-sockets`: columns as in systemd.

use super::Outcome;
use super::property::stamp;
use super::snapshot::{session_of, with_suffix};
use super::words::Asked;
use crate::session;
use crate::span;
use crate::style;
use groundstate_units::control::answer::{Sockets, Timers};
use groundstate_units::control::request::Verb;
use groundstate_units::machine::reason::State;
use groundstate_units::text::glob;
use groundstate_units::text::wall_clock::WallTime;

/// `list-timers`, the next one first.
pub(super) fn timers(asked: &Asked) -> Outcome {
    let (answer, _) = session_of(asked.user).ask_as::<Timers>(Verb::Timers {})?;
    let now = WallTime::parse(&answer.now).unwrap_or_else(session::now);
    let mut timers = answer.timers;
    timers.retain(|timer| is_selected(asked, &timer.unit, timer.state));
    timers.sort_by(|a, b| {
        (a.next.is_none(), &a.next, &a.unit).cmp(&(b.next.is_none(), &b.next, &b.unit))
    });
    let rows = timers.iter().map(|timer| {
        let cell = |time: &Option<String>| time.as_deref().map_or("-".to_string(), stamp);
        let left = timer.next.as_deref().map(|at| style::span(span::until(at, now)) + " left");
        let ago = timer.last.as_deref().map(|at| style::span(span::since(at, now)) + " ago");
        let dash = || "-".to_string();
        [
            cell(&timer.next),
            left.unwrap_or_else(dash),
            cell(&timer.last),
            ago.unwrap_or_else(dash),
            full(&timer.unit, "timer"),
            activated(timer.activates.as_deref()),
        ]
    });
    let heads = ["NEXT", "LEFT", "LAST", "PASSED", "UNIT", "ACTIVATES"];
    print(asked, heads, rows.collect(), "timers")
}

/// `list-sockets`: one line per address.
pub(super) fn sockets(asked: &Asked) -> Outcome {
    let (answer, _) = session_of(asked.user).ask_as::<Sockets>(Verb::Sockets {})?;
    let mut rows = Vec::new();
    for socket in answer.sockets.iter().filter(|one| is_selected(asked, &one.unit, one.state)) {
        for listen in &socket.listen {
            // `listen-stream /run/x.sock`.
            let address = listen.split_once(' ').map_or(listen.as_str(), |(_, address)| address);
            let unit = full(&socket.unit, "socket");
            rows.push([address.to_string(), unit, activated(socket.activates.as_deref())]);
        }
    }
    rows.sort();
    print(asked, ["LISTEN", "UNIT", "ACTIVATES"], rows, "sockets")
}

fn is_selected(asked: &Asked, unit: &str, state: State) -> bool {
    let fits = |name: &String| glob::matches(&with_suffix(name), unit) || glob::matches(name, unit);
    let named = asked.names.is_empty() || asked.names.iter().any(fits);
    named && (asked.all || state.is_active())
}

/// Adds the suffix that a native unit may lack.
fn full(unit: &str, suffix: &str) -> String {
    if super::shown::has_suffix(unit) { unit.to_string() } else { format!("{unit}.{suffix}") }
}

fn activated(target: Option<&str>) -> String {
    target.map_or("-".to_string(), |target| full(target, "service"))
}

fn print<const N: usize>(
    asked: &Asked,
    heads: [&str; N],
    mut rows: Vec<[String; N]>,
    what: &str,
) -> Outcome {
    let count = rows.len();
    if !asked.no_legend {
        rows.insert(0, heads.map(str::to_string));
    }
    let mut text = String::new();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join(" ").trim_end());
        text.push('\n');
    }
    if !asked.no_legend {
        text.push_str(&format!("\n{count} {what} listed.\n"));
        if !asked.all {
            text.push_str(&format!("Pass --all to see loaded but inactive {what}, too.\n"));
        }
    }
    session::print(&text)?;
    Ok(0)
}
