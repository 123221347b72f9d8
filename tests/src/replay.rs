//! Feeds the output of `init --record FILE` to the core again. The same events at the same times
//! must give the same actions, and the invariants of [`crate::law`] must hold. Lines are JSON
//! objects `{"now":…,"event":…,"actions":[…],"refused":…}`.

use crate::law::Book;
use groundstate_units::machine::Machine;
use groundstate_units::machine::event::Event;
use groundstate_units::text::time::Time;
use serde_json::Value;
use std::time::Duration;

/// The default shutdown deadlines of a container and of a machine. The record does not say which it
/// was.
const DEADLINES: [Duration; 2] = [Duration::from_secs(9), Duration::from_secs(90)];

/// Returns the number of events.
///
/// # Errors
/// The first line that cannot be read, or whose actions differ.
pub fn replay(text: &str) -> Result<usize, String> {
    let [container, machine] = DEADLINES;
    replay_with(container, text).or_else(|first| replay_with(machine, text).map_err(|_| first))
}

fn replay_with(deadline: Duration, text: &str) -> Result<usize, String> {
    let (mut machine, mut book) = (Machine::new(deadline), Book::default());
    let mut count = 0;
    for (at, line) in text.lines().enumerate() {
        let place = |what: String| format!("line {}: {what}", at + 1);
        let mut told: Value = serde_json::from_str(line).map_err(|e| place(e.to_string()))?;
        let now: Time =
            serde_json::from_value(told["now"].take()).map_err(|e| place(format!("now: {e}")))?;
        let event: Event = serde_json::from_value(told["event"].take())
            .map_err(|e| place(format!("event: {e}")))?;
        let named = format!("{event:?}");
        let outcome = machine.step(now, event.clone());
        let actions = serde_json::to_value(&outcome.actions).map_err(|e| place(e.to_string()))?;
        let refused = serde_json::to_value(&outcome.refused).map_err(|e| place(e.to_string()))?;
        for (what, then, again) in
            [("actions", &told["actions"], actions), ("refused", &told["refused"], refused)]
        {
            if *then != again {
                let event = shortened(&named);
                return Err(place(format!(
                    "{event}\n  {what} then:  {then}\n  {what} again: {again}"
                )));
            }
        }
        book.take(&machine, &event, &outcome.actions)
            .map_err(|what| place(format!("{}: {what}", shortened(&named))))?;
        count += 1;
    }
    book.look(&machine)?;
    Ok(count)
}

fn shortened(event: &str) -> String {
    event.chars().take(300).collect()
}
