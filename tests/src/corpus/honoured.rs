//! The table `tests/directives.tsv`: a systemd directive counts as honoured only with a row there
//! that names a test of its effect. The program `tables` checks that those tests ran and passed.
//!
//! Columns: `Section.Directive`; the native key (`-`: several); the status, which is `honoured`,
//! `partly: the unsupported part` or `refused: why`; the test. The texts of `partly` are those of
//! the importer's table, which import, check and convert print. `tests/promises.tsv` has the same
//! texts, each with the promise that is not kept.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Directives with a row that does not refuse them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Honoured {
    names: BTreeSet<String>,
}

impl Honoured {
    /// Reads the table of this repository.
    pub fn of_the_table() -> Honoured {
        Honoured::read(&table_of("directives.tsv"))
    }

    fn read(text: &str) -> Honoured {
        let name = |line: &str| {
            let (name, rest) = line.split_once('\t')?;
            (!rest.contains("\trefused: ")).then(|| name.to_owned())
        };
        Honoured { names: text.lines().filter_map(name).collect() }
    }

    /// Returns true if the directive has a test. `section` as in the file.
    pub fn has(&self, section: &str, name: &str) -> bool {
        self.names.contains(&format!("{section}.{name}"))
    }
}

fn table_of(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(path).expect("a table beside the tests")
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::import::systemd::table::{self, How};
    use groundstate_units::unit::key_table;
    use std::collections::BTreeMap;

    /// The four cells of each row of directives.tsv.
    fn directives(text: &str) -> Vec<[&str; 4]> {
        let cells = |line| -> Vec<&str> { str::split(line, '\t').collect() };
        let row = |line| {
            cells(line).try_into().unwrap_or_else(|_| panic!("directives.tsv: {line}: 4 columns"))
        };
        text.lines().map(row).collect()
    }

    /// Each promise of promises.tsv that is not kept: the directive and the difference.
    fn unkept(text: &str) -> Vec<(&str, &str)> {
        let mut found = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let cells: Vec<&str> = line.split('\t').collect();
            let [directive, promise, status, test] = cells[..] else {
                panic!("promises.tsv: {line}: 4 columns")
            };
            assert!(!promise.is_empty() && !test.is_empty(), "promises.tsv: {line}: empty");
            match status.split_once(": ") {
                Some(("differs" | "refused", how)) => found.push((directive, how)),
                _ => assert_eq!(status, "honoured", "promises.tsv: {line}: status"),
            }
        }
        found
    }

    #[test]
    fn each_row_names_a_directive_of_the_importer_and_its_native_key() {
        let mut before = "";
        for [directive, native, status, test] in directives(&table_of("directives.tsv")) {
            assert!(directive > before, "{directive}: in order, and once");
            before = directive;
            let (section, name) = directive.split_once('.').unwrap();
            let row = table::find(section, name).unwrap_or_else(|| panic!("{directive}: unknown"));
            let known = native == "-" || key_table::find(native).is_some();
            assert!(known && !test.is_empty(), "{directive}");
            // A directive with its own code may become another key than its row says.
            let refused = status.starts_with("refused: ");
            assert!(row.key == native || row.how == How::Special || refused, "{directive}");
        }
    }

    /// If it fails: the texts are in `units/src/import/systemd/table/partly.rs`.
    #[test]
    fn status_of_a_directive_is_the_text_of_the_importer() {
        for [directive, _, status, _] in directives(&table_of("directives.tsv")) {
            let (section, name) = directive.split_once('.').unwrap();
            let gaps: Vec<&str> = table::gaps(section, name).map(|gap| gap.how).collect();
            let expected = match (table::find(section, name).map(|row| row.how), &gaps[..]) {
                (Some(How::Refused(why)), _) => format!("refused: {why}"),
                (_, []) => "honoured".to_owned(),
                (_, gaps) => format!("partly: {}", gaps.join("; ")),
            };
            assert_eq!(status, expected, "directives.tsv: {directive}");
        }
    }

    /// If it fails: a promise that is not kept needs a gap with the same text in
    /// `units/src/import/systemd/table/partly.rs`. The directive's status in directives.tsv must
    /// have that text too.
    #[test]
    fn promise_that_is_not_kept_is_reported_by_the_importer() {
        let (text, promises) = (table_of("directives.tsv"), table_of("promises.tsv"));
        let statuses: BTreeMap<&str, &str> =
            directives(&text).into_iter().map(|[name, _, status, _]| (name, status)).collect();
        for (directive, how) in unkept(&promises) {
            let (section, name) = directive.split_once('.').unwrap();
            let told = match table::find(section, name).map(|row| row.how) {
                Some(How::Lost(why) | How::ByDesign(why) | How::Refused(why)) => why == how,
                Some(_) => table::gaps(section, name).any(|gap| gap.how == how),
                None => panic!("promises.tsv: {directive}: unknown"),
            };
            assert!(told, "promises.tsv: {directive}: the importer does not tell: {how}");
            let status = statuses.get(directive).copied().unwrap_or("partly");
            assert_ne!(status, "honoured", "directives.tsv: {directive}");
        }
    }

    /// Prefixes of the names of directives whose promises are listed.
    const AUDITED: [&str; 22] = [
        "Service.EnvironmentFile",
        "Service.Exec",
        "Service.KillMode",
        "Service.PIDFile",
        "Service.PermissionsStartOnly",
        "Service.RemainAfterExit",
        "Service.Restart",
        "Service.SendSIGKILL",
        "Service.Sockets",
        "Service.StartLimit",
        "Service.SuccessExitStatus",
        "Socket.Accept",
        "Socket.Listen",
        "Socket.Service",
        "Timer.",
        "Unit.Assert",
        "Unit.Bind",
        "Unit.Condition",
        "Unit.On",
        "Unit.PartOf",
        "Unit.Requi",
        "Unit.StartLimit",
    ];

    /// If it fails: read the promises of the directive's manual page, and add a row to promises.tsv
    /// for each sentence.
    #[test]
    fn each_directive_of_an_audited_family_has_its_promises_listed() {
        let (text, promises) = (table_of("directives.tsv"), table_of("promises.tsv"));
        let listed: BTreeSet<&str> =
            promises.lines().filter_map(|line| Some(line.split_once('\t')?.0)).collect();
        for family in AUDITED {
            let of_it = directives(&text).into_iter().filter(|row| row[0].starts_with(family));
            assert!(of_it.clone().count() > 0, "{family}: no directive");
            for [directive, _, status, _] in of_it {
                let is_refused = status.starts_with("refused: ");
                assert!(is_refused || listed.contains(directive), "promises.tsv: {directive}");
            }
        }
    }

    #[test]
    fn only_listed_directives_are_honoured() {
        let table = Honoured::read("Service.User\tuser\thonoured\ta_test\nA.B\t-\trefused: x\tb\n");
        assert!(table.has("Service", "User"));
        assert!(!table.has("Service", "Group") && !table.has("Unit", "User"));
        assert!(!table.has("A", "B"));
    }
}
