//! Plays a schedule: polls woken tasks, advances to the next event and executes it, until
//! everything is quiet or an invariant fails.

use crate::api::server::{ApiState, Settings};
use crate::clock::Clock;
use crate::fleetd::daemon::{Daemon, Wiring};
use crate::fleetd::identity::Identity;
use crate::fleetd::init::Init;
use crate::key::Keys;
use crate::machine::MachineId;
use crate::record::MachineRecord;
use crate::sim::continuity;
use crate::sim::coverage::Coverage;
use crate::sim::etcd::EtcdOf;
use crate::sim::executor::Executor;
use crate::sim::invariant::Moment;
use crate::sim::local_init::InitOf;
use crate::sim::plan::Plan;
use crate::sim::signer;
use crate::sim::world::{Event, Fleetd, Machine, MachineTime, Shared, World, lock};
use crate::store::Store;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time after the last fault until everything has converged.
pub const SETTLED: Duration = Duration::from_secs(60);
/// Duration of the quiet phase after that.
const QUIET: Duration = Duration::from_secs(20);
/// Without a write for this long, the world is idle.
const STILL: Duration = Duration::from_secs(20);
/// Interval in seconds between checks of an idle world.
const RARELY: u64 = 5;
/// Maximum number of polls; beyond it the schedule counts as endless.
const MOST_POLLS: u64 = 300_000;

/// A violated invariant.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its name.
    pub what: &'static str,
    /// The details.
    pub detail: String,
    /// The log, if requested.
    pub log: Vec<String>,
}

/// Plays a schedule. Returns a digest of everything that happened.
///
/// # Errors
/// The first violated invariant.
pub fn run(plan: &Plan, coverage: &mut Coverage, log: bool) -> Result<u64, Failure> {
    let keys = Keys::under("/s");
    let world: Shared = Arc::new(Mutex::new(World::new(plan, keys.clone())));
    let mut executor = Executor::default();
    begin(plan, &world, log);
    let ended = play(&world, &keys, &mut executor);
    drop(executor);
    let mut inner = lock(&world);
    let machines = std::mem::take(&mut inner.machines);
    let starting = std::mem::take(&mut inner.starting);
    inner.coverage.schedules = 1;
    inner.coverage.polls = ended;
    coverage.add(&inner.coverage);
    let (failure, log, digest) = (inner.failure.take(), inner.log.take(), inner.digest);
    drop(inner);
    // Breaks reference cycles with the world.
    drop((machines, starting));
    match failure {
        Some((what, detail)) => Err(Failure { what, detail, log: log.unwrap_or_default() }),
        None => Ok(digest),
    }
}

fn begin(plan: &Plan, shared: &Shared, log: bool) {
    let mut world = lock(shared);
    world.log = log.then(Vec::new);
    for number in 0..plan.machines {
        let ppm = plan.drift.get(number).copied().unwrap_or_default();
        if let Ok(id) = MachineId::new(&format!("m{number}")) {
            world.machines.push(Machine::new(id, number, ppm));
        }
        world.plan_in(Duration::from_millis(10 * number as u64), Event::Rouse(number));
    }
    for (number, (at, _)) in plan.deeds.iter().enumerate() {
        world.plan_at(*at, Event::Deed(number));
    }
    world.plan_at(plan.heal, Event::Heal);
    world.plan_at(plan.heal + SETTLED, Event::Converged);
    world.plan_at(plan.heal + SETTLED + QUIET, Event::Quiet);
    world.plan_in(Duration::from_secs(1), Event::Tick);
}

/// Returns the number of polls.
fn play(shared: &Shared, keys: &Keys, executor: &mut Executor) -> u64 {
    loop {
        loop {
            let (ended, starting) = {
                let mut world = lock(shared);
                let ended = std::mem::take(&mut world.ended);
                let fleetds: Vec<Option<Fleetd>> =
                    ended.iter().map(|machine| world.machines[*machine].fleetd.take()).collect();
                ((ended, fleetds), std::mem::take(&mut world.starting))
            };
            ended.0.iter().for_each(|machine| executor.end(*machine));
            drop(ended.1);
            starting.into_iter().for_each(|(machine, task)| executor.spawn(machine, task));
            let runs = |machine: usize| lock(shared).runs(machine);
            if !executor.turn(runs, |task| lock(shared).task = task) {
                break;
            }
            if executor.polls > MOST_POLLS {
                let words = "the tasks are polled without end".to_string();
                lock(shared).failure = Some(("the schedule ends", words));
                return executor.polls;
            }
        }
        let (woken, event) = {
            let mut world = lock(shared);
            if world.failure.is_some() {
                return executor.polls;
            }
            world.advance()
        };
        let timer = !woken.is_empty();
        woken.into_iter().for_each(|task| executor.wake(task));
        match event {
            Some(Event::Rouse(machine)) => rouse(shared, keys, executor, machine),
            Some(Event::Quiet) => {
                lock(shared).judge(&Moment::Quiet);
                return executor.polls;
            }
            Some(event) => happen(shared, event),
            None if timer => {}
            None => return executor.polls,
        }
    }
}

fn happen(shared: &Shared, event: Event) {
    let mut world = lock(shared);
    match event {
        Event::Deed(number) => world.act(shared, number),
        Event::Arrive(id) => world.arrive(id),
        Event::Answer(id) => world.answer(id),
        Event::News(id) => world.news(id),
        Event::LeaseDue(lease) => world.lease_due(lease),
        Event::Init(machine, step) => world.init_steps(machine, step),
        Event::QuorumBack => world.quorum_back(),
        Event::Readable(number) => world.ungarble(number),
        Event::Fenced => world.judge(&Moment::Live),
        Event::Heal => world.heal(),
        Event::Gone(machine) => world.gone(machine),
        Event::Tick => {
            world.note_members();
            world.note_partial();
            world.note_signed();
            // An idle world is checked less often.
            if world.book.last_write + STILL > world.now
                || world.now.as_secs().is_multiple_of(RARELY)
            {
                world.judge(&Moment::Tick);
            }
            world.plan_in(Duration::from_secs(1), Event::Tick);
        }
        Event::Converged => world.judge(&Moment::Converged),
        Event::Rouse(_) | Event::Quiet => {}
    }
}

/// Continues a machine whose fault may be over.
fn rouse(shared: &Shared, keys: &Keys, executor: &mut Executor, number: usize) {
    let mut world = lock(shared);
    let now = world.now;
    let machine = &world.machines[number];
    if now < machine.off_until || now < machine.down_until {
        return;
    }
    world.end_foreign_watches(number);
    world.end_hiding(number);
    let machine = &world.machines[number];
    if machine.leaving {
        // The machine has left and now starts again.
        world.machines[number].leaving = false;
        let fleetd = world.machines[number].fleetd.take();
        drop(world);
        executor.end(number);
        drop(fleetd);
        world = lock(shared);
    }
    if world.machines[number].fleetd.is_none() {
        drop(world);
        start(shared, keys, executor, number);
        world = lock(shared);
    }
    world.judge(&Moment::Live);
}

/// Starts fleetd.
fn start(shared: &Shared, keys: &Keys, executor: &mut Executor, number: usize) {
    let (id, boot, instance, disk, plan, recalled) = {
        let mut world = lock(shared);
        world.say(|| format!("m{number}: fleetd starts"));
        world.remember_start(number);
        world.remember_restart(number);
        let recalled = world.recalled(number);
        if recalled.known.is_none() {
            // The new fleetd accepts any cluster, as if an operator had removed the saved state.
            let until = world.now.min(world.machines[number].foreign_until);
            world.machines[number].foreign_until = until;
        }
        let one = &world.machines[number];
        // The token changes with each boot.
        let instance = format!("{} {}", one.instance, one.boot);
        let disk = Some(one.disk.clone());
        (one.id.clone(), one.boot_id(), instance, disk, world.plan.clone(), recalled)
    };
    let may_lead = number < plan.engines || plan.engines == plan.machines;
    let identity =
        Identity { id, boot: boot.clone(), instance: instance.clone(), disk: disk.clone() };
    let own = |key: &str, value: String| (key.to_string(), value);
    let metadata = [own("k", (number % 3).to_string()), own("n", number.to_string())];
    let record = MachineRecord {
        ip: String::new(),
        metadata: BTreeMap::from(metadata),
        boot,
        instance,
        disk,
        version: "1".to_string(),
        listen: None,
    };
    let (daemon, tasks) = Daemon::new(Wiring {
        store: Store::driven(Arc::new(EtcdOf { world: shared.clone(), machine: number })),
        keys: keys.clone(),
        clock: Clock::of(Arc::new(MachineTime { world: shared.clone(), machine: number })),
        identity,
        record,
        init: Init::driven(Arc::new(InitOf { world: shared.clone(), machine: number })),
        ttl: plan.ttl,
        engine: may_lead.then_some(plan.interval),
        grace: plan.grace,
        room: plan.room,
        trust_keeper: signer::trust_keeper(shared, number),
        recalled,
        keep: continuity::keeper(shared, number),
    });
    let api = ApiState::new(daemon.cache.clone(), Settings::default());
    // init notifies a new listener at once.
    let _ = daemon.happened.try_send(());
    lock(shared).machines[number].fleetd = Some(Fleetd { daemon, api });
    tasks.into_iter().for_each(|task| executor.spawn(number, task));
}
