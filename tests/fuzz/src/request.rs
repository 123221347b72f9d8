//! Checks of the fuzz target `request` for any line of the control socket and of log.sock: it is a
//! request or gives an error message; a request that is written and parsed again is unchanged. A
//! first byte above 127 makes a line from the table of verbs.

use super::composed::Composed;
use groundstate_units::control::log_query::LogQuery;
use groundstate_units::control::request::{Request, TABLE};

/// The request, if it is one. Panics if a promise is broken.
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

/// Fields of all verbs, each with a valid value.
const FIELDS: [(&str, &str); 17] = [
    ("target", "\"a\""),
    ("targets", "[\"a\",\"b\"]"),
    ("want", "[\"c\"]"),
    ("drop", "[]"),
    ("reload", "true"),
    ("follow", "true"),
    ("after", "7"),
    ("for-ms", "1000"),
    ("pid", "1"),
    ("policy", "{\"mask\":[\"a\"],\"prefer\":{\"a\":\"b\"}}"),
    ("no-restart", "true"),
    ("signal", "9"),
    ("all", "true"),
    ("source", "\"fleet\""),
    ("plan", "true"),
    ("code", "3"),
    ("at-once", "true"),
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
    for (field, fitting) in FIELDS {
        let value = match from.byte() % 64 {
            63 => from.pick(&VALUES).to_string(),
            62 => from.text(8),
            50..62 => continue,
            _ => fitting.to_string(),
        };
        line.push_str(&format!(",\"{field}\":{value}"));
    }
    line.push('}');
    line
}
