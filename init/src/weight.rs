//! What the kernel weighs processes by where memory or processors are short: oom_score_adj of proc(5), and nice.
//! Init and what it starts have the same. On a machine that is 0 and 0, whatever PID 1 was started with;
//! elsewhere it is left alone: by it a container's runtime, or who started a supervisor, says what it wants of
//! the workload. All who share memory have one score, and a child shares init's until it is its program: so
//! init has none of its own. A machine's PID 1 is never chosen; helpers with memory of their own are the last
//! ([`sink`]). What a unit itself asks for: [`crate::spawn`].

use crate::boot::Mode;
use crate::sys::schedule;

const FILE: &str = "/proc/self/oom_score_adj";
/// OOM_SCORE_ADJ_MIN of linux/oom.h: never.
const LAST: &str = "-1000";

/// Before the first child. What may not be set stays as it is.
pub(crate) fn begin(mode: Mode) {
    if mode == Mode::Machine {
        let _ = std::fs::write(FILE, "0");
        let _ = schedule::set_nice(0);
    }
}

/// This process, a child of init with memory of its own that runs our own code, is killed last from now on, where
/// it may say so (CAP_SYS_RESOURCE).
pub(crate) fn sink() {
    let _ = std::fs::write(FILE, LAST);
}
