//! All that the tasks of a simulated cluster touch: the true time, etcd, the machines with
//! their inits, and what is to happen next. It is told what the tasks ask and tells the
//! invariants; tasks are polled elsewhere ([`crate::sim::run`]).

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

/// The world, as tasks hold it.
pub type Shared = Arc<Mutex<World>>;

/// Looks into it; never held while a task is polled.
pub fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The deed of that number.
    Deed(usize),
    /// A request comes to etcd.
    Arrive(u64),
    /// Its answer comes back.
    Answer(u64),
    /// A watch tells.
    News(u64),
    /// A lease may have run out.
    LeaseDue(i64),
    /// A run at the init of a machine goes on.
    Init(usize, u64),
    /// Something about a machine may be over: it is looked at.
    Rouse(usize),
    /// What a machine lost while it stood still it has given up by now.
    Fenced,
    /// A twin is switched off.
    Gone(usize),
    /// etcd may have a leader again.
    QuorumBack,
    /// What nobody could read is put right.
    Readable(usize),
    /// All faults end.
    Heal,
    /// Once a second.
    Tick,
    /// What was to be settled is settled.
    Converged,
    /// Nothing has happened any more.
    Quiet,
}

/// fleetd on a machine.
pub struct Fleetd {
    /// Its tasks' handles.
    pub daemon: Daemon,
    /// Its API.
    pub api: ApiState,
}

/// One machine. What is wrong with it lasts until a moment.
pub struct Machine {
    /// Twins share it.
    pub id: MachineId,
    /// This boot of it.
    pub boot: u64,
    /// Tells it from its twin.
    pub instance: String,
    /// Copies of a disk share it.
    pub disk: String,
    /// It is the second under its id.
    pub is_clone: bool,
    /// `None`: killed.
    pub fleetd: Option<Fleetd>,
    /// Its init.
    pub init: LocalInit,
    /// How far its clock runs fast, in millionths.
    pub ppm: i64,
    /// It has no power.
    pub off_until: Duration,
    /// It stands still, or did.
    pub paused_since: Duration,
    /// Until then.
    pub paused_until: Duration,
    /// When it last went on after having stood still for a good part of a lease.
    pub slept_until: Duration,
    /// fleetd is down.
    pub down_until: Duration,
    /// What it asks does not come to etcd.
    pub requests_lost_until: Duration,
    /// What etcd answers does not come to it.
    pub answers_lost_until: Duration,
    /// Its init does not answer.
    pub away_until: Duration,
    /// An etcd of another cluster answers.
    pub foreign_until: Duration,
    /// What is not in its readings, and until when.
    pub hidden: Option<(Hidden, Duration)>,
    /// The last moment at which something else was wrong.
    pub troubled: Duration,
    /// Its lease was ended by hand.
    pub ended: Duration,
    /// It stops its units, to leave.
    pub leaving: bool,
}

impl Machine {
    /// Switched on, its fleetd not yet.
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

    /// This boot of it, in words.
    pub fn boot_id(&self) -> String {
        format!("boot {} of {}", self.boot, self.instance)
    }

    /// Those words are about this boot of it.
    pub fn is_boot(&self, words: &str) -> bool {
        let rest = words.strip_prefix("boot ").and_then(|rest| rest.strip_suffix(&self.instance));
        rest.and_then(|rest| rest.strip_suffix(" of ")?.parse().ok()) == Some(self.boot)
    }
}

/// Tasks that do so more often between two events wait for nothing else.
const MOST_OVERDUE: u64 = 10_000;

/// Never.
pub const NEVER: Duration = Duration::MAX;

/// See the head of the module.
pub struct World {
    /// The true time.
    pub now: Duration,
    /// For all that is drawn on the way.
    pub chance: Rng,
    /// What was drawn before.
    pub plan: Plan,
    /// The store.
    pub etcd: Etcd,
    /// By number; twins at the end.
    pub machines: Vec<Machine>,
    /// What the store holds.
    pub truth: Snapshot,
    /// What it held before the last write.
    pub before: Snapshot,
    /// What the invariants remember.
    pub book: Book,
    /// What happened.
    pub coverage: Coverage,
    /// The first invariant that did not hold: its name, and how.
    pub failure: Option<(&'static str, String)>,
    /// When all faults ended; [`NEVER`]: not yet.
    pub healed: Duration,
    /// The task that is polled.
    pub task: TaskId,
    /// Tasks to be begun, by machine.
    pub begun: Vec<(usize, Task)>,
    /// Machines whose tasks end.
    pub ended: Vec<usize>,
    /// What happened, in words, when somebody wants to read it.
    pub log: Option<Vec<String>>,
    /// Of all that happened, in order: the same for the same schedule.
    pub digest: u64,
    /// Times that a task waited for a moment that had passed, since the last event.
    overdue: u64,
    agenda: BTreeMap<(Duration, u64), Event>,
    timers: BTreeSet<(Duration, TaskId)>,
    sequence: u64,
}

impl World {
    /// Before anything has happened.
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
            begun: Vec::new(),
            ended: Vec::new(),
            log: None,
            digest: 0,
            overdue: 0,
            agenda: BTreeMap::new(),
            timers: BTreeSet::new(),
            sequence: 0,
        }
    }

    /// One more thing to happen.
    pub fn plan_at(&mut self, at: Duration, event: Event) {
        self.sequence += 1;
        self.agenda.insert((at.max(self.now), self.sequence), event);
    }

    /// That long from now.
    pub fn plan_in(&mut self, time: Duration, event: Event) {
        self.plan_at(self.now + time, event);
    }

    /// The task that is polled wants to be polled then.
    pub fn wake_at(&mut self, at: Duration) {
        let task = self.task;
        self.timers.insert((at.max(self.now), task));
    }

    /// Goes on to the next moment; the tasks to wake and the event, if it is one's.
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

    /// The machine runs.
    pub fn runs(&self, machine: usize) -> bool {
        let machine = &self.machines[machine];
        self.now >= machine.off_until && self.now >= machine.paused_until
    }

    /// Since when nothing is wrong with a machine, and with etcd.
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

    /// Nothing has been wrong with it for that long.
    pub fn is_calm(&self, machine: usize, time: Duration) -> bool {
        let one = &self.machines[machine];
        one.fleetd.is_some() && !one.leaving && self.calm_since(machine) + time <= self.now
    }

    /// One message takes that long.
    pub fn latency(&mut self) -> Duration {
        let most = if self.healed == NEVER { self.plan.rates.latency } else { 5 };
        Duration::from_micros(self.chance.between(200, most * 1_000))
    }

    /// Happens in that percentage, while there are faults.
    pub fn mishap(&mut self, percent: u32) -> bool {
        self.healed == NEVER && percent > 0 && self.chance.percent(percent)
    }

    /// The invariants look.
    pub fn judge(&mut self, moment: &Moment<'_>) {
        if self.failure.is_none()
            && let Some((name, what)) = invariant::broken(self, moment)
        {
            self.say(|| format!("BROKEN {name}: {what}"));
            self.failure = Some((name, what));
        }
    }

    /// Remembers what happened.
    pub fn say(&mut self, what: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(format!("{:>10.4} {}", self.now.as_secs_f64(), what()));
        }
    }

    /// Takes a number into the digest.
    pub fn mix(&mut self, number: u64) {
        self.digest = (self.digest ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    }

    /// The machine that leads, by what etcd holds.
    pub fn leader(&self) -> Option<usize> {
        let id = &self.truth.leader.as_ref()?.record.machine;
        self.machines.iter().position(|machine| machine.id == *id && machine.fleetd.is_some())
    }
}

/// A machine's own clock.
pub struct MachineTime {
    /// Where it is.
    pub world: Shared,
    /// Whose.
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
            // It would never give its turn back.
            let words = "it waits for what has passed, for ever".to_string();
            world.failure.get_or_insert(("the schedule ends", words));
            return Poll::Pending;
        }
        world.wake_at(self.at);
        Poll::Pending
    }
}
