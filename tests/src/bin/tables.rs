//! `tables RESULTS FILE…`: checks that each test that a document's table names has run and passed.
//! RESULTS comes from `tests/run`: NAME, tab, `ok` or `FAIL`, one per line.
//! [`groundstate_tests::named`] finds the names. A name may omit its leading modules:
//! `a_ring_is_refused` for `units::load::tests::a_ring_is_refused`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its output is its work")]

use groundstate_tests::named::named;
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
        let missing: Vec<String> = named(&file, &text)
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

/// Each name, in full and by its last parts, with whether all tests with that name passed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_found_by_its_end_and_fails_if_one_of_its_tests_failed() {
        let passed = outcomes("a::b::c\tok\nd::c\tFAIL\n");
        assert_eq!(passed.get("b::c"), Some(&true));
        assert_eq!(passed.get("c"), Some(&false));
        assert_eq!(passed.get("e"), None);
    }
}
