//! The last stored lines of each unit, in memory: what `logs` shows, what a failed command
//! shows of its unit, and all there is until the log files may be opened.
//!
//! All tails together stay under [`limit::TAILS`]: the more units, the shorter each. No unit
//! takes another's share, so a noisy one pushes out only its own lines.

use super::limit;
use std::collections::VecDeque;

/// One unit's last lines, in stored form.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    bytes: VecDeque<u8>,
    /// Lines that fell out since [`Tail::forget_evicted`].
    evicted: u64,
}

/// What each unit may keep when there are `units` of them.
pub(crate) fn share(units: usize) -> usize {
    (limit::TAILS / units.max(1)).clamp(limit::TAIL_LEAST, limit::TAIL)
}

impl Tail {
    /// Adds whole stored lines and keeps the last `share` bytes, cut at a line. The newest
    /// line stays however long it is.
    pub(crate) fn push(&mut self, lines: &[u8], share: usize) {
        let mut new = lines;
        while new.len() > share {
            let Some(end) = first_line(new.iter()) else { break };
            let Some(rest) = new.get(end..).filter(|rest| !rest.is_empty()) else { break };
            // Everything already here is older still.
            self.evicted += count_lines(self.bytes.iter()) + 1;
            self.bytes.clear();
            new = rest;
        }
        self.trim(share.saturating_sub(new.len()));
        self.bytes.extend(new);
        if self.bytes.capacity() > 2 * share.max(self.bytes.len()) {
            self.bytes.shrink_to(share);
        }
    }

    /// Forgets the oldest lines until at most `room` bytes are left.
    fn trim(&mut self, room: usize) {
        while self.bytes.len() > room {
            let end = first_line(self.bytes.iter()).unwrap_or(self.bytes.len());
            self.bytes.drain(..end);
            self.evicted += 1;
        }
    }

    /// Keeps to a smaller share.
    pub(crate) fn shrink(&mut self, share: usize) {
        if self.bytes.len() > share {
            self.trim(share);
        }
        self.bytes.shrink_to(share);
    }

    /// All of it, in one piece.
    pub(crate) fn lines(&mut self) -> &[u8] {
        self.bytes.make_contiguous()
    }

    /// Bytes held.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Lines that fell out, and counts from 0 again.
    pub(crate) fn forget_evicted(&mut self) -> u64 {
        std::mem::take(&mut self.evicted)
    }
}

/// Where the first line ends, its newline included.
fn first_line<'a>(bytes: impl Iterator<Item = &'a u8>) -> Option<usize> {
    let mut bytes = bytes;
    bytes.position(|byte| *byte == b'\n').map(|at| at + 1)
}

fn count_lines<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    bytes.fold(0, |lines, byte| lines + u64::from(*byte == b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn the_newest_lines_stay_and_the_rest_is_counted() {
        let mut tail = Tail::default();
        tail.push(b"one\ntwo\n", 12);
        tail.push(b"three\n", 12);
        assert_eq!(tail.lines(), b"two\nthree\n");
        assert_eq!(tail.forget_evicted(), 1);
        tail.push(b"1\n2\n3\n4\n5\n6\n7\n", 6);
        assert_eq!(tail.lines(), b"5\n6\n7\n");
        assert_eq!(tail.forget_evicted(), 6);
        tail.push(b"a line longer than the share\n", 6);
        assert_eq!(tail.lines(), b"a line longer than the share\n");
        tail.shrink(6);
        assert_eq!(tail.lines(), b"");
        assert_eq!(tail.forget_evicted(), 4);
    }

    #[test]
    fn all_tails_together_keep_their_bound() {
        for units in [1, 10, 100, 1000, 4096] {
            assert!(share(units) * units <= limit::TAILS.max(limit::TAIL), "{units}");
        }
        let mut tail = Tail::default();
        for n in 0..100_000 {
            let mut line = String::new();
            writeln!(line, "{n}").unwrap();
            tail.push(line.as_bytes(), share(1000));
        }
        assert!(tail.len() <= share(1000) && tail.bytes.capacity() <= 4 * share(1000));
        assert!(tail.lines().ends_with(b"\n99999\n"));
    }
}
