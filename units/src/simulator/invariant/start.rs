//! Invariants about starts: gates, the minimal set, slots.

use crate::machine::event::Event;
use crate::machine::reason::State;
use crate::simulator::set::Set;
use crate::simulator::view::{Order, Verdict, View};
use crate::spec::DependencyKind as D;

/// L1: a unit starts only if every depends-on, depends-ms and requires-active provider is active,
/// every provider of waits-for, or needed provider of after, is active or has failed, and nothing
/// is left of a unit that it conflicts with.
pub fn l01_start_gate(view: &View) -> Verdict {
    // Timers of one tick are settled one by one, so a unit that was stopped again proves nothing.
    let again = |unit: usize| {
        let of = |it: &Order| matches!(it, Order::Stop(u, ..) if *u == unit);
        view.orders.iter().any(of) || view.after.state(unit) == State::Stopping
    };
    for unit in view.started().filter(|unit| !again(*unit)) {
        for edge in view.is.graph.of(unit) {
            let state = edge.to.map(|to| view.after.state(to));
            let active = state.is_some_and(State::is_active);
            let failed = edge.to.is_some_and(|to| view.ledger.failing.has(to));
            let open = match edge.kind {
                D::DependsOn | D::DependsMs | D::RequiresActive => {
                    active || edge.to.is_none() && edge.optional
                }
                D::WaitsFor => {
                    edge.to.is_none() || active || failed || state == Some(State::Failed)
                }
                D::After => {
                    let needed = edge.to.is_some_and(|to| view.is.needed.has(to));
                    !needed || active || failed || state == Some(State::Failed)
                }
                D::Conflicts => {
                    let holds = |other: &usize| {
                        edge.to == Some(*other)
                            || view.is.run(*other).is_some_and(|run| run.targets.has(edge.target))
                    };
                    let alive = view.ledger.alive().less(Set::EMPTY.with(unit));
                    let down = |to| {
                        view.orders
                            .iter()
                            .any(|it| matches!(it, Order::Stop(u, _, _, true) if *u == to))
                    };
                    alive.iter().filter(holds).all(down)
                }
                D::Wants | D::Before | D::RestartWith => true,
                D::ReloadWith | D::OnFailure | D::OnSuccess | D::Accepts => true,
            };
            let again = edge.to.is_some_and(|to| view.started().any(|started| started == to));
            let before = edge.to.map(|to| view.before.state(to));
            // With several timers in one tick, the gate was open between two of them.
            let became = before == Some(State::Starting) && state != before;
            let was_open = became || before.is_some_and(|it| it.is_active() || it == State::Failed);
            let by_turns = (again || was_open) && matches!(view.event, Event::Tick);
            if !open && !by_turns {
                let to = edge.to.map_or("no unit", |to| view.name(to));
                return Err(format!(
                    "{} started, {:?} {to} is {state:?}",
                    view.name(unit),
                    edge.kind
                ));
            }
        }
    }
    Ok(())
}

/// L2: every unit that waits, starts or is active is needed.
pub fn l02_minimal_set(view: &View) -> Verdict {
    for unit in (0..view.after.states.len()).filter(|unit| !view.is.needed.has(*unit)) {
        let state = view.after.state(unit);
        if !matches!(state, State::Disabled | State::Stopping | State::Failed) {
            return Err(format!("{} is {} and not needed", view.name(unit), state.as_str()));
        }
    }
    Ok(())
}

/// L29: a unit that is needed only for connections of a socket runs once for each connection.
pub fn l29_one_run_a_connection(view: &View) -> Verdict {
    let called = |unit: usize| {
        view.ledger.called.has(unit)
            || matches!(view.event, Event::Fire(name) if name.as_str() == view.name(unit))
    };
    for unit in view.started().filter(|unit| !called(*unit)) {
        let edges = || view.is.graph.all().filter(|(_, edge)| edge.to == Some(unit));
        let accepted = edges().any(|(_, edge)| edge.kind == D::Accepts);
        let otherwise = edges().any(|(from, edge)| {
            let brings_in = edge.kind != D::Accepts && view.is.brings_in(from, edge);
            brings_in && view.is.needed.has(from)
        });
        let fired = view.is.stored.iter().enumerate().any(|(trigger, it)| {
            let activates = view.is.unit(trigger).and_then(|unit| unit.activates);
            it.fired && activates.is_some_and(|to| view.is.graph.provider[to.index()] == Some(unit))
        });
        let provides =
            |to: &Option<usize>| to.is_some_and(|to| view.is.graph.provider[to] == Some(unit));
        let root = view.is.roots().0.iter().any(provides);
        if accepted && !otherwise && !fired && !root {
            return Err(format!("{} is started without a connection", view.name(unit)));
        }
    }
    Ok(())
}

/// L30: a unit that is one thing under many names does not start while one of these is masked.
pub fn l30_one_thing_masked(view: &View) -> Verdict {
    for unit in view.started() {
        let Some(definition) = view.is.unit(unit).filter(|unit| unit.has_synonyms) else {
            continue;
        };
        let mut names = definition.provides.iter().map(|t| &view.is.universe.targets[t.index()]);
        if let Some(name) = names.find(|name| view.is.is_masked(name)) {
            return Err(format!("{} is started and {name} is masked", view.name(unit)));
        }
    }
    Ok(())
}

/// L5: no more than max-starting starts are in progress, and no unit that could start waits while a
/// slot is free.
pub fn l05_start_bound(view: &View) -> Verdict {
    let settings = &view.is.generation.settings;
    let max = settings.max_starting as usize;
    let young = |unit: &usize| {
        view.after.state(*unit) == State::Starting
            && view.ledger.of(*unit).is_none_or(|run| {
                run.over.is_some() || view.now.since(run.started) < crate::simulator::oracle::SLOT
            })
    };
    let starting: Set = (0..view.after.states.len()).filter(young).collect();
    let grew = view.started().any(|unit| starting.has(unit));
    if max > 0 && grew && starting.len() > max {
        return Err(format!("{} starts under way, {max} allowed", starting.len()));
    }
    if view.is.slot_free()
        && let Some(unit) = view.is.start_order().first()
    {
        return Err(format!("{} could start and does not", view.name(*unit)));
    }
    Ok(())
}
