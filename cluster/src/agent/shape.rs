//! What a unit is at init: its file's name there, what init calls it, and its text; and whether init can
//! have it at all. Which units those are is [`super`]'s.

use super::Wanted;
use crate::enabling;
use crate::native_unit;
use crate::unit_file::UnitFile;
use crate::unit_name::UnitName;
use groundstate_units::control::source_set::{SourceSet, is_file_name};
use groundstate_units::import::systemd;
use groundstate_units::name::Name;

/// A unit as init is to have it. A native one has no suffix there, and an instance is made by
/// init of the template in its own file: two of them may be of different texts.
pub(super) struct Shape {
    pub(super) file: String,
    pub(super) target: String,
    pub(super) text: String,
}

impl Shape {
    pub(super) fn of(name: &UnitName, wanted: &Wanted) -> Shape {
        match native_unit::text(&wanted.content.file) {
            Some(text) => Shape { file: native_file(name), target: target(name, wanted), text },
            None => {
                let text = wanted.content.file.text();
                Shape { file: name.to_string(), target: target(name, wanted), text }
            }
        }
    }
}

/// What init calls it.
pub(super) fn target(name: &UnitName, wanted: &Wanted) -> String {
    target_of(name, &wanted.content.file)
}

fn target_of(name: &UnitName, file: &UnitFile) -> String {
    let [imported, native] = targets(name);
    if native_unit::is_one(file) { native } else { imported }
}

/// What init calls it, as a unit of fleet's kind and as a native one.
pub fn targets(name: &UnitName) -> [String; 2] {
    [systemd::native_name(name.as_str()), name.stem().to_string()]
}

/// The files it may have at init, in the same order.
pub fn files(name: &UnitName) -> [String; 2] {
    [name.to_string(), native_file(name)]
}

/// Why the unit is not run, whatever else is here: it can not be enabled, or init can not have it. (One
/// file that init does not take would keep it from taking all others.)
pub fn refusal(name: &UnitName, file: &UnitFile) -> Option<String> {
    let unable = || {
        let [imported, native] = files(name);
        let own = if native_unit::is_one(file) { native } else { imported };
        let is_fine = is_file_name(&own) && Name::new(&target_of(name, file)).is_ok();
        (!is_fine).then(|| format!("init can have no unit with the name {own:?}"))
    };
    enabling::refusal(name, file).or_else(unable)
}

fn native_file(name: &UnitName) -> String {
    format!("{}.yaml", name.stem())
}

/// Init has the very file that it is to have.
pub fn is_put(put: &SourceSet, name: &UnitName, wanted: &Wanted) -> bool {
    let shape = Shape::of(name, wanted);
    put.files.get(&shape.file) == Some(&shape.text)
}

/// Init has a file for it still, whichever kind it was.
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
    fn what_init_can_not_have_is_refused_by_itself() {
        let plain = file("[Service]\nExecStart=/bin/true\n");
        let told = |name: &str| refusal(&UnitName::new(name).unwrap(), &plain);
        for fine in ["a.service", "srv\\x2ddata.service", "a@1.service", "a:b.socket"] {
            assert_eq!(told(fine), None, "{fine}");
        }
        let long = format!("{}.service", "a".repeat(248));
        for (odd, length) in [(".service", 8), (".x.service", 10), (long.as_str(), 256)] {
            assert_eq!(odd.len(), length);
            assert!(told(odd).is_some_and(|why| why.contains(odd)), "{odd}");
        }
    }

    #[test]
    fn an_escaped_name_is_the_one_that_the_importer_makes_of_it() {
        let name = UnitName::new("backup@srv\\x2ddata.service").unwrap();
        let own = ["backup@srv_x2ddata.service", "backup@srv\\x2ddata"];
        assert_eq!(targets(&name), own.map(str::to_string));
    }
}
