//! `ping` and `stats`: information about init itself.

use crate::exit::{Error, Exit};
use crate::session::{self, Session};
use crate::span;
use groundstate_units::control::answer::{Pong, Stats};
use groundstate_units::control::request::Verb;

/// `ping`.
pub(crate) fn ping(session: &Session) -> Result<Exit, Error> {
    let value = session.ping()?;
    let pong = session::read::<Pong>(&value)?;
    session.show(&value, || {
        let boot = span::local(&pong.boot);
        format!("init {} is running: pid {}, up since {boot}\n", pong.version, pong.pid)
    })?;
    Ok(Exit::Done)
}

/// `stats`.
pub(crate) fn stats(session: &Session) -> Result<Exit, Error> {
    let (stats, value) = session.ask_as::<Stats>(Verb::Stats {})?;
    session.show(&value, || render(&stats))?;
    Ok(Exit::Done)
}

pub(super) fn render(stats: &Stats) -> String {
    let mut text = format!(
        "crashes survived  {}\n\
         open files        {}\n\
         resident memory   {} KiB\n\
         wake-ups          {}\n\
         commits           {}\n\
         units             {}\n\
         active runs       {}\n\
         process tracking  {}\n",
        stats.crashes,
        stats.fds,
        stats.rss / 1024,
        stats.wakeups,
        stats.commits.count,
        stats.units,
        stats.runs,
        stats.tracking
    );
    for (what, count) in stats.dropped.all().into_iter().filter(|(_, count)| *count > 0) {
        text.push_str(&format!("dropped           {what}: {count}\n"));
    }
    text
}
