//! C20: units keep running without a leading engine, and the holder of the leader key leads.

use super::{LAG, Moment, Verdict, is_member, must};
use crate::fleetd::lead::lease;
use crate::sim::world::World;

/// A machine without faults renews its leader lease or revokes it, because no other machine can
/// lead while the lease exists.
fn leader_renews(world: &World) -> Verdict {
    let (Some(number), Some(kept)) = (world.leader(), &world.truth.leader) else { return Ok(()) };
    let Some((ttl, _)) = world.etcd.leases.get(&kept.lease).copied() else { return Ok(()) };
    let machine = &world.machines[number];
    let shown = world.etcd.last_renewal.get(&kept.lease).copied().unwrap_or_default();
    // A restarted fleetd does not know its predecessor's leader lease. A machine that was elected
    // with its own lease does not lead yet.
    let restarted = machine.down_until.max(machine.off_until) > shown;
    let elected = ttl != lease(world.plan.interval, world.plan.ttl);
    let twins = world.machines.iter().filter(|one| one.id == machine.id).count() > 1;
    let unread = !world.truth.set_aside.is_empty() || world.book.sees_part.contains(&number);
    if restarted
        || elected
        || twins
        || unread
        || !is_member(world, number)
        || !world.is_calm(number, LAG)
    {
        return Ok(());
    }
    must(shown + ttl * 2 / 3 > world.now, || {
        format!("machine {number} has the leader key and does not renew its lease")
    })
}

/// Units that ran when the last engine disappeared are still in the same run, unless their schedule
/// changes.
pub(super) fn c20_without_an_engine(world: &World, moment: &Moment<'_>) -> Verdict {
    if let Moment::Asked { machine, ttl } = moment {
        return must(*ttl <= world.plan.ttl, || {
            format!("machine {machine} requests a lease of {ttl:?}, longer than agent_ttl")
        });
    }
    if !matches!(moment, Moment::Tick) {
        return Ok(());
    }
    if world.truth.leader.is_some() {
        return leader_renews(world);
    }
    for ran in &world.book.ran_when_led {
        let machine = &world.machines[ran.machine];
        let schedule = world.truth.schedules.get(&machine.id);
        let scheduled = schedule.and_then(|schedule| schedule.get(&ran.unit));
        let same = scheduled.is_some_and(|kept| kept.modified == ran.schedule_revision)
            && machine.boot == ran.boot;
        if !same || machine.leaving || world.book.sees_part.contains(&ran.machine) {
            continue;
        }
        let life = machine.init.runs.get(ran.unit.as_str()).map(|run| run.life);
        must(life == Some(ran.life), || {
            format!("{} on machine {} stopped with the leading engine", ran.unit, ran.machine)
        })?;
    }
    Ok(())
}
