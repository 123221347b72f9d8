//! Invariants about retries, cost and time.

use crate::machine::action::Action;
use crate::machine::event::Event;
use crate::machine::reason::State;
use crate::simulator::view::{Order, Verdict, View};
use crate::text::time::Time;

/// L14: a failed unit does not start again before its delay is over.
pub fn l14_limiter(view: &View) -> Verdict {
    if view.is_wish() || matches!(view.event, Event::Fire(_)) {
        return Ok(());
    }
    for unit in view.started() {
        let Some(until) = view.ledger.quiet_until.get(&unit) else { continue };
        if view.now < *until && view.was.needed.has(unit) {
            return Err(format!("{} is started again before its delay is over", view.name(unit)));
        }
    }
    Ok(())
}

/// L25: no run works for longer than its run-timeout, unless it requested more time.
pub fn l25_run_limit(view: &View) -> Verdict {
    if !matches!(view.event, Event::Tick) {
        return Ok(());
    }
    for unit in 0..view.after.states.len() {
        let working = matches!(view.after.state(unit), State::Running | State::Reloading);
        let limit = view.is.unit(unit).and_then(|unit| unit.live.run_timeout);
        let (Some(run), Some(limit), true) = (view.ledger.of(unit), limit, working) else {
            continue;
        };
        let since = run.active.filter(|_| !run.extended && run.over.is_none());
        if since.is_some_and(|since| view.now > since.after(limit)) {
            return Err(format!("{} runs for longer than its run-timeout", view.name(unit)));
        }
    }
    Ok(())
}

/// L36: a run that sent STOPPING=1 lasts no longer than its stop-timeout, unless it requests more
/// time.
pub fn l36_leaves(view: &View) -> Verdict {
    if !matches!(view.event, Event::Tick) {
        return Ok(());
    }
    for unit in 0..view.after.states.len() {
        let Some(run) = view.ledger.of(unit).filter(|run| !run.extended) else { continue };
        let runs = view.after.state(unit) == State::Running && run.over.is_none();
        if runs && run.leave_by.is_some_and(|by| view.now > by) {
            return Err(format!("{} sent STOPPING=1, and still runs", view.name(unit)));
        }
    }
    Ok(())
}

/// L26: no run follows by itself after an exit in restart-except.
pub fn l26_barred(view: &View) -> Verdict {
    if view.is_wish() || matches!(view.event, Event::Fire(_)) {
        return Ok(());
    }
    let stopped = |unit: usize| {
        view.orders.iter().any(|order| matches!(order, Order::Stop(u, ..) if *u == unit))
    };
    match view.started().find(|unit| view.ledger.barred.has(*unit) && !stopped(*unit)) {
        Some(unit) => Err(format!("{} is started against its restart-except", view.name(unit))),
        None => Ok(()),
    }
}

/// L22: one event costs a few actions and one note for each unit it changes.
pub fn l22_cost(view: &View) -> Verdict {
    let notes = view.actions.iter().filter_map(|action| match action {
        Action::Note(note) => Some(&note.unit),
        _ => None,
    });
    let mut noted: Vec<_> = notes.collect();
    let notes = noted.len();
    noted.sort();
    noted.dedup();
    if noted.len() < notes {
        return Err(format!("{notes} notes of {} units", noted.len()));
    }
    let units = view.after.states.len();
    let moved =
        (0..units).filter(|unit| view.orders.iter().any(|order| order.unit() == Some(*unit)));
    let bound = 4 * moved.count() + 1;
    if view.orders.len() > bound && !matches!(view.event, Event::Tick) {
        return Err(format!("{} orders, {bound} at most", view.orders.len()));
    }
    Ok(())
}

/// L24: no timer is in the past, none is beyond the clock's range, and no event finishes twice.
pub fn l24_time(view: &View) -> Verdict {
    match view.after.deadline {
        Some(at) if at <= view.now && matches!(view.event, Event::Tick) => {
            Err("a timer is due and did not fire".to_string())
        }
        Some(Time::NEVER) => Err("a timer is set that never comes".to_string()),
        _ => {
            let finishes = view.actions.iter().filter(|it| matches!(it, Action::Finish(_))).count();
            if finishes > 1 { Err("finished twice".to_string()) } else { Ok(()) }
        }
    }
}
