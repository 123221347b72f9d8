//! Reads logs from the logger, or from its files if the logger is down. [`lines`] has the requests of
//! `logs` and journalctl(1), which combine the logs of several units.

pub(crate) mod lines;

use crate::connection::{self, Connection};
use crate::exit::Error;
use crate::machine::{LOG_UNIT, Origin, split_line};
use crate::session::Session;
use groundstate_units::control::answer::{End, Failure, PROTOCOL};
use groundstate_units::control::log_line::{LogLine, ShownLine, file_name, printable};
use groundstate_units::control::log_query::{LogQuery, LogVerb};
use groundstate_units::control::place::log_socket;
use groundstate_units::text::name::Name;
use groundstate_units::text::wall_clock::WallTime;
use serde::Deserialize;
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The unit that lines of the kernel are shown with.
pub(crate) const KERNEL_UNIT: &str = "kernel";
/// Values of [`ShownLine::stream`] after [`attribute`]: a message of syslog(3), of the kernel, and of a
/// process that wrote to /dev/kmsg.
pub(crate) const SYSLOG: &str = "syslog";
pub(crate) const KERNEL: &str = "kernel";
pub(crate) const KMSG: &str = "kmsg";

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

/// Reads lines from the log files while the logger does not answer. `units` are unit names.
/// `choose` may drop lines. It is called once per unit, with the lines in the order of the file.
///
/// # Errors
/// [`Exit::Denied`](crate::exit::Exit::Denied) if the files may not be read; a unit without a file
/// has no lines.
pub(crate) fn from_files(
    dir: &str,
    units: &[Name],
    query: &Query<'_>,
    choose: impl Fn(&Name, &mut Vec<ShownLine>),
) -> Result<Vec<ShownLine>, Error> {
    let mut lines = Vec::new();
    for unit in units {
        let path = Path::new(dir).join(file_name(unit));
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::file(&path.to_string_lossy(), &error)),
        };
        let mut of_unit = stored(BufReader::new(file), unit, query.since)
            .map_err(|error| Error::file(&path.to_string_lossy(), &error))?;
        let wanted = match (query.lines, query.since) {
            (Some(lines), _) => usize::try_from(lines).unwrap_or(usize::MAX),
            (None, Some(_)) => usize::MAX,
            (None, None) => 10,
        };
        let mut of_unit = of_unit.split_off(of_unit.len().saturating_sub(wanted));
        choose(unit, &mut of_unit);
        lines.append(&mut of_unit);
    }
    lines.sort_by(|a, b| a.time.cmp(&b.time));
    Ok(lines)
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

fn stored(
    mut file: impl BufRead,
    unit: &Name,
    since: Option<WallTime>,
) -> Result<Vec<ShownLine>, std::io::Error> {
    let mut lines = Vec::new();
    let mut line = Vec::new();
    while file.read_until(b'\n', &mut line)? > 0 {
        if let Some(parsed) = LogLine::parse(&line)
            && since.is_none_or(|since| parsed.time >= since)
        {
            lines.push(ShownLine::new(unit.as_str(), &parsed));
        }
        line.clear();
    }
    Ok(lines)
}

/// Assigns a message of syslog(3) to the unit of its sender, and a message of the kernel to
/// [`KERNEL_UNIT`]. A message whose sender is in no unit stays a line of [`LOG_UNIT`].
pub(crate) fn attribute(line: &mut ShownLine) {
    if line.unit != LOG_UNIT || line.continued {
        return;
    }
    let Some((origin, message)) = split_line(&line.line) else { return };
    let (unit, stream) = match origin {
        Origin::Syslog(unit) => (unit.unwrap_or(LOG_UNIT), SYSLOG),
        Origin::Kernel => (KERNEL_UNIT, KERNEL),
        Origin::Kmsg => (KERNEL_UNIT, KMSG),
    };
    (line.unit, line.line) = (unit.to_string(), message.to_string());
    line.stream = Cow::Borrowed(stream);
}

/// Returns true if the logger is down, so that its files may be read instead.
pub(crate) fn is_down(error: &Error) -> bool {
    let Error::Failed(_, failure) = error else { return false };
    [Failure::NO_INIT, Failure::TIMEOUT].contains(&failure.kind.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_of_syslog_or_of_the_kernel_is_a_line_of_its_unit() {
        let attributed = |text: &str| {
            let mut line = ShownLine {
                time: String::new(),
                unit: LOG_UNIT.to_string(),
                run: None,
                stream: "output".into(),
                level: Some(6),
                line: text.to_string(),
                continued: false,
            };
            attribute(&mut line);
            (line.unit, line.line, line.stream.into_owned())
        };
        for (text, unit, line, stream) in [
            ("ssh.service sshd[7]: Accepted", "ssh.service", "sshd[7]: Accepted", SYSLOG),
            ("- logger[9]: hello", LOG_UNIT, "logger[9]: hello", SYSLOG),
            ("- kernel: [    1.000000] usb", KERNEL_UNIT, "[    1.000000] usb", KERNEL),
            ("- kmsg: [    1.000000] init: a", KERNEL_UNIT, "[    1.000000] init: a", KMSG),
            ("syslog: Broken pipe", LOG_UNIT, "syslog: Broken pipe", "output"),
        ] {
            let want = (unit.to_string(), line.to_string(), stream.to_string());
            assert_eq!(attributed(text), want, "{text}");
        }
    }
}
