//! C1 and C2: what must not be on two machines at once.

use super::{LAG, Moment, Verdict, is_settled, must, settled};
use crate::sim::book::{is_launched, may_go_on};
use crate::sim::local_init::{STOP, is_exclusive};
use crate::sim::world::{Machine, World};
use crate::unit_name::UnitName;
use std::collections::BTreeMap;
use std::time::Duration;

/// A machine that goes on after a pause has that long to give up what it lost meanwhile: it may ask first.
const AFTER_A_PAUSE: Duration = Duration::from_millis(2_500);
/// One that stood still for longer than its lease asks nobody, and has to stop what it runs.
pub const AFTER_A_LEASE: Duration = Duration::from_millis(STOP + 100);

/// In percent of a lease: a claim is worth something that long after its lease was proved. Two
/// thirds, and what clocks run apart and the way to init take.
const PROVED: u32 = 70;

/// So many intervals of its engine the last lease to lead by lives on, and so much longer.
const UNLED: (u32, Duration) = (5, Duration::from_millis(500));

/// What is promised of exclusive units is promised of this machine: fleetd has run since
/// its last sign of life, or was begun anew in time; init answers it, nobody ended its lease by hand.
fn is_bound(world: &World, number: usize) -> bool {
    let machine = &world.machines[number];
    let lately = |at: Duration| at + world.plan.ttl * 2 > world.now;
    // What an earlier run of fleetd began is this one's to stop once the cluster has let it in.
    let took_over = world.book.took_over.get(&number);
    let took_over = took_over.is_some_and(|at| *at + AFTER_A_PAUSE <= world.now);
    // One that was begun anew in time knows what the one before it had claimed, let in or not.
    let anew = world.book.anew.get(&number).copied();
    let in_time = machine.fleetd.is_some() && anew == Some(machine.down_until);
    world.runs(number)
        && (in_time || took_over && !lately(machine.down_until))
        && world.now >= machine.paused_until + after_a_pause(world, machine)
        && !lately(machine.away_until)
        && !lately(machine.ended)
}

/// What it has to give up what it lost in its last pause.
fn after_a_pause(world: &World, machine: &Machine) -> Duration {
    let stood = machine.paused_until.saturating_sub(machine.paused_since);
    // What init did not hear it is told again.
    match stood > world.plan.ttl && world.plan.rates.init == 0 {
        true => AFTER_A_LEASE,
        false => AFTER_A_PAUSE,
    }
}

/// An exclusive unit lives on one machine at most, at any true moment. Any other lives
/// beside its successor only as long as its machine can not know better.
pub(super) fn c01_exclusivity(world: &World, moment: &Moment<'_>) -> Verdict {
    match moment {
        Moment::Live => {
            let mut on: BTreeMap<&String, Vec<usize>> = BTreeMap::new();
            for number in (0..world.machines.len()).filter(|number| is_bound(world, *number)) {
                let runs = world.machines[number].init.runs.iter();
                for (name, _) in runs.filter(|(_, run)| is_exclusive(&run.text)) {
                    on.entry(name).or_default().push(number);
                }
            }
            match on.into_iter().find(|(_, on)| on.len() > 1) {
                Some((name, on)) => Err(format!("{name} lives on machines {on:?}")),
                None => Ok(()),
            }
        }
        Moment::Tick => {
            for number in settled(world) {
                let machine = &world.machines[number];
                for name in machine.init.runs.keys() {
                    let Ok(unit) = UnitName::new(name) else { continue };
                    let others = world.machines.iter().filter(|one| one.id != machine.id);
                    let elsewhere = others.into_iter().any(|one| one.init.is_live(name));
                    // What is nowhere goes on as long as nobody leads who could place it (C10).
                    let unled = LAG + world.plan.interval * UNLED.0 + UNLED.1;
                    let unled =
                        may_go_on(world, number, &unit) && !is_settled(world, number, unled);
                    let may = unled || is_launched(&world.truth, &machine.id, &unit);
                    must(!elsewhere || may, || {
                        format!("{name} lives on machine {number} still, {LAG:?} too long")
                    })?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// An exclusive unit is handed to init after its claim is this machine's, and while the lease that
/// holds it can not have ended.
pub(super) fn c02_claim_first(world: &World, moment: &Moment<'_>) -> Verdict {
    let Moment::Put { machine: number, added, files, .. } = moment else { return Ok(()) };
    let machine = &world.machines[*number];
    if !is_bound(world, *number) {
        return Ok(());
    }
    let text = |name: &UnitName| files.get(name.as_str());
    for name in added.iter().filter(|name| text(name).is_some_and(|text| is_exclusive(text))) {
        let ours = world.truth.claim_of(name, &machine.id);
        let others = world.truth.is_claimed_by_others(name, &machine.id);
        must(!others, || format!("{name} begins on machine {number}, claimed by another too"))?;
        must(ours.is_some(), || format!("{name} begins on machine {number}, unclaimed"))?;
        let sign = ours.and_then(|kept| world.etcd.signs.get(&(*number, kept.lease))).copied();
        let sign = sign.map(|sign| sign.asked);
        let proved = sign.is_some_and(|at| at + PROVED * world.plan.ttl / 100 > world.now);
        // All members may have said that none leads, which proves as much.
        let leaderless = world.etcd.no_quorum_until + world.plan.ttl > world.now;
        must(proved || leaderless, || {
            format!("{name} begins on machine {number}, by a claim last proved at {sign:?}")
        })?;
    }
    Ok(())
}
