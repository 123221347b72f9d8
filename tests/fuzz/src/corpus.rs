//! Feeds the files of `corpus/` to the targets in the tests of the workspace: unchanged, and
//! damaged. The fuzzer does not use this. Users: `tests/tests/fuzzed.rs`, `init/src/fuzzed.rs` for
//! the targets of init, `cluster/tests/fleet/fuzzed.rs` for those of the cluster.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns whether the input passed the parser.
pub type Target = fn(&[u8]) -> bool;

/// Targets by name, of the modules of these names.
macro_rules! targets {
    ($($name:ident),*) => {
        &[$((stringify!($name), |bytes| $name::$name(bytes).is_some())),*]
    };
}
pub(crate) use targets;

/// A folder of the fuzzer.
pub fn folder(name: &str) -> PathBuf {
    // Relative to the crate that includes this file.
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz").join(name)
}

/// The files of a target's corpus, sorted by name: enough of them, and none too large.
pub fn files(target: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder("corpus").join(target)).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let files: Vec<_> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!((10..=100).contains(&files.len()), "{target}: {} files", files.len());
    assert!(files.iter().all(|bytes| bytes.len() < 4096), "{target}: too large");
    files
}

/// Checks that the corpus is varied: a fifth passes the parser, and some files are refused.
pub fn assert_varied(target: &str, past: usize, all: usize) {
    assert!(past * 5 >= all, "{target}: {past} of {all} past the parser");
    assert!(past < all || target == "graph", "{target}: nothing of it is refused");
}

/// The bytes truncated at sixteen places, and with a bit flipped at each of them.
pub fn damaged(bytes: &[u8]) -> Vec<Vec<u8>> {
    let step = bytes.len() / 16 + 1;
    let at = (0..bytes.len()).step_by(step);
    at.flat_map(|at| {
        let mut changed = bytes.to_vec();
        changed[at] ^= 1 << (at / step % 8);
        [bytes[..at].to_vec(), changed]
    })
    .collect()
}
