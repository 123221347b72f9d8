//! Reuses the units of files that did not change since the previous generation, so that the cost of
//! a reload follows the changes.

use crate::load::files::Files;
use crate::load::folder::{Folders, Found};
use crate::unit::assembly::Draft;
use crate::unit::generation::{FileRecord, Generation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Returns the drop-ins for a file and the units in it, in the order of the drop-ins' names.
pub(crate) fn drop_ins_of(folders: &Folders, stem: &str, names: &[&str]) -> Vec<Arc<str>> {
    let units: BTreeSet<&str> = names.iter().copied().chain([stem]).collect();
    let mut all: Vec<(&String, &Arc<str>)> =
        units.iter().filter_map(|unit| folders.drop_ins.get(*unit)).flatten().collect();
    all.sort();
    all.into_iter().map(|(_, path)| path.clone()).collect()
}

/// The previous generation by file.
pub(crate) struct Before<'a> {
    generation: Option<&'a Generation>,
    records: BTreeMap<&'a str, &'a FileRecord>,
    texts_alone: bool,
    units: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Before<'a> {
    pub(crate) fn of(generation: Option<&'a Generation>) -> Before<'a> {
        let mut before = Before {
            generation,
            records: BTreeMap::new(),
            texts_alone: false,
            units: BTreeMap::new(),
        };
        let Some(generation) = generation else { return before };
        before.records = generation.files.iter().map(|record| (&*record.path, record)).collect();
        for (index, unit) in generation.units.iter().enumerate() {
            before.units.entry(&unit.at.file).or_default().push(index);
        }
        before
    }

    /// Compares files by their text alone. Changed drop-ins wait for a reload that the operator
    /// requests.
    pub(crate) fn by_texts_alone(self) -> Before<'a> {
        Before { texts_alone: true, ..self }
    }

    /// Returns the previous units of a file if nothing about it changed.
    pub(crate) fn unchanged(
        &self,
        files: &dyn Files,
        found: &Found,
        drop_ins: &dyn Fn(&[&str]) -> Vec<Arc<str>>,
    ) -> Option<(Vec<Draft>, FileRecord)> {
        let generation = self.generation?;
        let record = *self.records.get(&*found.path)?;
        if record.again || files.stat(&found.path).ok()?.stamp != record.stamp {
            return None;
        }
        let units: Vec<_> = self
            .units
            .get(&*found.path)
            .into_iter()
            .flatten()
            .filter_map(|index| generation.units.get(*index))
            .collect();
        let names: Vec<&str> = units.iter().map(|unit| unit.name.as_str()).collect();
        let are_same = |now: &[Arc<str>]| {
            now.len() == record.drop_ins.len()
                && now.iter().zip(&record.drop_ins).all(|(path, (known, stamp))| {
                    path == known && files.stat(path).is_ok_and(|stat| stat.stamp == *stamp)
                })
        };
        let same = self.texts_alone || are_same(&drop_ins(&names));
        let drafts = units.iter().map(|unit| Draft::of(generation, unit)).collect();
        same.then(|| (drafts, record.clone()))
    }
}
