//! The event log as a stream that survives a crash of init: it continues after the last received
//! event.

use crate::connection::Connection;
use crate::exit::Error;
use crate::session;
use groundstate_units::control::request::Verb;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::time::Duration;

/// A stream of events.
pub(crate) struct EventStream {
    connection: Connection,
    follow: bool,
    /// Sequence number of the last event.
    seq: u64,
    /// Start of the numbering, if init has reported it.
    since: Option<u64>,
    limit: Option<Duration>,
}

/// The sequence number of an event.
#[derive(Deserialize)]
struct Numbered {
    seq: u64,
}

/// init's last sequence number, and the start of its numbering.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Count {
    seq: Option<u64>,
    seq_mono_us: Option<u64>,
}

impl EventStream {
    /// Requests the events after `seq`, each within `limit`; with `follow` also future ones.
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

    /// Requests the events after the last one, or all if `is_renumbered` detects a new numbering.
    fn ask(&mut self, is_renumbered: impl FnOnce(&Count) -> bool) -> Result<(), Error> {
        let EventStream { connection, follow, seq, since, limit } = self;
        connection.begin_with(*limit, |pong| {
            let count = session::read::<Count>(pong)?;
            if is_renumbered(&count) {
                *seq = 0;
            }
            *since = count.seq_mono_us;
            Ok(Verb::Events { follow: *follow, after: *seq })
        })
    }

    /// Returns the next event. Returns `None` if init does not come back, or if the new connection
    /// is lost before an answer too.
    pub(crate) fn next(&mut self) -> Result<Option<Box<RawValue>>, Error> {
        loop {
            if let Some(event) = self.connection.next::<Box<RawValue>>()? {
                let seq = serde_json::from_str::<Numbered>(event.get()).map(|event| event.seq);
                self.seq = seq.unwrap_or(self.seq);
                return Ok(Some(event));
            }
            let Ok(true) = self.connection.reconnect() else { return Ok(None) };
            // Another init process numbers from 1 again, and may already be beyond the last number.
            let (seq, since) = (self.seq, self.since);
            self.ask(|count| {
                let is_other = since.zip(count.seq_mono_us).is_some_and(|(old, new)| old != new);
                is_other || count.seq.is_some_and(|last| last < seq)
            })?;
        }
    }

    /// The error for a stream that ended within an answer.
    pub(crate) fn cut_off(&self) -> Error {
        self.connection.cut_off()
    }
}
