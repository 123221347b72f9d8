//! The event log as it comes, and goes on after a crash of init: it is asked for what is behind the last event
//! that came. What is made of events is of who asks.

use crate::connection::Connection;
use crate::exit::Error;
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
    /// Since when they are counted, where init has said so.
    since: Option<u64>,
    limit: Option<Duration>,
}

/// What tells events apart.
#[derive(Deserialize)]
struct Numbered {
    seq: u64,
}

/// Of init itself, as far as it says so: the last one's, and which count that is of.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Count {
    seq: Option<u64>,
    seq_mono_us: Option<u64>,
}

impl EventStream {
    /// Asks for those behind `seq`, each within `limit`; with `follow` for what is still to come.
    pub(crate) fn begin(
        connection: Connection,
        follow: bool,
        seq: u64,
        limit: Option<Duration>,
    ) -> Result<EventStream, Error> {
        let mut stream = EventStream { connection, follow, seq, since: None, limit };
        stream.ask(|_| false)?;
        Ok(stream)
    }

    /// For those behind the last one, or for all where `is_anew` says that they are counted anew.
    fn ask(&mut self, is_anew: impl FnOnce(&Count) -> bool) -> Result<(), Error> {
        let EventStream { connection, follow, seq, since, limit } = self;
        connection.begin_with(*limit, |pong| {
            let count = session::read::<Count>(pong)?;
            if is_anew(&count) {
                *seq = 0;
            }
            *since = count.seq_mono_us;
            Ok(Verb::Events { follow: *follow, after: *seq })
        })
    }

    /// The next; None: there is no init any more, or it is gone again before it has said anything.
    pub(crate) fn next(&mut self) -> Result<Option<Box<RawValue>>, Error> {
        loop {
            if let Some(event) = self.connection.next::<Box<RawValue>>()? {
                let seq = serde_json::from_str::<Numbered>(event.get()).map(|event| event.seq);
                self.seq = seq.unwrap_or(self.seq);
                return Ok(Some(event));
            }
            let Ok(true) = self.connection.reconnect() else { return Ok(None) };
            // Another init process counts from 1 again, and may have come further than the one before.
            let (seq, since) = (self.seq, self.since);
            self.ask(|count| {
                let is_other = since.zip(count.seq_mono_us).is_some_and(|(old, new)| old != new);
                is_other || count.seq.is_some_and(|last| last < seq)
            })?;
        }
    }

    /// It ended before the answer did.
    pub(crate) fn cut_off(&self) -> Error {
        self.connection.cut_off()
    }
}
