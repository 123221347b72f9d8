//! Feeds the corpora of the fuzz targets to the same functions, so that past findings stay fixed
//! without a fuzzer.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "these are tests"
)]

#[path = "../fuzz/src/accounts.rs"]
mod accounts;
#[path = "../fuzz/src/calendar.rs"]
mod calendar;
#[path = "../fuzz/src/composed.rs"]
mod composed;
#[path = "../fuzz/src/corpus.rs"]
mod corpus;
#[path = "../fuzz/src/exec_line.rs"]
mod exec_line;
#[path = "../fuzz/src/generation.rs"]
mod generation;
#[path = "../fuzz/src/graph.rs"]
mod graph;
#[path = "../fuzz/src/import.rs"]
mod import;
#[path = "../fuzz/src/import_openrc.rs"]
mod import_openrc;
#[path = "../fuzz/src/import_sysv.rs"]
mod import_sysv;
#[path = "../fuzz/src/log_line.rs"]
mod log_line;
#[path = "../fuzz/src/machine_records.rs"]
mod machine_records;
#[path = "../fuzz/src/name.rs"]
mod name;
#[path = "../fuzz/src/policy.rs"]
mod policy;
#[path = "../fuzz/src/request.rs"]
mod request;
#[path = "../fuzz/src/settings.rs"]
mod settings;
#[path = "../fuzz/src/unit_file.rs"]
mod unit_file;
#[path = "../fuzz/src/unit_folder.rs"]
mod unit_folder;

use corpus::{Target, damaged, files, folder, targets};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

const TARGETS: &[(&str, Target)] = targets!(
    accounts,
    calendar,
    exec_line,
    generation,
    graph,
    import,
    import_openrc,
    import_sysv,
    machine_records,
    log_line,
    name,
    policy,
    request,
    settings,
    unit_file,
    unit_folder
);

/// The names in a folder, without their suffixes.
fn names(of: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(folder(of)).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn corpus_of_each_target_is_survived_and_a_fifth_of_it_is_parsed() {
    for (target, run) in TARGETS {
        println!("{target}");
        let files = files(target);
        let past = files.iter().filter(|bytes| run(bytes)).count();
        corpus::assert_varied(target, past, files.len());
    }
}

#[test]
fn cuts_and_flipped_bits_of_each_corpus_are_survived() {
    for (target, run) in TARGETS {
        println!("{target}");
        for bytes in files(target).iter().flat_map(|bytes| damaged(bytes)) {
            run(&bytes);
        }
    }
}

/// Targets of init; `init/src/fuzzed.rs` runs their corpora.
const OF_INIT: [&str; 4] = ["inbox", "state_records", "notification", "parcel"];
/// Targets of the cluster; `cluster/tests/fleet/fuzzed.rs` runs their corpora.
const OF_CLUSTER: [&str; 2] = ["api_request", "stored_value"];

#[test]
fn each_fuzz_target_has_a_corpus_that_the_tests_run() {
    let ours = TARGETS.iter().map(|(name, _)| *name).chain(OF_INIT).chain(OF_CLUSTER);
    let ours: BTreeSet<String> = ours.map(str::to_string).collect();
    assert_eq!(names("fuzz_targets"), ours);
    assert_eq!(names("corpus"), ours);
    let manifest = fs::read_to_string(folder("Cargo.toml")).unwrap();
    for name in &ours {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
    }
    for dictionary in names("dictionaries") {
        assert!(ours.contains(&dictionary), "{dictionary}");
    }
}

#[test]
fn fuzzer_includes_every_file_of_init() {
    let modules = |file: &str| -> BTreeSet<String> {
        let text = fs::read_to_string(folder(file)).unwrap();
        let names = text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        names.map(str::to_string).collect()
    };
    let mut init = modules("../../init/src/main.rs");
    // These belong to init's own tests.
    assert!(init.remove("fuzzed") && init.remove("not_run") && init.len() > 15, "{init:?}");
    assert_eq!(modules("src/lib.rs"), init);
}

/// The features of each dependency in that table of a manifest.
fn asked(manifest: &str, table: &str) -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(folder(manifest)).unwrap();
    let lines = text.lines().skip_while(|line| *line != table).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let name = |line: &str| line.split([' ', '.', '=']).next().unwrap_or_default().to_string();
    let features = |line: &str| -> BTreeSet<String> {
        let list = line.split_once("features = [\"").map_or("", |(_, list)| list);
        let words = list.split('"').step_by(2).filter(|word| !word.is_empty());
        words.map(str::to_string).collect()
    };
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| (name(line), features(line))).collect()
}

#[test]
fn fuzzer_has_all_dependencies_of_the_files_of_init() {
    let here = asked("Cargo.toml", "[dependencies]");
    let everywhere = asked("../../Cargo.toml", "[workspace.dependencies]");
    let init = asked("../../init/Cargo.toml", "[dependencies]");
    assert!(init.len() > 7 && init["nix"].contains("socket"), "{init:?}");
    for (name, own) in init {
        let found = here.get(&name).unwrap_or_else(|| panic!("tests/fuzz/Cargo.toml lacks {name}"));
        let wanted = everywhere.get(&name).into_iter().flatten().chain(&own);
        let lacks: Vec<&String> = wanted.filter(|feature| !found.contains(*feature)).collect();
        assert!(lacks.is_empty(), "tests/fuzz/Cargo.toml: {name} lacks {lacks:?}");
    }
}

#[test]
fn every_file_of_the_importer_corpus_is_imported_and_read_back() {
    let files = files("import");
    assert!(files.len() >= 20, "{}", files.len());
    for bytes in &files {
        import::import(bytes);
    }
}

#[test]
fn corpus_has_units_of_each_kind() {
    let names: Vec<String> = files("import").iter().map(|bytes| import::name(bytes[0])).collect();
    for suffix in ["service", "socket", "timer", "path", "target", "mount", "automount", "swap"] {
        assert!(names.iter().any(|name| name.ends_with(suffix)), "{suffix}");
    }
}

#[test]
fn every_cut_and_many_flipped_bits_of_the_importer_corpora_are_survived() {
    let importers = TARGETS.iter().filter(|(target, _)| target.starts_with("import"));
    for (target, run) in importers {
        for bytes in files(target) {
            for end in 0..bytes.len() {
                run(&bytes[..end]);
            }
            for at in (0..bytes.len()).step_by(3) {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << (at % 8);
                run(&changed);
            }
        }
    }
}
