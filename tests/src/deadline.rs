//! Waits for facts with a timeout. The only place of the tests where time passes.

use crate::extent::is_soak;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// The timeout for a fact that must occur, on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The timeout in a soak, which does a hundred times as much.
const PATIENCE_OF_A_SOAK: Duration = Duration::from_secs(1200);

/// The pause between two polls.
const PAUSE: Duration = Duration::from_millis(5);

thread_local! {
    /// The timeout that this thread has instead of the usual ones.
    static OWN: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Does this work with another timeout for each fact, for a test in which some facts never occur.
pub fn with_patience<T>(patience: Duration, work: impl FnOnce() -> T) -> T {
    struct Restore(Option<Duration>);
    impl Drop for Restore {
        fn drop(&mut self) {
            OWN.set(self.0);
        }
    }
    let _restore = Restore(OWN.replace(Some(patience)));
    work()
}

/// The timeout for a fact that must occur: [`PATIENCE`], or that of [`with_patience`].
pub fn patience() -> Duration {
    OWN.get().unwrap_or(PATIENCE)
}

/// Polls until there is an answer, for [`patience`] or longer in a soak; then panics with `what`.
pub fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    let usual = if is_soak() { PATIENCE_OF_A_SOAK } else { PATIENCE };
    let patience = OWN.get().unwrap_or(usual);
    match within(patience, ask) {
        Some(answer) => answer,
        None => panic!("timeout after {patience:?}: {what}"),
    }
}

/// Polls until there is an answer or the time is over.
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
