//! Attacks on the API's socket: slow bytes, many connections, crafted paths and JSON. Each gets a
//! 4xx or is disconnected, and other clients are served meanwhile. False lengths and endless bodies
//! are in `tests/bodies.rs`.

use crate::hostile::{GOOD, PUT, refused, reply};
use crate::stand::{Plan, Reply, Stand};
use cluster::api::change_stream::STREAMS_OF_ONE;
use cluster::api::connection_limits::MOST_OF_ONE;
use cluster::api::listener::{HEAD_TIME, Security};
use cluster::api::server::BODY_TIME;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

#[test]
fn request_is_decided_by_its_head_before_the_body_is_read() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let typed = "Content-Type: application/json\r\n";
    let table = [
        ("GET /fleet/v1/machines", "", 200),
        ("GET /fleet/v1/units/a.service", "", 404),
        ("GET /healthz", "", 200),
        ("PUT /fleet/v1/nothing", typed, 404),
        ("PUT /fleet/v1/state", typed, 405),
        ("POST /fleet/v1/units/a.service", typed, 405),
        ("DELETE /fleet/v1/units/a.service", "", 404),
        ("PUT /fleet//v1/units/a.service", typed, 301),
        ("PUT /fleet/v1/units/a.service", "Content-Type: text/plain\r\n", 415),
        ("PUT /fleet/v1/units/a.service", "", 415),
    ];
    for (line, headers, status) in table {
        for length in ["Content-Length: 1000000", "Transfer-Encoding: chunked"] {
            // The body never arrives; a server that waits for it would answer later.
            let head = format!("{line} HTTP/1.1\r\nHost: x\r\n{headers}{length}\r\n\r\n");
            let answered = reply(&stand, head.as_bytes()).map(|reply| reply.status);
            assert_eq!(answered, Some(status), "{line} {length}");
        }
    }
    // A body that does not count changes nothing, and the connection stays open.
    let mut stream = stand.connect();
    for _ in 0..3 {
        let request = "GET /fleet/v1/units HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
        stream.write_all(request.as_bytes()).unwrap();
        assert_eq!(Reply::read(&mut stream).map(|reply| reply.body), Some("{}".to_string()));
    }
}

/// Returns the answer to a head whose body is sent after the answer has arrived; the server has
/// closed its side by then.
fn answered_before_its_body(mut stream: impl Read + Write, head: &str, body: usize) -> Reply {
    let rest = format!("Host: localhost\r\nContent-Length: {body}\r\n\r\n");
    write!(stream, "{head} HTTP/1.1\r\n{rest}").unwrap();
    let mut first = [0];
    stream.read_exact(&mut first).unwrap();
    stream.write_all(&vec![b' '; body]).unwrap();
    Reply::read(&mut first.chain(stream)).unwrap()
}

#[test]
fn error_answer_survives_a_body_that_comes_later() {
    let security = Security { insecure_loopback_only: true, ..Security::default() };
    let stand = Stand::new(Plan { security: Some(security), ..Plan::of(&["m1"]) });
    let typed = "Content-Type: application/json";
    let table = [
        ("PUT /fleet/v1/nothing".to_string(), 200_000, 404),
        ("POST /fleet/v1/units/a.service".to_string(), 200_000, 405),
        ("PUT /fleet/v1/units/a.service".to_string(), 200_000, 415),
        // The HTTP version of the first line ends a header here.
        (format!("PUT /fleet/v1/units/a.service HTTP/1.1\r\n{typed}\r\nX-Rest:"), 3_000_000, 413),
        ("BREW /fleet/v1/units".to_string(), 200_000, 405),
    ];
    let tcp = || TcpStream::connect(stand.tcp.unwrap()).unwrap();
    for (head, body, status) in &table {
        let replies = [
            answered_before_its_body(stand.connect(), head, *body),
            answered_before_its_body(tcp(), head, *body),
        ];
        for reply in replies {
            assert_eq!(reply.status, *status, "{head}");
            assert_eq!(reply.headers["connection"], "close", "{head}");
            assert!(reply.json()["error"]["code"] == *status, "{head}: {reply:?}");
        }
    }
    stand.store.set_reachable(false);
    stand.until("503", |stand| stand.get("/healthz").status == 503);
    let put = &table[3].0;
    assert_eq!(answered_before_its_body(tcp(), put, 200_000).status, 503);
}

/// Sends a byte now and then until the server disconnects or the time is over. Returns when it
/// disconnected.
fn drip(stand: &Stand, begin: &str, most: Duration) -> Option<Duration> {
    let mut stream = stand.connect();
    stream.write_all(begin.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let began = Instant::now();
    while began.elapsed() < most {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(0) => return Some(began.elapsed()),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let _ = stream.write_all(b"a");
            }
            Err(_) => return Some(began.elapsed()),
        }
    }
    None
}

#[test]
fn slow_request_keeps_its_connection_slot_for_a_limited_time() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let ways = [
        ("nothing at all", String::new(), HEAD_TIME),
        ("a head that drips", "GET /fleet/v1/units HTTP/1.1\r\nX-Slow: ".to_string(), HEAD_TIME),
        ("a body that drips", format!("{PUT}Content-Length: 1000\r\n\r\n"), BODY_TIME + HEAD_TIME),
    ];
    std::thread::scope(|scope| {
        for (what, begin, time) in &ways {
            let stand = &stand;
            scope.spawn(move || {
                let most = *time + Duration::from_secs(15);
                let held = drip(stand, begin, most);
                assert!(held.is_some(), "{what}: still held after {most:?}");
            });
        }
        let began = Instant::now();
        while began.elapsed() < HEAD_TIME / 2 {
            let asked = Instant::now();
            assert_eq!(stand.get("/fleet/v1/machines").status, 200);
            assert!(asked.elapsed() < Duration::from_secs(5), "slow clients delay another client");
            std::thread::yield_now();
        }
    });
}

#[test]
fn connections_of_one_user_are_limited_and_freed_on_close() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let connect = || UnixStream::connect(stand.socket()).unwrap();
    let crowd: Vec<UnixStream> = (0..MOST_OF_ONE).map(|_| connect()).collect();
    let mut one_more = connect();
    one_more.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let _ = one_more.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(Reply::read(&mut one_more).is_none(), "a connection beyond the limit is dropped");
    drop(crowd);
    stand.until("a new connection is answered", |stand| {
        let mut stream = UnixStream::connect(stand.socket()).unwrap();
        let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
        Reply::read(&mut stream).is_some_and(|reply| reply.status == 200)
    });
}

/// Number of held connections: ten thousand, scaled down by a hundred, or by ten in long runs.
fn many() -> usize {
    if std::env::var_os("GROUNDSTATE_ALL").is_some() { 1_000 } else { 100 }
}

/// Returns the answer to a client on the network.
fn from_afar(stand: &Stand, line: &str, body: &str) -> Reply {
    let mut stream = TcpStream::connect(stand.tcp.unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let length = body.len();
    let head = "Host: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n";
    write!(stream, "{line} HTTP/1.1\r\n{head}Content-Length: {length}\r\n\r\n{body}").unwrap();
    Reply::read(&mut stream).unwrap()
}

#[test]
fn many_slow_connections_do_not_prevent_a_unit_from_running() {
    let security = Security { insecure_loopback_only: true, ..Security::default() };
    let stand = Stand::new(Plan { security: Some(security), ..Plan::of(&["m1"]) });
    let begins = [
        "GET /fleet/v1/units HTTP/1.1\r\nX-Slow: ".to_string(),
        format!("{PUT}Content-Length: 1000\r\n\r\n"),
        // Never read.
        "GET /fleet/v1/discovery HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100),
    ];
    let connect = |number: usize| {
        let mut stream = UnixStream::connect(stand.socket()).unwrap();
        stream.set_nonblocking(true).unwrap();
        // Connections beyond one user's limit are dropped at once.
        let _ = stream.write(begins[number % begins.len()].as_bytes());
        stream
    };
    let crowd: Vec<UnixStream> = (0..many()).map(connect).collect();
    for number in 0..10 {
        let path = format!("/fleet/v1/units/u{number}.service");
        let wish = GOOD.replacen('{', r#"{"desiredState":"launched","#, 1);
        assert_eq!(from_afar(&stand, &format!("PUT {path}"), &wish).status, 201);
        // The engine has placed it, and its machine reports it.
        stand.until("it runs", |stand| {
            from_afar(stand, &format!("GET {path}"), "").json()["currentState"] == "launched"
        });
    }
    let is_held = |mut stream: &UnixStream| {
        stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    assert!(crowd.iter().any(is_held), "the server closed all connections");
}

#[test]
fn event_streams_of_one_user_leave_slots_for_others() {
    let security = Security { insecure_loopback_only: true, ..Security::default() };
    let stand = Stand::new(Plan { security: Some(security), ..Plan::of(&["m1"]) });
    let ask = b"GET /fleet/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let open = || {
        let mut stream = stand.connect();
        stream.write_all(ask).unwrap();
        let reply = Reply::read(&mut stream).unwrap();
        (stream, reply)
    };
    let held: Vec<(UnixStream, Reply)> = (0..STREAMS_OF_ONE).map(|_| open()).collect();
    assert!(held.iter().all(|(_, reply)| reply.status == 200));
    let (_, refused) = open();
    assert_eq!(refused.fault(), (503, "too many streams of changes".to_string()));
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    assert_eq!(stand.get("/fleet/v1/units").status, 200, "requests without a stream are refused");
    let mut other = TcpStream::connect(stand.tcp.unwrap()).unwrap();
    other.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    other.write_all(ask).unwrap();
    assert_eq!(
        Reply::read(&mut other).map(|reply| reply.status),
        Some(200),
        "another peer gets a stream"
    );
    drop(held);
    stand.until("a slot is free again", |_| open().1.status == 200);
}

#[test]
fn unusual_paths_and_methods_are_refused() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let long = "a".repeat(8 * 1024);
    let lines = [
        "GET /fleet/v1/units/%2e%2e%2fetc%2fpasswd HTTP/1.1".to_string(),
        "GET /fleet/v1/units/..%2f..%2fa.service HTTP/1.1".to_string(),
        "PUT /fleet/v1/units/%00.service HTTP/1.1".to_string(),
        "PUT /fleet/v1/units/a%0ab.service HTTP/1.1".to_string(),
        "PUT /fleet/v1/units/%ff%fe.service HTTP/1.1".to_string(),
        "PUT /fleet/v1/units/%c0%af.service HTTP/1.1".to_string(),
        format!("PUT /fleet/v1/units/{long}.service HTTP/1.1"),
        "CONNECT x:80 HTTP/1.1".to_string(),
        "BREW /fleet/v1/units HTTP/1.1".to_string(),
        "TRACE /fleet/v1/units HTTP/1.1".to_string(),
        "GET /fleet/v1/state/%2e HTTP/1.1".to_string(),
        "GET /ui/../../etc/passwd HTTP/9.9".to_string(),
        "GET\t/fleet/v1/units HTTP/1.1".to_string(),
        "PRI * HTTP/2.0".to_string(),
    ];
    for line in &lines {
        let body = if line.starts_with("PUT") { GOOD } else { "" };
        let head = format!(
            "{line}\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        refused(&stand, line, head.as_bytes());
    }
    refused(
        &stand,
        "bytes that are no text",
        b"GET /fleet/v1/units/\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    );
    // The start of HTTP/2, and of TLS.
    refused(&stand, "HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    refused(&stand, "TLS", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03");
    let whole = "GET http://x/fleet/v1/machines HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_eq!(stand.send(whole.as_bytes()).status, 200, "a whole URL is a path, too");
    let with_body = "GET /fleet/v1/machines HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
    assert!(stand.send(with_body.as_bytes()).status < 500);
}

#[test]
fn unusual_json_is_refused() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let keys: String = (0..100_000).map(|n| format!("\"k{n}\":1,")).collect();
    let option = r#"{"section":"S","name":"N","value":"v"}"#;
    let many = vec![option; 50_000].join(",");
    let long = format!(r#"{{"section":"S","name":"N","value":"{}"}}"#, "v".repeat(1024 * 1024));
    let bodies = [
        ("depth", deep.clone()),
        ("depth inside", format!("{{\"x\":{deep}}}")),
        ("keys and no options", format!("{{{keys}\"z\":1}}")),
        ("no number", r#"{"options":NaN}"#.to_string()),
        ("half a character", r#"{"name":"\ud800","options":[]}"#.to_string()),
        ("a list for a name", r#"{"name":["a.service"],"options":[]}"#.to_string()),
        ("numbers for options", r#"{"options":[1,2]}"#.to_string()),
        ("an object for options", r#"{"options":{"section":"S"}}"#.to_string()),
        ("another name", r#"{"name":"b.service","options":[]}"#.to_string()),
        ("no options", r#"{"options":null}"#.to_string()),
        ("too many options", format!("{{\"options\":[{many}]}}")),
        ("too long a value", format!("{{\"options\":[{long}]}}")),
        (
            "a line that brings another",
            r#"{"options":[{"section":"Service","name":"A","value":"x\nExecStart=/bin/b"}]}"#
                .to_string(),
        ),
        (
            "a line that ends its section",
            r#"{"options":[{"section":"S]\n[Service","name":"A","value":"x"}]}"#.to_string(),
        ),
        (
            "a name that is two",
            r#"{"options":[{"section":"S","name":"A=b\nC","value":"x"}]}"#.to_string(),
        ),
    ];
    for (what, body) in &bodies {
        let head = format!("{PUT}Content-Length: {}\r\n\r\n{body}", body.len());
        refused(&stand, what, head.as_bytes());
    }
}

#[test]
fn forged_page_token_is_refused_or_gives_a_regular_page() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let tokens = [
        "%00",
        "ZAABAA",
        "ZAABAA==ZAABAA==",
        "____",
        "%2F%2F",
        "ZAABAP____________8=",
        "ZAABAAAAAAAAAAAAAAAAAA==",
    ];
    for token in tokens.iter().map(ToString::to_string).chain([format!("ZAAB{}", "A".repeat(9000))])
    {
        for list in ["units", "state", "machines"] {
            let reply = stand.get(&format!("/fleet/v1/{list}?nextPageToken={token}"));
            assert!(matches!(reply.status, 200 | 400 | 414 | 431), "{list} {token}: {reply:?}");
        }
    }
}
