//! The log of fleetd: one line per message on stderr, which the machine's init keeps.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

static DEBUG: AtomicBool = AtomicBool::new(false);
static SILENT: AtomicBool = AtomicBool::new(false);

/// Enables debug messages, for a `verbosity` above zero.
pub fn set_debug(on: bool) {
    DEBUG.store(on, Ordering::Relaxed);
}

/// Turns the log off, for a simulation of many daemons.
pub fn silence() {
    SILENT.store(true, Ordering::Relaxed);
}

/// Logs information for the operator.
pub fn info(text: Arguments<'_>) {
    write("INFO", text);
}

/// Logs a fault that needs the operator's attention.
pub fn error(text: Arguments<'_>) {
    write("ERROR", text);
}

/// Logs details for debugging.
pub fn debug(text: Arguments<'_>) {
    if DEBUG.load(Ordering::Relaxed) {
        write("DEBUG", text);
    }
}

fn write(level: &str, text: Arguments<'_>) {
    if SILENT.load(Ordering::Relaxed) {
        return;
    }
    // A single write keeps the lines of two tasks apart. A failing stderr cannot be reported.
    let _ = std::io::stderr().lock().write_all(format!("{level} {text}\n").as_bytes());
}
