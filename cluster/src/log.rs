//! The log of fleetd: one line per message on stderr, which the init of the machine keeps.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

static DEBUG: AtomicBool = AtomicBool::new(false);
static SILENT: AtomicBool = AtomicBool::new(false);

/// `verbosity` above zero.
pub fn set_debug(on: bool) {
    DEBUG.store(on, Ordering::Relaxed);
}

/// Turns the log off, for a simulation of many daemons.
pub fn silence() {
    SILENT.store(true, Ordering::Relaxed);
}

/// Logs what an operator should know.
pub fn info(text: Arguments<'_>) {
    write("INFO", text);
}

/// Logs what an operator should look at.
pub fn error(text: Arguments<'_>) {
    write("ERROR", text);
}

/// Logs what helps to find a fault.
pub fn debug(text: Arguments<'_>) {
    if DEBUG.load(Ordering::Relaxed) {
        write("DEBUG", text);
    }
}

fn write(level: &str, text: Arguments<'_>) {
    if SILENT.load(Ordering::Relaxed) {
        return;
    }
    // One write, so that lines of two tasks do not mix. When stderr is gone nothing can be told.
    let _ = std::io::stderr().lock().write_all(format!("{level} {text}\n").as_bytes());
}
