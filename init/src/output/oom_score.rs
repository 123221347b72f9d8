//! What the kernel weighs processes by where memory or processors are short: oom_score_adj of proc(5), and nice.
//! A machine's PID 1 is never chosen, and has 0 and 0, as its services. Any other is as its services would be, whose
//! workload is weighed by who started it: so it takes the lowest score there is for itself, where it may
//! (CAP_SYS_RESOURCE), and its children have that which it was started with, or their unit's.
//!
//! All who share memory have one score, so from then on each child has memory of its own, and sets its score
//! before it is in a cgroup that may run out of memory: nobody there could be killed (see [`crate::spawn`],
//! [`crate::sys::child`]). Where init may not, all stay as they are. Helpers take the lowest in any case ([`protect_from_oom`]).

use crate::base::Mode;
use crate::base::own_limits::{LOWEST_SCORE, OwnLimits};
use crate::sys::schedule;
use std::io;

const FILE: &str = "/proc/self/oom_score_adj";

/// `--oom-score`: what init itself is to have, unless it is a machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// What it was started with.
    Kept,
    /// This one.
    At(i16),
}

impl Default for Own {
    fn default() -> Own {
        Own::At(LOWEST_SCORE)
    }
}

impl Own {
    /// As it is written.
    pub(crate) fn read(text: &str) -> Option<Own> {
        let score = || text.parse().ok().filter(|score| (LOWEST_SCORE..=1000).contains(score));
        if text == "keep" { Some(Own::Kept) } else { score().map(Own::At) }
    }
}

/// Before the first child. An image that comes after another has what that one had set; what may not be set stays as
/// it is, and why it may not comes back.
pub(crate) fn begin(mode: Mode, own: Own, limits: &mut OwnLimits) -> Result<(), String> {
    if mode == Mode::Machine {
        let _ = std::fs::write(FILE, "0");
        let _ = schedule::set_nice(0);
        return Ok(());
    }
    let Own::At(score) = own else { return Ok(()) };
    if limits.score().is_some() {
        return Ok(());
    }
    let present = present().map_err(|error| format!("{FILE}: {error}"))?;
    if present != score {
        let stays = |error| format!("it stays {present}, that of its services: {error}");
        std::fs::write(FILE, score.to_string()).map_err(stays)?;
        limits.had_score(present);
    }
    Ok(())
}

fn present() -> io::Result<i16> {
    let text = std::fs::read_to_string(FILE)?;
    text.trim().parse().map_err(io::Error::other)
}

/// This process, a child of init with memory of its own that runs our own code, is killed last from now on, where
/// it may say so.
pub(crate) fn protect_from_oom() {
    let _ = std::fs::write(FILE, LOWEST_SCORE.to_string());
}
