//! What is asked on `log.sock` and what comes back: one JSON object a line, both ways, of
//! the same outer shape as on the control socket.
//!
//! Request: `{"v":1,"id":7,"verb":"logs","targets":["web"],"n":10,"follow":true,
//! "since":"2026-11-21T05:12:26.123Z"}`. Answers: `{"v":1,"id":7,"ok":{LINE}}` for each
//! line, oldest first, LINE as [`ShownLine`]; without `follow` then
//! `{"v":1,"id":7,"ok":{"end":true}}`; or `{"v":1,"id":7,"error":{…}}`.

use crate::log_line::ShownLine;
use serde::{Deserialize, Serialize};

/// The version both sides speak.
pub const VERSION: u32 = 1;

/// One request. Unknown keys are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogQuery {
    /// [`VERSION`].
    pub v: u32,
    /// Chosen by the client, given back in each answer.
    pub id: u64,
    /// What is asked.
    pub verb: LogVerb,
    /// Targets or units; a target is looked for first. Empty: all units.
    #[serde(default)]
    pub targets: Vec<String>,
    /// The last so many lines of each; left out: 10, or all with `since`.
    #[serde(default)]
    pub n: Option<u64>,
    /// New lines as they come, until the client closes.
    #[serde(default)]
    pub follow: bool,
    /// No line before this: RFC 3339, UTC, milliseconds (24 characters).
    #[serde(default)]
    pub since: Option<String>,
}

/// The verbs of `log.sock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogVerb {
    /// Lines of units.
    Logs,
    /// Answered with `{"pong":true}`.
    Ping,
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogAnswer {
    /// [`VERSION`].
    pub v: u32,
    /// Of the request; 0 where it could not be read.
    pub id: u64,
    /// One of both is there.
    #[serde(flatten)]
    pub body: LogAnswerBody,
}

/// Either a piece of what was asked, or why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogAnswerBody {
    /// A piece of the answer.
    Ok(LogPiece),
    /// Refused.
    Error(LogError),
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LogPiece {
    /// A line.
    Line(ShownLine),
    /// No more lines will come.
    End {
        /// Always true.
        end: bool,
    },
    /// To [`LogVerb::Ping`].
    Pong {
        /// Always true.
        pong: bool,
    },
}

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogError {
    /// `denied`, `invalid`, `unknown`, `busy`, `slow`.
    pub kind: String,
    /// For people.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_only_what_differs() {
        let query: LogQuery =
            serde_json::from_str(r#"{"v":1,"id":7,"verb":"logs","targets":["web"]}"#).unwrap();
        assert_eq!((query.n, query.follow, query.since), (None, false, None));
        assert!(serde_json::from_str::<LogQuery>(r#"{"v":1,"id":7,"verb":"rm"}"#).is_err());
        assert!(serde_json::from_str::<LogQuery>(r#"{"v":1,"id":7,"verb":"logs","x":1}"#).is_err());
    }

    #[test]
    fn an_answer_has_one_of_ok_and_error() {
        let end = LogAnswer { v: 1, id: 7, body: LogAnswerBody::Ok(LogPiece::End { end: true }) };
        let text = serde_json::to_string(&end).unwrap();
        assert_eq!(text, r#"{"v":1,"id":7,"ok":{"end":true}}"#);
        assert_eq!(serde_json::from_str::<LogAnswer>(&text).unwrap(), end);
        let text = r#"{"v":1,"id":7,"error":{"kind":"denied","message":"m","hint":null}}"#;
        let denied: LogAnswer = serde_json::from_str(text).unwrap();
        assert!(matches!(denied.body, LogAnswerBody::Error(_)));
        assert_eq!(serde_json::to_string(&denied).unwrap(), text);
    }
}
