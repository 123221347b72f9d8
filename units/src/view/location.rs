//! Where the text of a unit is: the answer of `cat`.

use super::{Facts, View, unknown};
use crate::control::answer::{Failure, Located, SCHEMA};
use crate::machine::Machine;
use crate::name::Name;

/// Answer of `cat`: where the text of a unit is.
///
/// # Errors
/// The name is nobody's.
pub fn located(machine: &Machine, name: &Name) -> Result<Located, Failure> {
    let facts = Facts::default();
    let (units, _) = View::new(machine, &facts).chosen(std::slice::from_ref(name))?;
    let unit = units.first().and_then(|unit| machine.generation().unit(*unit));
    let unit = unit.ok_or_else(|| unknown(machine, name))?;
    let records = machine.generation().records();
    let record = records.iter().find(|it| it.path == unit.at.file && it.source == unit.source);
    let drop_ins = || record.into_iter().flat_map(|record| &record.drop_ins);
    let own = record.map(|record| record.stamp);
    Ok(Located {
        schema: SCHEMA,
        unit: unit.name.to_string(),
        file: unit.at.file.to_string(),
        line: unit.at.line,
        drop_ins: drop_ins().map(|(path, _)| path.to_string()).collect(),
        stamps: own.into_iter().chain(drop_ins().map(|(_, stamp)| *stamp)).collect(),
    })
}
