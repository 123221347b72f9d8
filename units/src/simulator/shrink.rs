//! Shrinks a failing schedule: drops wishes, units, dependencies and faults while it still fails.
//! The result is for a person to read.

use crate::simulator::coverage::Coverage;
use crate::simulator::run::{Failure, run};
use crate::simulator::schedule::Schedule;
use crate::simulator::shape::World;
use crate::simulator::subject::Subject;

/// Returns the smallest failing world and schedule, and the failure.
pub fn shrink(
    world: &World,
    schedule: &Schedule,
    subject: &Subject,
) -> Option<(World, Schedule, Failure)> {
    let fails = |world: &World, schedule: &Schedule| {
        run(world, schedule, subject.clone(), &mut Coverage::default(), false).err()
    };
    let mut failure = fails(world, schedule)?;
    let (mut world, mut schedule) = (world.clone(), schedule.clone());
    let same = |a: &Failure, b: &Failure| a.what == b.what;
    for _ in 0..4 {
        let before = (schedule.wishes.len(), world.model.units.len());
        let mut chunk = schedule.wishes.len().div_ceil(2);
        while chunk > 0 {
            let mut at = 0;
            while at < schedule.wishes.len() {
                let mut less = schedule.clone();
                let end = (at + chunk).min(less.wishes.len());
                less.wishes.drain(at..end);
                match fails(&world, &less).filter(|found| same(found, &failure)) {
                    Some(found) => (schedule, failure) = (less, found),
                    None => at += chunk,
                }
            }
            chunk /= 2;
        }
        for unit in world.model.units.keys().copied().collect::<Vec<_>>() {
            let less = World { model: world.model.without(unit), ..world.clone() };
            if unit == world.top {
                continue;
            }
            if let Some(found) = fails(&less, &schedule).filter(|found| same(found, &failure)) {
                (world, failure) = (less, found);
            }
        }
        for unit in world.model.units.keys().copied().collect::<Vec<_>>() {
            let edges = world.model.units.get(&unit).map_or(0, |entry| entry.edges.len());
            for edge in (0..edges).rev() {
                let mut less = world.clone();
                if let Some(entry) = less.model.units.get_mut(&unit) {
                    entry.edges.remove(edge);
                }
                if let Some(found) = fails(&less, &schedule).filter(|found| same(found, &failure)) {
                    (world, failure) = (less, found);
                }
            }
        }
        for fault in 0..schedule.rates.len() {
            let mut less = schedule.clone();
            less.rates[fault] = 0;
            if let Some(found) = fails(&world, &less).filter(|found| same(found, &failure)) {
                (schedule, failure) = (less, found);
            }
        }
        if before == (schedule.wishes.len(), world.model.units.len()) {
            break;
        }
    }
    let log = run(&world, &schedule, subject.clone(), &mut Coverage::default(), true).err();
    Some((world, schedule, log.unwrap_or(failure)))
}
