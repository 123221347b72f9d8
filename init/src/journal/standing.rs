//! How far each unit is: for every unit with a run one place, written over as the run goes on, so that
//! it is known however much was noted since. Behind the scripts that are done
//! ([`super::notes::STANDING`]); for an init whose state is lost ([`crate::anew`]).
//!
//! It is written at the end of whatever a run's course does ([`crate::run`]), with the number of the last
//! note there was then. What is noted of the same unit after that is newer: the line just begun at most.
//! Of others nothing follows: the course of one may be under way as that of another is written.
//! Who has no place has no run, unless some found none: that stands in the head, for good.
//!
//! Where they stand is [`table`]'s.

pub(crate) mod table;
#[cfg(test)]
mod tests;

use super::notes::Begun;
use crate::cgroup::mark::Marked;
use crate::clock;
use crate::process;
use crate::run::procedure::{Course, Part};
use crate::sys::{Pid, wait};
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Exit;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use table::Place;
pub(crate) use table::{BYTES, are_lost, stand_alone, stands, stands_no_more};

/// Lines of one run that are known of: its main process, and what is run beside that.
const LINES: usize = 6;

/// How far one is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Standing {
    pub(crate) run: RunId,
    /// When it was written, as [`crate::clock::ticks`] has it: a process that began later has only got
    /// the pid of one.
    pub(crate) at: u64,
    /// Its cgroup was made ahead, as this one.
    pub(crate) ahead: Option<u64>,
    /// The main process; 0: there is none.
    pub(crate) main: i32,
    /// Lines that init has begun.
    pub(crate) lines: Vec<(i32, Part)>,
    pub(crate) course: Course,
    /// The inode of the pipe of its `ready-fd`, while that is read.
    pub(crate) ready: Option<u64>,
}

impl Standing {
    /// Processes that are known of.
    pub(crate) fn pids(&self) -> impl Iterator<Item = i32> {
        let lines = self.lines.iter().map(|(pid, _)| *pid);
        lines.chain([self.main]).filter(|pid| *pid > 0)
    }

    /// Those that live, or were not reaped: no others that have got their pids.
    pub(crate) fn living(&self) -> impl Iterator<Item = i32> {
        self.pids().filter(|pid| {
            let of = Pid::from_raw(*pid);
            let stat = process::stat(of);
            match stat {
                Some(stat) if stat.began > self.at => false,
                Some(stat) => !stat.ended || wait::is_child(of),
                None => wait::is_child(of),
            }
        })
    }

    /// Those of these that are its own: what it has left to init without a word, and bears its mark. What is there of one
    /// that has come to its end was spared then.
    pub(crate) fn has_left<'a>(&self, marked: &'a Marked) -> Option<&'a BTreeSet<i32>> {
        marked.get(&self.run).filter(|_| self.course.has_ended().is_none())
    }

    /// The same, looked at now: its processes are those that have these pids.
    pub(crate) fn seen(&self, now: u64) -> Standing {
        Standing { at: self.at.min(now), ..self.clone() }
    }

    /// It goes on though nothing of it lives: the line it was at has ended, or its end is not over yet.
    pub(crate) fn goes_on_alone(&self, ends: &BTreeMap<i32, Exit>) -> bool {
        let has_ended = |(pid, part): &(i32, Part)| {
            let is_it = self.course.line() == Some(*part);
            is_it && (!self.course.has_main() || ends.contains_key(pid))
        };
        self.course.is_to_go_on() || self.lines.iter().any(has_ended)
    }

    /// The same with as many lines as there is room for: what its course hangs on comes first, and a reload
    /// last, for of these there may be any number at once.
    fn shortened(&self) -> Standing {
        let mut lines = self.lines.clone();
        lines.sort_by_key(|(pid, part)| {
            let is_awaited = *pid == self.main || self.course.line() == Some(*part);
            (!is_awaited, matches!(part, Part::Reload(_)))
        });
        lines.truncate(LINES);
        Standing { lines, ..self.clone() }
    }

    /// One more line was begun since.
    fn goes_on(&mut self, pid: i32, begun: &Begun) {
        let line = (pid, begun.part);
        if let Some(before) = self.course.line_before(begun.part) {
            self.lines.retain(|(_, part)| *part != before);
        }
        if !self.lines.contains(&line) {
            self.lines.push(line);
        }
        // Who gets its pid from now on is another.
        self.at = clock::ticks();
        self.ahead = begun.ahead.or(self.ahead);
        self.course.goes_on(begun.part);
    }
}

/// All of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Standings {
    pub(crate) of: BTreeMap<u64, Standing>,
    /// Who is not among them has no run.
    pub(crate) is_whole: bool,
    /// The last note that is known of each; of those too that have no run any more.
    #[serde(skip)]
    newest: BTreeMap<u64, u64>,
    /// The same of all others.
    #[serde(skip)]
    forgotten: u64,
}

impl Standings {
    /// Total: any bytes may be there.
    pub(crate) fn read(bytes: &[u8]) -> Standings {
        let Some((forgotten, is_whole)) = table::head(bytes) else {
            return Standings { forgotten: u64::MAX, ..Standings::default() };
        };
        let mut standings = Standings { is_whole, forgotten, ..Standings::default() };
        for place in table::each(bytes) {
            match place {
                (Place::Of(_), Some((unit, newest, standing))) => {
                    standings.of.insert(unit, standing);
                    standings.newest.insert(unit, newest);
                }
                // Whose it is nobody knows.
                (Place::Of(_), None) => {
                    (standings.is_whole, standings.forgotten) = (false, u64::MAX);
                }
                (Place::Left(unit, newest), _) => _ = standings.newest.insert(unit, newest),
                (Place::Empty, _) => {}
            }
        }
        standings
    }

    /// Its own place says that it has no run any more, whatever is not known of others.
    pub(crate) fn is_over(&self, unit: u64) -> bool {
        !self.of.contains_key(&unit) && self.newest.contains_key(&unit)
    }

    /// This was noted.
    pub(crate) fn begun(&mut self, seq: u64, pid: i32, begun: &Begun) {
        let newest = self.newest.get(&begun.unit).copied().unwrap_or(self.forgotten);
        if seq <= newest || pid <= 0 {
            return;
        }
        let first = || Standing {
            run: begun.run,
            at: 0,
            ahead: None,
            main: 0,
            lines: Vec::new(),
            course: Course::default(),
            ready: None,
        };
        let standing = self.of.entry(begun.unit).or_insert_with(first);
        if standing.run != begun.run {
            *standing = first();
        }
        standing.goes_on(pid, begun);
    }

    /// The highest number of a run.
    pub(crate) fn highest(&self) -> u64 {
        self.of.values().map(|standing| standing.run.0).fold(0, u64::max)
    }
}
