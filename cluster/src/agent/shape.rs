//! The form of a unit at init: its file name, its name and its text, and whether init accepts it.
//! [`super`] decides which units those are.

use super::Wanted;
use crate::enabling;
use crate::native_unit::{self, Native};
use crate::unit_file::UnitFile;
use crate::unit_name::UnitName;
use groundstate_units::control::answer::UnitStatus;
use groundstate_units::control::source_set::{SourceSet, is_file_name};
use groundstate_units::import::systemd;
use groundstate_units::spec::value;
use groundstate_units::text::name::Name;
use groundstate_units::text::specifier::{self, Facts};
use std::collections::BTreeSet;

/// The key of a native unit with its aliases.
const PROVIDES: &str = "provides";

/// A unit in init's form. A native unit has no suffix there. A native instance gets its own file
/// instead of a template, because two instances may have different texts.
pub(super) struct Shape {
    pub(super) file: String,
    pub(super) target: String,
    pub(super) text: String,
}

impl Shape {
    pub(super) fn of(name: &UnitName, wanted: &Wanted) -> Shape {
        match wanted.content.native() {
            Some(Native { text, .. }) => {
                let text = text.clone();
                Shape { file: native_file(name), target: target(name, wanted), text }
            }
            None => {
                let text = wanted.content.file.text();
                Shape { file: name.to_string(), target: target(name, wanted), text }
            }
        }
    }
}

/// Returns the unit's name at init.
pub(super) fn target(name: &UnitName, wanted: &Wanted) -> String {
    of_its_kind(targets(name), wanted.content.native().is_some())
}

fn of_its_kind([imported, native]: [String; 2], is_native: bool) -> String {
    if is_native { native } else { imported }
}

/// Returns all names of a unit at init: its name, its aliases, and for a service also each without
/// the suffix.
pub(super) fn names(name: &UnitName, wanted: &Wanted) -> BTreeSet<String> {
    let file = &wanted.content.file;
    if let Some(native) = wanted.content.native() {
        let others = native.words(PROVIDES);
        let others = others.iter().flat_map(|word| word.split(',')).map(str::trim);
        let others = others.filter_map(|word| expanded(word, name));
        return others.chain([target(name, wanted)]).collect();
    }
    let behind = |word: &str| word.rsplit_once('.').map(|(_, suffix)| suffix.to_string());
    let suffix = behind(name.as_str());
    // An empty value resets the aliases before it.
    let given: Vec<&str> = file.values("Install", "Alias").collect();
    let given = given.rsplit(|value| value.is_empty()).next().unwrap_or_default();
    let aliases = given.iter().flat_map(|value| value.split_whitespace());
    let aliases = aliases.filter_map(|word| expanded(word.trim_matches(['"', '\'']), name));
    let aliases = aliases.filter(|word| behind(word) == suffix).map(|word| {
        // `b@.service` becomes an alias of each instance of `a@.service`.
        word.replacen("@.", &format!("@{}.", name.instance().unwrap_or_default()), 1)
    });
    let is_short = matches!(suffix.as_deref(), Some("service" | "target"));
    let mut names = BTreeSet::new();
    for word in aliases.chain([name.to_string()]) {
        if let Some((stem, _)) = word.rsplit_once('.').filter(|_| is_short) {
            names.insert(stem.to_string());
        }
        names.insert(word);
    }
    names
}

/// Expands the specifiers that depend on the unit's name, because they distinguish instances of one
/// file. Specifiers of the machine stay as written: they are the same for all units there. Returns
/// `None` if the word is invalid; init rejects it too.
fn expanded(word: &str, name: &UnitName) -> Option<String> {
    let stays = |letter: char| Some(format!("%{letter}"));
    let fields = [
        ("ID", 'o'),
        ("VERSION_ID", 'w'),
        ("BUILD_ID", 'B'),
        ("VARIANT_ID", 'W'),
        ("IMAGE_ID", 'M'),
        ("IMAGE_VERSION", 'A'),
    ];
    let facts = || Facts {
        machine_id: stays('m'),
        boot_id: stays('b'),
        host: stays('H'),
        kernel: stays('v'),
        architecture: stays('a'),
        os: fields.map(|(field, letter)| (field.to_string(), format!("%{letter}"))).to_vec(),
    };
    if !word.contains('%') {
        return Some(word.to_string()).filter(|word| !word.is_empty());
    }
    let name = systemd::unit_name::UnitName::of(name.as_str());
    specifier::expand(word, &name, &facts()).ok().filter(|word| !word.is_empty())
}

/// Returns the unit's name at init as a fleet unit and as a native one.
pub fn targets(name: &UnitName) -> [String; 2] {
    [name.to_string(), name.stem().to_string()]
}

/// Returns the file names that the unit may have at init, in the same order.
pub fn files(name: &UnitName) -> [String; 2] {
    [name.to_string(), native_file(name)]
}

/// Returns why this machine refuses the unit, whatever other units exist: it cannot be enabled, or
/// init would reject its file. One invalid file would make init reject the whole source.
pub fn refusal(name: &UnitName, file: &UnitFile) -> Option<String> {
    let unable = || {
        let is_native = native_unit::is_one(file);
        let own = of_its_kind(files(name), is_native);
        let target = of_its_kind(targets(name), is_native);
        let is_fine = is_file_name(&own) && Name::new(&target).is_ok();
        (!is_fine).then(|| format!("{own:?} is not a valid unit name for init"))
    };
    enabling::refusal(name, file).or_else(unable)
}

/// Returns true if init keeps the running process when it gets this file.
pub fn keeps_what_runs(wanted: &Wanted) -> bool {
    let Some(native) = wanted.content.native() else { return false };
    let says = |key| native.scalar(key);
    let essential = says("essential").is_some_and(|word| value::boolean(&word) == Ok(true));
    essential || says("on-change").is_some_and(|word| word == "keep")
}

fn native_file(name: &UnitName) -> String {
    format!("{}.yaml", name.stem())
}

/// Returns true if init has the unit's current file.
pub fn is_put(put: &SourceSet, name: &UnitName, wanted: &Wanted) -> bool {
    let shape = Shape::of(name, wanted);
    put.files.get(&shape.file) == Some(&shape.text)
}

/// Returns true if init's unit is this one: same name, from the same kind of file.
pub fn is_of(name: &UnitName, wanted: &Wanted, unit: &UnitStatus) -> bool {
    let shape = Shape::of(name, wanted);
    let file = unit.file.rsplit('/').next().unwrap_or_default();
    unit.unit == shape.target && file == shape.file
}

/// Returns true if init still has a file of either kind for the unit.
pub fn holds(put: &SourceSet, name: &UnitName) -> bool {
    files(name).iter().any(|file| put.files.contains_key(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> UnitFile {
        UnitFile::parse(text).unwrap()
    }

    #[test]
    fn unit_that_init_cannot_load_is_refused_alone() {
        let plain = file("[Service]\nExecStart=/bin/true\n");
        let refusal_of = |name: &str| refusal(&UnitName::new(name).unwrap(), &plain);
        for fine in ["a.service", "srv\\x2ddata.service", "a@1.service", "a:b.socket"] {
            assert_eq!(refusal_of(fine), None, "{fine}");
        }
        let long = format!("{}.service", "a".repeat(248));
        for (odd, length) in [(".service", 8), (".x.service", 10), (long.as_str(), 256)] {
            assert_eq!(odd.len(), length);
            assert!(refusal_of(odd).is_some_and(|why| why.contains(odd)), "{odd}");
        }
    }

    #[test]
    fn an_escaped_unit_name_stays_escaped_in_init() {
        let name = UnitName::new("backup@srv\\x2ddata.service").unwrap();
        let own = ["backup@srv\\x2ddata.service", "backup@srv\\x2ddata"];
        assert_eq!(targets(&name), own.map(str::to_string));
    }
}
