//! `--record FILE`: records each event and the machine's answer, one JSON object a line, to replay
//! them elsewhere.
//!
//! A line is `{"now":NANOS,"event":EVENT,"actions":[ACTION…],"refused":REFUSAL|null}`. EVENT,
//! ACTION and REFUSAL are the serde form of the types of `groundstate_units::machine`: externally
//! tagged, as in `{"Ready":7}`, `{"Start":{"unit":0,"name":"web","run":7}}`, `"Tick"`. `now` is
//! CLOCK_MONOTONIC. A replay starts with an empty machine, steps through the lines at their `now`,
//! and gets the same actions.

use groundstate_units::machine::action::{Action, Outcome};
use groundstate_units::machine::event::Event;
use groundstate_units::machine::reason::Refusal;
use groundstate_units::text::time::Time;
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, Write};

#[derive(Serialize)]
struct Line<'a> {
    now: Time,
    event: &'a Event,
    actions: &'a [Action],
    refused: &'a Option<Refusal>,
}

/// The open file.
pub(crate) struct Record {
    to: BufWriter<File>,
}

impl Record {
    /// Creates or truncates the file.
    pub(crate) fn create(path: &str) -> io::Result<Record> {
        Ok(Record { to: BufWriter::new(File::create(path)?) })
    }

    /// The open file with everything flushed, for the next image.
    pub(crate) fn file(&mut self) -> io::Result<&File> {
        self.to.flush()?;
        Ok(self.to.get_ref())
    }

    /// Continues with the file of an earlier image.
    pub(crate) fn go_on(file: File) -> Record {
        Record { to: BufWriter::new(file) }
    }

    /// Writes one step.
    pub(crate) fn write(&mut self, now: Time, event: &Event, outcome: &Outcome) -> io::Result<()> {
        let line = Line { now, event, actions: &outcome.actions, refused: &outcome.refused };
        serde_json::to_writer(&mut self.to, &line)?;
        self.to.write_all(b"\n")
    }

    /// Flushes at the end of each turn of the loop.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
