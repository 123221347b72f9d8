//! C18: units on machines that require signatures.

use super::{Moment, Verdict, must};
use crate::sim::world::World;
use crate::unit_name::UnitName;

/// With signatures required, init gets only files that a key holder has signed under that name, and
/// none older than the machine has seen.
pub(super) fn c18_signed(world: &World, moment: &Moment<'_>) -> Verdict {
    let Moment::Put { machine, files, .. } = moment else { return Ok(()) };
    if !world.plan.signed {
        return Ok(());
    }
    let has = &world.machines[*machine].init.files;
    for (file, text) in files.iter().filter(|(file, text)| has.get(*file) != Some(*text)) {
        let Ok(name) = UnitName::new(file) else { continue };
        let newest = world.book.signed.newest(&name, text);
        must(newest.is_some(), || {
            format!("machine {machine} gets {name} without a valid signature")
        })?;
        let seen = world.book.signed.seen.get(&(*machine, name.clone())).copied();
        must(newest >= seen, || {
            format!(
                "machine {machine} gets {name} with serial {newest:?} after it has seen {seen:?}"
            )
        })?;
    }
    Ok(())
}
