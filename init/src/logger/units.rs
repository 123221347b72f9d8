//! The units that the logger knows: their targets and their tails.

use super::channel::RunLog;
use super::pending_buffer::count_lines;
use super::sinks::Lines;
use super::{files, limit};
use groundstate_units::spec::Log;
use groundstate_units::text::log_level::DAEMON;
use groundstate_units::text::name::Name;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// One unit.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) name: Name,
    /// The targets of its latest run, the one shown first.
    pub(crate) targets: Arc<[Name]>,
    /// The name of its lines in other logs; empty means its own.
    pub(crate) tag: String,
    /// The facility of its lines in other logs.
    pub(crate) facility: u8,
    /// Its last lines.
    pub(crate) tail: Tail,
    /// True if lines of its latest run go to a file.
    pub(crate) in_file: bool,
    /// Number of open pipes of its runs.
    pub(crate) runs: usize,
    /// Number of lines that were dropped before the lane of files.
    pub(crate) lost: u64,
}

impl Unit {
    /// Stored lines of it, for the lanes.
    fn lines(&self, text: Vec<u8>) -> Lines {
        let target = self.targets.first().unwrap_or(&self.name).clone();
        let (unit, tag, facility) = (self.name.clone(), self.tag.clone(), self.facility);
        Lines { unit, target, tag, facility, text, mark: None }
    }
}

/// All units. Numbers are never reused.
#[derive(Debug, Default)]
pub(crate) struct Units {
    by_number: BTreeMap<u64, Unit>,
    by_name: BTreeMap<Name, u64>,
    next: u64,
}

impl Units {
    /// Adds a run and returns its unit's number.
    pub(crate) fn begin(&mut self, log: &RunLog) -> u64 {
        let number = match self.by_name.get(&log.unit) {
            Some(number) => *number,
            None => self.add(&log.unit),
        };
        if let Some(unit) = self.by_number.get_mut(&number) {
            unit.targets = log.targets.clone();
            unit.tag.clone_from(&log.tag);
            unit.facility = log.priority.facility.unwrap_or(DAEMON);
            unit.in_file = log.log == Log::File;
            unit.runs += 1;
        }
        number
    }

    fn add(&mut self, name: &Name) -> u64 {
        if self.by_number.len() >= limit::UNITS {
            self.forget_one();
        }
        let number = self.next;
        self.next += 1;
        self.by_name.insert(name.clone(), number);
        let unit = Unit {
            name: name.clone(),
            targets: Arc::new([]),
            tag: String::new(),
            facility: DAEMON,
            tail: Tail::default(),
            in_file: true,
            runs: 0,
            lost: 0,
        };
        self.by_number.insert(number, unit);
        let (before, after) = (share(self.by_number.len() - 1), share(self.by_number.len()));
        if after < before {
            self.by_number.values_mut().for_each(|unit| unit.tail.shrink(after));
        }
        number
    }

    /// Forgets the oldest unit without a run.
    fn forget_one(&mut self) {
        let ended = self.by_number.iter().find(|(_, unit)| unit.runs == 0);
        if let Some((number, name)) = ended.map(|(number, unit)| (*number, unit.name.clone())) {
            self.by_number.remove(&number);
            self.by_name.remove(&name);
        }
    }

    /// Notes that a run's pipe is closed.
    pub(crate) fn end(&mut self, number: u64) {
        if let Some(unit) = self.by_number.get_mut(&number) {
            unit.runs = unit.runs.saturating_sub(1);
        }
    }

    /// Adds stored lines to a unit's tail and returns them for the lanes.
    pub(crate) fn push(&mut self, number: u64, text: &[u8]) -> Option<Lines> {
        let share = share(self.by_number.len());
        let unit = self.by_number.get_mut(&number)?;
        unit.tail.push(text, share);
        Some(unit.lines(text.to_vec()))
    }

    /// All tails, to be written once files may be opened, with a note about evicted lines.
    pub(crate) fn backlog(&mut self) -> Vec<Lines> {
        let mut backlog = Vec::new();
        for unit in self.by_number.values_mut().filter(|unit| unit.in_file) {
            let mut text = match unit.tail.forget_evicted() {
                0 => Vec::new(),
                lost => files::note(&format!(
                    "{lost} lines lost: the log directory was not available yet"
                )),
            };
            text.extend_from_slice(unit.tail.lines());
            if !text.is_empty() {
                backlog.push(unit.lines(text));
            }
        }
        backlog
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Unit> {
        self.by_number.get_mut(&number)
    }

    /// The unit that last provided this target, else the unit of that name.
    pub(crate) fn find(&self, name: &Name) -> Option<u64> {
        let provides = |(_, unit): &(&u64, &Unit)| unit.targets.contains(name);
        let mut providers = self.by_number.iter().filter(provides);
        // Of several providers, one that is still running.
        let living = providers.clone().find(|(_, unit)| unit.runs > 0);
        let provider = living.or_else(|| providers.next_back()).map(|(number, _)| *number);
        provider.or_else(|| self.by_name.get(name).copied())
    }

    /// All numbers.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.by_number.keys().copied().collect()
    }
}

// Tails: the last stored lines of each unit, in memory. `logs` and a failed command show them, and
// they are written once log files may be opened.
//
// All tails together stay below [`limit::TAILS`]: the more units, the shorter each. A noisy unit
// evicts only its own lines.

/// One unit's last lines, in stored form.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    bytes: VecDeque<u8>,
    /// Lines evicted since [`Tail::forget_evicted`].
    evicted: u64,
}

/// The share of each unit when there are `units` of them.
pub(crate) fn share(units: usize) -> usize {
    (limit::TAILS / units.max(1)).clamp(limit::TAIL_LEAST, limit::TAIL)
}

impl Tail {
    /// Adds whole stored lines and keeps the last `share` bytes, cut at a line. The newest line
    /// stays at any length.
    pub(crate) fn push(&mut self, lines: &[u8], share: usize) {
        let mut new = lines;
        while new.len() > share {
            let Some(end) = first_line(new.iter()) else { break };
            let Some(rest) = new.get(end..).filter(|rest| !rest.is_empty()) else { break };
            // All present lines are older still.
            self.evicted += count_lines(&self.bytes) + 1;
            self.bytes.clear();
            new = rest;
        }
        self.trim(share.saturating_sub(new.len()));
        self.bytes.extend(new);
        if self.bytes.capacity() > 2 * share.max(self.bytes.len()) {
            self.bytes.shrink_to(share);
        }
    }

    /// Evicts the oldest lines until at most `room` bytes are left.
    fn trim(&mut self, room: usize) {
        while self.bytes.len() > room {
            let end = first_line(self.bytes.iter()).unwrap_or(self.bytes.len());
            self.bytes.drain(..end);
            self.evicted += 1;
        }
    }

    /// Reduces the tail to a smaller share.
    pub(crate) fn shrink(&mut self, share: usize) {
        self.trim(share);
        self.bytes.shrink_to(share);
    }

    /// All lines in one piece.
    pub(crate) fn lines(&mut self) -> &[u8] {
        self.bytes.make_contiguous()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of evicted lines and resets it.
    pub(crate) fn forget_evicted(&mut self) -> u64 {
        std::mem::take(&mut self.evicted)
    }
}

/// The end of the first line, including its newline.
fn first_line<'a>(bytes: impl Iterator<Item = &'a u8>) -> Option<usize> {
    let mut bytes = bytes;
    bytes.position(|byte| *byte == b'\n').map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn tail_keeps_the_newest_lines_and_counts_evicted_ones() {
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
    fn total_size_of_all_tails_is_bounded() {
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
