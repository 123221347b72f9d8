//! The table `tests/directives.tsv`: a directive of systemd's counts as honoured only with a row
//! there, which names a test that sees its effect from inside a process or by an event. That
//! those tests ran and passed is looked at by the program `tables`.
//!
//! Columns: `Section.Directive`, the native key it becomes (`-`: several), the test.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Directives with a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Honoured {
    names: BTreeSet<String>,
}

impl Honoured {
    /// Of the table of this repository.
    pub fn of_the_table() -> Honoured {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("directives.tsv");
        Honoured::read(&fs::read_to_string(path).expect("tests/directives.tsv"))
    }

    fn read(text: &str) -> Honoured {
        let name = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
        Honoured { names: text.lines().map(name).collect() }
    }

    /// The directive has a test. `section` as in the file.
    pub fn has(&self, section: &str, name: &str) -> bool {
        self.names.contains(&format!("{section}.{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::import::systemd::table;
    use groundstate_units::key;

    #[test]
    fn a_row_is_a_directive_the_importer_knows_and_its_native_key() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("directives.tsv");
        let text = fs::read_to_string(path).unwrap();
        let mut before = String::new();
        for line in text.lines() {
            let cells: Vec<&str> = line.split('\t').collect();
            let [directive, native, test] = cells[..] else { panic!("{line}: three columns") };
            assert!(*directive > *before, "{line}: in order, and once");
            before = directive.to_owned();
            let (section, name) = directive.split_once('.').unwrap();
            let row = table::find(section, name).unwrap_or_else(|| panic!("{line}: unknown"));
            let known = native == "-" || key::find(native).is_some();
            assert!(known && !test.is_empty(), "{line}");
            // What has its own code may become another key than its row says.
            assert!(row.key == native || row.how == table::How::Special, "{line}: {}", row.key);
        }
    }

    #[test]
    fn only_what_stands_there_is_honoured() {
        let table = Honoured::read("Service.User\tuser\ta_test\n");
        assert!(table.has("Service", "User"));
        assert!(!table.has("Service", "Group") && !table.has("Unit", "User"));
    }
}
