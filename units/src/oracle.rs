//! The oracle: the law of Groundstate, written a second time and naively. It stores
//! only what the design says is stored, replays the same facts as the machine, and
//! computes every set anew after every event. It shares no code with
//! [`crate::machine`], only the types of events and states; the simulator
//! ([`crate::sim`]) compares the two. Not fast, not for PID 1.
//!
//! Here: what is stored, and settling. [`law`]: the sets and states computed from
//! it. [`need`]: N. [`wish`] and [`facts`]: how one event changes it. [`graph`]: who provides what.
#![allow(clippy::indexing_slicing, reason = "unit numbers come from the oracle's own universe")]
#![allow(clippy::wildcard_enum_match_arm, reason = "what is forgotten here, the machine shows")]

pub mod facts;
pub mod graph;
pub mod law;
pub mod need;
pub mod retry;
pub mod set;
pub mod wish;

use crate::generation::{Generation, Unit};
use crate::machine::event::{Event, RunId, Shutdown};
use crate::name::Name;
use crate::policy::Policy;
use crate::spec::{Exit, Kind, Live, Readiness};
use crate::time::Time;
use graph::{Graph, Universe};
use set::Set;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A run gives its slot back after this.
pub const SLOT: Duration = Duration::from_secs(60);
/// Alive this long after KILL: can not be killed.
pub const IMMORTAL: Duration = Duration::from_secs(2);

/// What the oracle expects the machine to order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// A run begins.
    Start(usize, RunId),
    /// A run is told to stop; true: nothing is left of it.
    Stop(usize, RunId, bool),
    /// A run is killed.
    Kill(usize, RunId),
    /// exec-reload.
    Reload(usize, RunId),
    /// The end.
    Finish,
}

/// Form of an up run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Not ready.
    Starting,
    /// Active.
    Running,
    /// Active.
    Reloading,
    /// Active.
    Exited,
    /// Told to stop, or ended with something left.
    Stopping,
}

impl Phase {
    pub(crate) fn is_active(self) -> bool {
        matches!(self, Phase::Running | Phase::Reloading | Phase::Exited)
    }
}

/// Why a run failed, as far as the law distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// It broke its protocol, or was active for too long.
    Ordinary,
    /// Its main process ended so.
    Ended(Exit),
    /// The same, and the kernel had killed one of its processes.
    Starved(Exit),
    /// It was silent.
    Watchdog,
    /// Not ready in time.
    StartTimeout,
    /// It could not be run.
    Exec,
    /// Not gone in time.
    StopTimeout,
}

/// A unit without a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rest {
    /// Free to start.
    Idle,
    /// Until then.
    Backoff(Time),
    /// Until retry, a new definition, or leaving N.
    Failed(Failure),
}

/// One life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Its form.
    pub phase: Phase,
    pub(crate) kind: Kind,
    pub(crate) readiness: Readiness,
    pub(crate) hash: u64,
    pub(crate) has_exec_stop: bool,
    pub(crate) has_exec_reload: bool,
    /// The live keys that hold for it.
    pub(crate) live: Live,
    /// Providers its ordering edges had when it began, by number.
    pub(crate) before: Vec<usize>,
    /// depends-ms targets of it that nobody provides any more.
    pub(crate) orphaned: Vec<usize>,
    /// Targets it holds.
    pub(crate) targets: Vec<usize>,
    pub(crate) lost: bool,
    pub(crate) asked: bool,
    pub(crate) changed: bool,
    /// Began.
    pub(crate) since: Time,
    /// Became active.
    pub(crate) active_since: Option<Time>,
    /// How long it had been active when it left that.
    pub(crate) active_for: Option<Duration>,
    /// Told to stop, or ended by itself with something left.
    pub told: Option<Time>,
    pub(crate) start_by: Time,
    pub(crate) ready_at: Time,
    /// Until it gives its slot back.
    pub(crate) slot_until: Time,
    pub(crate) again_at: Time,
    pub(crate) reload_by: Time,
    /// The service says itself when its reload is over.
    pub(crate) announced: bool,
    pub(crate) stop_by: Time,
    pub(crate) watch: Option<Duration>,
    /// Asked for more time: no run-timeout before.
    pub(crate) extended: Time,
    /// The kernel killed one of its processes.
    pub(crate) starved: bool,
    pub(crate) ping_by: Time,
    /// KILL was sent.
    pub(crate) killed: bool,
    /// Alive after KILL.
    pub unkillable: bool,
    /// Its main process ended.
    pub(crate) ended: bool,
    /// Nothing of it is left.
    pub(crate) empty: bool,
    /// A condition of it was not met.
    pub(crate) skipped: bool,
    /// What its end will count as.
    pub(crate) failure: Option<Failure>,
    /// It ended well and is to run again.
    pub(crate) again: bool,
}

/// All that is stored of one unit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    /// Without a run.
    pub rest: Rest,
    /// Failures in a row.
    pub n: u32,
    /// Enough of them.
    pub verdict: bool,
    /// Active, or failed by itself, since it became needed.
    pub(crate) tried: bool,
    /// A trigger that has fired.
    pub(crate) fired: bool,
    /// When its last failures were, for a limit within a span.
    pub(crate) failures: Vec<Time>,
    /// When the last failed run ended.
    pub(crate) ended: Time,
    /// Its run.
    pub run: Option<Run>,
}

impl Default for Stored {
    fn default() -> Stored {
        Stored {
            rest: Rest::Idle,
            n: 0,
            verdict: false,
            tried: false,
            fired: false,
            failures: Vec::new(),
            ended: Time::ZERO,
            run: None,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Oracle {
    pub(crate) universe: Universe,
    pub(crate) generation: Arc<Generation>,
    pub(crate) policy: Policy,
    /// Who provides what now.
    pub graph: Graph,
    pub(crate) goal: Vec<Name>,
    pub(crate) want: BTreeMap<Name, Option<Time>>,
    pub(crate) drop: Vec<Name>,
    pub(crate) shutdown: Option<(Shutdown, Time)>,
    pub(crate) finished: bool,
    /// By unit number.
    pub stored: Vec<Stored>,
    /// N.
    pub needed: Set,
    /// Failed by a conflict with an earlier root.
    pub refused: Set,
    pub(crate) now: Time,
    pub(crate) deeds: Vec<Deed>,
    pub(crate) next_run: u64,
}

impl Oracle {
    /// Nothing runs, nothing is wanted.
    pub fn new(universe: Universe, empty: Arc<Generation>) -> Oracle {
        Oracle {
            stored: vec![Stored::default(); universe.units.len()],
            graph: Graph::new(&universe, &empty, &Policy::default(), &[]),
            policy: empty.policy.clone(),
            generation: empty,
            universe,
            goal: Vec::new(),
            want: BTreeMap::new(),
            drop: Vec::new(),
            shutdown: None,
            finished: false,
            needed: Set::EMPTY,
            refused: Set::EMPTY,
            now: Time::ZERO,
            deeds: Vec::new(),
            next_run: 1,
        }
    }

    /// What the machine must order, and whether it must refuse.
    pub fn step(&mut self, now: Time, event: &Event) -> (Vec<Deed>, bool) {
        self.now = now;
        let accepted = self.apply(event);
        self.settle();
        (std::mem::take(&mut self.deeds), !accepted)
    }

    /// The type of a unit's present definition.
    pub fn kind_of(&self, unit: usize) -> Option<Kind> {
        self.unit(unit).map(|unit| unit.kind)
    }

    /// All that is stored, without what only counts on: run ids, and points in time, which
    /// are taken from now.
    pub fn hash_shape(&self, into: &mut impl std::hash::Hasher) {
        use std::hash::Hash;
        let ago = |at: Time| self.now.since(at);
        let ahead = |at: Time| if at == Time::NEVER { None } else { Some(at.since(self.now)) };
        (&self.goal, &self.want, &self.drop, self.shutdown.is_some(), self.finished).hash(into);
        (&self.policy.mask, self.needed, self.refused).hash(into);
        self.shutdown.map(|(_, at)| ahead(at)).hash(into);
        for it in &self.stored {
            let rest = match it.rest {
                Rest::Backoff(at) => (1, ahead(at), None),
                Rest::Idle => (0, None, None),
                Rest::Failed(why) => (2, None, Some(why)),
            };
            (rest, it.n, it.verdict, it.tried, it.fired).hash(into);
            let Some(run) = &it.run else { continue };
            (run.phase, run.lost, run.asked, run.changed, run.told.is_some()).hash(into);
            (run.killed, run.unkillable, run.ended, run.empty, run.failure, run.again).hash(into);
            (&run.before, &run.orphaned, &run.targets, run.hash).hash(into);
            (run.active_since.map(ago), run.active_for, ago(run.since)).hash(into);
            [run.start_by, run.ready_at, run.again_at, run.stop_by].map(ahead).hash(into);
        }
    }

    pub(crate) fn unit(&self, unit: usize) -> Option<&Unit> {
        self.generation.units.get(self.graph.place[unit])
    }

    /// Targets that `unit` is the selected provider of.
    pub(crate) fn selected(&self, unit: usize) -> Vec<usize> {
        let provider = self.graph.provider.iter().enumerate();
        provider.filter(|(_, it)| **it == Some(unit)).map(|(target, _)| target).collect()
    }

    /// The target that a trigger fires.
    pub(crate) fn activates(&self, unit: usize) -> Option<usize> {
        let target = self.unit(unit)?.activates?;
        self.universe.target(&self.generation.targets.get(target.0 as usize)?.name)
    }

    /// Goal, overlay and sources, in this order: target numbers, none for a name that
    /// nobody knows; and how many of them are the operator's.
    pub(crate) fn roots(&self) -> (Vec<Option<usize>>, usize) {
        let sources =
            self.generation.roots.iter().flat_map(|(_, roots)| roots).filter_map(|id| {
                self.generation.targets.get(id.0 as usize).map(|target| &target.name)
            });
        let want = self.want.keys();
        let wished = self.goal.len() + self.want.len();
        let names = self.goal.iter().chain(want).chain(sources);
        (names.map(|name| self.universe.target(name)).collect(), wished)
    }

    /// (1) tell all that may stop, until nothing moves; (2) start all that may start,
    /// in order, one pass; a start that takes no time goes back to (1).
    pub(crate) fn settle(&mut self) {
        self.renew_need();
        'again: loop {
            // In sweeps by name: who becomes free behind the sweep waits for the next one.
            let mut units = 0..self.stored.len();
            while !self.may_stop().is_empty() {
                match units.next() {
                    Some(unit) if self.may_stop().has(unit) => {
                        self.tell(unit);
                        self.look_at_ends();
                    }
                    Some(_) => {}
                    None => units = 0..self.stored.len(),
                }
            }
            for unit in self.start_order() {
                let (must_stop, starved) = (self.must_stop(), self.starved());
                if !self.may_start_but_slot(unit, must_stop, starved) {
                    continue;
                }
                let instant = self.unit(unit).is_some_and(|unit| unit.kind.is_instant());
                if instant || self.slot_free() {
                    self.start(unit);
                }
                if instant {
                    self.look_at_ends();
                    continue 'again;
                }
            }
            break;
        }
        let gone = |stored: &Stored| stored.run.as_ref().is_none_or(|run| run.unkillable);
        if self.shutdown.is_some() && !self.finished && self.stored.iter().all(gone) {
            self.finished = true;
            self.deeds.push(Deed::Finish);
        }
    }

    fn start(&mut self, unit: usize) {
        let Some(definition) = self.unit(unit).cloned() else { return };
        let targets = self.selected(unit);
        let edges = || self.graph.of(unit);
        let id = RunId(self.next_run);
        self.next_run += 1;
        let instant = definition.kind.is_instant();
        let limited = self.generation.settings.max_starting > 0;
        let deadline = definition.live.start_timeout.map_or(Time::NEVER, |t| self.now.after(t));
        let run = Run {
            id,
            phase: if instant { Phase::Running } else { Phase::Starting },
            kind: definition.kind,
            readiness: definition.readiness,
            hash: definition.run_hash,
            has_exec_stop: definition.has_exec_stop,
            has_exec_reload: definition.has_exec_reload,
            live: Live::clone(&definition.live),
            before: edges().filter(|edge| edge.kind.orders()).filter_map(|edge| edge.to).collect(),
            orphaned: Vec::new(),
            targets,
            lost: false,
            asked: false,
            changed: false,
            since: self.now,
            active_since: None,
            active_for: None,
            told: None,
            start_by: if instant { Time::NEVER } else { deadline },
            ready_at: Time::NEVER,
            slot_until: if limited && !instant { self.now.after(SLOT) } else { Time::NEVER },
            again_at: Time::NEVER,
            reload_by: Time::NEVER,
            announced: false,
            stop_by: Time::NEVER,
            watch: None,
            extended: Time::ZERO,
            starved: false,
            ping_by: Time::NEVER,
            killed: false,
            unkillable: false,
            ended: instant,
            empty: instant,
            skipped: false,
            failure: None,
            again: false,
        };
        self.stored[unit].run = Some(run);
        self.deeds.push(Deed::Start(unit, id));
        if instant {
            self.activate(unit, Phase::Running);
        }
    }

    /// The run became active: the failures before are answered.
    pub(crate) fn activate(&mut self, unit: usize, phase: Phase) {
        let now = self.now;
        let it = &mut self.stored[unit];
        it.verdict = false;
        it.tried = true;
        if let Some(run) = &mut it.run {
            if phase == Phase::Running && run.kind != Kind::BackgroundScripted {
                run.ping_by = run.watch.map_or(Time::NEVER, |span| now.after(span));
            }
            if phase == Phase::Exited {
                (run.reload_by, run.ping_by) = (Time::NEVER, Time::NEVER);
            }
            run.phase = phase;
            (run.start_by, run.ready_at) = (Time::NEVER, Time::NEVER);
            run.slot_until = Time::NEVER;
            run.active_since.get_or_insert(now);
        }
    }

    /// init tells the run of `unit` to stop.
    pub(crate) fn tell(&mut self, unit: usize) {
        let marked = self.graph.edges.iter().filter(|edge| {
            edge.kind == crate::spec::DependencyKind::RestartWith && edge.to == Some(unit)
        });
        let marked: Vec<usize> = marked.map(|edge| edge.from).collect();
        for other in marked {
            if let Some(run) = &mut self.stored[other].run {
                run.asked = true;
            }
        }
        self.quit(unit, true);
    }

    /// Out of active, `told` by init or by itself; what is left of the run is stopped.
    pub(crate) fn quit(&mut self, unit: usize, told: bool) {
        let now = self.now;
        let Some(run) = &mut self.stored[unit].run else { return };
        let was_active = run.phase.is_active();
        let nothing_left = run.empty && !(told && run.has_exec_stop && was_active);
        run.phase = Phase::Stopping;
        run.told = Some(now);
        (run.start_by, run.ready_at) = (Time::NEVER, Time::NEVER);
        run.slot_until = Time::NEVER;
        (run.reload_by, run.ping_by, run.again_at) = (Time::NEVER, Time::NEVER, Time::NEVER);
        run.active_for = run.active_since.map(|since| now.since(since));
        run.stop_by = run.live.stop_timeout.map_or(Time::NEVER, |span| now.after(span));
        let id = run.id;
        if was_active {
            self.lose_dependents(unit);
        }
        if told || !nothing_left {
            self.deeds.push(Deed::Stop(unit, id, nothing_left));
        }
        if nothing_left {
            self.over(unit);
        }
    }

    /// `unit` left active: whoever depends on it is lost.
    fn lose_dependents(&mut self, unit: usize) {
        let hard = self.graph.edges.iter().filter(|edge| {
            edge.kind == crate::spec::DependencyKind::DependsOn && edge.to == Some(unit)
        });
        let dependents: Vec<usize> = hard.map(|edge| edge.from).collect();
        for dependent in dependents {
            if let Some(run) = &mut self.stored[dependent].run {
                run.lost = true;
            }
        }
    }
}
