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
    Ok(Located {
        schema: SCHEMA,
        unit: unit.name.to_string(),
        file: unit.at.file.to_string(),
        line: unit.at.line,
    })
}
