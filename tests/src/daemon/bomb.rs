//! A fork bomb that does not go out: each process starts copies of itself for as long as it lives,
//! and where no more can be had it tries again. `--multiply` of the stand-in.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Between two copies of one process.
const PAUSE: Duration = Duration::from_millis(50);

/// Never ends by itself, and heeds no signal that is blocked.
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
