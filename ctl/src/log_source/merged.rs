//! The lines of several sources, merged in the order of time.

use super::Piece;
use crate::connection::Connection;
use crate::exit::Error;
use groundstate_units::control::log_line::{LogLine, ShownLine};
use groundstate_units::text::name::Name;
use groundstate_units::text::wall_clock::WallTime;
use std::fs::File;
use std::io::{BufRead, BufReader};

/// The lines of some units from the logger, or of one unit from its file.
pub(super) enum Source {
    Logger(Connection),
    File { file: BufReader<File>, unit: Name, path: String, since: Option<WallTime> },
    None,
}

impl Source {
    pub(super) fn next(&mut self) -> Result<Option<ShownLine>, Error> {
        match self {
            Source::Logger(connection) => match connection.next::<Piece>()? {
                Some(Piece::Line(line)) => Ok(Some(line)),
                Some(Piece::End { .. }) => Ok(None),
                None => Err(connection.cut_off()),
            },
            Source::File { file, unit, path, since } => loop {
                let mut line = Vec::new();
                let read = file.read_until(b'\n', &mut line);
                if read.map_err(|error| Error::file(path, &error))? == 0 {
                    return Ok(None);
                }
                if let Some(parsed) = LogLine::parse(&line)
                    && since.is_none_or(|since| parsed.time >= since)
                {
                    return Ok(Some(ShownLine::new(unit.as_str(), &parsed)));
                }
            },
            Source::None => Ok(None),
        }
    }
}

/// A source with its next line.
pub(super) struct Part {
    source: Source,
    head: Option<ShownLine>,
    pub(super) error: Option<Error>,
}

impl Part {
    pub(super) fn new(source: Source) -> Part {
        Part { source, head: None, error: None }
    }

    pub(super) fn advance(&mut self) -> Option<ShownLine> {
        let next = self.source.next();
        let (head, error) = match next {
            Ok(head) => (head, None),
            Err(error) => (None, Some(error)),
        };
        if head.is_none() {
            self.source = Source::None;
        }
        self.error = error;
        std::mem::replace(&mut self.head, head)
    }
}

/// The lines of all sources. Lines of one source keep their order.
pub(super) struct Merged {
    pub(super) parts: Vec<Part>,
    pub(super) error: Option<Error>,
}

impl Merged {
    /// Returns the next line, or an error after the lines that were read before it.
    pub(super) fn next(&mut self) -> Result<Option<ShownLine>, Error> {
        for part in &mut self.parts {
            self.error = self.error.take().or(part.error.take());
        }
        if let Some(error) = self.error.take() {
            self.parts.clear();
            return Err(error);
        }
        let heads = self.parts.iter_mut().filter(|part| part.head.is_some());
        let first = heads.min_by(|a, b| time(a.head.as_ref()).cmp(time(b.head.as_ref())));
        Ok(first.and_then(Part::advance))
    }
}

/// The time of the line; empty without a line.
pub(super) fn time(line: Option<&ShownLine>) -> &str {
    line.map_or("", |line| &line.time)
}
