//! `machines` in a PUT: those that take the file of a global unit before the others do.

use super::answer::Answer;
use crate::machine::MachineId;
use crate::requirement::Requirement;
use crate::snapshot::Snapshot;
use crate::unit_file::UnitFile;
use crate::unit_name::UnitName;
use serde_json::Value;
use std::collections::BTreeSet;

/// As many may be named.
const MOST: usize = 4096;

/// # Errors
/// What is wrong with them.
pub fn read(all: &[Value]) -> Result<BTreeSet<MachineId>, String> {
    if all.len() > MOST {
        return Err(format!("machines may be {MOST} at most"));
    }
    let id = |one: &Value| {
        let text = one.as_str().ok_or("a machine is to be a string")?;
        MachineId::new(text).map_err(|error| error.to_string())
    };
    all.iter().map(id).collect()
}

/// They are named for what is on all machines, and stays so: else it would be off those that keep what
/// they have. `new`: a file that is not the one there, and what is wished for it; nothing wished: they
/// are named for a file that stood there before.
///
/// # Errors
/// What the client is told.
pub fn check(
    name: &UnitName,
    machines: Option<&BTreeSet<MachineId>>,
    new: Option<(&UnitFile, &str)>,
    snapshot: &Snapshot,
) -> Result<(), Answer> {
    let Some(machines) = machines else { return Ok(()) };
    if new.is_some_and(|(_, wish)| wish.is_empty()) {
        return Err(Answer::refusal(409, "the unit has another file by now, or is gone"));
    }
    let is_global = snapshot.units.get(name).is_some_and(|kept| kept.record.asks.global);
    let stays_so = new.is_none_or(|(file, _)| Requirement::of(file, Some(name)).global);
    let words = match (is_global, stays_so) {
        _ if machines.is_empty() => return Ok(()),
        (true, true) => return Ok(()),
        (true, false) => {
            "machines can be named for a global unit alone: by its new file it is none"
        }
        (false, _) => "machines can be named for a global unit that is there alone",
    };
    Err(Answer::refusal(400, words))
}
