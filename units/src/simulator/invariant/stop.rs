//! Invariants about stops: order, propagation, needless stops, shutdown.

use crate::machine::action::StopReason;
use crate::machine::event::Event;
use crate::machine::reason::State;
use crate::simulator::set::Set;
use crate::simulator::view::{Order, Verdict, View};
use crate::spec::{DependencyKind as D, Kind};

/// L4: a unit is told to stop only when every unit with a process that stops too and depends on it
/// is down. Exempt: the unit exited by itself, hit a timeout of init, or stops promptly.
pub fn l04_stop_order(view: &View) -> Verdict {
    let mut down = Set::EMPTY;
    for order in view.orders {
        let Order::Stop(unit, id, reason, nothing_left) = order else { continue };
        let own = matches!(
            reason,
            StopReason::StartTimeout
                | StopReason::Watchdog
                | StopReason::RunTimeout
                | StopReason::Leftovers
                | StopReason::Done
        );
        // The graph before the event, and the one after a possible reload.
        let promptly = view.ledger.prompt.has(*unit)
            || view.is.unit(*unit).is_some_and(|unit| unit.live.stop_promptly);
        if !own && !promptly {
            for other in view.ledger.alive().less(down).iter().filter(|other| other != unit) {
                let Some(run) = view.ledger.of(other) else { continue };
                let immortal = run
                    .killed
                    .is_some_and(|at| view.now.since(at) >= crate::simulator::oracle::IMMORTAL);
                let ring = view.ledger.runs.get(id).is_some_and(|run| run.behind.has(other))
                    || view.is.graph.of(*unit).any(|edge| edge.to == Some(other));
                let mut edges = view.is.graph.of(other);
                let present = edges.any(|edge| edge.kind == D::DependsOn && edge.to == Some(*unit));
                let hard = run.hard.has(*unit) && run.kind.has_process() && present;
                let stopping = view.after.state(other) == State::Stopping;
                if hard && stopping && !immortal && !ring && run.over.is_none() {
                    return Err(format!(
                        "{} is told to stop while {} is up and depends on it",
                        view.name(*unit),
                        view.name(other)
                    ));
                }
            }
        }
        if *nothing_left {
            down.add(*unit);
        }
    }
    Ok(())
}

fn is_up(state: State) -> bool {
    state == State::Starting || state.is_active()
}

/// L33: a unit that stops promptly is told to stop at the moment in which it has to stop.
pub fn l33_prompt_stop(view: &View) -> Verdict {
    let prompt = view.is.whose(|run| run.unit.live.stop_promptly);
    match prompt.and(view.is.must_stop()).iter().find(|unit| is_up(view.after.state(*unit))) {
        Some(unit) => Err(format!("{} has to stop promptly, and waits", view.name(unit))),
        None => Ok(()),
    }
}

/// L31: a skipped run has nothing to stop: it is gone when it is told to stop.
pub fn l31_skipped_has_no_stop(view: &View) -> Verdict {
    for order in view.orders {
        let Order::Stop(unit, id, _, false) = order else { continue };
        if view.ledger.runs.get(id).is_some_and(|run| run.skipped) {
            return Err(format!("{} was skipped, and is to stop", view.name(*unit)));
        }
    }
    Ok(())
}

/// L37: a unit that does not remain is exited only when nothing of its run is left. It is not
/// stopped again, and none of its dependents is up.
pub fn l37_over(view: &View) -> Verdict {
    for unit in 0..view.after.states.len() {
        let Some(run) = view.is.run(unit).filter(|run| !run.unit.remains && !run.skipped) else {
            continue;
        };
        if view.after.state(unit) != State::Exited || run.unit.kind == Kind::BackgroundScripted {
            continue;
        }
        if view.ledger.runs.get(&run.id).is_some_and(|run| run.over.is_none()) {
            return Err(format!("{} is exited, and something of it is left", view.name(unit)));
        }
        for (from, edge) in view.is.graph.all().filter(|(_, edge)| edge.to == Some(unit)) {
            if edge.kind == D::DependsOn && is_up(view.after.state(from)) {
                let (from, unit) = (view.name(from), view.name(unit));
                return Err(format!("{from} is up, and {unit}, which it depends on, is over"));
            }
        }
    }
    for order in view.orders {
        let Order::Stop(unit, id, _, false) = order else { continue };
        let was = view.ledger.runs.get(id).filter(|run| run.over.is_some() && run.ended_well);
        if was.is_some() {
            return Err(format!("{} is over, and is to stop", view.name(*unit)));
        }
    }
    Ok(())
}

/// L6: no unit is starting or active while a provider it depends on is not active.
pub fn l06_propagation(view: &View) -> Verdict {
    for (from, edge) in view.is.graph.all().filter(|(_, edge)| edge.kind == D::DependsOn) {
        let state = view.after.state(from);
        let Some(to) = edge.to else { continue };
        if (state == State::Starting || state.is_active()) && !view.after.state(to).is_active() {
            return Err(format!(
                "{} is {} while {}, which it depends on, is {}",
                view.name(from),
                state.as_str(),
                view.name(to),
                view.after.state(to).as_str()
            ));
        }
    }
    Ok(())
}

/// L18: a wish that leaves a unit needed, unchanged and with its providers does not affect its run.
pub fn l18_no_needless_action(view: &View) -> Verdict {
    let kept = view.was.needed.and(view.is.needed);
    let gentle = matches!(
        view.event,
        Event::SetGoal(_) | Event::Want { .. } | Event::Unwant(_) | Event::SetPolicy(_)
    );
    if !gentle {
        return Ok(());
    }
    let told = |unit: usize| {
        view.orders.iter().any(|order| matches!(order, Order::Stop(u, ..) if *u == unit))
    };
    for order in view.orders {
        let Order::Stop(unit, ..) = order else { continue };
        if !kept.has(*unit) || !view.before.state(*unit).is_active() {
            continue;
        }
        let caused = view.is.graph.of(*unit).chain(view.was.graph.of(*unit)).any(|edge| {
            matches!(edge.kind, D::DependsOn | D::RestartWith)
                && edge.to.is_none_or(|to| {
                    told(to) || !view.after.state(to).is_active() || moved(view, edge.target)
                })
        });
        if !caused && !view.is.refused.has(*unit) {
            return Err(format!("{} is needed before and after, and is stopped", view.name(*unit)));
        }
    }
    Ok(())
}

fn moved(view: &View, target: usize) -> bool {
    view.was.graph.provider.get(target) != view.is.graph.provider.get(target)
}

/// L23: in a shutdown no unit starts, and it finishes within the deadline.
pub fn l23_shutdown(view: &View) -> Verdict {
    let Some(by) = view.ledger.end else { return Ok(()) };
    if let Some(unit) = view.started().next() {
        return Err(format!("{} starts in shutdown", view.name(unit)));
    }
    let late = by.after(crate::simulator::oracle::IMMORTAL);
    let finished = view.ledger.finished || view.orders.contains(&Order::Finish);
    if view.now > late && matches!(view.event, Event::Tick) && !finished {
        return Err("the deadline is past and all is not over".to_string());
    }
    Ok(())
}

/// L38: a run that `on-failure` or `on-success` started may finish: the end of its cause does not
/// stop it.
pub fn l38_handlers_finish(view: &View) -> Verdict {
    if view.is_wish() || view.is.end.is_some() {
        return Ok(());
    }
    for order in view.orders {
        let Order::Stop(unit, id, StopReason::NotNeeded, _) = order else { continue };
        let own = view.event.run() == Some(*id);
        let gives_way = view.is.needed.iter().any(|other| view.is.graph.conflict(*unit, other));
        if view.was.unfinished.has(*unit) && !own && !gives_way {
            return Err(format!("{} is cut short by the end of its cause", view.name(*unit)));
        }
    }
    Ok(())
}
