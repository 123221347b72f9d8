//! Loads the files of a source, with the drop-ins of the unit directories laid over them, so
//! that the operator of the machine has the last word.

use super::set::Set;
use crate::import::systemd::Suffix;
use crate::load::delivered::Source;
use crate::load::folder::{self, Folders, Found};
use crate::load::foreign::Foreign;
use crate::load::reuse::{Before, drop_ins_of};
use crate::load::unit_file::{self, Context};

/// Reads the files of a source. An error in one breaks only its own units.
pub(super) fn read_source(
    context: &Context<'_>,
    source: &Source,
    folders: &Folders,
    before: &Before<'_>,
    set: &mut Set,
) {
    set.revisions.push((source.name.clone(), source.revision));
    set.roots.push((source.name.clone(), source.roots.clone()));
    let (foreign, native) = listed(context, source, folders);
    for found in native {
        let drop_ins = |names: &[&str]| drop_ins_of(folders, &found.stem, names);
        match before.unchanged(context.files, &found, &drop_ins) {
            Some(before) => set.keep(before),
            None => {
                let file = unit_file::load(context, &found.path, &drop_ins);
                set.take(file, Some(&source.name));
            }
        }
    }
    set.read_imported(context, &foreign, before, Some(&source.name));
}

/// Lists the files of a source: those of systemd with the directories' drop-ins, and native ones.
pub(super) fn listed(
    context: &Context<'_>,
    source: &Source,
    folders: &Folders,
) -> (Foreign, Vec<Found>) {
    let (mut foreign, mut native) = (folders.foreign.drop_ins_alone(), Vec::new());
    for path in source.paths() {
        let (directory, name) = path.rsplit_once('/').unwrap_or((".", path));
        if Suffix::of(name).is_some() {
            foreign.note(context.files, directory, name, false);
        } else {
            native.push(Found { path: path.clone(), stem: folder::stem(path).to_string() });
        }
    }
    foreign.settle();
    (foreign, native)
}
