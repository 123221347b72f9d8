//! The corpora of the fuzz targets, fed to the same functions: what was found once stays mended
//! where nobody has a fuzzer.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "these are tests"
)]

#[path = "../../fuzz/src/accounts.rs"]
mod accounts;
#[path = "../../fuzz/src/calendar.rs"]
mod calendar;
#[path = "../../fuzz/src/composed.rs"]
mod composed;
#[path = "../../fuzz/src/exec_line.rs"]
mod exec_line;
#[path = "../../fuzz/src/generation.rs"]
mod generation;
#[path = "../../fuzz/src/graph.rs"]
mod graph;
#[path = "../../fuzz/src/import.rs"]
mod import;
#[path = "../../fuzz/src/kept_machine.rs"]
mod kept_machine;
#[path = "../../fuzz/src/log_line.rs"]
mod log_line;
#[path = "../../fuzz/src/name.rs"]
mod name;
#[path = "../../fuzz/src/policy.rs"]
mod policy;
#[path = "../../fuzz/src/request.rs"]
mod request;
#[path = "../../fuzz/src/settings.rs"]
mod settings;
#[path = "../../fuzz/src/unit_file.rs"]
mod unit_file;
#[path = "../../fuzz/src/unit_folder.rs"]
mod unit_folder;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A target: whether the input came past the parser.
type Target = fn(&[u8]) -> bool;

const TARGETS: [(&str, Target); 14] = [
    ("accounts", |bytes| accounts::accounts(bytes).is_some()),
    ("calendar", |bytes| calendar::calendar(bytes).is_some()),
    ("exec_line", |bytes| exec_line::exec_line(bytes).is_some()),
    ("generation", |bytes| generation::generation(bytes).is_some()),
    ("graph", |bytes| graph::graph(bytes).is_some()),
    ("import", |bytes| import::import(bytes).is_some()),
    ("kept_machine", |bytes| kept_machine::kept_machine(bytes).is_some()),
    ("log_line", |bytes| log_line::log_line(bytes).is_some()),
    ("name", |bytes| name::name(bytes).is_some()),
    ("policy", |bytes| policy::policy(bytes).is_some()),
    ("request", |bytes| request::request(bytes).is_some()),
    ("settings", |bytes| settings::settings(bytes).is_some()),
    ("unit_file", |bytes| unit_file::unit_file(bytes).is_some()),
    ("unit_folder", |bytes| unit_folder::unit_folder(bytes).is_some()),
];

fn fuzz(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz").join(folder)
}

/// The names in a folder, without their ends.
fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(fuzz(folder)).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

/// The files of a target's corpus, by name.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(fuzz("corpus").join(target)).unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .map(|entry| {
            (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn each_corpus_goes_through_its_target_and_a_fifth_of_it_past_the_parser() {
    for (target, run) in TARGETS {
        let files = corpus(target);
        assert!((10..=100).contains(&files.len()), "{target}: {} files", files.len());
        let mut past = 0;
        for (name, bytes) in &files {
            println!("{target}/{name}");
            assert!(bytes.len() < 4096, "{target}/{name}");
            past += usize::from(run(bytes));
        }
        assert!(past * 5 >= files.len(), "{target}: {past} of {} past the parser", files.len());
        assert!(past < files.len() || target == "graph", "{target}: nothing of it is refused");
    }
}

#[test]
fn cuts_and_flipped_bits_of_each_corpus_are_survived() {
    for (target, run) in TARGETS {
        for (name, bytes) in corpus(target) {
            println!("{target}/{name}");
            let step = bytes.len() / 16 + 1;
            for at in (0..bytes.len()).step_by(step) {
                run(&bytes[..at]);
                let mut changed = bytes.clone();
                changed[at] ^= 1 << (at / step % 8);
                run(&changed);
            }
        }
    }
}

/// What only init reads; `init/src/fuzzed.rs` goes through their corpora.
const OF_INIT: [&str; 4] = ["journal_notes", "kept_init", "notification", "parcel"];

#[test]
fn no_target_of_the_fuzzer_is_without_a_corpus_that_the_tests_go_through() {
    let ours: BTreeSet<String> =
        TARGETS.iter().map(|(name, _)| *name).chain(OF_INIT).map(str::to_string).collect();
    assert_eq!(names("fuzz_targets"), ours);
    assert_eq!(names("corpus"), ours);
    let manifest = fs::read_to_string(fuzz("Cargo.toml")).unwrap();
    for name in &ours {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
    }
    for dictionary in names("dictionaries") {
        assert!(ours.contains(&dictionary), "{dictionary}");
    }
}

#[test]
fn every_file_of_the_importers_corpus_is_imported_and_read_back() {
    let files = corpus("import");
    assert!(files.len() >= 20, "{}", files.len());
    for (name, bytes) in &files {
        println!("{name}");
        import::import(bytes);
    }
}

#[test]
fn the_corpus_has_units_of_each_kind() {
    let names: Vec<String> =
        corpus("import").iter().map(|(_, bytes)| import::name(bytes[0])).collect();
    for suffix in ["service", "socket", "timer", "path", "target", "mount", "automount", "swap"] {
        assert!(names.iter().any(|name| name.ends_with(suffix)), "{suffix}");
    }
}

#[test]
fn every_cut_and_every_flipped_bit_of_the_corpus_is_survived() {
    for (_, bytes) in corpus("import") {
        for end in 0..bytes.len() {
            import::import(&bytes[..end]);
        }
        for at in (0..bytes.len()).step_by(3) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            import::import(&changed);
        }
    }
}
