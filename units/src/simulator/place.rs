//! Sockets that accept, drawn: some sockets of a world get units of which each takes one
//! connection. Drawn from dice of their own, so that what other worlds draw stays.

use crate::simulator::chance::Chance;
use crate::simulator::sheet::Sheet;
use crate::spec::{DependencyKind as D, Kind};

/// Gives sockets their places.
pub fn draw(sheet: &mut Sheet, numbers: &[usize], dice: &mut Chance) {
    let with_process: Vec<usize> = numbers
        .iter()
        .copied()
        .filter(|unit| sheet.units.get(unit).is_some_and(|entry| entry.kind.has_process()))
        .collect();
    for unit in numbers {
        let places: Vec<usize> =
            (0..dice.between(1, 3)).filter_map(|_| dice.pick(&with_process)).collect();
        let Some(entry) = sheet.units.get_mut(unit) else { continue };
        if entry.kind != Kind::Socket || dice.percent(30) {
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

/// Triggers that bring something in, and units that take connections.
pub fn that_fire(sheet: &Sheet) -> Vec<usize> {
    let triggers = sheet.units.iter().filter(|(_, entry)| entry.activates.is_some());
    let edges = sheet.units.values().flat_map(|entry| &entry.edges);
    let places = edges.filter(|(kind, ..)| *kind == D::Accepts).map(|(_, target, _)| *target);
    let places = places.filter(|unit| sheet.units.contains_key(unit));
    triggers.map(|(unit, _)| *unit).chain(places).collect()
}
