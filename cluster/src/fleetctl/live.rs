//! events, logs: commands that run until the user stops them.

use super::arguments::Logs;
use super::bring_down::name_of;
use super::connection::{self, Connection};
use super::output::{say, warn, write};
use super::session::Session;
use super::trouble::Trouble;
use crate::api::request::escape;
use crate::wire::{ErrorEntity, Event};
use groundstate_units::control::log_line::printable;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::Incoming;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum size of an event in bytes.
const LARGEST_EVENT: usize = 16 * 1024 * 1024;
/// Maximum silence of a stream: the server sends a keepalive each 15 s.
pub(super) const SILENCE: Duration = Duration::from_secs(60);

/// The events of a stream, batch by batch.
pub(super) struct Stream {
    response: Response<Incoming>,
    held: Vec<u8>,
    /// Maximum silence before the server counts as lost.
    silence: Duration,
}

impl Stream {
    pub(super) async fn open(session: &mut Session, silence: Duration) -> Result<Stream, Trouble> {
        // The stream keeps its own connection until the end.
        let mut connection = Connection::new(&session.globals)?;
        let response = connection.send("GET", "/fleet/v1/events", None).await?;
        if response.status() != 200 {
            return Err(refusal(response).await);
        }
        Ok(Stream { response, held: Vec::new(), silence })
    }

    /// Returns `None` if the server has closed the stream.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Event>>, Trouble> {
        loop {
            if let Some(end) = self.held.windows(2).position(|pair| pair == b"\n\n") {
                let message: Vec<u8> = self.held.drain(..end + 2).collect();
                let text = String::from_utf8_lossy(&message);
                let data = text.lines().find_map(|line| line.strip_prefix("data:"));
                if let Some(events) = data.and_then(|data| serde_json::from_str(data).ok()) {
                    return Ok(Some(events));
                }
                continue;
            }
            let silent = || {
                let seconds = self.silence.as_secs_f64();
                Trouble::passing(format!("no message from the server for {seconds} s"))
            };
            let frame = timeout(self.silence, self.response.body_mut().frame()).await;
            match frame.map_err(|_| silent())? {
                None => return Ok(None),
                Some(Err(error)) => {
                    return Err(Trouble::passing(format!("the stream broke off: {error}")));
                }
                Some(Ok(frame)) => self.held.extend(frame.data_ref().into_iter().flatten()),
            }
            if self.held.len() > LARGEST_EVENT {
                return Err(Trouble::new("the server did not send an event stream"));
            }
        }
    }
}

async fn refusal(response: Response<Incoming>) -> Trouble {
    let (status, retry_after) = (response.status().as_u16(), connection::retry_after(&response));
    let body = response.into_body().collect().await.map(http_body_util::Collected::to_bytes);
    let entity = body.ok().and_then(|body| serde_json::from_slice::<ErrorEntity>(&body).ok());
    let message = entity.map(|entity| entity.error.message).unwrap_or_default();
    let words = format!("googleapi: Error {status}: {message}");
    match status {
        502..=504 => Trouble { retry_after, ..Trouble::passing(words) },
        _ => Trouble::new(words),
    }
}

pub(super) async fn events(session: &mut Session) -> Result<u8, Trouble> {
    let mut stream = Stream::open(session, SILENCE).await?;
    while let Some(batch) = stream.next().await? {
        for event in batch {
            match session.globals.json {
                true => super::output::say_json(&event),
                false => say(&line(&event)),
            }
        }
    }
    Err(Trouble::new("the server closed the stream"))
}

fn line(event: &Event) -> String {
    let gone = if event.gone { "gone" } else { "" };
    let words = [&event.kind, &event.name, &event.machine_id, gone, &event.text];
    let shown = words.iter().filter(|word| !word.is_empty());
    let shown: Vec<&str> = shown.map(|word| word.as_ref()).collect();
    format!("{} {}", event.revision, shown.join(" "))
}

/// Reassembles lines from chunks, so that no character is split.
#[derive(Default)]
struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// Longer lines are shown in parts.
    const LONGEST: usize = 64 * 1024;

    /// Returns the lines completed by this chunk.
    fn whole(&mut self, piece: &[u8]) -> String {
        self.partial.extend_from_slice(piece);
        let end = self.partial.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let end = if self.partial.len() - end > Lines::LONGEST { self.partial.len() } else { end };
        let rest = self.partial.split_off(end);
        text(&std::mem::replace(&mut self.partial, rest))
    }

    fn rest(&mut self) -> String {
        text(&std::mem::take(&mut self.partial))
    }
}

fn text(bytes: &[u8]) -> String {
    bytes.split_inclusive(|byte| *byte == b'\n').map(shown_line).collect()
}

fn shown_line(line: &[u8]) -> String {
    match line.strip_suffix(b"\n") {
        Some(line) => format!("{}\n", printable(line)),
        None => printable(line).into_owned(),
    }
}

pub(super) async fn logs(session: &mut Session, what: &Logs) -> Result<u8, Trouble> {
    let name = name_of(&what.unit);
    let machine = match &what.machine {
        Some(named) => Some(super::inspection::machine(session, named).await?),
        None => None,
    };
    let mut path = format!("/fleet/v1/logs/{}?lines={}", escape(&name), what.lines);
    if what.follow {
        path.push_str("&follow=true");
    }
    if let Some(id) = &machine {
        path.push_str(&format!("&machineID={}", escape(id)));
    }
    let mut connection = Connection::new(&session.globals)?;
    let mut response = connection.send("GET", &path, None).await?;
    match response.status().as_u16() {
        200 => {
            let mut lines = Lines::default();
            while let Some(frame) = response.body_mut().frame().await {
                let broken = |error| Trouble::new(format!("the logs broke off: {error}"));
                let frame = frame.map_err(broken)?;
                if !write(&lines.whole(frame.data_ref().map_or(&[], |data| data))) {
                    return Ok(0);
                }
            }
            write(&lines.rest());
            Ok(0)
        }
        // The machine cannot be asked through the API; use ssh.
        409 | 503 => {
            let trouble = refusal(response).await;
            let unit = session.client.unit(&name).await?;
            let on = machine.or_else(|| unit.map(|unit| unit.machine_id));
            let Some(id) = on.filter(|id| !id.is_empty()) else { return Err(trouble) };
            warn(&format!("{}; using ssh", trouble.message));
            let lines = what.lines.to_string();
            let mut words = vec!["journalctl", "--unit", &name, "--no-pager", "-n", &lines];
            if what.follow {
                words.push("-f");
            }
            super::remote::run_on(session, &id, &words, what.ssh.ssh_port).await
        }
        404 => Err(Trouble::new(format!("Unit {name} does not exist."))),
        _ => Err(refusal(response).await),
    }
}

#[cfg(test)]
mod tests {
    use super::super::arguments::Line;
    use super::*;
    use clap::Parser;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    #[test]
    fn logs_received_in_chunks_are_escaped_by_line() {
        let whole = "ä\u{202e}\u{1b}[2J\r\nb\u{9b}c".as_bytes();
        for at in 0..whole.len() {
            let mut lines = Lines::default();
            let (first, second) = whole.split_at(at);
            let shown = [lines.whole(first), lines.whole(second), lines.rest()].concat();
            assert_eq!(shown, "ä\\xe2\\x80\\xae\\x1b[2J\nb\\xc2\\x9bc", "{at}");
        }
        let mut long = Lines::default();
        assert_eq!(long.whole(&[b'x'; Lines::LONGEST + 1]).len(), Lines::LONGEST + 1);
    }

    #[test]
    fn stream_of_a_silent_server_times_out() {
        let path = std::env::temp_dir().join(format!("fleet-silent.{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 4096];
            let _ = stream.read(&mut asked).unwrap();
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            // Until the peer disconnects.
            let _ = stream.read(&mut asked);
        });
        let endpoint = format!("--endpoint=unix://{}", path.display());
        let line = Line::try_parse_from(["fleetctl", &endpoint]).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let heard = runtime.block_on(async {
            let mut session = Session::open(line.globals).unwrap();
            let mut stream = Stream::open(&mut session, Duration::from_millis(50)).await.unwrap();
            stream.next().await
        });
        let trouble = heard.unwrap_err();
        assert!(
            trouble.passing && trouble.message.contains("no message from the server for 0.05 s"),
            "{trouble:?}"
        );
        drop(runtime);
        server.join().unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}
