//! Invariants of measure: retries, cost, time.

use crate::machine::action::Action;
use crate::machine::event::Event;
use crate::sim::view::{Verdict, View};
use crate::time::Time;

/// L14: a unit that failed is not started again before its delay is over.
pub fn l14_limiter(view: &View) -> Verdict {
    if view.is_wish() || matches!(view.event, Event::Fire(_)) {
        return Ok(());
    }
    for unit in view.started() {
        let Some(until) = view.book.quiet_until.get(&unit) else { continue };
        if view.now < *until && view.was.needed.has(unit) {
            return Err(format!("{} is started again before its delay is over", view.name(unit)));
        }
    }
    Ok(())
}

/// L22: one event costs no more orders than there are units to give them to.
pub fn l22_cost(view: &View) -> Verdict {
    let units = view.after.states.len();
    if view.actions.len() > 8 * units + 8 {
        return Err(format!("{} actions for {units} units", view.actions.len()));
    }
    Ok(())
}

/// L24: no timer is left in the past, and none lies beyond all time.
pub fn l24_time(view: &View) -> Verdict {
    match view.after.deadline {
        Some(at) if at <= view.now && matches!(view.event, Event::Tick) => {
            Err("a timer is due and did not fire".to_string())
        }
        Some(Time::NEVER) => Err("a timer is set that never comes".to_string()),
        _ => {
            let notes = view.actions.iter().filter(|it| matches!(it, Action::Finish(_))).count();
            if notes > 1 { Err("finished twice".to_string()) } else { Ok(()) }
        }
    }
}
