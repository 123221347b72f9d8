//! What an init has found whose state is lost ([`crate::anew`]): what is noted still, and whose what
//! lives is. It decides nothing and calls no kernel.

use crate::cgroup::{Left, short};
use crate::journal::notes::{self, Begun, What, Wished};
use crate::journal::remains::Remains;
use crate::notify::Datagram;
use crate::run::procedure::Part;
use crate::sys::wait::Ended;
use groundstate_units::generation::{Generation, UnitId};
use groundstate_units::machine::event::{RunId, Shutdown};
use groundstate_units::name::Name;
use groundstate_units::spec::{Exit, Kind, Run};
use groundstate_units::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

/// What an init whose state is lost has found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) remains: Remains,
    /// Cgroups that are nobody's yet.
    pub(crate) cgroups: Vec<Left>,
    /// Read ends of what processes write, by pid.
    pub(crate) outputs: Vec<(i32, OwnedFd)>,
    /// Units of which something lives, and that were not begun yet.
    pub(crate) units: BTreeMap<Name, Alive>,
    /// What the first goal needs and was not begun yet: scripts of these had been run. None: it is
    /// not known yet.
    pub(crate) first: Option<BTreeSet<Name>>,
    /// The end that had been asked for.
    pub(crate) end: Option<Shutdown>,
    /// How far it is.
    pub(crate) stage: Stage,
}

/// How far an init is with what it has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// There is nothing more to be taken up; as a rule there never was.
    #[default]
    Over,
    /// The unit files have not been read yet.
    BeforeBoot,
    /// What lives is taken up as it is begun.
    Meeting,
    /// It waits for others; what it has said meanwhile was heard by nobody.
    Waiting,
}

/// One unit's.
#[derive(Clone)]
pub(crate) struct Alive {
    /// The number it has.
    pub(crate) run: RunId,
    /// Its cgroup, where there are any.
    pub(crate) cgroup: Option<String>,
}

impl Found {
    /// What is heard now is of processes that are nobody's yet.
    pub(crate) fn is_before_boot(&self) -> bool {
        self.stage == Stage::BeforeBoot
    }

    /// A state that is kept now would not know of it.
    pub(crate) fn is_pending(&self) -> bool {
        self.is_before_boot() || !self.units.is_empty()
    }

    /// What one of these processes writes into.
    pub(crate) fn output_of(&mut self, pids: &BTreeSet<i32>) -> Option<OwnedFd> {
        let at = self.outputs.iter().position(|(pid, _)| pids.contains(pid))?;
        Some(self.outputs.swap_remove(at).1)
    }

    /// What had been begun before has ended before anybody took it up.
    pub(crate) fn ended(&mut self, ended: Ended) {
        if self.is_pending() {
            let (what, pid) = (What::Ended(ended.exit), ended.pid.as_raw());
            let note = notes::Note { what, pid, at: Time::ZERO, turn: 0 };
            self.remains.past.notes.push(note);
        }
    }

    /// Whose of these units what lives is. Gives the highest number a run ever had, as far as is
    /// known, and the runs that are there.
    pub(crate) fn meet(&mut self, generation: &Generation) -> (RunId, Vec<(UnitId, RunId)>) {
        let begun = self.remains.alive();
        let noted: BTreeMap<u32, RunId> =
            begun.values().map(|begun| (begun.unit, begun.run)).collect();
        let mut opened = BTreeMap::new();
        let mut highest = 0;
        for note in &self.remains.past.notes {
            let run = match &note.what {
                What::Begun(begun) => begun.run,
                What::Opened(of) => {
                    opened.insert(of.unit, of.run);
                    of.run
                }
                What::Heard(_) | What::Ended(_) | What::Wished(_) | What::Seen(_) => continue,
            };
            highest = highest.max(run.0);
        }
        highest = self
            .cgroups
            .iter()
            .filter_map(|left| left.run)
            .map(|run| run.0)
            .fold(highest, u64::max);
        let mut runs = Vec::new();
        for (number, unit) in (0..).zip(&generation.units) {
            let name = unit.name.as_str();
            let (hash, short) = (notes::unit(name), short(name));
            // Of several the latest: what an earlier one has left was spared at its end.
            let all = self.cgroups.iter().enumerate().filter(|(_, left)| left.unit == short);
            let found = all.max_by_key(|(_, left)| left.run).map(|(at, _)| at);
            let cgroup = found.map(|at| self.cgroups.swap_remove(at));
            let run = match &cgroup {
                Some(Left { run: Some(run), .. }) => Some(*run),
                Some(_) => noted.get(&hash).copied().or_else(|| {
                    highest = highest.saturating_add(1);
                    Some(RunId(highest))
                }),
                None => noted.get(&hash).copied(),
            };
            if let Some(run) = run {
                let cgroup = cgroup.map(|left| left.name);
                self.units.insert(unit.name.clone(), Alive { run, cgroup });
            }
            runs.extend(run.or(opened.get(&hash).copied()).map(|run| (UnitId(number), run)));
        }
        self.stage = Stage::Meeting;
        (RunId(highest), runs)
    }

    /// A script of the first goal of which nothing lives had been run, and well.
    pub(crate) fn has_done(&mut self, name: &Name, spec: &Run) -> bool {
        let is_script = matches!(spec.kind, Kind::Oneshot | Kind::BackgroundScripted);
        let is_first = self.first.as_mut().is_some_and(|first| first.remove(name));
        if !is_first || !is_script {
            return false;
        }
        let (unit, last) = (notes::unit(name.as_str()), last_line(spec));
        let is_it = |(begun, exit): &(&Begun, Exit)| {
            begun.unit == unit && begun.part == Part::Start(last) && *exit == Exit::Code(0)
        };
        // Where notes were overwritten its beginning was long ago.
        !self.remains.is_whole || self.remains.ended().iter().any(is_it)
    }

    /// This process has said that it is ready, or was begun so long ago that nobody knows.
    pub(crate) fn was_ready(&self, pid: i32, run: RunId) -> bool {
        let says = |note: &&notes::Note| match &note.what {
            What::Heard(bytes) => note.pid == pid && Datagram::again(pid, bytes).says_ready(),
            What::Seen(of) => *of == run,
            What::Begun(_) | What::Ended(_) | What::Wished(_) | What::Opened(_) => false,
        };
        let is_unknown = self.stage == Stage::Waiting || !self.remains.alive().contains_key(&pid);
        is_unknown || self.remains.past.notes.iter().any(|n| says(&n))
    }
}

/// The last line of its start.
pub(crate) fn last_line(spec: &Run) -> usize {
    spec.exec_start.len().saturating_sub(1)
}

/// The end that was asked for last, if one was.
pub(crate) fn asked_end(remains: &Remains) -> Option<Shutdown> {
    remains.past.notes.iter().rev().find_map(|note| match &note.what {
        What::Wished(wish) => match **wish {
            Wished::End(how) => Some(how),
            Wished::Event(_) | Wished::Haste(_) => None,
        },
        What::Heard(_) | What::Ended(_) | What::Begun(_) | What::Seen(_) | What::Opened(_) => None,
    })
}
