//! Invariants about whole schedules: reproducible, and at rest in the right state.

use crate::simulator::fixpoint;
use crate::simulator::oracle::Oracle;
use crate::simulator::view::Seen;

/// The name of the invariant.
pub const L15: &str = "L15 determinism";
/// The name of the invariant.
pub const L16: &str = "L16 confluence";
/// The name of the invariant.
pub const L17: &str = "L17 convergence";

/// The result; errors with the violated invariant and a description.
pub type Held = Result<(), (&'static str, String)>;

/// L15: equal events give equal actions and answers, each time.
pub fn l15_determinism(trace: u64, again: u64) -> Held {
    if trace == again { Ok(()) } else { Err((L15, "two runs of it differ".to_string())) }
}

/// L16: when faults have stopped, the machine rests in the state that goal and graph determine,
/// whatever came before.
pub fn l16_confluence(oracle: &Oracle, seen: &Seen) -> Held {
    fixpoint::check(oracle, seen).map_err(|what| (L16, what))
}

/// L17: the machine rests within a bounded number of events.
pub fn l17_convergence(events: u64, bound: u64) -> Held {
    if events <= bound { Ok(()) } else { Err((L17, format!("{events} events and no end"))) }
}
