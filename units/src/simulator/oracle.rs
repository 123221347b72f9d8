//! The oracle: a second, naive implementation of Groundstate's rules. It stores only the data that
//! the rules require, gets the same events as the machine, and computes every set from scratch as a
//! plain fixed point. It shares no code with [`crate::machine`], only the types of events and
//! states; the simulator ([`crate::simulator`]) compares the two. It is slow and not part of PID 1.
//!
//! This file has the stored state, and every set and state that follows from it. Actions, counts,
//! timers and refusals are compared too: [`settle`] computes the consequences of an event,
//! [`event`] handles facts and time, [`wish`] the operator's wishes. [`crate::simulator::graph`]
//! has the providers.
#![allow(clippy::indexing_slicing, reason = "unit numbers come from the oracle's own universe")]
#![allow(clippy::wildcard_enum_match_arm, reason = "the comparison finds a missing event")]

use crate::machine::event::RunId;
use crate::machine::reason::{State, System};
use crate::simulator::graph::{Edge, Graph, Universe};
use crate::simulator::set::Set;
use crate::spec::{DependencyKind as D, Exit};
use crate::text::name::Name;
use crate::text::time::Time;
use crate::unit::generation::{Generation, Unit};
use crate::unit::policy::Policy;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

mod event;
mod settle;
mod wish;

/// The timers of a run. At one moment the earlier in this list fires first.
#[derive(Clone, Copy, Debug)]
enum Due {
    Ready,
    Again,
    Slot,
    Reload,
    Ping,
    Start,
    Stop,
}
/// All timers, in that order.
const DUES: [Due; 7] =
    [Due::Ready, Due::Again, Due::Slot, Due::Reload, Due::Ping, Due::Start, Due::Stop];
const NOTHING_DUE: [Time; 7] = [Time::NEVER; 7];

/// The longest time a start holds its slot.
pub(crate) const SLOT: Duration = Duration::from_secs(60);
/// A run that still exists this long after SIGKILL is unkillable.
pub(crate) const IMMORTAL: Duration = Duration::from_secs(2);

/// An action that the machine must emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// A run starts.
    Start(usize, RunId),
    /// A run is told to stop; true if nothing of it is left.
    Stop(usize, RunId, bool),
    /// A run is killed.
    Kill(usize, RunId),
    /// A run reloads.
    Reload(usize, RunId),
    /// The shutdown finishes.
    Finish,
}

/// The reason of a failure, as far as the rules distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Failure {
    /// Another failure, as a violated protocol or a start that may succeed later.
    Ordinary,
    /// `Ended`: the exit of the main process. `Starved`: the same exit, after the kernel had killed
    /// a process of the run for lack of memory.
    Ended(Exit),
    Starved(Exit),
    /// The main process had succeeded, and the rest of the run took too long to stop.
    StopTimeout(Exit),
    Watchdog,
    StartTimeout,
    Exec,
}

/// A unit without a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Rest {
    #[default]
    Idle,
    Backoff(Time),
    Failed,
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) id: RunId,
    /// The definition; its keys of class *live* follow the present one.
    pub(crate) unit: Arc<Unit>,
    /// The form: starting, running, reloading, exited or stopping.
    pub(crate) form: State,
    /// The providers of its ordering edges at the start. `targets` are the targets that it holds;
    /// `orphaned` are its depends-ms targets that have no provider any more.
    behind: Set,
    pub(crate) targets: Set,
    /// Targets it conflicts with, until it is gone.
    against: Set,
    pub(crate) orphaned: Set,
    lost: bool,
    asked: bool,
    changed: bool,
    /// The main process has exited. `empty`: nothing of the run is left. `killed`: SIGKILL was
    /// sent. `unkillable`: the run survived it.
    ended: bool,
    empty: bool,
    killed: bool,
    pub(crate) unkillable: bool,
    pub(crate) skipped: bool,
    /// The run has succeeded and does not remain: it is over, or will be.
    rests: Option<Exit>,
    pub(crate) over: bool,
    /// The reload ends when the service reports it.
    announced: bool,
    /// The run sent STOPPING=1: only its exit and requests for more time count now.
    leaving: bool,
    watch: Option<Duration>,
    /// The run-timeout does not pass before this time, which the run requested. `starved`: the
    /// kernel killed one of its processes for lack of memory.
    extended: Time,
    starved: bool,
    began: Time,
    active_since: Option<Time>,
    active_for: Option<Duration>,
    due: [Time; 7],
    /// The failure that is counted when the run is gone. `again`: the run succeeded and another run
    /// follows.
    failure: Option<Failure>,
    again: bool,
}

/// The stored state of one unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stored {
    pub(crate) rest: Rest,
    /// Consecutive failures, their times, and whether there is a verdict.
    pub(crate) n: u32,
    failures: Vec<Time>,
    pub(crate) verdict: bool,
    /// The unit was active, or failed by itself, since it became needed.
    tried: bool,
    /// The trigger has fired.
    pub(crate) fired: bool,
    /// The unit is needed only because of a failure or a success.
    pub(crate) brought: bool,
    pub(crate) run: Option<Run>,
}

/// The oracle.
#[derive(Clone, Debug)]
pub struct Oracle {
    pub(crate) universe: Arc<Universe>,
    pub(crate) generation: Arc<Generation>,
    units: Vec<Option<Arc<Unit>>>,
    policy: Policy,
    pub(crate) graph: Arc<Graph>,
    goal: Vec<Name>,
    want: BTreeMap<Name, Option<Time>>,
    drop: Vec<Name>,
    /// The deadline of a shutdown in progress.
    pub(crate) end: Option<Time>,
    pub(crate) finished: bool,
    pub(crate) stored: Vec<Stored>,
    /// The needed set N, and the units in it that lose a conflict.
    pub(crate) needed: Set,
    pub(crate) refused: Set,
    now: Time,
    runs: u64,
    deeds: Vec<Deed>,
}

impl Oracle {
    pub(crate) fn unit(&self, unit: usize) -> Option<&Arc<Unit>> {
        self.units[unit].as_ref()
    }

    pub(crate) fn run(&self, unit: usize) -> Option<&Run> {
        self.stored[unit].run.as_ref()
    }

    fn all(&self) -> Set {
        (0..self.stored.len()).collect()
    }

    /// Returns the units whose run meets a condition.
    pub(crate) fn whose(&self, is: impl Fn(&Run) -> bool) -> Set {
        self.all().filter(|unit| self.run(unit).is_some_and(&is))
    }

    /// Returns the roots of goal, overlay and sources, in this order, and how many of them
    /// are the operator's.
    pub(crate) fn roots(&self) -> (Vec<Option<usize>>, usize) {
        let wished = self.goal.iter().chain(self.want.keys()).map(|t| self.universe.target(t));
        let sources = self.generation.roots.iter().flat_map(|(_, roots)| roots);
        let roots = wished.chain(sources.map(|target| Some(target.index()))).collect();
        (roots, self.goal.len() + self.want.len())
    }

    /// Returns four sets: N; the units in it that lose a conflict to a unit of an earlier root; the
    /// losers among the operator's own; and the units that are needed only because another unit
    /// failed or exited. Fired triggers come after the sources, by name.
    fn need(&self) -> (Set, Set, Set, Set) {
        let (roots, wished) = self.roots();
        let roots = roots.into_iter().filter(|_| self.end.is_none()).enumerate();
        let provider = |target: Option<usize>| self.graph.provider[target?];
        let roots = roots.map(|(at, target)| (0, at, provider(target), false));
        // Roots first, then by name of the unit that pulls, then unfinished runs.
        let mut late: BTreeSet<(u8, usize, Option<usize>, bool)> = roots.collect();
        late.extend(self.unfinished().iter().map(|unit| (2, unit, Some(unit), true)));
        let (mut needed, mut lasting) = (Set::EMPTY, BTreeSet::new());
        let closure = |unit: Option<usize>| self.graph.closure(unit.into_iter().collect());
        while let Some((class, by, unit, at_end)) = late.pop_first() {
            lasting.extend((!at_end).then_some((class, by, unit)));
            let grown = closure(unit).less(needed);
            needed = needed.or(grown);
            for unit in grown.iter() {
                let fired = self.stored[unit].fired.then(|| (self.activates(unit), false));
                let ends = |kind: D| kind.pulls_in_at_end() || kind == D::Accepts;
                let ends = self.graph.of(unit).filter(|edge| ends(edge.kind));
                let brought = ends.filter(|edge| self.brings_in(unit, edge));
                let brought = brought.map(|edge| (edge.to, edge.kind.pulls_in_at_end()));
                let all = fired.into_iter().chain(brought);
                late.extend(all.map(|(to, at_end)| (1, unit, to, at_end)));
            }
        }
        // A second search with the units that this one has brought has the same order.
        let (mut order, mut brought) = (Vec::new(), needed);
        for (number, (_, _, unit)) in (1..).zip(lasting) {
            let own = closure(unit).and(brought);
            order.extend(own.iter().map(|unit| (number, unit)));
            brought = brought.less(own);
        }
        order.extend(brought.iter().map(|unit| (usize::MAX, unit)));
        let (mut stay, mut refused, mut losers) = (Set::EMPTY, Set::EMPTY, Set::EMPTY);
        // A broken unit can never be up and conflicts with no unit.
        for (root, unit) in order.into_iter().filter(|(_, unit)| !self.graph.broken.has(*unit)) {
            if stay.iter().any(|other| self.graph.conflict(unit, other)) {
                refused.add(unit);
                losers = if root <= wished { losers.with(unit) } else { losers };
            } else {
                stay.add(unit);
            }
        }
        (needed, refused, losers, brought)
    }

    /// Returns the units that became needed because another unit failed or exited, and whose run
    /// ends by itself but has not ended. They stay in N until that run ends.
    pub(crate) fn unfinished(&self) -> Set {
        let works = [State::Starting, State::Running, State::Reloading];
        let works = self.whose(|run| works.contains(&run.form));
        let finishes = |unit: usize| self.unit(unit).is_some_and(|unit| unit.finishes());
        let kept = |unit: usize| self.stored[unit].brought && finishes(unit);
        let works = works.filter(|unit| kept(unit) && !self.graph.selected(unit).is_empty());
        if self.end.is_some() { Set::EMPTY } else { works }
    }

    /// Returns true if this edge of `unit` makes its provider needed.
    pub(crate) fn brings_in(&self, unit: usize, edge: &Edge) -> bool {
        match edge.kind {
            D::OnFailure => self.stored[unit].verdict,
            D::Accepts => edge.to.is_some_and(|to| self.is_connected(to)),
            D::OnSuccess => {
                self.run(unit).is_some_and(|run| run.form == State::Exited && !run.skipped)
            }
            kind => kind.pulls_in(),
        }
    }

    /// Returns the unit that a trigger activates.
    fn activates(&self, trigger: usize) -> Option<usize> {
        self.graph.provider[self.unit(trigger)?.activates?.index()]
    }

    pub(crate) fn broken_or_refused(&self) -> Set {
        self.graph.broken.or(self.refused)
    }

    pub(crate) fn must_stop(&self) -> Set {
        let unwanted = self.broken_or_refused().or(self.all().less(self.needed));
        let own = |run: &Run| run.form == State::Stopping || run.lost || run.asked || run.changed;
        let up = self.whose(|_| true);
        let own = self.whose(own).or(up.and(unwanted));
        own.least(|stop| up.filter(|unit| !self.hard(unit).and(stop).is_empty()))
    }

    fn hard(&self, unit: usize) -> Set {
        self.graph.to(unit, |kind| kind == D::DependsOn)
    }

    fn may_stop(&self) -> Set {
        let stop = self.must_stop();
        let waiting = stop.less(self.whose(|run| run.form == State::Stopping));
        if waiting.is_empty() {
            return waiting;
        }
        // The stop order: the present edges, then those that the runs started with.
        let mut before: Vec<Set> =
            (0..self.stored.len()).map(|unit| self.graph.to(unit, D::orders)).collect();
        for (unit, run) in
            self.stored.iter().enumerate().filter_map(|(u, it)| Some((u, it.run.as_ref()?)))
        {
            for to in run.behind.iter() {
                if !Set::EMPTY.with(to).least(|all| all.union(|unit| before[unit])).has(unit) {
                    before[unit].add(to);
                }
            }
        }
        let holding = stop.less(self.whose(|run| run.unkillable));
        let prompt = waiting.and(self.whose(|run| run.unit.live.stop_promptly));
        waiting.less(holding.union(|unit| before[unit])).or(prompt)
    }

    fn active(&self) -> Set {
        self.whose(|run| run.form.is_active()).less(self.must_stop())
    }

    /// Returns units that are exited and over: active only for units ordered after them.
    pub(crate) fn over_and_done(&self) -> Set {
        self.whose(|run| run.over).less(self.must_stop())
    }

    /// Returns units with a final failure or a verdict, and unkillable ones.
    fn failed(&self) -> Set {
        let own = |unit: usize| self.stored[unit].verdict || self.stored[unit].rest == Rest::Failed;
        let ruled_out = self.broken_or_refused().less(self.whose(|_| true));
        self.all().filter(own).or(ruled_out).or(self.whose(|run| run.unkillable))
    }

    /// Returns units that are failed (dependency).
    fn failed_by_dependency(&self) -> Set {
        let (failed, active, over) = (self.failed(), self.active(), self.over_and_done());
        let candidates = self.needed.less(self.whose(|_| true)).less(failed);
        let spoilt = |unit: usize, bad: Set| {
            // Nothing starts these.
            let absent = |to: usize| {
                over.has(to) || !active.has(to) && (bad.has(to) || !self.needed.has(to))
            };
            self.graph.of(unit).any(|edge| match (edge.kind, edge.to) {
                (D::DependsOn | D::DependsMs | D::RequiresActive, None) => !edge.optional,
                (D::DependsOn, Some(to)) => bad.has(to) || over.has(to),
                (D::DependsMs, Some(to)) => bad.has(to),
                (D::RequiresActive, Some(to)) => absent(to),
                _ => false,
            })
        };
        Set::EMPTY.least(|starved| candidates.filter(|unit| spoilt(unit, failed.or(starved))))
    }

    /// Returns the units that may start once there is a slot, in order.
    pub(crate) fn start_order(&self) -> Vec<usize> {
        let (stop, active, up) = (self.must_stop(), self.active(), self.whose(|_| true));
        let (skipped, immortal) = (self.whose(|run| run.skipped), self.whose(|run| run.unkillable));
        let over = active.or(self.failed()).or(self.failed_by_dependency());
        let done = self.over_and_done();
        // The units that provide the target, or hold it until they are gone.
        let holding = |edge: &crate::simulator::graph::Edge| {
            self.whose(|run| run.targets.has(edge.target)).or(edge.to.into_iter().collect())
        };
        let open = |unit: usize| {
            self.graph.edges[unit].iter().all(|edge| match (edge.kind, edge.to) {
                (D::DependsOn | D::DependsMs | D::RequiresActive, None) => edge.optional,
                (D::DependsOn, Some(to)) => active.less(skipped).less(done).has(to),
                (D::DependsMs, Some(to)) => active.has(to),
                (D::RequiresActive, Some(to)) => active.less(done).has(to),
                (D::WaitsFor, Some(to)) => over.has(to),
                (D::After, Some(to)) => over.has(to) || !self.needed.has(to),
                (D::RestartWith, _) => stop.less(immortal).and(holding(edge)).is_empty(),
                _ => true,
            })
        };
        let free = |unit: usize| {
            self.stored[unit].rest == Rest::Idle
                && !up.iter().any(|other| self.graph.conflict(unit, other))
                && self.whose(|run| self.blocks_start(unit, run)).is_empty()
        };
        let may = self.needed.less(up).less(self.broken_or_refused());
        let mut order: Vec<usize> = may.iter().filter(|unit| free(*unit) && open(*unit)).collect();
        if order.len() > 1 {
            let chain = self.graph.chains(self.needed);
            order.sort_by_key(|unit| (std::cmp::Reverse(chain[*unit]), *unit));
        }
        order
    }

    pub(crate) fn slot_free(&self) -> bool {
        let max = self.generation.settings.max_starting as usize;
        max == 0 || self.whose(|run| run.due[Due::Slot as usize] < Time::NEVER).len() < max
    }

    /// Returns the states: the first row of the state table that fits.
    pub(crate) fn states(&self) -> Vec<State> {
        let (stop, failed, starved) =
            (self.must_stop(), self.failed(), self.failed_by_dependency());
        let state = |unit: usize| match self.run(unit) {
            Some(run) if run.unkillable => State::Failed,
            Some(_) if stop.has(unit) => State::Stopping,
            Some(run) => run.form,
            None if failed.has(unit) => State::Failed,
            None if !self.needed.has(unit) => State::Disabled,
            None if starved.has(unit) => State::Failed,
            None => State::Waiting,
        };
        (0..self.stored.len()).map(state).collect()
    }

    /// Returns needed units that are in their first start.
    fn first_start(&self) -> Set {
        let fresh = self.needed.filter(|unit| !self.stored[unit].tried);
        fresh.less(self.failed_by_dependency()).less(self.failed())
    }

    /// Returns degraded units.
    pub(crate) fn degraded(&self) -> Set {
        let active = self.active();
        let orphaned = active.and(self.whose(|run| !run.orphaned.is_empty()));
        let amiss = self.needed.less(active).less(self.first_start()).or(orphaned);
        let pulls = |unit: usize| self.graph.to(unit, D::pulls_in);
        amiss.least(|bad| self.needed.filter(|unit| !pulls(unit).and(bad).is_empty())).and(active)
    }

    /// Returns coincidental targets.
    pub(crate) fn coincidental(&self) -> Vec<usize> {
        let pulling = self.graph.all().filter(|(unit, _)| self.needed.has(*unit));
        let named = pulling.filter(|(unit, edge)| self.brings_in(*unit, edge));
        let named = named.map(|(_, edge)| edge.target);
        let named: Set = named.chain(self.roots().0.into_iter().flatten()).collect();
        self.needed.union(|unit| self.graph.selected(unit)).less(named).iter().collect()
    }

    pub(crate) fn system(&self) -> System {
        let (states, failed) = (self.states(), self.failed());
        let lost = |target: &Option<usize>| {
            let provider = target.and_then(|target| self.graph.provider[target]);
            provider.is_none_or(|unit| failed.has(unit) || states[unit] == State::Failed)
        };
        match () {
            () if self.end.is_some() => System::Stopping,
            () if self.roots().0.iter().any(lost) => System::Failed,
            () if !self.first_start().is_empty() => System::Starting,
            () if self.needed.less(self.active()).or(self.degraded()).is_empty() => System::Running,
            () => System::Degraded,
        }
    }
}
