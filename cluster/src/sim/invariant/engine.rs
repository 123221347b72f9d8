//! C3, C4, C6, C7, C8 and C16: the writes of engines.

use super::{Moment, Verdict, all_settled, must, settled};
use crate::desired::Desired;
use crate::engine::Engine;
use crate::fleetd::lead::lease;
use crate::key::Subject;
use crate::machine::MachineId;
use crate::move_order::Move;
use crate::registry::{self, Epoch};
use crate::sim::book::is_engines;
use crate::sim::departures::flap_damping;
use crate::sim::local_init::is_exclusive;
use crate::sim::partial::is_withheld;
use crate::sim::rules;
use crate::sim::world::World;
use crate::snapshot::Snapshot;
use crate::transaction::{Change, Condition, Operation, Transaction};
use crate::unit_name::UnitName;
use std::collections::BTreeMap;
use std::time::Duration;

/// Interval in seconds between checks that all engines would decide alike.
const ENGINES_ALIKE: u64 = 5;
/// An engine reacts to a write within this time.
const PROMPT: Duration = Duration::from_secs(6);
/// A write lands within this time after its decision, or not at all.
const MOMENT: Duration = Duration::from_millis(1_500);
/// Damping that an engine adds for a departure which the invariant does not count.
const ONE_DEPARTURE: Duration = Duration::from_secs(10);
/// The duration of two leader leases, in reconcile intervals. By then a successor leads and has
/// made its first reading.
const TERM: u32 = 10;

/// Returns the units that a write placed, and their machines.
fn placed(after: &Snapshot, changes: &[Change]) -> Vec<(UnitName, MachineId)> {
    let put = changes.iter().filter_map(|change| match change {
        Change::Put(entry) => after.keys().subject(&entry.key),
        Change::Delete { .. } => None,
    });
    let names = put.filter_map(|subject| match subject {
        Subject::Place(name) => Some(name),
        _ => None,
    });
    names.filter_map(|name| Some((name.clone(), after.place_of(&name)?.clone()))).collect()
}

/// An engine places a unit only where it may be at that revision, and machines run their schedules
/// after a delay.
pub(super) fn c03_constraints(world: &World, moment: &Moment<'_>) -> Verdict {
    match moment {
        Moment::Landed { changes, transaction: Some(_), .. } => {
            for (name, machine) in placed(&world.truth, changes) {
                must(rules::is_wanted(&world.truth, &name), || format!("{name}: not wanted"))?;
                let why = rules::refusal(&world.truth, &machine, &name);
                let are_new = globals_are_new(world, &name, &machine);
                if let Some(why) = why.filter(|why| why != "MachineOf" || !are_new) {
                    return Err(format!("{name} is placed on {machine}: {why}"));
                }
            }
            Ok(())
        }
        Moment::Tick => settled(world).try_for_each(|number| runs_its_schedule(world, number)),
        _ => Ok(()),
    }
}

/// Returns true if the global units on a machine may have changed recently. They depend on all
/// global units and on the machine, and no key records them. So no write can require that they are
/// unchanged.
fn globals_are_new(world: &World, name: &UnitName, machine: &MachineId) -> bool {
    let asks = world.truth.units.get(name).map(|kept| &kept.record.asks.peers);
    let is_global = |peer: &String| world.truth.globals.keys().any(|name| name.as_str() == peer);
    let follows = asks.is_some_and(|peers| peers.iter().any(is_global));
    let written = world.book.schedule_written.get(machine).copied().filter(|_| follows);
    written.max(Some(world.book.global_written)).is_some_and(|at| at + MOMENT > world.now)
}

fn runs_its_schedule(world: &World, number: usize) -> Verdict {
    let machine = &world.machines[number];
    let schedule = world.truth.schedules.get(&machine.id).into_iter().flatten();
    let mut expected: BTreeMap<&UnitName, Desired> = BTreeMap::new();
    for (name, kept) in schedule {
        expected.insert(name, kept.record.desired);
    }
    for (name, desired) in &expected {
        let Some(content) = world.truth.units.get(*name) else { continue };
        if world.plan.signed && !world.is_well_signed(name) {
            continue;
        }
        let elsewhere = world.truth.is_claimed_by_others(name, &machine.id);
        let claim = world.truth.claim_of(name, &machine.id);
        let instance = format!("{} {}", machine.instance, machine.boot);
        // The unit may still run under a claim of the machine's previous run.
        let earlier = claim.is_some_and(|claim| !registry::is_own_claim(claim, &instance));
        let text = content.record.file.text();
        if is_exclusive(&text) && (elsewhere || earlier || *desired == Desired::Loaded) {
            continue;
        }
        let has = machine.init.files.get(name.as_str());
        must(has == Some(&text), || format!("{name} on machine {number}: another file"))?;
        let launched = machine.init.roots.contains(name.as_str());
        must(launched == (*desired == Desired::Launched), || {
            format!("{name} on machine {number} should be {desired}; root: {launched}")
        })?;
    }
    for file in machine.init.files.keys() {
        let global = world.truth.globals.keys().any(|name| name.as_str() == file);
        let there = expected.keys().any(|name| name.as_str() == file);
        let withheld =
            || UnitName::new(file).is_ok_and(|name| is_withheld(world, &machine.id, &name));
        let on = || may_be_there_still(world, number, file) || withheld();
        must(global || there || on(), || {
            format!("machine {number} has the file {file} without a schedule")
        })?;
    }
    Ok(())
}

/// Returns true if the unit is wanted, has no place, and may run there. A peer by MachineOf counts
/// as being there if init has its file, even if the peer has no place.
fn may_be_there_still(world: &World, number: usize, file: &str) -> bool {
    let (truth, machine) = (&world.truth, &world.machines[number]);
    let Ok(name) = UnitName::new(file) else { return false };
    let beside = |peer: &String| machine.init.files.contains_key(peer);
    let asks = truth.units.get(&name).map(|kept| kept.record.asks.clone());
    rules::is_wanted(truth, &name)
        && rules::is_nowhere(truth, &name)
        && match rules::refusal(truth, &machine.id, &name).as_deref() {
            None => true,
            Some("MachineOf") => asks.is_some_and(|asks| asks.peers.iter().all(beside)),
            Some(_) => false,
        }
}

/// A follower is placed together with its unit or has no place: no write of an engine separates
/// them.
pub(super) fn c04_followers(world: &World, moment: &Moment<'_>) -> Verdict {
    let Moment::Landed { before, transaction: Some(transaction), .. } = moment else {
        return Ok(());
    };
    if !is_fenced(transaction, world) {
        return Ok(());
    }
    for (name, kept) in &world.truth.places {
        let Some(content) = world.truth.units.get(name) else { continue };
        let machine = &kept.record.machine;
        for peer in &content.record.asks.peers {
            let beside = |snapshot: &Snapshot| {
                let on = rules::on(snapshot, machine);
                on.contains(peer.as_str())
                    || rules::globals(snapshot, machine).contains(peer.as_str())
            };
            let was = before.place_of(name) == Some(machine) && beside(before);
            // As in C3, the set of global units depends on recent writes.
            let are_new = world.book.global_written + MOMENT > world.now
                && world.truth.globals.keys().any(|name| name.as_str() == peer);
            must(!was || beside(&world.truth) || are_new, || {
                format!("{name} stays although {peer} is moved")
            })?;
        }
    }
    Ok(())
}

/// Returns true if the write checks the leader: it is an engine's.
pub(in crate::sim) fn is_fenced(transaction: &Transaction, world: &World) -> bool {
    let leader = world.truth.keys().of(&Subject::Leader);
    transaction
        .conditions
        .iter()
        .any(|condition| matches!(condition, Condition::Unchanged(key, _) if *key == leader))
}

/// Only the elected machine requests a leader lease: otherwise a hundred machines that see no
/// leader would request as many.
fn asks_when_elected(world: &World, machine: usize, ttl: Duration) -> Verdict {
    let to_lead = ttl == lease(world.plan.interval, world.plan.ttl);
    let id = &world.machines[machine].id;
    let leads = world.truth.leader.as_ref().is_some_and(|kept| kept.record.machine == *id);
    // The machine may have been elected and lost the key again.
    let lately = world.book.elected.get(id).is_some_and(|at| *at + MOMENT >= world.now);
    let stood = world.machines[machine].paused_until + MOMENT >= world.now;
    must(!to_lead || leads || lately || stood, || {
        format!("machine {machine} requests a leader lease without being elected")
    })
}

/// Only the leading engine in its present epoch writes places and reasons, and only the elected
/// machine requests a leader lease.
pub(super) fn c06_fencing(world: &World, moment: &Moment<'_>) -> Verdict {
    if let Moment::Asked { machine, ttl } = moment {
        return asks_when_elected(world, *machine, *ttl);
    }
    let Moment::Landed { before, transaction: Some(transaction), .. } = moment else {
        return Ok(());
    };
    if !is_engines(transaction, &world.truth) {
        return Ok(());
    }
    let leader = world.truth.keys().of(&Subject::Leader);
    let now = before.leader.as_ref().map(|kept| kept.modified);
    let fence = transaction.conditions.iter().any(|condition| match condition {
        Condition::Unchanged(key, revision) => *key == leader && Some(*revision) == now,
        _ => false,
    });
    must(fence, || "a write moves a unit without a check of the leader key".to_string())
}

/// A unit that some machine may have is placed; otherwise its reason is recorded.
pub(super) fn c07_placement(world: &World, moment: &Moment<'_>) -> Verdict {
    let settled = match moment {
        Moment::Converged => true,
        Moment::Tick => all_settled(world),
        _ => return Ok(()),
    };
    if settled {
        must(world.truth.leader.is_some(), || "no machine leads".to_string())?;
        for machine in world.machines.iter().filter(|machine| !machine.is_clone) {
            let there = world.truth.machines.contains_key(&machine.id);
            must(there, || format!("machine {} is not registered", machine.id))?;
        }
    }
    if settled || is_decided(world) { all_are_placed(world) } else { Ok(()) }
}

/// Returns true if the leader has led for long without faults and has had time to react to all
/// writes without its next full reading.
fn is_decided(world: &World) -> bool {
    let Some(leader) = world.leader() else { return false };
    let term = world.plan.interval * TERM + PROMPT;
    let gone = world.book.gone.values().max().copied().unwrap_or_default();
    let damping = world
        .book
        .gone
        .keys()
        .map(|id| flap_damping(&world.book.departures.of(id), Duration::ZERO));
    let damping = damping.max();
    let grace = (world.plan.grace + damping.unwrap_or_default()) * 102 / 100 + PROMPT;
    // A new leader gives missing machines a grace of its own.
    let away = world.book.gone.keys().any(|id| !world.truth.machines.contains_key(id));
    let waits = away && world.book.led_since + grace > world.now;
    !waits
        && world.is_calm(leader, term)
        && world.book.last_write + PROMPT <= world.now
        && (gone.is_zero() || gone + grace <= world.now)
}

fn all_are_placed(world: &World) -> Verdict {
    let truth = &world.truth;
    for name in truth.units.keys().filter(|name| rules::is_wanted(truth, name)) {
        match truth.place_of(name) {
            Some(machine) => {
                let why = rules::refusal(truth, machine, name);
                must(why.is_none(), || format!("{name} is on {machine} against {why:?}"))?;
            }
            None => {
                let free = |id: &&MachineId| rules::refusal(truth, id, name).is_none();
                if let Some(machine) = truth.machines.keys().find(free) {
                    return Err(format!("{name} has no place, although {machine} may have it"));
                }
                let is_recorded = truth.whys.contains_key(name);
                must(is_recorded, || format!("{name} has no place and no recorded reason"))?;
            }
        }
    }
    Ok(())
}

/// A unit that may stay is not moved, and nothing is written without a change.
pub(super) fn c08_no_flapping(world: &World, moment: &Moment<'_>) -> Verdict {
    match moment {
        Moment::Landed { before, transaction: Some(transaction), .. } => {
            if !is_fenced(transaction, world) {
                return Ok(());
            }
            before.places.iter().try_for_each(|(name, kept)| {
                stays_or_has_cause(world, before, name, &kept.record.machine)
            })
        }
        Moment::Quiet => {
            must(world.book.last_write <= world.healed + super::super::run::SETTLED, || {
                format!("a write at {:?} without a change", world.book.last_write)
            })
        }
        _ => Ok(()),
    }
}

fn stays_or_has_cause(
    world: &World,
    before: &Snapshot,
    name: &UnitName,
    from: &MachineId,
) -> Verdict {
    let after = &world.truth;
    if after.place_of(name) == Some(from) || !rules::is_wanted(after, name) {
        return Ok(());
    }
    // For an unregistered machine, its last metadata counts.
    let metadata = world.book.last_metadata.get(from);
    let refused = |snapshot: &Snapshot| match (snapshot.machines.contains_key(from), metadata) {
        (false, Some(metadata)) => rules::away_refused(snapshot, from, name, metadata),
        _ => rules::stays_refused(snapshot, from, name),
    };
    if refused(before).is_some() || refused(after).is_some() {
        return Ok(());
    }
    // Clocks drift by 1%. A new leader may have missed a departure.
    let counted = world.book.led_since + MOMENT;
    let departures = match world.leader() {
        Some(leads) => {
            // The leader may have decided this before it learned of a machine's return after a
            // recent fault.
            let late = world.calm_since(leads) + MOMENT >= world.now;
            world.book.departures.seen_by(leads, from, late)
        }
        None => world.book.departures.of(from),
    };
    let damping = flap_damping(&departures, counted).saturating_sub(ONE_DEPARTURE);
    let grace = (world.plan.grace + damping) * 98 / 100;
    let gone = world.book.gone.get(from).copied();
    // If the machine was back only while the leader's watch was broken, the leader counts it as
    // gone all the time.
    let seen = departures.last().filter(|_| gone.is_some()).map(|departure| departure.at);
    let seen = seen.map(|since| since.max(world.book.led_since));
    let over = gone.into_iter().chain(seen).any(|since| since + grace <= world.now);
    // A leader without news does not know that the machine was back briefly.
    let deaf = world.leader().is_some_and(|leads| world.calm_since(leads) >= world.now);
    must(over || deaf, || {
        format!("{name} is moved from {from}, where it may stay; {from} gone since: {gone:?}")
    })
}

/// Returns the moves that an engine would make, and the operations of all its writes.
fn decided(engine: &mut Engine, now: Duration) -> (Vec<Move>, Vec<Operation>) {
    let tasks = engine.tasks(Epoch(0), now);
    let mut moves: Vec<Move> = tasks.iter().flat_map(|task| task.moves.clone()).collect();
    moves.sort_by(|a, b| a.unit.cmp(&b.unit));
    (moves, tasks.into_iter().flat_map(|task| task.transaction.operations).collect())
}

/// Two engines with the same information decide the same, however they received it.
pub(super) fn c16_determinism(world: &World, moment: &Moment<'_>) -> Verdict {
    let look = match moment {
        Moment::Converged => true,
        // Without a write since the last check there is nothing new to check.
        Moment::Tick => {
            world.now.as_secs().is_multiple_of(ENGINES_ALIKE)
                && world.book.last_write + Duration::from_secs(ENGINES_ALIKE) > world.now
        }
        _ => false,
    };
    // An engine that read the value before it became unreadable knows more than one that did not.
    if !look || !world.truth.set_aside.is_empty() {
        return Ok(());
    }
    let keys = world.truth.keys().clone();
    let reading = world.etcd.store.read(keys.root());
    let now = world.now;
    let mut one = Engine::new(keys.clone(), &reading, Duration::ZERO, now);
    // The other engine receives all entries one by one, in another order.
    let mut other = Engine::new(keys, &Default::default(), Duration::ZERO, now);
    let mut entries = reading.entries.clone();
    entries.sort_by_key(|entry| entry.modified);
    for entry in &entries {
        let change = Change::Put(crate::transaction::Entry { modified: 1, ..entry.clone() });
        other.absorb(std::slice::from_ref(&change), now);
    }
    other.reread(&reading, now);
    let (one, other) = (decided(&mut one, now), decided(&mut other, now));
    must(one == other, || format!("one engine: {one:?}, another: {other:?}"))?;
    let settled = matches!(moment, Moment::Converged);
    must(!settled || one.1.is_empty(), || format!("a new engine would write {:?}", one.0))
}
