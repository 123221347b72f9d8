//! L16, L17: the state in which a machine must rest when faults have stopped. Every needed and
//! usable unit is active, every other is down. Checked at the end of a schedule in liveness mode.

use crate::machine::reason::State;
use crate::simulator::oracle::{Oracle, Rest};
use crate::simulator::set::Set;
use crate::simulator::view::Seen;
use crate::spec::{DependencyKind as D, Readiness, Restart};

/// Checks the fixed point. Errors with the first violation, in words.
pub fn check(oracle: &Oracle, seen: &Seen) -> Result<(), String> {
    let over = oracle.over_and_done();
    let final_failure = |unit: &usize| matches!(oracle.stored[*unit].rest, Rest::Failed);
    let mut hopeless: Set = oracle.needed.iter().filter(final_failure).collect();
    hopeless = hopeless.or(oracle.broken_or_refused().and(oracle.needed));
    loop {
        let before = hopeless;
        for unit in oracle.needed.less(before).iter() {
            let starved = oracle.graph.of(unit).any(|edge| {
                let gate = matches!(edge.kind, D::DependsOn | D::DependsMs | D::RequiresActive);
                let inactive = |to| edge.kind == D::RequiresActive && !oracle.needed.has(to);
                gate && match edge.to {
                    None => !edge.optional,
                    // A provider that cannot start has no milestone to give, but a run keeps the
                    // milestone that it was given before.
                    Some(to) => {
                        let over = over.has(to) && edge.kind != D::DependsMs;
                        let gone = before.has(to) || inactive(to) || over;
                        gone && !latched(oracle, unit, edge.kind)
                    }
                }
            });
            if starved && !up(oracle, unit) {
                hopeless.add(unit);
            }
        }
        if hopeless == before {
            break;
        }
    }
    let affected = affected_by_restless(oracle);
    for unit in (0..seen.states.len()).filter(|unit| !affected.has(*unit)) {
        let state = seen.state(unit);
        let name = &oracle.universe.units[unit];
        let fits = if hopeless.has(unit) {
            state == State::Failed
        } else if oracle.needed.has(unit) {
            state.is_active() || restless(oracle, unit)
        } else {
            matches!(state, State::Disabled | State::Failed)
        };
        if !fits {
            return Err(format!("{name} comes to rest as {}", state.as_str()));
        }
    }
    Ok(())
}

fn up(oracle: &Oracle, unit: usize) -> bool {
    oracle.stored[unit].run.is_some()
}

fn latched(oracle: &Oracle, unit: usize, kind: D) -> bool {
    kind != D::DependsOn && up(oracle, unit)
}

/// Returns true for a unit that never rests by its own definition, that waits for such a unit, or
/// that depends on a skipped one.
fn restless(oracle: &Oracle, unit: usize) -> bool {
    let mut behind = Set::EMPTY.with(unit);
    for _ in 0..oracle.needed.len() {
        behind = behind.or(behind.union(|unit| oracle.graph.to(unit, |_| true)));
    }
    behind.iter().any(|other| {
        let skipped = oracle.run(other).is_some_and(|run| run.skipped);
        skipped
            || oracle.unit(other).is_some_and(|unit| {
                let too_slow = match (unit.readiness, unit.live.start_timeout) {
                    (Readiness::Wait(wait), Some(limit)) => wait >= limit,
                    _ => false,
                };
                let live = &unit.live;
                let again = matches!(live.restart, Restart::Always | Restart::OnSuccess)
                    || live.restart_also != Default::default()
                    || live.run_timeout.is_some();
                again || too_slow
            })
    })
}

/// Returns the units that the exits and failures of never-resting units start and stop.
fn affected_by_restless(oracle: &Oracle) -> Set {
    let mut affected = Set::EMPTY;
    loop {
        let before = affected;
        let ends = oracle.graph.all().filter(|(_, edge)| edge.kind.pulls_in_at_end());
        let rests = |from: usize| !restless(oracle, from) && !before.has(from);
        let brought = ends.filter(|(from, _)| !rests(*from)).filter_map(|(_, edge)| edge.to);
        affected = oracle.graph.closure(before.or(brought.collect()));
        for unit in 0..oracle.stored.len() {
            if !oracle.graph.to(unit, |_| true).and(affected).is_empty() {
                affected.add(unit);
            }
        }
        if affected == before {
            return affected;
        }
    }
}
