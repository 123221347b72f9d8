//! Invariants about shown states, reasons and flags.

use crate::machine::action::{Action, StopReason};
use crate::machine::event::Event;
use crate::machine::reason::State;
use crate::simulator::graph::Edge;
use crate::simulator::set::Set;
use crate::simulator::view::{Order, Verdict, View};
use crate::spec::DependencyKind as D;

/// L7: only listed changes of state occur, and a refused wish changes nothing.
pub fn l07_total_table(view: &View) -> Verdict {
    if view.refused && (view.before != view.after || !view.orders.is_empty()) {
        return Err("a refused wish changed something".to_string());
    }
    for unit in 0..view.after.states.len() {
        let (from, to) = (view.before.state(unit), view.after.state(unit));
        let began = view.started().any(|started| started == unit);
        let up = matches!(from, State::Starting | State::Running | State::Reloading)
            || matches!(from, State::Exited | State::Stopping);
        let listed = match to {
            State::Starting => began || matches!(from, State::Starting | State::Stopping),
            State::Running | State::Exited | State::Reloading => began || up,
            State::Stopping => began || up || view.ledger.of(unit).is_some(),
            State::Disabled | State::Waiting | State::Failed => true,
        };
        if !listed {
            return Err(format!("{}: {} → {}", view.name(unit), from.as_str(), to.as_str()));
        }
    }
    Ok(())
}

/// L8: every wait has a chain of reasons that ends in a timer, a live process or a slot.
pub fn l08_no_orphan_wait(view: &View) -> Verdict {
    let units = || 0..view.after.states.len();
    let moving = |unit: &usize| {
        matches!(view.after.state(*unit), State::Starting | State::Stopping)
            || view.ledger.of(*unit).is_some_and(|run| run.over.is_none() && run.told.is_some())
    };
    let mut founded: Set = units().filter(moving).collect();
    let waiting: Set = units().filter(|unit| view.after.state(*unit) == State::Waiting).collect();
    let slots = view.is.generation.settings.max_starting > 0 && !founded.is_empty();
    let timer = |unit: usize| {
        matches!(
            view.is.stored.get(unit).map(|it| it.rest),
            Some(crate::simulator::oracle::Rest::Backoff(_))
        ) && view.after.deadline.is_some()
    };
    loop {
        let before = founded;
        for unit in waiting.less(before).iter() {
            let behind = view.is.graph.of(unit).any(|edge| {
                edge.to.is_some_and(|to| {
                    before.has(to)
                        || edge.kind == D::DependsOn
                            && view.is.run(to).is_some_and(|run| run.skipped)
                })
            });
            let up = units()
                .filter(|other| view.after.state(*other) as usize >= State::Starting as usize);
            let beside = up.chain(view.ledger.alive().iter()).any(|other| {
                other != unit
                    && (view.is.graph.conflict(unit, other)
                        || view.is.run(other).is_some_and(|run| {
                            let restarts = |edge: &Edge| {
                                edge.kind == D::RestartWith && run.targets.has(edge.target)
                            };
                            view.is.blocks_start(unit, run) || view.is.graph.of(unit).any(restarts)
                        }))
            });
            if behind || beside || slots || timer(unit) {
                founded.add(unit);
            }
        }
        if founded == before {
            break;
        }
    }
    match waiting.less(founded).iter().next() {
        Some(unit) => Err(format!("{} waits for nothing", view.name(unit))),
        None => Ok(()),
    }
}

/// L9: every failure has a cause, and a failed waits-for provider makes no dependent fail.
pub fn l09_cause(view: &View) -> Verdict {
    // The failure is a timeout of init in this step.
    let late = |unit: usize| {
        let of = |order: &Order| matches!(order, Order::Stop(u, _, StopReason::RunTimeout, true) if *u == unit);
        view.orders.iter().any(of)
    };
    let over = view.is.over_and_done();
    let failing = |unit: usize| view.ledger.failing.has(unit) || late(unit);
    for unit in view.is.needed.iter() {
        if view.after.state(unit) != State::Failed {
            continue;
        }
        let own = failing(unit) || view.is.broken_or_refused().has(unit);
        let hard = view.is.graph.of(unit).any(|edge| {
            matches!(edge.kind, D::DependsOn | D::DependsMs | D::RequiresActive)
                && match edge.to {
                    None => !edge.optional,
                    Some(to) if edge.kind == D::RequiresActive && !view.is.needed.has(to) => {
                        !view.after.state(to).is_active()
                    }
                    Some(to) if edge.kind != D::DependsMs && over.has(to) => true,
                    Some(to) => view.after.state(to) == State::Failed || failing(to),
                }
        });
        let immortal = view.ledger.of(unit).is_some_and(|run| run.killed.is_some());
        if !own && !hard && !immortal {
            return Err(format!("{} is failed and nothing failed it", view.name(unit)));
        }
    }
    Ok(())
}

/// L27: while a unit has a verdict, its on-failure targets are needed; while it is exited, its
/// on-success targets are.
pub fn l27_outcome_pulls_in(view: &View) -> Verdict {
    for (from, edge) in view.is.graph.all().filter(|(_, edge)| edge.kind.pulls_in_at_end()) {
        let (_, verdict, needed) = view.after.row(from);
        let skipped = view.is.run(from).is_some_and(|run| run.skipped);
        let stands = match edge.kind {
            D::OnFailure => verdict,
            _ => view.after.state(from) == State::Exited && !skipped,
        };
        let brought = edge.to.is_none_or(|to| view.after.row(to).2);
        if needed && stands && !brought {
            let to = edge.to.map_or("no unit", |to| view.name(to));
            return Err(format!("{} has come to its end, and {to} is not needed", view.name(from)));
        }
    }
    Ok(())
}

/// L10: only active units are degraded, and only if something they reach is amiss.
pub fn l10_degraded(view: &View) -> Verdict {
    for unit in view.after.degraded.iter() {
        if !view.after.state(unit).is_active() {
            return Err(format!("{} is degraded and not active", view.name(unit)));
        }
        let reach = view.is.graph.closure(Set::EMPTY.with(unit));
        let ill = reach.iter().any(|other| !view.after.state(other).is_active());
        let orphan = reach
            .iter()
            .filter_map(|other| view.is.stored.get(other))
            .any(|it| it.run.as_ref().is_some_and(|run| !run.orphaned.is_empty()));
        if !ill && !orphan {
            return Err(format!("{} is degraded and all it reaches is well", view.name(unit)));
        }
    }
    Ok(())
}

/// L11: a coincidental target has a needed provider, and no needed unit names it.
pub fn l11_coincidental(view: &View) -> Verdict {
    for target in &view.after.coincidental {
        let provider = view.is.graph.provider.get(*target).copied().flatten();
        let named = view.is.graph.all().any(|(from, edge)| {
            edge.target == *target && view.is.brings_in(from, edge) && view.is.needed.has(from)
        });
        if named
            || view.is.roots().0.contains(&Some(*target))
            || !provider.is_some_and(|unit| view.is.needed.has(unit))
        {
            return Err(format!("target {target} is coincidental and should not be"));
        }
    }
    Ok(())
}

/// L12: no target has two running providers: a start never adds a second holder.
pub fn l12_unique_provider(view: &View) -> Verdict {
    for order in view.orders {
        let Order::Start(unit, _) = order else { continue };
        for target in view.is.graph.selected(*unit).iter() {
            let twice = view.is.stored.iter().enumerate().any(|(other, it)| {
                other != *unit && it.run.as_ref().is_some_and(|run| run.targets.has(target))
            });
            if twice && !matches!(view.event, Event::Boot { .. }) {
                return Err(format!("{} starts beside a holder of its target", view.name(*unit)));
            }
        }
    }
    Ok(())
}

/// L32: every change of a shown state has one note with the states before and after, and there are
/// no other notes.
pub fn l32_told(view: &View) -> Verdict {
    for unit in 0..view.after.states.len() {
        let name = view.name(unit);
        let told = view.actions.iter().filter_map(|action| match action {
            Action::Note(note) if note.unit.as_str() == name => Some((note.from, note.to)),
            _ => None,
        });
        let told: Vec<_> = told.collect();
        let (from, to) = (view.before.state(unit), view.after.state(unit));
        if !told.iter().copied().eq((from != to).then_some((from, to))) {
            return Err(format!("{name} was {from:?}, is {to:?}; told was {told:?}"));
        }
    }
    Ok(())
}
