//! Requests of `log.sock`: one JSON object a line, in the same outer form as on the control socket,
//! for example `{"v":1,"id":7,"verb":"logs","targets":["web"],"n":10,
//! "follow":true,"since":"2026-11-21T05:12:26.123Z"}`.
//!
//! Answers are [`Line`](crate::control::answer::Line)s with the same id. Each stored line is one
//! [`ShownLine`](crate::control::log_line::ShownLine), oldest first. Without `follow` an
//! [`End`](crate::control::answer::End) is last. An error is a
//! [`Failure`](crate::control::answer::Failure).

use crate::control::answer::{Failure, PROTOCOL};
use crate::limit;
use serde::{Deserialize, Serialize};

/// One request. Unknown fields are ignored, as on the control socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogQuery {
    /// [`PROTOCOL`].
    pub v: u32,
    /// Chosen by the client and repeated in each answer.
    pub id: u64,
    /// The verb.
    pub verb: LogVerb,
    /// Targets or units; a target precedes a unit of the same name. Empty means all units.
    #[serde(default)]
    pub targets: Vec<String>,
    /// The number of last lines of each unit. Absent means 10, or all lines after `since`.
    #[serde(default)]
    pub n: Option<u64>,
    /// Send new lines as they come until the client closes the connection.
    #[serde(default)]
    pub follow: bool,
    /// Send no line before this time: RFC 3339, UTC, milliseconds (24 characters,
    /// [`WallTime`](crate::text::wall_clock::WallTime)).
    #[serde(default)]
    pub since: Option<String>,
}

/// The verbs of `log.sock`. Both need the role *logs*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogVerb {
    /// Lines of units.
    Logs,
    /// Checks that the logger answers, with an `End`.
    Ping,
}

impl LogQuery {
    /// Reads one line, with or without its newline.
    ///
    /// # Errors
    /// The caller's id if it could be read, and the error.
    pub fn parse(line: &[u8]) -> Result<LogQuery, (u64, Box<Failure>)> {
        #[derive(Deserialize)]
        struct Head {
            #[serde(default)]
            id: u64,
        }
        let refuse = |message: String| {
            let id = serde_json::from_slice(line).map_or(0, |head: Head| head.id);
            let hint = r#"a request is one line {"v":1,"id":1,"verb":"logs","targets":["T"]}"#;
            (id, Box::new(Failure::new(Failure::USAGE, message, hint)))
        };
        if line.len() > limit::REQUEST_LINE {
            let message = format!("a request is longer than {} bytes", limit::REQUEST_LINE);
            return Err((0, Box::new(Failure::new(Failure::USAGE, message, ""))));
        }
        let query: LogQuery =
            serde_json::from_slice(line).map_err(|error| refuse(error.to_string()))?;
        if query.v != PROTOCOL {
            return Err(refuse(format!("version {} is not spoken here", query.v)));
        }
        Ok(query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_log_query_field_gets_its_default_and_unknown_field_is_ignored() {
        let query = LogQuery::parse(
            b"{\"v\":1,\"id\":7,\"verb\":\"logs\",\"targets\":[\"web\"],\"x\":1}\n",
        );
        let want = LogQuery {
            v: 1,
            id: 7,
            verb: LogVerb::Logs,
            targets: vec!["web".to_string()],
            n: None,
            follow: false,
            since: None,
        };
        assert_eq!(query.unwrap(), want);
    }

    #[test]
    fn malformed_log_request_is_refused_with_its_id() {
        for (line, id) in [
            (&br#"{"v":1,"id":7,"verb":"rm"}"#[..], 7),
            (br#"{"v":2,"id":8,"verb":"logs"}"#, 8),
            (br#"{"v":1,"verb":"logs"}"#, 0),
            (br#"{"v":1,"id":9,"verb":"logs","n":-1}"#, 9),
            (b"", 0),
            (b"[[[[", 0),
            (&[b'['; limit::REQUEST_LINE + 1], 0),
        ] {
            let (said, failure) = LogQuery::parse(line).unwrap_err();
            assert_eq!((said, failure.kind.as_str()), (id, Failure::USAGE));
        }
    }
}
