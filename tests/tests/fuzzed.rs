//! The corpora of the fuzz targets, fed to the same functions: what was found once stays mended
//! where nobody has a fuzzer.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

#[path = "../../fuzz/src/import.rs"]
mod import;

use std::fs;
use std::path::Path;

/// The files of a target's corpus, by name.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .map(|entry| {
            (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
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
