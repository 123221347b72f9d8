//! The machine's answer beside the oracle's: orders, states, flags, counts, timers.
//! Says the first difference in words. Used by [`crate::sim::run`] and
//! [`crate::sim::exhaust`].

use crate::machine::action::Action;
use crate::machine::event::{Event, RunId};
use crate::oracle::graph::Universe;
use crate::oracle::{Deed, Oracle};
use crate::sim::process::run_of;
use crate::sim::view::{Order, Seen};
use std::collections::BTreeMap;

/// What differs, and how.
pub type Difference = (String, String);

/// An order that is no start: its unit, and a number for its kind.
type Other = (usize, u8);

/// The machine's orders, by unit numbers.
pub fn orders(universe: &Universe, actions: &[Action]) -> Vec<Order> {
    let unit = |name: &crate::name::Name| universe.unit(name).unwrap_or(usize::MAX);
    let order = |action: &Action| {
        Some(match action {
            Action::Start { name, run, .. } => Order::Start(unit(name), *run),
            Action::Stop { name, run, reason, nothing_left } => {
                Order::Stop(unit(name), *run, reason.clone(), *nothing_left)
            }
            Action::Kill { name, run } => Order::Kill(unit(name), *run),
            Action::ReloadUnit { name, run } => Order::Reload(unit(name), *run),
            Action::Finish(_) => Order::Finish,
            Action::Note(_) | Action::Emergency => return None,
        })
    };
    actions.iter().filter_map(order).collect()
}

/// Starts in their order; everything else as sets. Hands back which of the oracle's runs is
/// which of the machine's.
pub fn same_orders(orders: &[Order], deeds: &[Deed]) -> Result<Vec<(RunId, RunId)>, Difference> {
    let mut begun: (Vec<usize>, Vec<usize>) = Default::default();
    let mut rest: (Vec<Other>, Vec<Other>) = Default::default();
    let mut ids = (Vec::new(), Vec::new());
    for order in orders {
        match order {
            Order::Start(unit, id) => {
                begun.0.push(*unit);
                ids.0.push(*id);
            }
            Order::Stop(unit, _, _, left) => rest.0.push((*unit, 1 + u8::from(*left))),
            Order::Kill(unit, _) => rest.0.push((*unit, 3)),
            Order::Reload(unit, _) => rest.0.push((*unit, 4)),
            Order::Finish => rest.0.push((0, 5)),
        }
    }
    for deed in deeds {
        match deed {
            Deed::Start(unit, id) => {
                begun.1.push(*unit);
                ids.1.push(*id);
            }
            Deed::Stop(unit, _, left) => rest.1.push((*unit, 1 + u8::from(*left))),
            Deed::Kill(unit, _) => rest.1.push((*unit, 3)),
            Deed::Reload(unit, _) => rest.1.push((*unit, 4)),
            Deed::Finish => rest.1.push((0, 5)),
        }
    }
    rest.0.sort_unstable();
    rest.1.sort_unstable();
    if begun.0 != begun.1 || rest.0 != rest.1 {
        let detail = format!("ordered {orders:?}, by the law {deeds:?}");
        return Err(("oracle: deeds".into(), detail));
    }
    Ok(ids.0.into_iter().zip(ids.1).collect())
}

/// Every public answer.
pub fn same_states(oracle: &Oracle, after: &Seen) -> Result<(), Difference> {
    let law = oracle.states();
    for (unit, state) in law.iter().enumerate() {
        if after.state(unit) != *state {
            let detail = format!(
                "{} is {}, by the law {}",
                oracle.universe.units[unit],
                after.state(unit).as_str(),
                state.as_str()
            );
            return Err(("oracle: states".into(), detail));
        }
    }
    for (unit, it) in oracle.stored.iter().enumerate() {
        let (is, law) = (after.row(unit), (it.n, it.verdict, oracle.needed.has(unit)));
        if oracle.unit(unit).is_some() && is != law {
            let name = &oracle.universe.units[unit];
            let detail =
                format!("{name} has (failures, verdict, needed) {is:?}, by the law {law:?}");
            return Err(("oracle: counts".into(), detail));
        }
    }
    let differs = |what: &str, is: String, law: String| {
        Err((format!("oracle: {what}"), format!("{what} {is}, by the law {law}")))
    };
    let name = |unit: usize| oracle.universe.units[unit].as_str();
    let list =
        |set: crate::oracle::set::Set| format!("{:?}", set.iter().map(name).collect::<Vec<_>>());
    let (is, law) = (after.degraded, oracle.degraded());
    if is != law {
        return differs("degraded", list(is), list(law));
    }
    let (is, law) = (&after.coincidental, oracle.coincidental());
    if *is != law {
        return differs("coincidental", format!("{is:?}"), format!("{law:?}"));
    }
    let (is, law) = (after.system, Some(oracle.system()));
    if is != law {
        return differs("system", format!("{is:?}"), format!("{law:?}"));
    }
    let (is, law) = (after.deadline, oracle.next_due());
    if is != law {
        return differs("deadline", format!("{is:?}"), format!("{law:?}"));
    }
    Ok(())
}

/// The same fact of the oracle's run.
pub fn translated(event: &Event, ids: &BTreeMap<RunId, RunId>) -> Event {
    let mut event = event.clone();
    let Some(id) = run_of(&event).and_then(|id| ids.get(&id)).copied() else { return event };
    match &mut event {
        Event::Executed(run)
        | Event::Ready(run)
        | Event::Reloading(run)
        | Event::Reloaded(run, _)
        | Event::Stopping(run)
        | Event::Status(run, _)
        | Event::ExtendTimeout(run, _)
        | Event::WatchdogEvery(run, _)
        | Event::WatchdogPing(run)
        | Event::WatchdogTrigger(run)
        | Event::Exited(run, _)
        | Event::Ended(run, _)
        | Event::Gone(run)
        | Event::Skipped(run, _)
        | Event::StartFailed(run, _)
        | Event::Protocol(run, _)
        | Event::OutOfMemory(run) => *run = id,
        _ => {}
    }
    event
}
