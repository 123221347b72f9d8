//! Deliberate bugs in debug builds: `initctl restart crash-test` panics like a bug in the state
//! machine, and [`crate::restore`] recovers. [`makes`] selects mistakes that show only after a crash.
//! Release builds do not contain this module.

use groundstate_units::machine::event::Event;

const UNIT: &str = "crash-test";
/// The variable that names a place in which init panics.
const ENVIRONMENT: &str = "GROUNDSTATE_CRASH_IN";

/// Panics if the event restarts the crash-test unit.
pub(crate) fn strike(event: &Event) {
    let is_it =
        matches!(event, Event::Restart(units) if units.iter().any(|name| name.as_str() == UNIT));
    // Only in debug builds: release builds do not contain the module.
    assert!(!is_it, "a bug on purpose");
}

/// The variable that names a mistake in each turn of the event loop.
const TURN: &str = "GROUNDSTATE_MISTAKE_IN_TURN";

/// Returns true if init is to make this mistake in each turn. It has an effect only at a crash.
pub(crate) fn makes(mistake: &str) -> bool {
    std::env::var(TURN).is_ok_and(|named| named == mistake)
}

/// If this is set, the loader crashes at a unit file with `dies` in its name, and hangs at one with
/// `hangs`.
const UNIT_FILES: &str = "GROUNDSTATE_LOADER_BUG";

/// Panics, or never returns, for a unit file with such a name, if the environment asks for it.
pub(crate) fn strike_in_file(path: &str) {
    if std::env::var_os(UNIT_FILES).is_none() {
        return;
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    // Only in debug builds, like the other deliberate bugs.
    assert!(!name.contains("dies"), "a bug on purpose in {path}");
    while name.contains("hangs") {
        std::thread::yield_now();
    }
}

/// Panics in this place if [`ENVIRONMENT`] has the value `PLACE FILE`, the file exists, and
/// `is_this_image` is true.
pub(crate) fn strike_in(place: &str, is_this_image: bool) {
    let named = std::env::var(ENVIRONMENT).unwrap_or_default();
    let file = named.strip_prefix(place).and_then(|rest| rest.strip_prefix(' '));
    let is_it = is_this_image && file.is_some_and(|file| std::path::Path::new(file).exists());
    // Only in debug builds, like the other deliberate bugs.
    assert!(!is_it, "a bug on purpose in {place}");
}
