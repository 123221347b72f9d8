//! The event log as it comes, and goes on after a crash of init: it is asked for what is behind the last event
//! that came. What is made of events is of who asks.

use crate::connection::Connection;
use crate::exit::Trouble;
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
    /// Nothing has come on this connection yet, which is not the first.
    is_unheard: bool,
}

/// What tells events apart.
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
        Ok(EventStream { connection, follow, seq, limit, is_unheard: false })
    }

    /// The next; None: there is no init any more, or it is gone again before it has said anything.
    pub(crate) fn next(&mut self) -> Result<Option<Box<RawValue>>, Trouble> {
        loop {
            if let Some(event) = self.connection.next::<Box<RawValue>>()? {
                let seq = serde_json::from_str::<Numbered>(event.get()).map(|event| event.seq);
                self.seq = seq.unwrap_or(self.seq);
                self.is_unheard = false;
                return Ok(Some(event));
            }
            if self.is_unheard {
                return Ok(None);
            }
            let Ok(connection) = self.connection.anew() else { return Ok(None) };
            *self = EventStream::begin(connection, self.follow, self.seq, self.limit)?;
            self.is_unheard = true;
        }
    }

    /// It ended before the answer did.
    pub(crate) fn cut_off(&self) -> Trouble {
        self.connection.cut_off()
    }
}
