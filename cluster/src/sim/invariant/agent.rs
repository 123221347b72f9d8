//! C5, C9, C10, C11, C15 and C19: how machines act on their schedules, and what they publish.

use super::{Moment, Verdict, is_member, must, settled};
use crate::desired::Desired;
use crate::fence;
use crate::sim::book::{is_launched, must_keep_running};
use crate::sim::local_init::{Phase, is_exclusive};
use crate::sim::rules;
use crate::sim::world::World;
use crate::suspicious_read_guard::WITHHELD;
use crate::unit_name::UnitName;
use std::time::Duration;

/// Time after a pause in which a machine may not have heard of its lease yet.
const AFTER_A_PAUSE: Duration = Duration::from_secs(1);

/// An incomplete reading may stop fewer units than this, whatever their share.
const MANY: usize = 3;
/// An incomplete reading may stop at most this percentage of the running units, however many.
const LARGE_SHARE: usize = 30;

/// Maximum time for two messages to init.
const WAY_TO_INIT: Duration = Duration::from_millis(10);

/// Global units run on exactly the machines that meet their requirements, after a delay.
pub(super) fn c05_globals(world: &World, moment: &Moment<'_>) -> Verdict {
    if !matches!(moment, Moment::Tick) {
        return Ok(());
    }
    for number in settled(world) {
        let machine = &world.machines[number];
        let chosen = rules::globals(&world.truth, &machine.id);
        for (name, kept) in &world.truth.globals {
            let there = machine.init.files.contains_key(name.as_str());
            must(there == chosen.contains(name), || {
                format!("global {name} on machine {number}: file {there}, expected {}", !there)
            })?;
            let launched = there && kept.record.desired == Desired::Launched;
            let root = machine.init.roots.contains(name.as_str());
            must(root == launched, || format!("global {name} on machine {number}: root {root}"))?;
        }
    }
    Ok(())
}

/// A machine never acts on a revision older than one it has acted on, and its snapshot of a
/// revision equals etcd's.
pub(super) fn c09_no_time_travel(world: &World, moment: &Moment<'_>) -> Verdict {
    match moment {
        Moment::Put { machine, added, .. } => {
            let one = &world.machines[*machine];
            let Some(fleetd) = one.fleetd.as_ref().filter(|_| !one.leaving) else { return Ok(()) };
            // Before its first answer from etcd, a fleetd may give up the claims of its
            // predecessor.
            let heard = fleetd.daemon.cache.health().borrow().last_contact.is_some();
            if !heard && added.is_empty() {
                return Ok(());
            }
            let seen = fleetd.daemon.cache.snapshot().revision;
            let acted = world.book.acted.get(machine).copied().unwrap_or_default();
            let acts = seen >= acted;
            must(acts, || format!("machine {machine} acts on revision {seen} after {acted}"))
        }
        Moment::Tick => {
            for (number, machine) in world.machines.iter().enumerate() {
                let Some(fleetd) = &machine.fleetd else { continue };
                // A fleetd without an answer yet has the saved revision of its cluster, but no
                // contents.
                let begins = fleetd.daemon.cache.health().borrow().last_contact.is_none();
                // A snapshot has substitutes for unreadable values, which etcd does not have.
                let garbled = !world.truth.set_aside.is_empty();
                if begins || garbled || world.book.sees_part.contains(&number) {
                    continue;
                }
                let (seen, truth) = (fleetd.daemon.cache.snapshot(), &world.truth);
                if seen.revision != truth.revision {
                    continue;
                }
                let same = seen.places == truth.places
                    && seen.desired == truth.desired
                    && seen.schedules == truth.schedules
                    && seen.globals == truth.globals
                    && seen.machines == truth.machines
                    && seen.claims == truth.claims;
                must(same, || {
                    format!(
                        "machine {} sees other contents at revision {}",
                        machine.id, seen.revision
                    )
                })?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns true if, at some revision since the unit was put there, it was not to run on the
/// machine.
fn has_cause(world: &World, machine: usize, name: &UnitName) -> bool {
    let key = (machine, name.clone());
    let unwanted = world.book.unwanted.get(&key).copied().unwrap_or_default();
    let put = world.book.put.get(&key).copied().unwrap_or_default();
    let wanted = is_launched(&world.truth, &world.machines[machine].id, name);
    unwanted > put || !(wanted || must_keep_running(world, machine, name))
}

/// Returns true if another file replaced the unit and may start only with a claim.
fn gave_way_to_an_exclusive_one(world: &World, machine: usize, name: &UnitName) -> bool {
    let runs = world.machines[machine].init.files.get(name.as_str());
    let now = world.truth.units.get(name).map(|kept| kept.record.file.text());
    now.as_ref().is_some_and(|now| Some(now) != runs && is_exclusive(now))
}

/// Returns true if an exclusive unit may be given up because its claim may have expired.
fn may_be_lost(world: &World, machine: usize, name: &UnitName) -> bool {
    let one = &world.machines[machine];
    if !one.init.files.get(name.as_str()).is_some_and(|text| is_exclusive(text)) {
        return false;
    }
    // The lease of the claim counts, which may be older than the machine's present lease.
    let lease = lease_it_knows(world, machine, name);
    let proof = lease.and_then(|lease| world.etcd.proofs.get(&(machine, lease))).copied();
    // Two thirds of the lease by its own clock, which may be 1% fast.
    let patience = world.plan.ttl * 2 / 3 * 98 / 100;
    // A twin whose own lease is over knows nothing about the lease of the present claim.
    let its_own = proof.is_some();
    // A proof that arrived while the message to init was in flight came too late.
    let proof = proof.unwrap_or_default();
    let known = proof.known_at(world.now.saturating_sub(WAY_TO_INIT));
    // A fleetd may not have saved its last proof before a restart.
    let restarted = one.down_until + world.plan.ttl > world.now;
    let proof = if restarted { proof.before.min(known) } else { known };
    let silent = world.now.saturating_sub(proof) >= patience;
    let quorum = world.now >= world.etcd.no_quorum_until;
    // A foreign etcd's members say nothing about our etcd.
    let lost = one.requests_lost_until.max(one.answers_lost_until).max(one.foreign_until);
    let reached = world.now >= lost;
    // All members say that they have no leader, and the machine hears them: no other machine can
    // take the claim.
    let known = its_own
        && !quorum
        && reached
        && world.plan.rates.lost == 0
        && world.plan.rates.refused == 0;
    // A machine that was paused cannot know that its lease existed when the quorum was lost.
    let long = world.now >= lost.max(one.slept_until) + world.plan.ttl;
    // After a pause, the answer to its first renewal or init's answer may be lost, and the machine
    // does not wait for another one.
    let rates = &world.plan.rates;
    let lossy = rates.lost + rates.refused + rates.late + rates.init > 0;
    let stood = lossy && world.now < one.paused_until + AFTER_A_PAUSE;
    let heard = lease.is_some_and(|lease| is_about_to_hear(world, machine, lease, proof));
    (silent || stood) && !(known && long) && !heard
}

/// Returns the lease of a claim as its fleetd knows it. The fleetd may learn late, or never, that
/// the claim was renewed under the present lease.
fn lease_it_knows(world: &World, machine: usize, name: &UnitName) -> Option<i64> {
    let one = &world.machines[machine];
    let lease = world.truth.claim_of(name, &one.id)?.lease;
    let Some(rebound) = world.book.rebound.get(&(one.id.clone(), name.clone())) else {
        return Some(lease);
    };
    let on_its_way = Duration::from_millis(world.plan.rates.latency) + WAY_TO_INIT;
    let snapshot = one.fleetd.as_ref().map(|fleetd| fleetd.daemon.cache.snapshot());
    let seen = snapshot.is_none_or(|snapshot| {
        snapshot.claim_of(name, &one.id).is_some_and(|kept| kept.lease == lease)
    });
    // A previous fleetd may have requested the renewal and ended before the answer. Then it saved
    // the lease that expires first, and this fleetd does not know the new lease.
    let own = rebound.asked && rebound.at >= one.down_until;
    let knows = own && seen && rebound.at + on_its_way <= world.now;
    // If the previous fleetd learned of it in time, it saved that.
    Some(if !rebound.heard && !knows { rebound.former } else { lease })
}

/// Returns true if the machine has just resumed after a pause shorter than its lease and can reach
/// etcd. Then it waits for etcd's answer, while the lease cannot have expired by its clock, which
/// may be 1% fast. `proof` is a time at which the lease certainly existed.
fn is_about_to_hear(world: &World, machine: usize, lease: i64, proof: Duration) -> bool {
    let one = &world.machines[machine];
    let rates = &world.plan.rates;
    let wrongs = [
        one.off_until,
        one.down_until,
        one.requests_lost_until,
        one.answers_lost_until,
        one.away_until,
        one.foreign_until,
        one.ended,
        world.etcd.no_quorum_until,
    ];
    let calm = wrongs.into_iter().max().unwrap_or_default() + world.plan.ttl <= one.paused_until;
    let ours = world.truth.machines.get(&one.id).is_some_and(|kept| kept.lease == lease);
    let waits = world.plan.ttl / 12 * 98 / 100;
    let lives = fence::life(world.plan.ttl) * 98 / 100;
    // Two requests must succeed one after the other: the machine writes its key, and then renews.
    calm && rates.lost + rates.refused + rates.late + rates.init == 0
        && ours
        && is_member(world, machine)
        && world.etcd.leases.contains_key(&lease)
        && world.now < one.paused_until + waits
        && world.now < proof + lives
}

/// A machine stops a unit only for a reason that it knows.
pub(super) fn c10_no_stop_by_ignorance(world: &World, moment: &Moment<'_>) -> Verdict {
    let Moment::Put { machine, dropped, .. } = moment else { return Ok(()) };
    // C19 covers units stopped by an incomplete reading.
    if world.machines[*machine].leaving || world.book.sees_part.contains(machine) {
        return Ok(());
    }
    // C18 covers units whose present signature is invalid.
    let ill_signed = |name: &UnitName| world.plan.signed && !world.is_well_signed(name);
    for name in dropped.iter().filter(|name| !ill_signed(name)) {
        let cause = has_cause(world, *machine, name)
            || may_be_lost(world, *machine, name)
            || gave_way_to_an_exclusive_one(world, *machine, name);
        must(cause, || format!("{name} is stopped on machine {machine} without a change in etcd"))?;
    }
    Ok(())
}

/// A foreign etcd stops no unit, whatever it contains.
pub(super) fn c11_guard(world: &World, moment: &Moment<'_>) -> Verdict {
    let Moment::Put { machine, dropped, .. } = moment else { return Ok(()) };
    let one = &world.machines[*machine];
    if one.leaving || world.now >= one.foreign_until {
        return Ok(());
    }
    let believed = dropped.iter().filter(|name| {
        let exclusive = one.init.files.get(name.as_str()).is_some_and(|text| is_exclusive(text));
        !exclusive && !has_cause(world, *machine, name)
    });
    must(believed.count() == 0, || format!("another etcd stopped {dropped:?}"))
}

/// An incomplete reading stops few units, or a small share of those that run. Units that were
/// withheld after one are not stopped by another.
pub(super) fn c19_mass_stop(world: &World, moment: &Moment<'_>) -> Verdict {
    let Moment::Put { machine, dropped, .. } = moment else { return Ok(()) };
    let one = &world.machines[*machine];
    if one.leaving || !world.book.sees_part.contains(machine) {
        return Ok(());
    }
    let guarded = |name: &str| !one.init.files.get(name).is_some_and(|text| is_exclusive(text));
    let ran = one.init.roots.iter().filter(|name| guarded(name)).count();
    let uncaused = |name: &&UnitName| guarded(name.as_str()) && !has_cause(world, *machine, name);
    let says = |name: &&UnitName| {
        let state = world.truth.states.get(*name).and_then(|by| by.get(&one.id));
        state.is_some_and(|kept| kept.record.reason.as_deref() == Some(WITHHELD))
    };
    let again = dropped.iter().filter(uncaused).find(says);
    must(again.is_none(), || {
        format!("withheld {again:?} is stopped on machine {machine} without an event")
    })?;
    let stopped = dropped.iter().filter(uncaused).count();
    must(stopped < MANY || stopped * 100 <= ran * LARGE_SHARE, || {
        format!("{dropped:?} are stopped on machine {machine}, {stopped} of {ran} without an event")
    })
}

/// The published state of a unit is what its machine sees.
pub(super) fn c15_state_truth(world: &World, moment: &Moment<'_>) -> Verdict {
    if !matches!(moment, Moment::Tick) {
        return Ok(());
    }
    for number in settled(world) {
        let machine = &world.machines[number];
        for file in machine.init.files.keys() {
            let Ok(name) = UnitName::new(file) else { continue };
            let published = world.truth.states.get(&name).and_then(|by| by.get(&machine.id));
            let Some(published) = published else {
                return Err(format!("machine {number} publishes no state of {name}"));
            };
            let active = match machine.init.runs.get(file).map(|run| run.phase) {
                None => "inactive",
                Some(Phase::Up) => "active",
                // The state changes during the check.
                Some(Phase::Starting | Phase::Stopping) => continue,
            };
            let record = &published.record;
            must(record.active == active, || {
                format!("{name} on machine {number} is {active}, published as {}", record.active)
            })?;
            let launched = machine.init.roots.contains(file);
            must((record.reached == Desired::Launched) == launched, || {
                format!("{name} on machine {number}: published as {}", record.reached)
            })?;
        }
    }
    Ok(())
}
