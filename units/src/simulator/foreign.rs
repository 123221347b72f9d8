//! What only imported units are, drawn: one thing under many names; pulled in by a unit, and not
//! waited for. Drawn with an rng of their own, so that other worlds stay the same.

use crate::simulator::rng::Rng;
use crate::simulator::unit_model::UnitModel;

/// Makes some units such.
pub fn draw(model: &mut UnitModel, numbers: &[usize], rng: &mut Rng) {
    let count = numbers.len();
    for entry in model.units.values_mut() {
        entry.is_one = rng.percent(50);
    }
    for _ in 0..count / 4 + 1 {
        let (Some(unit), Some(by)) = (rng.pick(numbers), rng.pick(numbers)) else { return };
        let Some(entry) = model.units.get_mut(&unit).filter(|_| unit != by) else { continue };
        entry.pulled_by = vec![by];
    }
}
