//! A fork bomb that keeps going: each process starts copies of itself while it lives, and retries
//! when a fork fails. Option `--multiply` of the stand-in.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The pause between two copies made by one process.
const PAUSE: Duration = Duration::from_millis(50);

/// Multiplies this process. It never returns, and ignores blocked signals.
pub(super) fn multiply() -> ! {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut children: Vec<Child> = Vec::new();
    loop {
        children.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
        let mut copy = Command::new("/proc/self/exe");
        children.extend(copy.args(&words).stdin(Stdio::null()).spawn());
        std::thread::park_timeout(PAUSE);
    }
}
