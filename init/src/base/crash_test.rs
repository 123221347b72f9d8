//! A bug on purpose, in debug builds alone: `initctl restart crash-test` panics where a bug of the machine
//! would. [`crate::restore`] goes on after it. A build as it is shipped knows no such name.

use groundstate_units::machine::event::Event;

/// The unit.
const UNIT: &str = "crash-test";
/// Names a place that only a bug of init's own gets to.
const ENVIRONMENT: &str = "GROUNDSTATE_CRASH_IN";

/// Panics if this is asked for.
pub(crate) fn strike(event: &Event) {
    let is_it =
        matches!(event, Event::Restart(units) if units.iter().any(|name| name.as_str() == UNIT));
    // Never in a build that is shipped: the module is not there.
    assert!(!is_it, "a bug on purpose");
}

/// Set: the loader dies of a unit file that has `dies` in its name, and `hangs` at one with that.
const UNIT_FILES: &str = "GROUNDSTATE_LOADER_BUG";

/// Panics, or never returns, for a unit file of such a name, if the environment asks for it.
pub(crate) fn strike_in_file(path: &str) {
    if std::env::var_os(UNIT_FILES).is_none() {
        return;
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    // As above.
    assert!(!name.contains("dies"), "a bug on purpose in {path}");
    while name.contains("hangs") {
        std::thread::yield_now();
    }
}

/// Panics in the place that the environment of init names, `PLACE FILE`, from when the file is
/// there on, in `this` image of its program.
pub(crate) fn strike_in(place: &str, this: bool) {
    let named = std::env::var(ENVIRONMENT).unwrap_or_default();
    let file = named.strip_prefix(place).and_then(|rest| rest.strip_prefix(' '));
    let is_it = this && file.is_some_and(|file| std::path::Path::new(file).exists());
    // As above.
    assert!(!is_it, "a bug on purpose in {place}");
}
