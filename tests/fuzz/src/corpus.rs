//! The files of `corpus/` as the tests of the workspace feed them to the targets: as they are, and
//! damaged. The fuzzer has no use for this; where it is fed: `tests/tests/fuzzed.rs`,
//! `init/src/fuzzed.rs` for what only init reads, `cluster/tests/fleet/fuzzed.rs` for what the cluster does.

use std::fs;
use std::path::{Path, PathBuf};

/// Whether the input came past the parser.
pub type Target = fn(&[u8]) -> bool;

/// Targets by name, of the modules of these names.
macro_rules! targets {
    ($($name:ident),*) => {
        &[$((stringify!($name), |bytes| $name::$name(bytes).is_some())),*]
    };
}
pub(crate) use targets;

/// A folder of the fuzzer's.
pub fn folder(name: &str) -> PathBuf {
    // Of the crate this is taken into.
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz").join(name)
}

/// The files of a target's corpus, in order of their names: enough of them, and none too large.
pub fn files(target: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder("corpus").join(target)).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let files: Vec<_> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!((10..=100).contains(&files.len()), "{target}: {} files", files.len());
    assert!(files.iter().all(|bytes| bytes.len() < 4096), "{target}: too large");
    files
}

/// They are of both sorts: a fifth of them came past the parser, and some were refused.
pub fn assert_varied(target: &str, past: usize, all: usize) {
    assert!(past * 5 >= all, "{target}: {past} of {all} past the parser");
    assert!(past < all || target == "graph", "{target}: nothing of it is refused");
}

/// The bytes cut off at sixteen places, and with a bit flipped at each of them.
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
