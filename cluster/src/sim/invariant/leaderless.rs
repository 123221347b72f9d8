//! C20: what goes on while no engine leads.

use super::{Moment, Verdict, must};
use crate::sim::world::World;

/// What ran when the last engine was gone is the same run as long as nothing else is told of it.
pub(super) fn c20_without_an_engine(world: &World, moment: &Moment<'_>) -> Verdict {
    if !matches!(moment, Moment::Tick) || world.truth.leader.is_some() {
        return Ok(());
    }
    for ran in &world.book.ran_when_led {
        let machine = &world.machines[ran.machine];
        let told = world.truth.schedules.get(&machine.id).and_then(|told| told.get(&ran.unit));
        let same = told.is_some_and(|kept| kept.modified == ran.told) && machine.boot == ran.boot;
        if !same || machine.leaving || world.book.sees_part.contains(&ran.machine) {
            continue;
        }
        let life = machine.init.runs.get(ran.unit.as_str()).map(|run| run.life);
        must(life == Some(ran.life), || {
            format!("{} on machine {} does not outlast its engine", ran.unit, ran.machine)
        })?;
    }
    Ok(())
}
