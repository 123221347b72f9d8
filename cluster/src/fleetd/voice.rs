//! What the daemon says, one line each on stderr: its init keeps them.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

static DEBUG: AtomicBool = AtomicBool::new(false);
static SILENT: AtomicBool = AtomicBool::new(false);

/// `verbosity` above zero.
pub fn set_debug(on: bool) {
    DEBUG.store(on, Ordering::Relaxed);
}

/// Nothing is said any more: for a simulation of many.
pub fn silence() {
    SILENT.store(true, Ordering::Relaxed);
}

/// What an operator should know.
pub fn info(text: Arguments<'_>) {
    write("INFO", text);
}

/// What an operator should look at.
pub fn error(text: Arguments<'_>) {
    write("ERROR", text);
}

/// What helps to find a fault.
pub fn debug(text: Arguments<'_>) {
    if DEBUG.load(Ordering::Relaxed) {
        write("DEBUG", text);
    }
}

fn write(level: &str, text: Arguments<'_>) {
    if SILENT.load(Ordering::Relaxed) {
        return;
    }
    // At once, so that nobody else's words come between. Nobody is left to be told when stderr is
    // gone.
    let _ = std::io::stderr().lock().write_all(format!("{level} {text}\n").as_bytes());
}
