//! What only imported units are, drawn: one thing under many names; pulled in by a unit, and not
//! waited for. Drawn from dice of their own, so that what other worlds draw stays.

use crate::simulator::chance::Chance;
use crate::simulator::sheet::Sheet;

/// Makes some units such.
pub fn draw(sheet: &mut Sheet, numbers: &[usize], dice: &mut Chance) {
    let count = numbers.len();
    for entry in sheet.units.values_mut() {
        entry.is_one = dice.percent(50);
    }
    for _ in 0..count / 4 + 1 {
        let (Some(unit), Some(by)) = (dice.pick(numbers), dice.pick(numbers)) else { return };
        let Some(entry) = sheet.units.get_mut(&unit).filter(|_| unit != by) else { continue };
        entry.pulled_by = vec![by];
    }
}
