//! C1 and C2: exclusive units do not run on two machines at once.

use super::{LAG, Moment, Verdict, is_settled, must, settled};
use crate::sim::book::{is_launched, may_keep_running};
use crate::sim::local_init::{STOP, is_exclusive};
use crate::sim::world::{Machine, World};
use crate::unit_name::UnitName;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time for a machine that resumes after a pause to give up units with an expired claim, including
/// a question to etcd.
const AFTER_A_PAUSE: Duration = Duration::from_millis(2_500);
/// The same after a pause longer than its lease, when it stops its units without a question.
pub const AFTER_A_LEASE: Duration = Duration::from_millis(STOP + 100);

/// Percentage of a lease for which a claim is valid after its last proof: two thirds, plus clock
/// drift and the way to init.
const PROVED: u32 = 70;

/// Maximum time until the lease of the last leader has expired: its duration in reconcile
/// intervals, and the maximum delay of its expiry.
const UNLED: (u32, Duration) = (5, Duration::from_millis(500));

/// Returns true if the guarantees for exclusive units hold for the machine. Its fleetd has run for
/// two lease times, or was restarted in time. In the last two lease times init answered it, and no
/// operator revoked its lease. After its last pause it has had time to give up units.
fn is_bound(world: &World, number: usize) -> bool {
    let machine = &world.machines[number];
    let lately = |at: Duration| at + world.plan.ttl * 2 > world.now;
    // A new fleetd takes over the units of an earlier one once it is registered.
    let took_over = world.book.took_over.get(&number);
    let took_over = took_over.is_some_and(|at| *at + AFTER_A_PAUSE <= world.now);
    // A fleetd that was restarted in time knows the claims of its predecessor, registered or not.
    let restarted = world.book.restarted_in_time.get(&number).copied();
    let in_time = machine.fleetd.is_some() && restarted == Some(machine.down_until);
    world.runs(number)
        && (in_time || took_over && !lately(machine.down_until))
        && world.now >= machine.paused_until + after_a_pause(world, machine)
        && !lately(machine.away_until)
        && !lately(machine.ended)
}

/// Returns the time that the machine has to give up units whose claim expired in its last pause.
fn after_a_pause(world: &World, machine: &Machine) -> Duration {
    let stood = machine.paused_until.saturating_sub(machine.paused_since);
    // If init's answers may be lost, the put is repeated.
    match stood > world.plan.ttl && world.plan.rates.init == 0 {
        true => AFTER_A_LEASE,
        false => AFTER_A_PAUSE,
    }
}

/// An exclusive unit runs on at most one machine at any real time. A non-exclusive unit runs on a
/// second machine only while the first machine may not know of the move.
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
                Some((name, on)) => Err(format!("{name} runs on machines {on:?}")),
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
                    // Without a leader, a unit without a place keeps running (C10).
                    let unled = LAG + world.plan.interval * UNLED.0 + UNLED.1;
                    let unled =
                        may_keep_running(world, number, &unit) && !is_settled(world, number, unled);
                    let may = unled || is_launched(&world.truth, &machine.id, &unit);
                    must(!elsewhere || may, || {
                        format!(
                            "{name} still runs on machine {number} more than {LAG:?} after it was moved"
                        )
                    })?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Init gets an exclusive unit only after this machine has its claim, and while the lease of the
/// claim cannot have expired.
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
        must(!others, || format!("{name} starts on machine {number} beside another claim"))?;
        must(ours.is_some(), || format!("{name} starts on machine {number} without a claim"))?;
        let proof = ours.and_then(|kept| world.etcd.proofs.get(&(*number, kept.lease))).copied();
        let proof = proof.map(|proof| proof.asked);
        let proved = proof.is_some_and(|at| at + PROVED * world.plan.ttl / 100 > world.now);
        // All members may have said that they have no leader, which is an equivalent proof.
        let leaderless = world.etcd.no_quorum_until + world.plan.ttl > world.now;
        must(proved || leaderless, || {
            format!("{name} starts on machine {number} with a claim last proved at {proof:?}")
        })?;
    }
    Ok(())
}
