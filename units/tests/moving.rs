//! A unit file that changes before, during or after the loader reads it. The loader uses a
//! consistent version of the file or none.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

mod memory;

use memory::Look::{Gone, Half, Is};
use memory::{Look, Memory, told};

const PATH: &str = "/etc/groundstate/units/web.yaml";
const OLD: &str = "unit: web\ndescription: old\nprovides: old\n";
const NEW: &str = "unit: web\ndescription: new\nprovides: new\n";
/// Has the length of [`NEW`].
const MIXED: &str = "unit: web\ndescription: new\nprovides: old\n";

/// Returns the description, the diagnostics, whether the set is refused, and the number of
/// accesses.
fn load(looks: &[Look]) -> (Option<String>, Vec<String>, bool, i64) {
    let mut memory = Memory::new(&[(PATH, OLD)]);
    memory.moving = Some((PATH.to_owned(), looks.to_vec()));
    let loaded = memory.load(None);
    let web = loaded.generation.units.first().map(|unit| unit.live.description.clone());
    (web, told(&loaded.generation), loaded.refused, memory.looks())
}

#[test]
fn file_that_stops_changing_is_read_at_the_next_try() {
    // Each try takes three accesses: stat, read, stat.
    for (looks, taken, tries) in [
        (vec![Is(OLD)], OLD, 1),
        (vec![Is(OLD), Is(NEW)], NEW, 1),
        (vec![Is(OLD), Is(OLD), Is(NEW)], NEW, 2),
        (vec![Is(OLD), Is(MIXED), Is(NEW)], NEW, 2),
        (vec![Is(NEW), Half(NEW), Is(NEW)], NEW, 2),
        (vec![Half(NEW), Half(NEW), Half(NEW), Half(NEW), Half(NEW), Is(NEW)], NEW, 3),
        (vec![Is(OLD), Is(OLD), Is(NEW), Is(NEW), Is(MIXED), Is(OLD)], OLD, 3),
    ] {
        let (description, told, refused, looked) = load(&looks);
        let whole = if taken == OLD { "old" } else { "new" };
        assert_eq!(description.as_deref(), Some(whole));
        assert_eq!((told, refused), (Vec::new(), false));
        assert_eq!(looked, 3 * tries);
    }
}

#[test]
fn file_that_changes_during_three_tries_is_not_used() {
    // A fourth try would succeed.
    let restless =
        [Is(OLD), Is(OLD), Is(NEW), Is(NEW), Is(NEW), Is(OLD), Is(OLD), Is(OLD), Is(NEW)];
    for looks in [&restless[..], &[Half(OLD)]] {
        let (description, told, refused, _) = load(looks);
        assert_eq!((description, told), (None, vec!["web.yaml:1:1 error unstable".to_owned()]));
        assert!(refused);
    }
}

#[test]
fn file_removed_while_it_is_read_is_reported_and_not_used() {
    for looks in [
        vec![Gone],
        vec![Is(OLD), Gone],
        vec![Is(OLD), Is(OLD), Gone],
        vec![Is(OLD), Is(OLD), Is(NEW), Gone],
        // A removed file is missing, even if another one soon replaces it.
        vec![Is(OLD), Gone, Is(NEW)],
    ] {
        let (description, told, refused, _) = load(&looks);
        assert_eq!((description, told), (None, vec!["web.yaml:1:1 error unreadable".to_owned()]));
        assert!(refused);
    }
}
