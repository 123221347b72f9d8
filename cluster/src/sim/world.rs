//! Everything that the tasks of a simulated cluster use: real time, etcd, machines with their
//! inits, and pending events. It serves the tasks and calls the invariants; [`crate::sim::run`]
//! polls the tasks.

use crate::api::server::ApiState;
use crate::clock::{Sleep, Time};
use crate::fleetd::daemon::{Daemon, Task};
use crate::key::Keys;
use crate::machine::MachineId;
use crate::sim::book::Book;
use crate::sim::coverage::Coverage;
use crate::sim::etcd::Etcd;
use crate::sim::executor::TaskId;
use crate::sim::invariant::{self, Moment};
use crate::sim::local_init::LocalInit;
use crate::sim::partial::Hidden;
use crate::sim::plan::Plan;
use crate::snapshot::Snapshot;
use groundstate_units::simulator::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// The world, shared with the tasks.
pub type Shared = Arc<Mutex<World>>;

/// Locks the world; never held while a task is polled.
pub fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pending event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Executes the deed with this number.
    Deed(usize),
    /// A request arrives at etcd.
    Arrive(u64),
    /// An answer arrives.
    Answer(u64),
    /// A watch delivers.
    News(u64),
    /// A lease may expire.
    LeaseDue(i64),
    /// A run at a machine's init continues.
    Init(usize, u64),
    /// A machine's fault may be over.
    Rouse(usize),
    /// The time has passed in which a machine gives up units after a pause.
    Fenced,
    /// A twin is switched off.
    Gone(usize),
    /// etcd may have a leader again.
    QuorumBack,
    /// An unreadable value is restored.
    Readable(usize),
    /// All faults end.
    Heal,
    /// Once a second.
    Tick,
    /// Everything must have converged.
    Converged,
    /// The quiet phase after that ends.
    Quiet,
}

/// A running fleetd.
pub struct Fleetd {
    /// The handles of its tasks.
    pub daemon: Daemon,
    /// Its API.
    pub api: ApiState,
}

/// A machine. Each fault lasts until a time.
pub struct Machine {
    /// The machine id; twins share it.
    pub id: MachineId,
    /// The number of its boot.
    pub boot: u64,
    /// Distinguishes it from its twin.
    pub instance: String,
    /// The disk; copies share it.
    pub disk: String,
    /// True for the second machine with its id.
    pub is_clone: bool,
    /// `None` if killed.
    pub fleetd: Option<Fleetd>,
    /// Its init.
    pub init: LocalInit,
    /// Clock drift in ppm.
    pub ppm: i64,
    /// Without power until then.
    pub off_until: Duration,
    /// Start of its last pause.
    pub paused_since: Duration,
    /// End of its last pause.
    pub paused_until: Duration,
    /// End of its last pause of more than a quarter of its lease.
    pub slept_until: Duration,
    /// fleetd is down until then.
    pub down_until: Duration,
    /// Its requests to etcd are lost until then.
    pub requests_lost_until: Duration,
    /// etcd's answers to it are lost until then.
    pub answers_lost_until: Duration,
    /// Its init does not answer until this time.
    pub away_until: Duration,
    /// A foreign etcd answers until then.
    pub foreign_until: Duration,
    /// The missing part of its readings, and until when.
    pub hidden: Option<(Hidden, Duration)>,
    /// The last time of another fault.
    pub troubled: Duration,
    /// When an operator revoked its lease.
    pub ended: Duration,
    /// It is stopping its units to leave.
    pub leaving: bool,
}

impl Machine {
    /// A powered machine without fleetd.
    pub fn new(id: MachineId, number: usize, ppm: i64) -> Machine {
        Machine {
            id,
            boot: 1,
            instance: format!("instance {number}"),
            disk: format!("disk {number}"),
            is_clone: false,
            fleetd: None,
            init: LocalInit::default(),
            ppm,
            off_until: Duration::ZERO,
            paused_since: Duration::ZERO,
            paused_until: Duration::ZERO,
            slept_until: Duration::ZERO,
            down_until: Duration::ZERO,
            requests_lost_until: Duration::ZERO,
            answers_lost_until: Duration::ZERO,
            away_until: Duration::ZERO,
            foreign_until: Duration::ZERO,
            hidden: None,
            troubled: Duration::ZERO,
            ended: Duration::ZERO,
            leaving: false,
        }
    }

    /// The id of this boot.
    pub fn boot_id(&self) -> String {
        format!("boot {} of {}", self.boot, self.instance)
    }

    /// Returns true if the id is of this boot.
    pub fn is_boot(&self, words: &str) -> bool {
        let rest = words.strip_prefix("boot ").and_then(|rest| rest.strip_suffix(&self.instance));
        rest.and_then(|rest| rest.strip_suffix(" of ")?.parse().ok()) == Some(self.boot)
    }
}

/// Maximum number of waits for a time that has passed, between two events. More waits mean that a
/// task is in a busy loop.
const MOST_OVERDUE: u64 = 10_000;

/// A time that never comes.
pub const NEVER: Duration = Duration::MAX;

/// The simulated world.
pub struct World {
    /// The real time.
    pub now: Duration,
    /// Random source for the run.
    pub chance: Rng,
    /// The schedule.
    pub plan: Plan,
    /// The store.
    pub etcd: Etcd,
    /// Machines by number; twins come last.
    pub machines: Vec<Machine>,
    /// The contents of the store.
    pub truth: Snapshot,
    /// The contents before the last write.
    pub before: Snapshot,
    /// The history for the invariants.
    pub book: Book,
    /// Counters.
    pub coverage: Coverage,
    /// The first violated invariant with details.
    pub failure: Option<(&'static str, String)>,
    /// When all faults ended, or [`NEVER`].
    pub healed: Duration,
    /// The task that is polled.
    pub task: TaskId,
    /// Tasks to start, by machine.
    pub starting: Vec<(usize, Task)>,
    /// Machines whose tasks end.
    pub ended: Vec<usize>,
    /// The log, if requested.
    pub log: Option<Vec<String>>,
    /// A digest of everything that happened; equal for equal schedules.
    pub digest: u64,
    /// Number of waits for a passed time since the last event.
    overdue: u64,
    agenda: BTreeMap<(Duration, u64), Event>,
    timers: BTreeSet<(Duration, TaskId)>,
    sequence: u64,
}

impl World {
    /// The world before the first event.
    pub fn new(plan: &Plan, keys: Keys) -> World {
        World {
            now: Duration::ZERO,
            chance: Rng::of(plan.seed, 2, 0),
            plan: plan.clone(),
            etcd: Etcd::default(),
            machines: Vec::new(),
            truth: Snapshot::new(keys.clone()),
            before: Snapshot::new(keys),
            book: Book::default(),
            coverage: Coverage::default(),
            failure: None,
            healed: NEVER,
            task: 0,
            starting: Vec::new(),
            ended: Vec::new(),
            log: None,
            digest: 0,
            overdue: 0,
            agenda: BTreeMap::new(),
            timers: BTreeSet::new(),
            sequence: 0,
        }
    }

    /// Adds an event.
    pub fn plan_at(&mut self, at: Duration, event: Event) {
        self.sequence += 1;
        self.agenda.insert((at.max(self.now), self.sequence), event);
    }

    /// Adds an event after a delay.
    pub fn plan_in(&mut self, time: Duration, event: Event) {
        self.plan_at(self.now + time, event);
    }

    /// Wakes the current task at that time.
    pub fn wake_at(&mut self, at: Duration) {
        let task = self.task;
        self.timers.insert((at.max(self.now), task));
    }

    /// Advances to the next event or timer. Returns the tasks to wake and the event.
    pub fn advance(&mut self) -> (Vec<TaskId>, Option<Event>) {
        self.overdue = 0;
        let event = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let timer = self.timers.first().map(|(at, _)| *at);
        if timer.is_some_and(|timer| event.is_none_or(|event| timer <= event)) {
            self.now = timer.unwrap_or(self.now);
            let mut woken = Vec::new();
            while let Some(first) = self.timers.first().filter(|(at, _)| *at <= self.now).copied() {
                self.timers.remove(&first);
                woken.push(first.1);
            }
            return (woken, None);
        }
        let Some(((at, _), event)) = self.agenda.pop_first() else { return (Vec::new(), None) };
        self.now = at;
        (Vec::new(), Some(event))
    }

    /// Returns true if the machine runs.
    pub fn runs(&self, machine: usize) -> bool {
        let machine = &self.machines[machine];
        self.now >= machine.off_until && self.now >= machine.paused_until
    }

    /// Returns since when the machine and etcd have no fault.
    pub fn calm_since(&self, machine: usize) -> Duration {
        let one = &self.machines[machine];
        let wrongs = [
            one.off_until,
            one.paused_until,
            one.down_until,
            one.requests_lost_until,
            one.answers_lost_until,
            one.away_until,
            one.foreign_until,
            one.troubled,
            one.ended,
            self.etcd.no_quorum_until,
        ];
        wrongs.into_iter().max().unwrap_or_default()
    }

    /// Returns true if it has had no fault for that long.
    pub fn is_calm(&self, machine: usize, time: Duration) -> bool {
        let one = &self.machines[machine];
        one.fleetd.is_some() && !one.leaving && self.calm_since(machine) + time <= self.now
    }

    /// Draws the latency of a message.
    pub fn latency(&mut self) -> Duration {
        let most = if self.healed == NEVER { self.plan.rates.latency } else { 5 };
        Duration::from_micros(self.chance.between(200, most * 1_000))
    }

    /// Draws whether a fault happens, at this percentage, before the faults end.
    pub fn mishap(&mut self, percent: u32) -> bool {
        self.healed == NEVER && percent > 0 && self.chance.percent(percent)
    }

    /// Checks the invariants.
    pub fn judge(&mut self, moment: &Moment<'_>) {
        if self.failure.is_none()
            && let Some((name, what)) = invariant::broken(self, moment)
        {
            self.say(|| format!("BROKEN {name}: {what}"));
            self.failure = Some((name, what));
        }
    }

    /// Adds a line to the log.
    pub fn say(&mut self, what: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(format!("{:>10.4} {}", self.now.as_secs_f64(), what()));
        }
    }

    /// Adds a number to the digest.
    pub fn mix(&mut self, number: u64) {
        self.digest = (self.digest ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    }

    /// The leading machine by etcd's contents.
    pub fn leader(&self) -> Option<usize> {
        let id = &self.truth.leader.as_ref()?.record.machine;
        self.machines.iter().position(|machine| machine.id == *id && machine.fleetd.is_some())
    }
}

/// The clock of a machine.
pub struct MachineTime {
    /// The world.
    pub world: Shared,
    /// The machine.
    pub machine: usize,
}

fn scaled(time: Duration, by: i64, of: i64) -> Duration {
    let micros = i128::try_from(time.as_micros()).unwrap_or(i128::MAX);
    let micros = micros.saturating_mul(i128::from(by)) / i128::from(of);
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

const MILLION: i64 = 1_000_000;

impl Time for MachineTime {
    fn now(&self) -> Duration {
        let world = lock(&self.world);
        scaled(world.now, MILLION + world.machines[self.machine].ppm, MILLION)
    }

    fn sleep_until(&self, at: Duration) -> Sleep {
        let ppm = lock(&self.world).machines[self.machine].ppm;
        let at = scaled(at, MILLION, MILLION + ppm).saturating_add(Duration::from_micros(2));
        Box::pin(Until { world: self.world.clone(), at })
    }
}

struct Until {
    world: Shared,
    at: Duration,
}

impl Future for Until {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let mut world = lock(&self.world);
        if world.now >= self.at {
            world.overdue += 1;
            if world.overdue < MOST_OVERDUE {
                return Poll::Ready(());
            }
            // The task would never yield.
            let words = "a task waits for a passed time again and again".to_string();
            world.failure.get_or_insert(("the schedule ends", words));
            return Poll::Pending;
        }
        world.wake_at(self.at);
        Poll::Pending
    }
}
