//! OOM score (oom_score_adj of proc(5)) and nice value of init and its children. The kernel never
//! kills PID 1 of a machine when memory runs out. That PID 1 and its services have score 0 and nice
//! value 0. Any other init takes the lowest score for itself, if it may (CAP_SYS_RESOURCE). Its
//! children have the score that init was started with, or their unit's.
//!
//! Processes that share memory share a score. So an init with a score of its own gives each child
//! its own memory. The child sets its score before it joins a cgroup with a memory limit: with the
//! lowest score, the OOM killer would not kill it there (see [`crate::spawn`],
//! [`crate::sys::child`]). Helpers always take the lowest score ([`protect_from_oom`]).

use crate::base::Mode;
use crate::base::own_limits::{LOWEST_SCORE, OwnLimits};
use crate::sys::process;
use std::io;

const FILE: &str = "/proc/self/oom_score_adj";

/// `--oom-score`: the score of an init that is not PID 1 of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// The score that it was started with.
    Kept,
    /// This score.
    At(i16),
}

impl Default for Own {
    fn default() -> Own {
        Own::At(LOWEST_SCORE)
    }
}

impl Own {
    /// Parses the option.
    pub(crate) fn read(text: &str) -> Option<Own> {
        let score = || text.parse().ok().filter(|score| (LOWEST_SCORE..=1000).contains(score));
        if text == "keep" { Some(Own::Kept) } else { score().map(Own::At) }
    }
}

/// Sets init's score before its first child. A later image inherits it. Returns an error message if
/// that is not permitted.
pub(crate) fn begin(mode: Mode, own: Own, limits: &mut OwnLimits) -> Result<(), String> {
    if mode == Mode::Machine {
        let _ = std::fs::write(FILE, "0");
        let _ = process::set_nice(0);
        return Ok(());
    }
    let Own::At(score) = own else { return Ok(()) };
    if limits.score().is_some() {
        return Ok(());
    }
    let present = present().map_err(|error| format!("{FILE}: {error}"))?;
    if present != score {
        let stays = |error| format!("keeping {present}, the score of its services: {error}");
        std::fs::write(FILE, score.to_string()).map_err(stays)?;
        limits.record_score(present);
    }
    Ok(())
}

fn present() -> io::Result<i16> {
    let text = std::fs::read_to_string(FILE)?;
    text.trim().parse().map_err(io::Error::other)
}

/// Makes this process the OOM killer's last victim, if permitted. Only for children of init that
/// run init's own code and have their own memory.
pub(crate) fn protect_from_oom() {
    let _ = std::fs::write(FILE, LOWEST_SCORE.to_string());
}
