//! The event log as it comes, and goes on after a crash of init: it is asked for what is behind the last event
//! that came. What is made of events is of who asks.

use crate::connection::Connection;
use crate::exit::Trouble;
use crate::session;
use groundstate_units::control::request::Verb;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::time::Duration;

/// Events that come.
pub(crate) struct EventStream {
    connection: Connection,
    follow: bool,
    /// The last one.
    seq: u64,
    limit: Option<Duration>,
}

/// What tells events apart; of init itself: the last one's.
#[derive(Deserialize)]
struct Numbered {
    seq: u64,
}

impl EventStream {
    /// Asks for those behind `seq`, each within `limit`; with `follow` for what is still to come.
    pub(crate) fn begin(
        mut connection: Connection,
        follow: bool,
        seq: u64,
        limit: Option<Duration>,
    ) -> Result<EventStream, Trouble> {
        connection.begin(Verb::Events { follow, after: seq }, limit)?;
        Ok(EventStream { connection, follow, seq, limit })
    }

    /// The next; None: there is no init any more, or it is gone again before it has said anything.
    pub(crate) fn next(&mut self) -> Result<Option<Box<RawValue>>, Trouble> {
        loop {
            if let Some(event) = self.connection.next::<Box<RawValue>>()? {
                let seq = serde_json::from_str::<Numbered>(event.get()).map(|event| event.seq);
                self.seq = seq.unwrap_or(self.seq);
                return Ok(Some(event));
            }
            let Ok(true) = self.connection.comes_back() else { return Ok(None) };
            let pong = session::read::<Numbered>(&self.connection.ping_again()?)?;
            // One that has lost its state counts anew.
            let after = if pong.seq < self.seq { 0 } else { self.seq };
            self.connection.begin(Verb::Events { follow: self.follow, after }, self.limit)?;
        }
    }

    /// It ended before the answer did.
    pub(crate) fn cut_off(&self) -> Trouble {
        self.connection.cut_off()
    }
}
