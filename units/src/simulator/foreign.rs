//! Draws properties that only imported units have: one thing under many names, and units pulled in
//! but not waited for. Uses its own rng, so that other worlds stay the same.

use crate::simulator::rng::Rng;
use crate::simulator::unit_model::UnitModel;

/// Gives some units these properties.
pub fn draw(model: &mut UnitModel, numbers: &[usize], rng: &mut Rng) {
    let count = numbers.len();
    for entry in model.units.values_mut() {
        entry.has_synonyms = rng.percent(50);
    }
    for _ in 0..count / 4 + 1 {
        let (Some(unit), Some(by)) = (rng.pick(numbers), rng.pick(numbers)) else { return };
        let Some(entry) = model.units.get_mut(&unit).filter(|_| unit != by) else { continue };
        entry.pulled_by = vec![by];
    }
}
