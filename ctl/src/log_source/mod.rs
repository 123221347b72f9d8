//! Reads logs from the logger, or from its files if the logger is down. [`lines`] has the requests
//! of `logs` and journalctl(1), which combine the logs of several units.

pub(crate) mod lines;
mod merged;

use crate::connection::{self, Connection};
use crate::exit::Error;
use crate::machine::{LOG_UNIT, Origin, kmsg, split_line};
use crate::session::Session;
use groundstate_units::control::answer::{End, Failure, PROTOCOL};
use groundstate_units::control::log_line::{ShownLine, file_name, printable};
use groundstate_units::control::log_query::{LogQuery, LogVerb};
use groundstate_units::control::place::log_socket;
use groundstate_units::text::name::Name;
use groundstate_units::text::wall_clock::WallTime;
use serde::Deserialize;
use std::borrow::Cow;
use std::path::Path;

/// How long a failed command waits for the log lines that it shows.
const TAIL_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

/// An object of the logger's stream.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Piece {
    /// A line.
    Line(ShownLine),
    /// The end of the stream.
    End {
        /// The mark of the end; always true.
        #[serde(rename = "end")]
        _end: bool,
    },
}

/// Sends a query to the logger after a ping. [`Connection::next`] returns the lines; when
/// following, it waits without a timeout.
pub(crate) fn ask(session: &Session, query: &Query<'_>) -> Result<Connection, Error> {
    let mut connection = open(session)?;
    let nothing = Query { names: &[], lines: None, follow: false, since: None };
    let _pong: End = connection.ping_with(&line(LogVerb::Ping, &nothing)?)?;
    connection.set_timeout((!query.follow).then_some(connection::ANSWER_TIMEOUT));
    connection.send(&line(LogVerb::Logs, query)?)?;
    Ok(connection)
}

fn open(session: &Session) -> Result<Connection, Error> {
    let dir = Path::new(&session.socket).parent().map(Path::to_string_lossy).unwrap_or_default();
    Connection::open(&log_socket(&dir))
}

fn line(verb: LogVerb, query: &Query<'_>) -> Result<Vec<u8>, Error> {
    let request = LogQuery {
        v: PROTOCOL,
        id: 1,
        verb,
        targets: query.names.to_vec(),
        n: query.lines,
        follow: query.follow,
        since: query.since.map(|since| since.to_string()),
    };
    let mut line = serde_json::to_vec(&request)
        .map_err(|error| Error::local(format!("cannot encode the request: {error}"), ""))?;
    line.push(b'\n');
    Ok(line)
}

/// A query.
pub(crate) struct Query<'a> {
    /// Targets or units; empty for all.
    pub(crate) names: &'a [String],
    /// The last lines of each unit.
    pub(crate) lines: Option<u64>,
    /// Follow the log.
    pub(crate) follow: bool,
    /// The earliest time.
    pub(crate) since: Option<WallTime>,
}

/// Returns the last lines of a unit for a failed command, without reporting errors.
pub(crate) fn tail(session: &Session, unit: &str, lines: u64) -> Vec<String> {
    let names = [unit.to_string()];
    let query = Query { names: &names, lines: Some(lines), follow: false, since: None };
    let mut shown = Vec::new();
    let Ok(mut connection) = open(session) else { return shown };
    connection.set_timeout(Some(TAIL_TIMEOUT));
    let Ok(()) = line(LogVerb::Logs, &query).and_then(|line| connection.send(&line)) else {
        return shown;
    };
    while let Ok(Some(Piece::Line(line))) = connection.next::<Piece>() {
        shown.push(printable(line.line.as_bytes()).into_owned());
    }
    shown
}

/// Returns the units that have a log file.
pub(crate) fn units_in(dir: &str) -> Vec<Name> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let unit = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let unit = Name::new(name.strip_suffix(".log")?).ok()?;
        (file_name(&unit) == name).then_some(unit)
    };
    let mut units: Vec<Name> = entries.filter_map(unit).collect();
    units.sort();
    units
}

/// Assigns a message of syslog(3) to the unit of its sender, and sets the stream of a message to
/// its [`Origin`]. A message whose sender is in no unit stays a line of [`LOG_UNIT`].
pub(crate) fn attribute(line: &mut ShownLine) {
    if line.continued {
        return;
    }
    let origin = match line.unit.as_str() {
        LOG_UNIT => {
            let Some((unit, message)) = split_line(&line.line) else { return };
            let (unit, message) = (unit.unwrap_or(LOG_UNIT).to_string(), message.to_string());
            (line.unit, line.line) = (unit, message);
            Origin::Syslog
        }
        kmsg::UNIT => {
            let Some((origin, _)) = Origin::split(&line.line) else { return };
            origin
        }
        _ => return,
    };
    // The run is that of the reader, not of the sender.
    line.run = None;
    line.stream = Cow::Borrowed(origin.name());
}

/// Returns true if the logger is down, so that its files may be read instead.
pub(crate) fn is_down(error: &Error) -> bool {
    let Error::Failed(_, failure) = error else { return false };
    [Failure::NO_INIT, Failure::TIMEOUT].contains(&failure.kind.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::machine::event::RunId;

    #[test]
    fn message_of_syslog_or_of_the_kernel_has_its_unit_and_origin_and_no_run() {
        for (of, text, unit, line, stream) in [
            (
                LOG_UNIT,
                "ssh.service sshd[7]: Accepted",
                "ssh.service",
                "sshd[7]: Accepted",
                "syslog",
            ),
            (LOG_UNIT, "- logger[9]: hello", LOG_UNIT, "logger[9]: hello", "syslog"),
            (LOG_UNIT, "/dev/log: Broken pipe", LOG_UNIT, "/dev/log: Broken pipe", "output"),
            (kmsg::UNIT, "kernel: [    1.0] usb", kmsg::UNIT, "kernel: [    1.0] usb", "kernel"),
            (kmsg::UNIT, "kmsg: [    1.0] a", kmsg::UNIT, "kmsg: [    1.0] a", "kmsg"),
            (kmsg::UNIT, "dropped 3 messages", kmsg::UNIT, "dropped 3 messages", "output"),
            ("web", "kernel: [    1.0] usb", "web", "kernel: [    1.0] usb", "output"),
        ] {
            let mut shown = ShownLine {
                time: String::new(),
                unit: of.to_string(),
                run: Some(RunId(7)),
                stream: "output".into(),
                level: Some(6),
                line: text.to_string(),
                continued: false,
            };
            attribute(&mut shown);
            let run = (stream == "output").then_some(RunId(7));
            assert_eq!(
                (&*shown.unit, &*shown.line, &*shown.stream, shown.run),
                (unit, line, stream, run)
            );
        }
    }
}
