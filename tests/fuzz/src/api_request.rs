//! Checks of the fuzz target `api_request` for any bytes on a connection to the cluster's API:
//!
//! - Each request is answered, or the connection ends. The next client is answered.
//! - No answer is a 5xx except 503. JSON is JSON.
//! - A read-only caller changes nothing. A caller limited to some units changes no others.
//! - The API writes nothing unreadable, and does not read an endless body to its end.
//!
//! The server is the real one from the first byte on ([`wire`]); its registry is in memory. The
//! first byte chooses the caller; after one above 127 the bytes choose requests.

use super::composed::Composed;
use super::fleet::{MACHINES, UNITS, entries, keys};
use super::wire::{self, Sent};
use super::written::options;
use cluster::api::caller::{Caller, Role};
use cluster::api::connection_limits::Peer;
use cluster::api::listener::Origin;
use cluster::api::server::{ApiState, LARGEST_BODY, Settings};
use cluster::clock::{Clock, Sleep, Time};
use cluster::etcd_cache::EtcdCache;
use cluster::key::Subject;
use cluster::store::Store;
use cluster::transaction::{Change, Transaction};
use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The limit of bytes read from an endless connection: the largest head and body, and data in
/// flight.
const MOST_TAKEN: usize = 2 * LARGEST_BODY;
/// The server's only name over TCP.
const NAME: &str = "node.example";
/// The prefix of the units that one of the callers may touch.
const PREFIX: &str = "a";

/// The answers.
pub struct Answers {
    /// The status codes, in the order of the requests.
    pub statuses: Vec<u16>,
}

/// The answers, if one of them was not a refusal. Panics if a promise is broken.
pub fn api_request(bytes: &[u8]) -> Option<Answers> {
    let (first, rest) = bytes.split_first()?;
    let sent = match *first < 128 {
        true => Sent { bytes: rest.to_vec(), piece: usize::from(first / 16), ..Sent::default() },
        false => composed(rest),
    };
    let flooded = sent.times > 0;
    let length = sent.bytes.len();
    let (caller, names) = caller(*first);
    let _inside = runtime().enter();
    let store = Store::memory();
    let fill = entries().into_iter().chain([bad_unit()]);
    let fill = fill.fold(Transaction::default(), |all, (key, value)| all.put(key, value));
    let began = now(store.commit(&fill)).expect("it is in reach").expect("nothing is in its way");
    let (cache, follower) = EtcdCache::new(store.clone(), keys(), Clock::of(Arc::new(Still)));
    let mut follow = pin!(follower.follow());
    wire::turn(pin!(pending::<()>()), follow.as_mut(), || false);
    let state = ApiState::new(cache.clone(), Settings::default());
    assert!(state.is_healthy());
    let from = Origin { caller: caller.clone(), peer: Peer::User(0) };
    let leader = keys().of(&Subject::Leader);
    let (mut is_told, news) = (false, entries().into_iter().filter(|(key, _)| *key == leader));
    let news = news.fold(Transaction::default(), |all, (key, value)| all.put(key, value));
    let seen = wire::converse(&state, from, names, sent, follow.as_mut(), || {
        is_told = true;
        assert!(matches!(now(store.commit(&news)), Ok(Some(_))));
    });
    assert!(!flooded || seen.taken <= length + MOST_TAKEN, "{} bytes are read", seen.taken);
    let statuses = judged(&seen.answered);
    let mut watch = now(store.watch(keys().root(), began)).expect("it is in reach");
    let changes = match at_once(watch.next()) {
        Some(Ok(cluster::store::Batch::Changes { changes, .. })) => changes,
        _ => Vec::new(),
    };
    let news = |change: &Change| matches!(change, Change::Put(entry) if entry.key == leader);
    let own = changes.iter().filter(|change| !is_told || !news(change));
    assert!(own.clone().all(|change| may(&caller, change)), "{caller:?} wrote {changes:?}");
    let bad = cache.snapshot().set_aside.clone();
    assert!(bad.keys().all(|key| *key == bad_unit().0), "it wrote an unreadable value: {bad:?}");
    let next = b"GET /fleet/v1/units HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_vec();
    let from = Origin { caller: Caller::local(), peer: Peer::User(1) };
    let next = Sent { bytes: next, ..Sent::default() };
    let next = wire::converse(&state, from, None, next, follow.as_mut(), || {});
    assert_eq!(judged(&next.answered), [200], "the next one is answered");
    statuses.iter().any(|status| *status < 400).then_some(Answers { statuses })
}

/// Timers are created with it, but never fire: the input is complete at once.
fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    let make = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    RUNTIME.get_or_init(|| make().expect("a runtime"))
}

/// A clock that does not advance.
struct Still;

impl Time for Still {
    fn now(&self) -> Duration {
        Duration::from_secs(1000)
    }

    fn sleep_until(&self, at: Duration) -> Sleep {
        match at <= self.now() {
            true => Box::pin(std::future::ready(())),
            false => Box::pin(pending()),
        }
    }
}

/// The immediate answer of the store in memory.
fn now<T>(work: impl Future<Output = T>) -> T {
    at_once(work).expect("no task waits")
}

fn at_once<T>(work: impl Future<Output = T>) -> Option<T> {
    let rest: Pin<&mut dyn Future<Output = ()>> = pin!(pending());
    wire::turn(pin!(work), rest, || false)
}

fn bad_unit() -> (String, Vec<u8>) {
    (format!("{}unit/bad.service", keys().root()), b"{".to_vec())
}

/// The caller, and the server's name for it; `None`: over the unix socket.
fn caller(first: u8) -> (Caller, Option<Arc<Vec<String>>>) {
    let names = Some(Arc::new(vec![NAME.to_string()]));
    let of = |role, prefixes| Caller { role, prefixes };
    match first % 8 {
        0 => (of(Role::Reader, None), names),
        1 => (of(Role::Operator, Some(vec![PREFIX.to_string()])), names),
        2 => (of(Role::Machine, None), names),
        3 => (of(Role::Nothing, None), names),
        4 => (of(Role::Operator, None), names),
        _ => (Caller::local(), None),
    }
}

/// Returns true if the caller may have made that change.
fn may(caller: &Caller, change: &Change) -> bool {
    let (Change::Put(cluster::transaction::Entry { key, .. }) | Change::Delete { key, .. }) =
        change;
    let within = match keys().subject(key) {
        Some(
            Subject::Unit(name)
            | Subject::Desired(name)
            | Subject::Place(name)
            | Subject::Why(name)
            | Subject::Global(name)
            | Subject::Schedule(_, name)
            | Subject::State(_, name)
            | Subject::Claim(_, name),
        ) => caller.sees_unit(&name),
        Some(Subject::Metadata(..) | Subject::Drain(_)) => caller.prefixes.is_none(),
        Some(Subject::Cluster | Subject::Leader | Subject::Machine(_)) | None => false,
    };
    within && caller.role == Role::Operator
}

/// The status of each answer, in order; the last one may be cut off.
fn judged(answered: &[u8]) -> Vec<u16> {
    let mut statuses = Vec::new();
    let mut rest = answered;
    while !rest.is_empty() {
        let shown = String::from_utf8_lossy(rest.get(..rest.len().min(400)).unwrap_or_default());
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
        let (head, body) = rest.split_at(end + 4);
        let head = String::from_utf8_lossy(head).to_ascii_lowercase();
        let is_http = head.starts_with("http/1.1 ") || head.starts_with("http/1.0 ");
        assert!(is_http, "no answer: {shown:?}");
        let status: u16 = head.get(9..12).and_then(|it| it.parse().ok()).expect("a status");
        assert!((100..500).contains(&status) || status == 503, "{shown}");
        statuses.push(status);
        let field = |name: &str| {
            let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.unwrap_or_default()
        };
        let length = field("content-length").parse().unwrap_or(0);
        // A HEAD answer states the length of a body that is not sent.
        let is_bare = matches!(status, 100..200 | 204 | 304) || body.starts_with(b"HTTP/1.");
        let length = if is_bare { 0 } else { length };
        if field("transfer-encoding") == "chunked" || body.len() < length {
            // A stream of changes, which comes last; or a truncated answer.
            break;
        }
        let (body, behind) = body.split_at(length);
        if field("content-type") == "application/json" && !body.is_empty() {
            let read: Result<serde_json::Value, _> = serde_json::from_slice(body);
            assert!(read.is_ok(), "{shown}");
        }
        rest = behind;
    }
    statuses
}

const METHODS: [&str; 8] = ["GET", "PUT", "DELETE", "PATCH", "POST", "HEAD", "OPTIONS", "x"];
const KINDS: [&str; 16] = [
    "/units",
    "/state",
    "/machines",
    "/discovery",
    "/events",
    "/metrics",
    "/healthz",
    "/ui",
    "/",
    "/units/",
    "/why/",
    "/state/",
    "/drain/",
    "/logs/",
    "//units",
    "/../units/./",
];
const QUERIES: [&str; 10] = [
    "",
    "",
    "",
    "?nextPageToken=ZAABAAAAAAAAAAA",
    "?machineID=m1",
    "?unitName=a.service",
    "?follow=true&lines=3",
    "?forwarded=1",
    "?%zz",
    "?machineID=%00&;=",
];
const HEADERS: [&str; 12] = [
    "Content-Type: application/json\r\n",
    "Content-Type: application/json; charset=utf-8\r\n",
    "Content-Type: text/plain\r\n",
    "User-Agent: Go-http-client/1.1\r\n",
    "Origin: http://x\r\n",
    "Origin: null\r\n",
    "Expect: 100-continue\r\n",
    "Content-Encoding: gzip\r\n",
    "Connection: close\r\n",
    "Connection: upgrade\r\nUpgrade: h2c\r\n",
    "Transfer-Encoding: identity\r\n",
    "Content-Length: 3\r\n",
];
const STATES: [&str; 6] = ["launched", "launched", "loaded", "inactive", "", "flying"];

/// Up to six consecutive requests.
fn composed(bytes: &[u8]) -> Sent {
    let mut from = Composed::of(bytes);
    let mut sent = Sent { piece: usize::from(from.byte() % 64), ..Sent::default() };
    for _ in 0..=from.byte() % 6 {
        let (line, body) = asked(&mut from);
        let host = if from.one_in(16) { from.pick(&["", "evil.example", "x:1"]) } else { NAME };
        let mut head = format!("{line} HTTP/1.1\r\nHost: {host}\r\n");
        if !body.is_empty() {
            head.push_str(HEADERS[0]);
        }
        if from.one_in(8) {
            head.push_str(from.pick(&HEADERS));
        }
        let length = body.len();
        match from.byte() % 32 {
            31 => head.push_str(&format!("Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n")),
            30 => head.push_str(&format!("Content-Length: {}\r\n\r\n", length.wrapping_sub(1))),
            29 if from.one_in(8) => return flood(&mut from, head, sent),
            _ if length > 0 => head.push_str(&format!("Content-Length: {length}\r\n\r\n")),
            _ => head.push_str("\r\n"),
        }
        let is_chunked = head.contains("chunked\r\n\r\n");
        let mut request = head.into_bytes();
        request.extend(body.into_bytes());
        request.extend(if is_chunked { &b"\r\n0\r\n\r\n"[..] } else { b"" });
        if from.one_in(16) {
            from.damage(&mut request, 2);
        }
        sent.bytes.extend(request);
    }
    sent
}

/// An endless body or head.
fn flood(from: &mut Composed<'_>, head: String, sent: Sent) -> Sent {
    let blanks = " ".repeat(0x10000);
    let (head, flood) = match from.byte() % 3 {
        0 => (head + "Transfer-Encoding: chunked\r\n\r\n", format!("10000\r\n{blanks}\r\n")),
        1 => (head + "Content-Length: 1073741824\r\n\r\n", blanks),
        _ => (head + "X-Long: ", blanks),
    };
    let mut bytes = sent.bytes;
    bytes.extend(head.into_bytes());
    Sent { bytes, flood: flood.into_bytes(), times: 256, piece: 0 }
}

/// The first line of a request without its end, and a body.
fn asked(from: &mut Composed<'_>) -> (String, String) {
    let prefix = if from.one_in(8) { from.pick(&["/v1-alpha", ""]) } else { "/fleet/v1" };
    let unit = match from.byte() % 32 {
        31 => from.text(12),
        30 => "bad.service".to_string(),
        _ => from.pick(&UNITS).replace('@', "%40"),
    };
    let id = from.pick(&MACHINES);
    match from.byte() % 8 {
        0 | 1 => (format!("PUT {prefix}/units/{unit}"), wish(from)),
        2 => (format!("DELETE {prefix}/units/{unit}"), String::new()),
        3 => (format!("PATCH {prefix}/machines"), patch(from)),
        4 => (format!("{} {prefix}/drain/{id}", from.pick(&["PUT", "DELETE"])), String::new()),
        5 => {
            let kind = from.pick(&["units", "why", "state", "logs"]);
            (format!("GET {prefix}/{kind}/{unit}{}", from.pick(&QUERIES)), String::new())
        }
        kind => {
            let method = if kind == 6 { "GET" } else { from.pick(&METHODS) };
            let path = from.pick(&KINDS);
            let bare = matches!(path, "/metrics" | "/healthz" | "/ui" | "/");
            let prefix = if bare { "" } else { prefix };
            let item = if path.ends_with('/') && !bare { unit.as_str() } else { "" };
            let body = if from.one_in(4) { wish(from) } else { String::new() };
            (format!("{method} {prefix}{path}{item}{}", from.pick(&QUERIES)), body)
        }
    }
}

/// The body of a PUT of a unit.
fn wish(from: &mut Composed<'_>) -> String {
    let mut fields = vec![format!("\"desiredState\":\"{}\"", from.pick(&STATES))];
    if !from.one_in(4) {
        fields.push(format!("\"options\":{}", options(from)));
    }
    if from.one_in(8) {
        fields.push(format!("\"name\":{:?}", from.pick(&UNITS)));
    }
    if from.one_in(8) {
        fields.push(format!("\"machines\":{}", from.pick(&["[]", "[\"m1\"]", "[\"m9\"]", "{}"])));
    }
    if from.one_in(8) {
        let field = from.pick(&["insteadOf", "insteadOfState", "signature", "before"]);
        let odd = from.pick(&["\"x\"", "\"launched\"", "{}", "{\"serial\":1,\"value\":\"x\"}"]);
        fields.push(format!("\"{field}\":{odd}"));
    }
    format!("{{{}}}", fields.join(","))
}

/// The body of a PATCH of the machines.
fn patch(from: &mut Composed<'_>) -> String {
    let mut all = Vec::new();
    for _ in 0..=from.byte() % 3 {
        let (op, id) = (from.pick(&["add", "remove", "replace", "x"]), from.pick(&MACHINES));
        let key = if from.one_in(8) { from.text(4) } else { "region".to_string() };
        let key = format!("{:?}", format!("/{id}/metadata/{key}"));
        let value = from.pick(&["{\"value\":\"far\"}", "{\"value\":\"\"}", "null", "1"]);
        all.push(format!("{{\"op\":\"{op}\",\"path\":{key},\"value\":{value}}}"));
    }
    format!("[{}]", all.join(","))
}
