//! Invariants of a whole schedule: the same twice, and at rest where it should be.

use crate::simulator::fixpoint;
use crate::simulator::oracle::Oracle;
use crate::simulator::view::Seen;

/// Its name.
pub const L15: &str = "L15 determinism";
/// Its name.
pub const L16: &str = "L16 confluence";
/// Its name.
pub const L17: &str = "L17 convergence";

/// What does not hold, and how.
pub type Held = Result<(), (&'static str, String)>;

/// L15: the same events give the same orders and the same answers, each time.
pub fn l15_determinism(trace: u64, again: u64) -> Held {
    if trace == again { Ok(()) } else { Err((L15, "two runs of it differ".to_string())) }
}

/// L16: once nothing goes wrong any more it rests where the goal and the graph say, whatever
/// came before.
pub fn l16_confluence(oracle: &Oracle, seen: &Seen) -> Held {
    fixpoint::check(oracle, seen).map_err(|what| (L16, what))
}

/// L17: it comes to rest within a bounded number of events.
pub fn l17_convergence(events: u64, bound: u64) -> Held {
    if events <= bound { Ok(()) } else { Err((L17, format!("{events} events and no end"))) }
}
