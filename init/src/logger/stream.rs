//! Splits the bytes of one run's pipe into lines and matches its `ready-grep`. It does not read the
//! pipe itself; see [`super::process`].

use super::limit;
use groundstate_units::control::log_line::{Prefix, level_prefix};
use groundstate_units::limit::READY_GREP_PROGRAM;
use groundstate_units::spec::LogPriority;
use regex::bytes::{Regex, RegexBuilder};

/// Length of `<3>`.
const LEVEL_PREFIX: usize = 3;

/// A run's `ready-grep`.
#[derive(Debug)]
enum Pattern {
    /// No pattern, or it was found.
    None,
    /// The pattern as text, which is compiled at the first bytes.
    Text(String),
    /// Linear in the text for any pattern, with bounded memory.
    Compiled(Box<Regex>),
}

/// The unfinished line of one run, and its pattern.
#[derive(Debug)]
pub(crate) struct Stream {
    partial: Vec<u8>,
    /// True if a piece of the present line is stored already.
    long: bool,
    /// The level of the present line.
    level: Option<u8>,
    priority: LogPriority,
    pattern: Pattern,
}

impl Stream {
    /// Starts without any bytes.
    pub(crate) fn new(ready_grep: Option<String>, priority: LogPriority) -> Stream {
        let pattern = ready_grep.map_or(Pattern::None, Pattern::Text);
        Stream { partial: Vec::new(), long: false, level: None, priority, pattern }
    }

    /// Takes the next bytes and appends completed lines to `out` in stored form. Returns true once,
    /// for the line that matches the pattern.
    pub(crate) fn feed(&mut self, bytes: &[u8], prefix: &Prefix, out: &mut Vec<u8>) -> bool {
        let mut ready = false;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (mut body, complete) = match piece.strip_suffix(b"\n") {
                Some(body) => (body, true),
                None => (piece, false),
            };
            while self.partial.len() + body.len() > limit::LINE {
                let room = limit::LINE.saturating_sub(self.partial.len());
                let (now, later) = body.split_at_checked(room).unwrap_or((body, &[]));
                ready |= self.store(now, true, prefix, out);
                body = later;
            }
            if complete {
                ready |= self.store(body, false, prefix, out);
            } else {
                self.partial.extend_from_slice(body);
            }
        }
        ready
    }

    /// Ends the stream: an unfinished line counts as a line.
    pub(crate) fn end(&mut self, prefix: &Prefix, out: &mut Vec<u8>) -> bool {
        !self.partial.is_empty() && self.store(&[], false, prefix, out)
    }

    fn store(&mut self, rest: &[u8], continued: bool, prefix: &Prefix, out: &mut Vec<u8>) -> bool {
        let skipped = if self.long { 0 } else { self.begin_line(rest) };
        prefix.put(self.level, continued, out);
        let start = out.len();
        out.extend_from_slice(self.partial.get(skipped..).unwrap_or_default());
        let skipped = skipped.saturating_sub(self.partial.len());
        out.extend_from_slice(rest.get(skipped..).unwrap_or_default());
        // Only the first `limit::LINE` bytes of a line are matched: in a later piece, `^` would
        // match in the middle of the line.
        let line = out.get(start..).unwrap_or_default();
        let ready = !self.long && self.pattern.find(line.strip_suffix(b"\r").unwrap_or(line));
        out.push(b'\n');
        self.partial.clear();
        self.partial.shrink_to(limit::PARTIAL_KEPT);
        self.long = continued;
        ready
    }

    /// Determines the level of a line that consists of the kept part and `rest`. Returns the length
    /// of its level prefix.
    fn begin_line(&mut self, rest: &[u8]) -> usize {
        self.level = self.priority.level;
        if !self.priority.prefix {
            return 0;
        }
        let head: Vec<u8> = self.partial.iter().chain(rest).take(LEVEL_PREFIX).copied().collect();
        let Some(level) = level_prefix(&head) else { return 0 };
        self.level = Some(level);
        LEVEL_PREFIX
    }
}

impl Pattern {
    /// Returns true once, at the first line that matches.
    fn find(&mut self, line: &[u8]) -> bool {
        if let Pattern::Text(text) = self {
            *self = RegexBuilder::new(text)
                .size_limit(READY_GREP_PROGRAM)
                .dfa_size_limit(limit::PATTERN_CACHE)
                .build()
                .map_or(Pattern::None, |regex| Pattern::Compiled(Box::new(regex)));
        }
        let Pattern::Compiled(regex) = self else { return false };
        let found = regex.is_match(line);
        if found {
            *self = Pattern::None;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::control::log_line::LogLine;
    use groundstate_units::machine::event::RunId;
    use groundstate_units::text::wall_clock::WallTime;

    fn prefix() -> Prefix {
        Prefix::new(WallTime::from_millis(0), Some(RunId(7)))
    }

    fn texts(out: &[u8]) -> Vec<(Vec<u8>, bool)> {
        out.split_inclusive(|b| *b == b'\n')
            .map(|line| LogLine::parse(line).unwrap())
            .map(|line| (line.text.to_vec(), line.continued))
            .collect()
    }

    #[test]
    fn ready_grep_match_split_over_reads_is_found_once() {
        let mut stream = Stream::new(Some("^conn(ec)+ted to".to_string()), LogPriority::default());
        let mut out = Vec::new();
        for piece in [&b"connecting\ncon"[..], b"n", b"ected", b" to"] {
            assert!(!stream.feed(piece, &prefix(), &mut out));
        }
        assert!(stream.feed(b" db\r\nmore", &prefix(), &mut out));
        assert!(!stream.feed(b"\nconnected to db\n", &prefix(), &mut out));
        assert!(!stream.end(&prefix(), &mut out));
        let lines = texts(&out);
        assert_eq!(lines[1], (b"connected to db\r".to_vec(), false));
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn last_line_needs_no_newline() {
        let mut stream = Stream::new(Some("ready$".to_string()), LogPriority::default());
        let mut out = Vec::new();
        assert!(!stream.feed(b"now ready", &prefix(), &mut out));
        assert!(out.is_empty());
        assert!(stream.end(&prefix(), &mut out));
        assert_eq!(texts(&out), [(b"now ready".to_vec(), false)]);
    }

    fn levels(out: &[u8]) -> Vec<(Option<u8>, String)> {
        let lines = out.split_inclusive(|b| *b == b'\n').map(|line| LogLine::parse(line).unwrap());
        lines.map(|line| (line.level, String::from_utf8_lossy(line.text).into_owned())).collect()
    }

    #[test]
    fn level_prefix_is_removed_from_a_line_that_arrives_in_pieces() {
        let text = "<3>bad\n<0>\n<7>x<3>y\n<8>no\n<33>no\n <3>no\n<3\n<\n\n<3>last";
        let want = [
            (Some(3), "bad"),
            (Some(0), ""),
            (Some(7), "x<3>y"),
            (None, "<8>no"),
            (None, "<33>no"),
            (None, " <3>no"),
            (None, "<3"),
            (None, "<"),
            (None, ""),
            (Some(3), "last"),
        ];
        let want = want.map(|(level, text)| (level, text.to_string()));
        let taken = LogPriority { prefix: true, ..LogPriority::default() };
        for size in 1..text.len() {
            let mut stream = Stream::new(Some("^y?bad$".to_string()), taken);
            let mut out = Vec::new();
            let mut ready = false;
            for piece in text.as_bytes().chunks(size) {
                ready |= stream.feed(piece, &prefix(), &mut out);
            }
            stream.end(&prefix(), &mut out);
            assert_eq!(levels(&out), want, "in pieces of {size}");
            assert!(ready, "the pattern is looked for in the text");
        }
        let mut stream = Stream::new(None, LogPriority { level: Some(4), ..taken });
        let mut out = Vec::new();
        stream.feed(b"<3>bad\nother\n", &prefix(), &mut out);
        assert_eq!(levels(&out), [(Some(3), "bad".to_string()), (Some(4), "other".to_string())]);
        let mut stream = Stream::new(None, LogPriority::default());
        out.clear();
        stream.feed(b"<3>as it is\n", &prefix(), &mut out);
        assert_eq!(levels(&out), [(None, "<3>as it is".to_string())]);
    }

    #[test]
    fn all_pieces_of_a_long_line_have_its_level() {
        let taken = LogPriority { prefix: true, ..LogPriority::default() };
        let mut stream = Stream::new(None, taken);
        let mut out = Vec::new();
        let line = [b"<2>".to_vec(), vec![b'a'; 2 * limit::LINE], b"\n<4>b\n".to_vec()].concat();
        stream.feed(&line, &prefix(), &mut out);
        let levels: Vec<_> = levels(&out).into_iter().map(|(level, _)| level).collect();
        assert_eq!(levels, [Some(2), Some(2), Some(2), Some(4)]);
    }

    #[test]
    fn long_line_is_stored_in_pieces_and_only_its_first_piece_is_matched() {
        let mut stream = Stream::new(Some("^b".to_string()), LogPriority::default());
        let mut out = Vec::new();
        let mut line = vec![b'a'; limit::LINE];
        line.extend(b"bcd");
        line.push(b'\n');
        assert!(!stream.feed(&line, &prefix(), &mut out));
        assert!(stream.feed(b"b\n", &prefix(), &mut out));
        let got = texts(&out);
        assert_eq!((got[0].0.len(), got[0].1), (limit::LINE, true));
        assert_eq!(&got[1..], [(b"bcd".to_vec(), false), (b"b".to_vec(), false)]);
        let mut exact = vec![b'x'; limit::LINE];
        exact.push(b'\n');
        out.clear();
        stream.feed(&exact, &prefix(), &mut out);
        assert_eq!(texts(&out), [(vec![b'x'; limit::LINE], false)]);
    }

    #[test]
    fn a_gibibyte_without_a_newline_takes_bounded_memory() {
        let mut stream = Stream::new(Some("never".to_string()), LogPriority::default());
        let block = vec![0xff; limit::READ];
        let (mut stored, mut out) = (0usize, Vec::new());
        for _ in 0..(1 << 30) / limit::READ {
            stream.feed(&block, &prefix(), &mut out);
            stored += out.len();
            assert!(out.len() <= 2 * limit::READ && stream.partial.capacity() <= 2 * limit::LINE);
            out.clear();
        }
        stream.end(&prefix(), &mut out);
        stored += out.len();
        let pieces = (1 << 30) / limit::LINE;
        let mark = |continued| {
            let mut mark = Vec::new();
            prefix().put(None, continued, &mut mark);
            mark.len()
        };
        let marks = mark(true) * (pieces - 1) + mark(false);
        assert_eq!(stored, (1 << 30) + marks + pieces);
        assert!(stream.partial.capacity() <= limit::PARTIAL_KEPT);
    }

    #[test]
    fn exponential_ready_grep_pattern_is_matched_in_linear_time() {
        let mut out = Vec::new();
        let mut slow = Stream::new(Some("(a*)*$|(a|aa)+!".to_string()), LogPriority::default());
        let mut line = vec![b'a'; 60_000];
        line.extend(b"x\n");
        // Linear: an exponential matcher would not return.
        slow.feed(&line, &prefix(), &mut out);
        let mut huge = Stream::new(Some("(?:a{1000}){1000}".to_string()), LogPriority::default());
        assert!(!huge.feed(&line, &prefix(), &mut out));
        assert!(matches!(huge.pattern, Pattern::None));
        let mut empty = Stream::new(Some(String::new()), LogPriority::default());
        assert!(empty.feed(b"\n", &prefix(), &mut out));
        let mut binary = Stream::new(Some(r"(?-u)\xff\x00".to_string()), LogPriority::default());
        assert!(binary.feed(b"\x01\xff\x00\x02\n", &prefix(), &mut out));
    }
}
