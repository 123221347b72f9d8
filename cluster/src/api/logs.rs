//! `/logs/NAME`: the output of a unit, from any machine.
//! Logs of this machine come from the logger's socket. Another machine is asked at its published
//! address, over TLS with this machine's certificate. If it publishes none, the client uses ssh. If
//! the unit does not run, the reason follows its output.

use super::answer::{Answer, into_response};
use super::reloaded_files::ReloadedFiles;
use super::request::{Request, escape};
use crate::etcd_cache::EtcdCache;
use crate::machine::MachineId;
use crate::unit_name::UnitName;
use axum::body::Body;
use axum::http::{self, Response, StatusCode, header};
use groundstate_units::control::answer::{End, Failure, Line, PROTOCOL};
use groundstate_units::control::log_line::ShownLine;
use groundstate_units::control::log_query::{LogQuery, LogVerb};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// Timeout for the logger or another machine.
const PATIENCE: Duration = Duration::from_secs(5);
/// Lines buffered for a slow reader.
const BACKLOG: usize = 64;
/// Time to wait for the first line of a followed unit before the answer starts without one.
const FIRST_LINE: Duration = Duration::from_secs(1);
/// Maximum number of lines per request.
const MOST_LINES: u64 = 100_000;
const TEXT: &str = "text/plain; charset=utf-8";
/// Default number of lines.
const LINES: u64 = 10;

/// The sources of logs.
#[derive(Clone)]
pub struct Logs {
    /// This machine.
    pub machine: MachineId,
    /// The logger's socket.
    pub socket: PathBuf,
    /// The client certificate of this machine; without it other machines cannot be asked.
    pub tls: Option<Arc<ReloadedFiles<Arc<rustls::ClientConfig>>>>,
}

/// `/logs/NAME?lines=N&follow=true&machineID=ID`
pub async fn answer(
    logs: &Option<Logs>,
    cache: &EtcdCache,
    request: &Request,
    name: &str,
) -> Response<Body> {
    match read(logs.as_ref(), cache, request, name).await {
        Ok((response, machine)) => match reason(cache, request, name, &machine) {
            Some(reason) if response.status() == StatusCode::OK => with_reason(response, &reason),
            _ => response,
        },
        Err(answer) => into_response(answer),
    }
}

/// Returns why the unit does not run there, without the names of units that the caller may not see.
/// Returns `None` for the request of another machine, which adds the reason itself, and for a
/// followed log, which has no end.
fn reason(cache: &EtcdCache, request: &Request, name: &str, machine: &MachineId) -> Option<String> {
    if request.filter("forwarded").is_some() || follows(request) {
        return None;
    }
    let snapshot = cache.snapshot();
    let kept = snapshot.states.get(name)?.get(machine)?;
    kept.record.reason.as_ref().map(|reason| request.caller.conceal(reason))
}

/// Appends the reason to the output.
fn with_reason(mut response: Response<Body>, reason: &str) -> Response<Body> {
    let written = std::mem::take(response.body_mut()).into_data_stream();
    let line = tokio_stream::once(Ok(Bytes::from(format!("fleetd: {reason}\n"))));
    *response.body_mut() = Body::from_stream(written.chain(line));
    response
}

async fn read(
    logs: Option<&Logs>,
    cache: &EtcdCache,
    request: &Request,
    name: &str,
) -> Result<(Response<Body>, MachineId), Answer> {
    let refused = |words: String| Answer::refusal(409, words);
    let logs =
        logs.ok_or_else(|| refused("reading logs is not enabled in this fleetd".to_string()))?;
    let name = UnitName::new(name).map_err(|error| Answer::refusal(400, error.to_string()))?;
    let (machine, listen) = machine_and_address(logs, cache, request, &name)?;
    if machine == logs.machine {
        let kept = cache.snapshot();
        let native = |kept: &crate::snapshot::Kept<Arc<crate::snapshot::Content>>| {
            crate::native_unit::text(&kept.record.file).is_some()
        };
        // init knows a native unit without its suffix.
        let is_native = kept.units.get(&name).is_some_and(native);
        let state = kept.states.get(&name).and_then(|on| on.get(&machine));
        let explained = state.is_some_and(|state| state.record.reason.is_some());
        drop(kept);
        let target = if is_native { name.stem() } else { name.as_str() };
        return Ok((local(logs, request, target, explained).await?, machine));
    }
    if request.filter("forwarded").is_some() {
        return Err(refused(format!("{name} is not on {}", logs.machine)));
    }
    let listen = listen.ok_or_else(|| {
        refused(format!("machine {machine} publishes no address to read logs from"))
    })?;
    let tls = logs.tls.as_ref().map(|tls| tls.get()).ok_or_else(|| {
        refused(format!(
            "{} has no client certificate for machine {machine}: set tls_cert_file, tls_key_file \
             and tls_client_ca_file",
            logs.machine
        ))
    })?;
    let asked = timeout(PATIENCE, forward(&listen, &machine, tls, request, &name)).await;
    let silent = |why: &str| Answer {
        retry_after: Some(1),
        ..Answer::refusal(503, format!("machine {machine} at {listen}: {why}"))
    };
    match asked {
        Ok(Ok(response)) => Ok((response, machine)),
        Ok(Err(why)) => Err(silent(&why)),
        Err(_) => Err(silent("no answer in time")),
    }
}

/// Returns the unit's machine and its published address.
fn machine_and_address(
    logs: &Logs,
    cache: &EtcdCache,
    request: &Request,
    name: &UnitName,
) -> Result<(MachineId, Option<String>), Answer> {
    let snapshot = cache.snapshot();
    if !snapshot.units.contains_key(name) {
        return Err(Answer::refusal(404, "unit does not exist"));
    }
    let asked = request.filter("machineID").map(|id| MachineId::new(&id)).transpose();
    let asked = asked.map_err(|error| Answer::refusal(400, error.to_string()))?;
    let states = snapshot.states.get(name);
    let here = states.is_some_and(|on| on.contains_key(&logs.machine));
    let machine = asked
        .or_else(|| snapshot.place_of(name).cloned())
        .or_else(|| here.then(|| logs.machine.clone()))
        .or_else(|| states.and_then(|on| on.keys().next().cloned()));
    let machine =
        machine.ok_or_else(|| Answer::refusal(409, format!("{name} is on no machine")))?;
    let listen = snapshot.machines.get(&machine).and_then(|kept| kept.record.listen.clone());
    Ok((machine, listen))
}

fn lines(request: &Request) -> u64 {
    let asked = request.filter("lines").and_then(|lines| lines.parse().ok());
    asked.unwrap_or(LINES).min(MOST_LINES)
}

fn follows(request: &Request) -> bool {
    request.filter("follow").is_some_and(|word| word == "true" || word == "1")
}

/// Reads from the logger of this machine. `explained` is true if the unit's state has a reason why
/// it does not run.
async fn local(
    logs: &Logs,
    request: &Request,
    name: &str,
    explained: bool,
) -> Result<Response<Body>, Answer> {
    let silent = |error: &dyn std::fmt::Display| Answer {
        retry_after: Some(1),
        ..Answer::refusal(503, format!("the logger at {}: {error}", logs.socket.display()))
    };
    let query = LogQuery {
        v: PROTOCOL,
        id: 1,
        verb: LogVerb::Logs,
        targets: vec![name.to_string()],
        n: Some(lines(request)),
        follow: follows(request),
        since: None,
    };
    let mut line = serde_json::to_vec(&query).map_err(|error| silent(&error))?;
    line.push(b'\n');
    let open = async {
        let mut stream = UnixStream::connect(&logs.socket).await?;
        stream.write_all(&line).await?;
        Ok::<_, std::io::Error>(stream)
    };
    let stream = match timeout(PATIENCE, open).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(silent(&error)),
        Err(_) => return Err(silent(&"no answer in time")),
    };
    let mut objects = BufReader::new(stream).lines();
    // A refusal is the first object of the answer and becomes the HTTP status.
    let patience = if query.follow { FIRST_LINE } else { PATIENCE };
    let first = match timeout(patience, objects.next_line()).await {
        Ok(object) => Some(parsed(object)),
        Err(_) if query.follow => None,
        Err(_) => return Err(silent(&"no answer in time")),
    };
    match first {
        // init has no logs of a unit that it never accepted; the unit's state has the reason.
        Some(LogObject::Refused(failure))
            if explained && failure.kind == Failure::UNKNOWN_TARGET =>
        {
            let line = format!("fleetd: {}\n", failure.message);
            Ok(into_response(Answer::with(TEXT, line.into_bytes())))
        }
        Some(LogObject::Refused(failure)) => Err(refused(&failure)),
        Some(LogObject::Broken(why)) => Err(silent(&why)),
        first => Ok(streamed(objects, first)),
    }
}

/// Returns the HTTP status for a refusal of the logger.
fn refused(failure: &Failure) -> Answer {
    let words = match failure.hint.is_empty() {
        true => failure.message.clone(),
        false => format!("{}: {}", failure.message, failure.hint),
    };
    match failure.kind.as_str() {
        Failure::DENIED => Answer::refusal(
            403,
            format!(
                "init denied this fleetd access to logs: {words}; add fleetd's user to that \
                 group (supplementary-groups in its unit)"
            ),
        ),
        Failure::BUSY => {
            Answer { retry_after: Some(1), ..Answer::refusal(503, format!("the logger: {words}")) }
        }
        _ => Answer::refusal(409, format!("the logger refuses: {words}")),
    }
}

/// Streams the logger's lines as text. A failing stream is aborted, so that the client notices that
/// it is incomplete.
fn streamed(
    mut objects: Lines<BufReader<UnixStream>>,
    mut first: Option<LogObject>,
) -> Response<Body> {
    let (sender, receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(BACKLOG);
    tokio::spawn(async move {
        loop {
            let object = match first.take() {
                Some(object) => object,
                None => tokio::select! {
                    object = objects.next_line() => parsed(object),
                    // Stops when the reader has disconnected. Otherwise a silent unit would keep
                    // the connection to the logger open.
                    () = sender.closed() => break,
                },
            };
            let (text, why) = match object {
                LogObject::Line(text) => (text, None),
                LogObject::Refused(Failure { message: why, .. }) | LogObject::Broken(why) => {
                    (format!("fleetd: {why}"), Some(why))
                }
                LogObject::End => break,
            };
            let is_gone = sender.send(Ok(Bytes::from(format!("{text}\n")))).await.is_err();
            if let Some(why) = why {
                let _ = sender.send(Err(std::io::Error::other(why))).await;
                break;
            }
            if is_gone {
                break;
            }
        }
    });
    let mut response = into_response(Answer::with(TEXT, Vec::new()));
    *response.body_mut() = Body::from_stream(ReceiverStream::new(receiver));
    response
}

/// An object of the logger's stream.
#[derive(Debug, PartialEq)]
enum LogObject {
    Line(String),
    /// The logger refused; the stream ends.
    Refused(Failure),
    /// The stream broke off before its end record, or cannot be read: the reason.
    Broken(String),
    End,
}

fn parsed(object: std::io::Result<Option<String>>) -> LogObject {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Piece {
        Line(ShownLine),
        End(End),
    }
    let object = match object {
        Ok(Some(object)) => object,
        Ok(None) => return LogObject::Broken("the logger ended the stream".to_string()),
        Err(error) => return LogObject::Broken(format!("the logger: {error}")),
    };
    match serde_json::from_str::<Line<Piece>>(&object) {
        Ok(Line { error: Some(failure), .. }) => LogObject::Refused(failure),
        Ok(Line { ok: Some(Piece::Line(shown)), .. }) => LogObject::Line(shown.line),
        Ok(Line { ok: Some(Piece::End(End { .. })) | None, .. }) => LogObject::End,
        Err(error) => LogObject::Broken(format!("the logger's answer cannot be read: {error}")),
    }
}

async fn forward(
    listen: &str,
    machine: &MachineId,
    tls: Arc<rustls::ClientConfig>,
    request: &Request,
    name: &UnitName,
) -> Result<Response<Body>, String> {
    let text_of = |error: &dyn std::fmt::Display| error.to_string();
    let host = listen.rsplit_once(':').map_or(listen, |(host, _)| host);
    let host = host.trim_matches(['[', ']']).to_string();
    let server = rustls::pki_types::ServerName::try_from(host).map_err(|error| text_of(&error))?;
    let stream = TcpStream::connect(listen).await.map_err(|error| text_of(&error))?;
    let connector = tokio_rustls::TlsConnector::from(tls);
    let stream = connector.connect(server, stream).await.map_err(|error| text_of(&error))?;
    let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(|error| text_of(&error))?;
    tokio::spawn(connection);
    let follow = if follows(request) { "&follow=true" } else { "" };
    let name = escape(name.as_str());
    let (lines, machine) = (lines(request), escape(machine.as_str()));
    let path =
        format!("/fleet/v1/logs/{name}?lines={lines}{follow}&forwarded=1&machineID={machine}");
    let question = http::Request::get(path)
        .header(header::HOST, listen)
        .body(Empty::<Bytes>::new())
        .map_err(|error| text_of(&error))?;
    let response = sender.send_request(question).await.map_err(|error| text_of(&error))?;
    let (head, body) = response.into_parts();
    relayed(head.status, Body::new(body))
}

/// Passes on another machine's answer under our own headers: an attacker who controls that machine
/// must not speak for this one.
///
/// # Errors
/// The status is not one of a log answer.
fn relayed(theirs: StatusCode, body: Body) -> Result<Response<Body>, String> {
    let known = [200, 403, 404, 409, 503].contains(&theirs.as_u16());
    if !known {
        return Err(format!("unexpected status {}", theirs.as_u16()));
    }
    let answer = Answer::with(TEXT, Vec::new());
    let mut response = into_response(Answer { status: theirs.as_u16(), ..answer });
    *response.body_mut() = body;
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::control::answer::Failure;
    use groundstate_units::control::log_line::LogLine;

    #[test]
    fn objects_of_the_logger_are_parsed_as_lines_end_or_fault() {
        let stored = LogLine::parse(b"2026-11-21T05:12:26.123Z 7 hello").unwrap();
        let shown = Line::ok(1, ShownLine::new("a", &stored));
        let of = |object: Result<String, serde_json::Error>| parsed(Ok(Some(object.unwrap())));
        assert_eq!(of(serde_json::to_string(&shown)), LogObject::Line("hello".to_string()));
        assert_eq!(of(serde_json::to_string(&Line::ok(1, End { end: true }))), LogObject::End);
        let failure = Failure::new(Failure::DENIED, "no", "ask for it");
        let refused = Line::<End>::error(1, failure.clone());
        assert_eq!(of(serde_json::to_string(&refused)), LogObject::Refused(failure));
        for broken in [Ok(Some("[]".to_string())), Ok(None), Err(std::io::Error::other("x"))] {
            assert!(matches!(parsed(broken), LogObject::Broken(_)), "the stream has ended");
        }
    }

    #[test]
    fn denied_logs_are_403_and_other_refusals_409() {
        for (kind, status) in [(Failure::DENIED, 403), (Failure::BUSY, 503), (Failure::USAGE, 409)]
        {
            assert_eq!(refused(&Failure::new(kind, "no", "ask")).status, status, "{kind}");
        }
    }

    #[test]
    fn answer_of_another_machine_is_passed_on_as_plain_text() {
        for (theirs, ours) in [(200, 200), (403, 403), (404, 404), (409, 409), (503, 503)] {
            let theirs = StatusCode::from_u16(theirs).unwrap();
            let response = relayed(theirs, Body::empty()).unwrap();
            assert_eq!(response.status().as_u16(), ours);
            let headers: Vec<_> = response.headers().iter().collect();
            let name = header::CONTENT_TYPE;
            assert_eq!(headers, [(&name, &TEXT.parse().unwrap())]);
        }
        for theirs in [101, 204, 301, 401, 500] {
            let theirs = StatusCode::from_u16(theirs).unwrap();
            assert!(relayed(theirs, Body::empty()).is_err(), "{theirs}");
        }
    }
}
