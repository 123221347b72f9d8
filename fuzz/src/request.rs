//! What the fuzz target `request` holds of any line of the control socket and of log.sock: it is
//! a request, or there is a word about what is wrong with it; and a request that is written and
//! read again is the same. A first byte above 127 makes a line of the table of verbs.

use super::composed::Composed;
use groundstate_units::control::request::{Request, TABLE};
use groundstate_units::log_query::LogQuery;

/// The request, if it is one. Panics where one of the promises is broken.
pub fn request(bytes: &[u8]) -> Option<Request> {
    let (first, rest) = bytes.split_first()?;
    let line = if *first < 128 { rest.to_vec() } else { composed(rest).into_bytes() };
    if let Ok(query) = LogQuery::parse(&line) {
        let written = serde_json::to_vec(&query).expect("a query can be written");
        assert_eq!(LogQuery::parse(&written).ok(), Some(query));
    }
    match Request::parse(&line) {
        Ok(request) => {
            let written = request.line().expect("a request can be written");
            assert_eq!(Request::parse(&written).as_ref(), Ok(&request));
            Some(request)
        }
        Err(wrong) => {
            assert!(!wrong.message.is_empty() && !wrong.hint.is_empty(), "{wrong:?}");
            None
        }
    }
}

/// Fields of all verbs, with values that fit some of them.
const FIELDS: [&str; 17] = [
    "target",
    "targets",
    "want",
    "drop",
    "reload",
    "follow",
    "after",
    "for-ms",
    "pid",
    "policy",
    "no-restart",
    "signal",
    "all",
    "source",
    "plan",
    "code",
    "at-once",
];
const VALUES: [&str; 24] = [
    "\"a\"",
    "[\"a\",\"b\"]",
    "[]",
    "true",
    "false",
    "null",
    "0",
    "1",
    "-1",
    "9",
    "65536",
    "1e3",
    "18446744073709551615",
    "\"../x\"",
    "\"\"",
    "\"-a\"",
    "{}",
    "{\"a\":\"b\"}",
    "{\"mask\":[\"a\"],\"enable\":[],\"disable\":[],\"prefer\":{\"a\":\"b\"}}",
    "\"TERM\"",
    "\"main\"",
    "[[]]",
    "\"/a/b\"",
    "\"\\u0000\"",
];

fn composed(bytes: &[u8]) -> String {
    let mut from = Composed::of(bytes);
    let verb = from.pick(TABLE).0;
    let mut line = format!("{{\"v\":1,\"id\":{},\"verb\":\"{verb}\"", from.byte());
    while !from.is_over() {
        let (field, value) = (from.pick(&FIELDS), from.pick(&VALUES));
        line.push_str(&format!(",\"{field}\":{value}"));
        if from.one_in(16) {
            line.push_str(&from.text(8));
        }
    }
    line.push('}');
    line
}
