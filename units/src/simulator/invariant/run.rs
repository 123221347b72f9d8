//! Invariants about runs: one per unit at a time, distinct, and none lost.

use crate::machine::action::Action;
use crate::machine::event::Event;
use crate::machine::reason::State;
use crate::simulator::view::{Asked, Order, Verdict, View};
use crate::spec::DependencyKind as D;

/// L3: no unit starts while anything of an earlier run is left.
pub fn l03_single_instance(view: &View) -> Verdict {
    let mut stopped = Vec::new();
    for order in view.orders {
        match order {
            Order::Stop(unit, _, _, true) => stopped.push(*unit),
            Order::Start(unit, _) => {
                let alive = view.ledger.of(*unit).is_some_and(|run| run.over.is_none());
                if alive && !stopped.contains(unit) {
                    return Err(format!("{} starts beside its own earlier run", view.name(*unit)));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// L13: a fact about a run that is over changes nothing.
pub fn l13_no_aba(view: &View) -> Verdict {
    let quiet = view.actions.iter().all(|action| matches!(action, Action::Note(_)));
    if view.late && (view.before != view.after || !quiet || !view.orders.is_empty()) {
        return Err(format!("{:?} is about a run long over, and changed something", view.event));
    }
    Ok(())
}

/// L28: units that reload with a reloaded unit, and can reload, are told to reload too.
pub fn l28_reload_with(view: &View) -> Verdict {
    if !matches!(view.event, Event::ReloadUnit(_)) {
        return Ok(());
    }
    let told = |unit: usize| {
        view.orders.iter().any(|order| matches!(order, Order::Reload(u, _) if *u == unit))
    };
    for (from, edge) in view.is.graph.all().filter(|(_, edge)| edge.kind == D::ReloadWith) {
        let working = matches!(view.before.state(from), State::Running | State::Reloading);
        let leaves = view.ledger.of(from).is_some_and(|run| run.leaving.is_some());
        let can = view.is.run(from).is_some_and(|run| run.unit.has_exec_reload) && !leaves;
        if edge.to.is_some_and(told) && working && can && !told(from) {
            return Err(format!("{} is not told to reload", view.name(from)));
        }
    }
    Ok(())
}

/// L20: run ids are unique, every action is about a run of its unit, and no kill is about a run
/// that is over.
pub fn l20_conservation(view: &View) -> Verdict {
    for order in view.orders {
        let (unit, id, begins) = match order {
            Order::Start(unit, id) => (*unit, *id, true),
            Order::Stop(unit, id, ..) | Order::Kill(unit, id) | Order::Reload(unit, id) => {
                (*unit, *id, false)
            }
            Order::Finish => continue,
        };
        let known = view.ledger.runs.get(&id);
        let just_now = view.orders.contains(&Order::Start(unit, id));
        match known {
            Some(_) if begins => return Err(format!("run {} is minted twice", id.0)),
            Some(run) if run.unit != unit => {
                return Err(format!("run {} is not {}'s", id.0, view.name(unit)));
            }
            None if !begins && !just_now => {
                return Err(format!("run {} was never started", id.0));
            }
            Some(run) if !matches!(order, Order::Stop(.., true)) => {
                let told = view
                    .orders
                    .iter()
                    .any(|it| matches!(it, Order::Stop(_, run, ..) if *run == id));
                let over = run.over.is_some_and(|at| at < view.now) && !told;
                // At the shutdown deadline every up run is killed.
                let forced = view.is.end.is_some();
                if over && !forced && matches!(order, Order::Kill(..)) {
                    return Err(format!("an order for run {}, which is over", id.0));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// L19: a resume does not change the machine.
pub fn l19_crash_consistent(view: &View) -> Verdict {
    match &view.asked {
        Some(Asked { resumed: Err(why), .. }) => Err(format!("a resume has changed {why}")),
        _ => Ok(()),
    }
}

/// L21: no query changes the machine.
pub fn l21_read_only(view: &View) -> Verdict {
    match &view.asked {
        Some(asked) if asked.before != asked.after => {
            Err("plan, why or another question changed something".to_string())
        }
        _ => Ok(()),
    }
}

/// L39: a machine built from the records of the present one equals it in every field.
pub fn l39_records(view: &View) -> Verdict {
    view.rebuilt.clone().map_err(|why| format!("built from its records: {why}"))
}
