//! `machines` in a PUT: the machines that take the file of a global unit first.

use super::answer::Answer;
use crate::machine::MachineId;
use crate::requirement::Requirement;
use crate::snapshot::Snapshot;
use crate::unit_file::UnitFile;
use crate::unit_name::UnitName;
use serde_json::Value;
use std::collections::BTreeSet;

/// Maximum number of machines.
const MOST: usize = 4096;

/// Reads the list.
///
/// # Errors
/// The fault of the list.
pub fn read(all: &[Value]) -> Result<BTreeSet<MachineId>, String> {
    if all.len() > MOST {
        return Err(format!("machines has more than {MOST} entries"));
    }
    let id = |one: &Value| {
        let text = one.as_str().ok_or("a machine must be a string")?;
        MachineId::new(text).map_err(|error| error.to_string())
    };
    all.iter().map(id).collect()
}

/// Allows `machines` only for a unit that is global before and after the write; otherwise the unit
/// would stop on the machines that keep the old file. `new` has the file and the desired state of
/// the request, if that file differs from the stored one. A request without a desired state
/// continues a rollout. If its file differs, another client has replaced the file, and the request
/// is refused.
///
/// # Errors
/// The refusal for the client.
pub fn check(
    name: &UnitName,
    machines: Option<&BTreeSet<MachineId>>,
    new: Option<(&UnitFile, &str)>,
    snapshot: &Snapshot,
) -> Result<(), Answer> {
    let Some(machines) = machines else { return Ok(()) };
    if new.is_some_and(|(_, wish)| wish.is_empty()) {
        return Err(Answer::refusal(409, "the unit's file has changed, or the unit is gone"));
    }
    let is_global = snapshot.units.get(name).is_some_and(|kept| kept.record.asks.global);
    let stays_so = new.is_none_or(|(file, _)| Requirement::of(file, Some(name)).global);
    let words = match (is_global, stays_so) {
        _ if machines.is_empty() => return Ok(()),
        (true, true) => return Ok(()),
        (true, false) => "machines is only valid for a global unit: the new file is not global",
        (false, _) => "machines is only valid for an existing global unit",
    };
    Err(Answer::refusal(400, words))
}
