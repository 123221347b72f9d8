//! Waiting for a fact, with an end. The one place of the tests where time passes.

use std::time::{Duration, Instant};

/// How long a fact that must come may take on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Asks until there is an answer, for [`PATIENCE`]; then panics with `what`.
pub fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    match within(PATIENCE, ask) {
        Some(answer) => answer,
        None => panic!("waited {PATIENCE:?} in vain: {what}"),
    }
}

/// Asks until there is an answer or the time is over.
pub fn within<T>(limit: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::park_timeout(PAUSE);
    }
}
