//! What an init has found whose state is lost ([`crate::anew`]): what is noted still, and whose what
//! lives is. It decides nothing and calls no kernel. It is there until the boot, with which all of it
//! is taken up; what lives of a unit whose file can not be used stays known.

use crate::cgroup::{Left, short};
use crate::journal::notes::{self, What, Wished};
use crate::journal::remains::Remains;
use crate::notify::Datagram;
use crate::run::procedure::Part;
use crate::sys::wait::Ended;
use groundstate_units::generation::{Generation, Unit};
use groundstate_units::machine::event::{RunId, Shutdown};
use groundstate_units::machine::there::There;
use groundstate_units::name::Name;
use groundstate_units::spec::{Exit, Kind, Run};
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
    /// Bound sockets, and what else somebody may listen to, that are nobody's yet.
    pub(crate) sockets: Vec<OwnedFd>,
    /// Those of units.
    pub(crate) opened: BTreeMap<Name, Vec<OwnedFd>>,
    /// Units of which something lives, and that were not begun yet.
    pub(crate) units: BTreeMap<Name, Alive>,
    /// Scripts that are done, and how they ended.
    pub(crate) done: BTreeMap<Name, Exit>,
    /// The end that had been asked for.
    pub(crate) end: Option<Shutdown>,
    /// How far it is.
    pub(crate) stage: Stage,
}

/// How far an init is with what it has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// All is taken up; as a rule there never was anything.
    #[default]
    Over,
    /// The unit files have not been read yet.
    BeforeBoot,
}

/// One unit's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Alive {
    /// What is in this cgroup.
    In(String),
    /// Where there are none: lines of it that were begun and have not ended, or this daemon.
    Noted(Option<i32>),
}

impl Found {
    /// What is heard now is of processes that are nobody's yet; a state that is kept now would not
    /// know of them.
    pub(crate) fn is_before_boot(&self) -> bool {
        self.stage == Stage::BeforeBoot
    }

    /// What one of these processes writes into.
    pub(crate) fn output_of(&mut self, pids: &BTreeSet<i32>) -> Option<OwnedFd> {
        let at = self.outputs.iter().position(|(pid, _)| pids.contains(pid))?;
        Some(self.outputs.swap_remove(at).1)
    }

    /// What had been begun before has ended before anybody took it up.
    pub(crate) fn ended(&mut self, ended: Ended) {
        if self.is_before_boot() {
            self.remains.has_ended(ended.pid.as_raw(), ended.exit);
        }
    }

    /// Whose of these units what lives is. `daemons`: those their pid files name, where there are no
    /// cgroups. Gives the highest number a run ever had, as far as is known, and the units that are
    /// there.
    pub(crate) fn meet(
        &mut self,
        generation: &Generation,
        daemons: &BTreeMap<Name, i32>,
    ) -> (RunId, Vec<(Name, There)>) {
        let begun = self.remains.alive.values();
        let noted: BTreeMap<u32, RunId> = begun.map(|begun| (begun.unit, begun.run)).collect();
        let of_cgroups = self.cgroups.iter().filter_map(|left| left.run);
        let all = of_cgroups.map(|run| run.0).chain([self.remains.highest]);
        let mut numbers = Numbers { highest: all.fold(0, u64::max), ..Numbers::default() };
        let mut there = Vec::new();
        for unit in &generation.units {
            let name = unit.name.as_str();
            let (hash, short) = (notes::unit(name), short(name));
            // Of several the latest: what an earlier one has left was spared at its end.
            let all = self.cgroups.iter().enumerate().filter(|(_, left)| left.unit == short);
            let latest = all.max_by_key(|(_, left)| left.run).map(|(at, _)| at);
            let cgroup = latest.map(|at| self.cgroups.swap_remove(at));
            let daemon = daemons.get(&unit.name).copied();
            let number = noted.get(&hash).copied();
            let (alive, run) = match cgroup {
                Some(left) => (Some(Alive::In(left.name)), left.run.or(number)),
                None if number.is_some() || daemon.is_some() => {
                    (Some(Alive::Noted(daemon)), number)
                }
                None => (None, None),
            };
            let is_open = self.opened.contains_key(&unit.name);
            let done = self.done_of(unit).filter(|_| alive.is_none() && !is_open);
            let (lives, run) = match (&alive, done) {
                (Some(_), _) => (true, run),
                (None, Some((run, exit))) => {
                    self.done.insert(unit.name.clone(), exit);
                    (false, Some(run))
                }
                (None, None) if is_open => (false, None),
                (None, None) => continue,
            };
            self.units.extend(alive.map(|alive| (unit.name.clone(), alive)));
            there.push((unit.name.clone(), There { run: numbers.take(run), lives }));
        }
        (RunId(numbers.highest), there)
    }

    /// Its script is done: the law is [`crate::journal::done`]'s.
    fn done_of(&self, unit: &Unit) -> Option<(RunId, Exit)> {
        let hash = notes::unit(unit.name.as_str());
        if !matches!(unit.kind, Kind::Oneshot | Kind::BackgroundScripted) {
            return None;
        }
        if let Some(done) = self.remains.done.get(&hash) {
            return Some(*done);
        }
        let (begun, exit) = self.remains.ended.get(&hash)?;
        let well = *exit == Exit::Code(0) || unit.live.success_status.lists(*exit);
        let is_last = well
            && Run::decode(&unit.run).is_some_and(|spec| {
                let last = match spec.exec_start_post.len().checked_sub(1) {
                    Some(post) => Part::Post(post),
                    None => Part::Start(last_line(&spec)),
                };
                begun.part == last
            });
        is_last.then_some((begun.run, *exit))
    }

    /// The boot is over, and with it all that was found, but for what could not begin.
    pub(crate) fn is_met(&mut self) {
        let mut units = std::mem::take(&mut self.units);
        // Of what has no cgroup nothing will be known.
        units.retain(|_, alive| matches!(alive, Alive::In(_)));
        *self = Found { units, ..Found::default() };
    }

    /// This process has said that it is ready, or was begun so long ago that nobody knows.
    pub(crate) fn was_ready(&self, pid: i32, run: RunId) -> bool {
        let says = |what: &What| match what {
            What::Heard(bytes) => Datagram::again(pid, bytes).says_ready(),
            What::Seen(of) => *of == run,
            What::Begun(_) | What::Ended(_) | What::Wished(_) | What::Opened(_) => false,
        };
        !self.remains.alive.contains_key(&pid) || self.remains.of(pid).any(says)
    }
}

/// Each is given once, whatever is damaged.
#[derive(Default)]
struct Numbers {
    highest: u64,
    given: BTreeSet<RunId>,
}

impl Numbers {
    /// This one, if it is nobody's; else a new one.
    fn take(&mut self, run: Option<RunId>) -> RunId {
        let known = run.filter(|run| run.0 > 0 && !self.given.contains(run));
        let run = known.unwrap_or_else(|| {
            self.highest = self.highest.saturating_add(1);
            RunId(self.highest)
        });
        self.given.insert(run);
        run
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
