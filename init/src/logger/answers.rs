//! What one client of `log.sock` is still to be sent: stored lines, turned into JSON only as
//! fast as it reads.

use super::limit;
use groundstate_units::control::answer::{End, Failure, Line};
use groundstate_units::control::log_line::{LogLine, ShownLine};
use groundstate_units::text::name::Name;
use serde::Serialize;
use std::collections::VecDeque;

/// Bytes of JSON made ahead.
const AHEAD: usize = limit::READ;

/// Answers on their way, in order.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pieces: VecDeque<Piece>,
    /// Bytes of the stored lines in `pieces`.
    bytes: usize,
    ready: Vec<u8>,
    sent: usize,
}

#[derive(Debug)]
enum Piece {
    Lines { id: u64, unit: Name, text: Vec<u8>, at: usize },
    End(u64),
    Error(u64, Failure),
}

impl Answers {
    /// Some stored lines of a unit.
    pub(crate) fn lines(&mut self, id: u64, unit: &Name, text: Vec<u8>) {
        self.bytes += text.len();
        self.pieces.push_back(Piece::Lines { id, unit: unit.clone(), text, at: 0 });
    }

    /// The end of an answer.
    pub(crate) fn end(&mut self, id: u64) {
        self.pieces.push_back(Piece::End(id));
    }

    /// Refused.
    pub(crate) fn error(&mut self, id: u64, failure: Failure) {
        self.pieces.push_back(Piece::Error(id, failure));
    }

    /// Refused in the middle: what was not yet turned into JSON is left out.
    pub(crate) fn cut(&mut self, id: u64, failure: Failure) {
        self.pieces.clear();
        self.bytes = 0;
        self.error(id, failure);
    }

    /// Stored bytes not yet turned into JSON.
    pub(crate) fn waiting(&self) -> usize {
        self.bytes
    }

    /// Everything was taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.sent == self.ready.len()
    }

    /// The next bytes to send; empty when there are none.
    pub(crate) fn next(&mut self) -> &[u8] {
        if self.sent == self.ready.len() {
            self.sent = 0;
            self.ready.clear();
            self.ready.shrink_to(AHEAD);
            while self.ready.len() < AHEAD && self.render() {}
        }
        self.ready.get(self.sent..).unwrap_or_default()
    }

    /// So many of them were taken.
    pub(crate) fn taken(&mut self, bytes: usize) {
        self.sent = (self.sent + bytes).min(self.ready.len());
    }

    /// Turns one line or object into JSON; false: there is none.
    fn render(&mut self) -> bool {
        match self.pieces.front_mut() {
            None => return false,
            Some(Piece::Lines { id, unit, text, at }) => {
                let rest = text.get(*at..).unwrap_or_default();
                if let Some(stored) = rest.split_inclusive(|byte| *byte == b'\n').next() {
                    *at += stored.len();
                    if let Some(line) = LogLine::parse(stored) {
                        let shown = ShownLine::new(unit.as_str(), &line);
                        write(&mut self.ready, &Line::ok(*id, shown));
                    }
                    return true;
                }
                self.bytes = self.bytes.saturating_sub(text.len());
            }
            Some(Piece::End(id)) => write(&mut self.ready, &Line::ok(*id, End { end: true })),
            Some(Piece::Error(id, failure)) => {
                write(&mut self.ready, &Line::<End>::error(*id, failure.clone()));
            }
        }
        self.pieces.pop_front();
        true
    }
}

fn write(to: &mut Vec<u8>, answer: &impl Serialize) {
    // Writing to memory can not fail, and these types have no map with odd keys.
    if serde_json::to_writer(&mut *to, answer).is_ok() {
        to.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_order_however_little_is_taken_at_once() {
        let mut answers = Answers::default();
        let web = Name::new("web").unwrap();
        let text = b"2026-11-21T05:25:46.123Z 17 a\xff\x1b\nno stored line\n2026-11-21T05:25:46.123Z - b\n";
        answers.lines(7, &web, text.to_vec());
        answers.end(7);
        answers.error(8, Failure::new(Failure::DENIED, "no", ""));
        let mut got = Vec::new();
        while let Some(byte) = answers.next().first().copied() {
            got.push(byte);
            answers.taken(1);
        }
        assert!(answers.is_empty() && answers.waiting() == 0);
        let want = concat!(
            r#"{"v":1,"id":7,"ok":{"time":"2026-11-21T05:25:46.123Z","unit":"web","run":17,"#,
            r#""stream":"output","line":"a�\u001b","continued":false}}"#,
            "\n",
            r#"{"v":1,"id":7,"ok":{"time":"2026-11-21T05:25:46.123Z","unit":"web","run":null,"#,
            r#""stream":"logger","line":"b","continued":false}}"#,
            "\n",
            r#"{"v":1,"id":7,"ok":{"end":true}}"#,
            "\n",
            r#"{"v":1,"id":8,"error":{"kind":"denied","message":"no","hint":""}}"#,
            "\n",
        );
        assert_eq!(String::from_utf8(got).unwrap(), want);
    }
}
