//! Draws accepting sockets: some sockets of a world get units that take one connection each. Uses
//! its own rng, so that other worlds stay the same.

use crate::simulator::rng::Rng;
use crate::simulator::unit_model::UnitModel;
use crate::spec::{DependencyKind as D, Kind};

/// Gives sockets their places.
pub fn draw(model: &mut UnitModel, numbers: &[usize], rng: &mut Rng) {
    let with_process: Vec<usize> = numbers
        .iter()
        .copied()
        .filter(|unit| model.units.get(unit).is_some_and(|entry| entry.kind.has_process()))
        .collect();
    for unit in numbers {
        let places: Vec<usize> =
            (0..rng.between(1, 3)).filter_map(|_| rng.pick(&with_process)).collect();
        let Some(entry) = model.units.get_mut(unit) else { continue };
        if entry.kind != Kind::Socket || rng.percent(30) {
            continue;
        }
        entry.activates = None;
        for place in places {
            if !entry.edges.iter().any(|(_, target, _)| *target == place) {
                entry.edges.push((D::Accepts, place, false));
            }
        }
    }
}

/// Returns triggers that activate a unit, and units that take connections.
pub fn that_fire(model: &UnitModel) -> Vec<usize> {
    let triggers = model.units.iter().filter(|(_, entry)| entry.activates.is_some());
    let edges = model.units.values().flat_map(|entry| &entry.edges);
    let places = edges.filter(|(kind, ..)| *kind == D::Accepts).map(|(_, target, _)| *target);
    let places = places.filter(|unit| model.units.contains_key(unit));
    triggers.map(|(unit, _)| *unit).chain(places).collect()
}
