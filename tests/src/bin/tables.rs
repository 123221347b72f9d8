//! `tables RESULTS FILE…`: tables in documents may name tests; each one named must have
//! run and passed. RESULTS is what `tests/run` wrote: NAME, tab, `ok` or `FAIL`, a line.
//!
//! Which words are names: in a table with a column headed `test` or `tests`, each word
//! in backticks in that column; in a file of columns with tabs between them, the last one. A name may be written without what leads to it:
//! `a_ring_is_refused` for `units::load::tests::a_ring_is_refused`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its output is its work")]

use std::collections::BTreeMap;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let results = arguments.next().map(std::fs::read_to_string);
    let Some(Ok(results)) = results else {
        eprintln!("usage: tables RESULTS FILE…");
        return ExitCode::from(64);
    };
    let passed = outcomes(&results);
    let mut bad = 0;
    for file in arguments {
        let Ok(text) = std::fs::read_to_string(&file) else {
            println!("FAIL {file} can be read");
            bad += 1;
            continue;
        };
        let names = if file.ends_with(".tsv") { last_column(&text) } else { named(&text) };
        let missing: Vec<String> = names
            .into_iter()
            .filter(|(_, name)| passed.get(name.as_str()) != Some(&true))
            .map(|(line, name)| format!("{file}:{line}: `{name}` did not run and pass"))
            .collect();
        if missing.is_empty() {
            println!("ok {file} names only tests that passed");
        } else {
            println!("FAIL {file} names only tests that passed");
            missing.iter().for_each(|complaint| println!("{complaint}"));
            bad += 1;
        }
    }
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Each name, whole and by its last parts, with whether all that bear it passed.
fn outcomes(results: &str) -> BTreeMap<&str, bool> {
    let mut passed = BTreeMap::new();
    for line in results.lines() {
        let Some((name, result)) = line.rsplit_once('\t') else { continue };
        let starts = std::iter::once(0).chain(name.match_indices("::").map(|(at, _)| at + 2));
        for start in starts {
            let entry = passed.entry(&name[start..]).or_insert(true);
            *entry = *entry && result == "ok";
        }
    }
    passed
}

/// The names of a plain table: what stands behind the last tab, each with its line.
fn last_column(text: &str) -> Vec<(usize, String)> {
    let cells = text.lines().enumerate();
    cells
        .filter_map(|(at, line)| Some((at + 1, line.rsplit_once('\t')?.1.trim().to_owned())))
        .collect()
}

/// The names a document's tables give, each with its line.
fn named(text: &str) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    let mut column = None;
    let mut in_table = false;
    for (at, line) in text.lines().enumerate() {
        if !line.trim_start().starts_with('|') {
            in_table = false;
            continue;
        }
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').collect();
        if !in_table {
            in_table = true;
            let heads =
                |cell: &&str| matches!(cell.trim().to_lowercase().as_str(), "test" | "tests");
            column = cells.iter().position(heads);
            continue;
        }
        let cell = column.and_then(|column| cells.get(column)).copied().unwrap_or_default();
        names.extend(cell.split('`').skip(1).step_by(2).map(|name| (at + 1, name.to_owned())));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_column_of_tests_names_tests() {
        let text = "| key | tests |\n|---|---|\n| `unit` | `a_unit`, `b::c` |\n\n`not this`\n";
        assert_eq!(named(text), [(3, "a_unit".to_owned()), (3, "b::c".to_owned())]);
    }

    #[test]
    fn the_last_column_of_a_plain_table_names_tests() {
        let expected = [(1, "one".to_owned()), (2, "two".to_owned())];
        assert_eq!(last_column("key\tone\nA.B\tkey\ttwo\n"), expected);
    }

    #[test]
    fn a_name_is_found_by_its_end_and_fails_when_one_of_its_bearers_failed() {
        let passed = outcomes("a::b::c\tok\nd::c\tFAIL\n");
        assert_eq!(passed.get("b::c"), Some(&true));
        assert_eq!(passed.get("c"), Some(&false));
        assert_eq!(passed.get("e"), None);
    }
}
