//! What an init has found whose state is lost ([`crate::anew`]): what is noted still, and whose what
//! lives is. It decides nothing and calls no kernel. With the boot all of it is taken up that is of a
//! unit; what lives of one whose file can not be used, or is away, stays known until it ends, by the
//! unit's name, or by what is left of that: each generation is asked anew whose it is
//! ([`crate::rest`]).

use crate::cgroup::mark::Marked;
use crate::cgroup::{Left, is_cut, short};
use crate::foreign::Foreign;
use crate::journal::notes::{self, Note, What, Wished};
use crate::journal::remains::Remains;
use crate::journal::standing::Standing;
use crate::notify::Datagram;
use crate::pipes::Pipes;
use crate::process;
use crate::run::procedure::Part;
use crate::shutdown::Haste;
use crate::sys::Pid;
use crate::sys::wait::Ended;
use crate::trigger::door::Doors;
use groundstate_units::generation::Unit;
use groundstate_units::machine::event::{Event, Intent, RunId, Shutdown};
use groundstate_units::machine::there::{Ends, There};
use groundstate_units::name::Name;
use groundstate_units::spec::{Exit, Kind, Run};
use groundstate_units::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

/// What an init whose state is lost has found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) remains: Remains,
    /// Cgroups that are nobody's yet.
    pub(crate) cgroups: Vec<Left>,
    /// Read ends of what processes write.
    pub(crate) pipes: Pipes,
    /// Bound sockets, and what else somebody may listen to, that are nobody's yet.
    pub(crate) sockets: Vec<OwnedFd>,
    /// Those of units.
    pub(crate) opened: BTreeMap<Name, Vec<Foreign>>,
    /// Those of units whose file is away or can not be used.
    pub(crate) doors: Doors,
    /// In this generation nobody has any that is not to listen.
    pub(crate) doors_tidied: Option<u32>,
    /// Units of which something lives, and that were not begun yet; of some there is no file now.
    pub(crate) units: BTreeMap<Name, Living>,
    /// Scripts that are done, as which run, and how they ended.
    pub(crate) done: BTreeMap<Name, (RunId, Exit)>,
    /// Of what was not begun yet: processes that have said since the boot that they are ready.
    pub(crate) ready: BTreeSet<i32>,
    /// Without cgroups, as of the last look: children of init that bear marks.
    pub(crate) marked: Marked,
    /// The end that had been asked for.
    pub(crate) end: Option<Shutdown>,
    /// How little that was to be waited for.
    pub(crate) haste: Option<Haste>,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Living {
    pub(crate) alive: Alive,
    /// How far it is, where that is written.
    pub(crate) standing: Option<Standing>,
    /// As the machine knows it.
    pub(crate) there: There,
}

/// Where it lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Alive {
    /// In this cgroup.
    In(String),
    /// Where there are none: lines of it that were begun and have not ended, or this daemon.
    Noted(Option<Daemon>),
}

/// A process that a pid file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Daemon {
    pub(crate) pid: i32,
    /// When it began, which tells it from another that got its pid.
    pub(crate) began: u64,
}

impl Daemon {
    /// It is that process still.
    pub(crate) fn lives(&self) -> bool {
        process::stat(Pid::from_raw(self.pid)).is_some_and(|stat| stat.began == self.began)
    }
}

impl Found {
    /// What is heard now is of processes that are nobody's yet; a state that is kept now would not
    /// know of them.
    pub(crate) fn is_before_boot(&self) -> bool {
        self.stage == Stage::BeforeBoot
    }

    /// What the machine was at that is lost.
    pub(crate) fn intent(&self) -> Option<Intent> {
        let meant = self.remains.meant.as_ref().map(|meant| meant.intent.wish.clone());
        let is_known = meant.is_some() || self.end.is_some();
        is_known.then(|| Intent { wish: meant.unwrap_or_default(), end: self.end })
    }

    /// When this timer has fired last, before the boot of this image. Where that may not be noted any more: at
    /// the last note, for whatever it fired at was due before.
    pub(crate) fn fired(&self, timer: &Name) -> Option<Time> {
        let is_its = |wish: &Wished| matches!(wish, Wished::Event(Event::Fire(of)) if of == timer);
        let is_it = |note: &&Note| note.what.wish().is_some_and(is_its);
        let (remains, notes) = (&self.remains, &self.remains.past.notes);
        let last = || Some(remains.past.end().0).filter(|_| !remains.is_whole);
        let fired = notes.iter().rfind(is_it).map(|note| note.at).or_else(last);
        fired.filter(|_| self.is_before_boot())
    }

    /// What had been begun before has ended before anybody took it up.
    pub(crate) fn ended(&mut self, ended: Ended) {
        if self.is_before_boot() || self.away_has(ended.pid.as_raw()) {
            self.remains.has_ended(ended.pid.as_raw(), ended.exit);
        }
    }

    /// Whose of these units what lives is. `daemons`: those their pid files name, where there are no
    /// cgroups; `living`: those of what stands written that live; `highest`: the highest number a run has
    /// had of which the machine knows. Gives that number as far as is known, and the units that are there.
    pub(crate) fn meet<'a>(
        &mut self,
        units: impl Iterator<Item = &'a Unit>,
        daemons: &BTreeMap<Name, Daemon>,
        living: &BTreeSet<i32>,
        highest: RunId,
    ) -> (RunId, Vec<(Name, There)>) {
        let begun = self.remains.alive.values();
        let noted: BTreeMap<u64, RunId> = begun.map(|begun| (begun.unit, begun.run)).collect();
        let mut numbers = self.numbers(highest);
        let mut named: BTreeSet<Name> = BTreeSet::new();
        let mut there = Vec::new();
        for unit in units {
            named.insert(unit.name.clone());
            let daemon = daemons.get(&unit.name).copied();
            if self.units.contains_key(&unit.name)
                || self.is_alive(&unit.name, daemon, &noted, living, &mut numbers)
            {
                continue;
            }
            let is_open = self.opened.contains_key(&unit.name);
            let run = match self.done_of(unit).filter(|_| !is_open) {
                Some((run, exit)) => {
                    let run = numbers.take(Some(run));
                    self.done.insert(unit.name.clone(), (run, exit));
                    run
                }
                None if is_open => numbers.take(None),
                None => continue,
            };
            let standing = self.remains.standings.of.get(&notes::unit(unit.name.as_str()));
            let ends = standing.filter(|it| it.run == run).map_or(Ends::No, |it| it.course.ends());
            there.push((unit.name.clone(), There { run, lives: false, ends }));
        }
        // Of these there is no file now.
        let away = Some(self.names()).filter(|_| self.is_before_boot());
        for name in away.into_iter().flatten().filter(|name| !named.contains(name)) {
            self.is_alive(&name, None, &noted, living, &mut numbers);
        }
        there.extend(self.there());
        (RunId(numbers.highest), there)
    }

    /// Units of which something lives, and that were not begun yet, as the machine knows them.
    pub(crate) fn there(&self) -> impl Iterator<Item = (Name, There)> {
        self.units.iter().map(|(name, living)| (name.clone(), living.there))
    }

    /// What is to begin as this run is there already, or has been.
    pub(crate) fn is_to_be_taken_up(&self, run: RunId, name: &Name) -> bool {
        let is_done = self.done.get(name).is_some_and(|(of, _)| *of == run);
        is_done || self.units.contains_key(name)
    }

    /// Something lives of this unit that is nobody's yet: it is the unit's from now on.
    fn is_alive(
        &mut self,
        name: &Name,
        daemon: Option<Daemon>,
        noted: &BTreeMap<u64, RunId>,
        living: &BTreeSet<i32>,
        numbers: &mut Numbers,
    ) -> bool {
        let (hash, short) = (notes::unit(name.as_str()), short(name.as_str()));
        let standing = self.remains.standings.of.get(&hash).cloned();
        let (alive, run) = match &standing {
            Some(standing) => self.alive_as(standing, &short, living),
            None if self.has_no_run(hash) => (None, None),
            None => self.alive_somehow(&short, daemon, noted.get(&hash).copied()),
        };
        let Some(alive) = alive else { return false };
        let ends = standing.as_ref().map_or(Ends::No, |standing| standing.course.ends());
        let there = There { run: numbers.take(run), lives: true, ends };
        self.remains.standings.of.remove(&hash);
        self.units.insert(name.clone(), Living { alive, standing, there });
        true
    }

    /// Those that are given already are given to nobody else.
    fn numbers(&self, highest: RunId) -> Numbers {
        let of_cgroups = self.cgroups.iter().filter_map(|left| left.run);
        let known = [highest.0, self.remains.highest, self.pipes.highest()];
        let all = of_cgroups.map(|run| run.0).chain(known);
        let given = self.units.values().map(|living| living.there.run).collect();
        Numbers { highest: all.fold(0, u64::max), given }
    }

    /// Units of which something lives, as far as a cgroup has the whole of a name: their files may be away,
    /// or nobody's wish makes the instance any more.
    pub(crate) fn names(&self) -> impl Iterator<Item = Name> + use<> {
        let cgroups = self.cgroups.iter().filter(|left| !is_cut(&left.unit));
        let names = cgroups.filter(|left| self.may_be_of(left, &left.unit));
        let names = names.filter_map(|left| Name::new(&left.unit).ok());
        names.chain(self.units.keys().cloned()).collect::<BTreeSet<_>>().into_iter()
    }

    /// What lives in it is what this unit had, and not what an earlier run of it has left.
    fn may_be_of(&self, left: &Left, unit: &str) -> bool {
        match self.remains.standings.of.get(&notes::unit(unit)) {
            Some(standing) => is_of(left, standing),
            None => !self.has_no_run(notes::unit(unit)),
        }
    }

    /// What lives of this unit, if anything does, was spared at the end of an earlier run.
    fn has_no_run(&self, unit: u64) -> bool {
        self.remains.standings.is_whole || self.remains.standings.is_over(unit)
    }

    /// What lives of a run that is known, in its cgroup or wherever it has gone; it is there too where the
    /// line it was at has ended since. What an earlier run has left was spared at its end.
    fn alive_as(
        &mut self,
        standing: &Standing,
        short: &str,
        living: &BTreeSet<i32>,
    ) -> (Option<Alive>, Option<RunId>) {
        let is_its = |left: &Left| left.unit == short && is_of(left, standing);
        let cgroup = self.cgroups.iter().position(is_its).map(|at| self.cgroups.swap_remove(at));
        let lives = standing.pids().any(|pid| living.contains(&pid))
            || standing.has_left(&self.marked).is_some();
        let goes_on = lives || standing.goes_on_alone(&self.remains.ends);
        let alive = match cgroup {
            Some(left) => Some(Alive::In(left.name)),
            None => goes_on.then_some(Alive::Noted(None)),
        };
        let run = alive.is_some().then_some(standing.run);
        (alive, run)
    }

    /// What lives of a unit of which nothing else is known. Of several cgroups the latest.
    fn alive_somehow(
        &mut self,
        short: &str,
        daemon: Option<Daemon>,
        number: Option<RunId>,
    ) -> (Option<Alive>, Option<RunId>) {
        let all = self.cgroups.iter().enumerate().filter(|(_, left)| left.unit == short);
        let latest = all.max_by_key(|(_, left)| left.run).map(|(at, _)| at);
        match latest.map(|at| self.cgroups.swap_remove(at)) {
            Some(left) => (Some(Alive::In(left.name)), left.run.or(number)),
            None if number.is_some() || daemon.is_some() => (Some(Alive::Noted(daemon)), number),
            None => (None, None),
        }
    }

    /// Its script is done, or its run is over: the law is [`crate::journal::done`]'s.
    fn done_of(&self, unit: &Unit) -> Option<(RunId, Exit)> {
        let hash = notes::unit(unit.name.as_str());
        if let Some(done) = self.remains.done.get(&hash).filter(|_| unit.kind.has_process()) {
            return Some(*done);
        }
        if !matches!(unit.kind, Kind::Oneshot | Kind::BackgroundScripted) {
            return None;
        }
        let is_well = |exit: Exit| exit == Exit::Code(0) || unit.live.success_status.lists(exit);
        // Where there was no room for that; what the other kind has left is of no account where that ends too.
        let is_known = |it: &&Standing| unit.kind == Kind::Oneshot || it.course.ends() == Ends::Due;
        let standing = self.remains.standings.of.get(&hash).filter(is_known);
        let done = standing.and_then(|it| Some((it.run, it.course.has_ended()?)));
        if let Some(done) = done.filter(|(_, exit)| is_well(*exit)) {
            return Some(done);
        }
        let (begun, exit) = self.remains.ended.get(&hash)?;
        let is_last = is_well(*exit)
            && Run::decode(&unit.run).is_some_and(|spec| {
                let last = match spec.exec_start_post.len().checked_sub(1) {
                    Some(post) => Part::Post(post),
                    None => Part::Start(last_line(&spec)),
                };
                begun.part == last
            });
        is_last.then_some((begun.run, *exit))
    }

    /// This process has said that it is ready since that was written.
    pub(crate) fn says_ready(&self, pid: i32, run: RunId) -> bool {
        let says = |what: &What| match what {
            What::Heard(bytes) => Datagram::again(pid, bytes).says_ready(),
            What::Seen(of) => *of == run,
            What::Begun(_)
            | What::Ended(_)
            | What::Wished(_)
            | What::Opened(_)
            | What::Learnt(_) => false,
        };
        self.ready.contains(&pid) || self.remains.of(pid).any(says)
    }

    /// This process has said that it is ready, or was begun so long ago that nobody knows.
    pub(crate) fn was_ready(&self, pid: i32, run: RunId) -> bool {
        !self.remains.alive.contains_key(&pid) || self.says_ready(pid, run)
    }
}

/// It was this run's.
pub(crate) fn is_of(left: &Left, standing: &Standing) -> bool {
    match left.ahead {
        Some(number) => standing.ahead == Some(number),
        None => left.run == Some(standing.run),
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

/// How little the end was to be waited for, at most.
pub(crate) fn asked_haste(remains: &Remains) -> Option<Haste> {
    let haste = |wish: &Wished| match wish {
        Wished::Haste(haste) => Some(*haste),
        Wished::Event(_) | Wished::End(_) => None,
    };
    wishes(remains).filter_map(haste).max()
}

/// The end that was asked for last, if one was.
pub(crate) fn asked_end(remains: &Remains) -> Option<Shutdown> {
    let end = |wish: &Wished| match wish {
        Wished::End(how) => Some(*how),
        Wished::Event(_) | Wished::Haste(_) => None,
    };
    wishes(remains).rev().find_map(end)
}

fn wishes(remains: &Remains) -> impl DoubleEndedIterator<Item = &Wished> {
    remains.past.notes.iter().filter_map(|note| note.what.wish())
}
