//! The place of a unit's text: the answer of `cat`.

use super::{Facts, View, unknown};
use crate::control::answer::{Failure, Located, SCHEMA};
use crate::machine::Machine;
use crate::text::name::Name;

/// Answer of `cat`: the place of a unit's text.
///
/// # Errors
/// The name belongs to no target or unit.
pub fn located(machine: &Machine, name: &Name) -> Result<Located, Failure> {
    let facts = Facts::default();
    let (units, _) = View::new(machine, &facts).chosen(std::slice::from_ref(name))?;
    let unit = units.first().and_then(|unit| machine.generation().unit(*unit));
    let unit = unit.ok_or_else(|| unknown(machine, name))?;
    let records = machine.generation().records();
    let record = records.iter().find(|it| it.path == unit.at.file && it.source == unit.source);
    let located = record.map(|record| Located::of(unit.name.as_str(), record));
    let located = located.unwrap_or_else(|| Located {
        schema: SCHEMA,
        unit: unit.name.to_string(),
        ..Located::default()
    });
    Ok(Located { file: unit.at.file.to_string(), line: unit.at.line, ..located })
}
