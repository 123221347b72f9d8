//! `events`: one line per event, with its cause.

use crate::arguments;
use crate::connection::ANSWER_TIMEOUT;
use crate::event_stream::EventStream;
use crate::exit::{Error, Exit};
use crate::session::{self, Session};
use crate::span;
use crate::style::{self, Style, Tone};
use groundstate_units::control::answer::{End, Event};

/// Asks init and prints the events.
pub(crate) fn run(session: &Session, asked: &arguments::Events) -> Result<Exit, Error> {
    let limit = (!asked.follow).then_some(ANSWER_TIMEOUT);
    let mut events = EventStream::begin(session.connect()?, asked.follow, asked.after, limit)?;
    loop {
        let value = match events.next()? {
            Some(value) => value,
            None if asked.follow => break,
            None => return Err(events.cut_off()),
        };
        if serde_json::from_str::<End>(value.get()).is_ok() {
            break;
        }
        if session.json {
            session::print_json(&value)?;
        } else {
            session::print(&render(&session::read(&value)?, &session.style))?;
        }
    }
    Ok(Exit::Done)
}

pub(super) fn render(event: &Event, style: &Style) -> String {
    let time = style.paint(Tone::Quiet, &span::local(&event.time));
    let unit = event.unit.as_deref().unwrap_or("init");
    let change = match (event.from, event.to) {
        (Some(from), Some(to)) if from != to => {
            let to = style.paint(style::tone(to, false), to.word());
            format!("{} -> {to}", from.word())
        }
        (_, Some(to)) => style.paint(style::tone(to, false), to.word()),
        (_, None) => event.event.clone(),
    };
    let why = style::reason_suffix(event.to, event.reason.as_ref());
    let cause = event.cause.map(|seq| style.paint(Tone::Quiet, &format!("  (from {seq})")));
    format!("{:>5} {time} {unit}  {change}{why}{}\n", event.seq, cause.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::control::answer::{Cause, Reason};
    use groundstate_units::machine::reason::State;

    #[test]
    fn event_line_has_the_change_its_reason_and_its_cause() {
        let event = Event {
            seq: 7,
            time: "2026-11-21T05:12:26.123Z".to_string(),
            mono_us: 1,
            unit: Some("web".to_string()),
            run: Some(3),
            event: "exited".to_string(),
            from: Some(State::Running),
            to: Some(State::Failed),
            reason: Some(Reason {
                text: "its process exited with status 1".to_string(),
                cause: Cause::Exit { code: 1 },
            }),
            cause: Some(5),
        };
        let want = "    7 2026-11-21T05:12:26.123Z web  running -> failed: \
                    its process exited with status 1  (from 5)\n";
        assert_eq!(render(&event, &Style::PLAIN), want);
    }
}
