//! Compares the machine with the oracle: actions, states, flags, counts and timers. Reports the
//! first difference in words. Used by [`crate::simulator::run`] and [`crate::simulator::exhaust`].

use crate::machine::action::Action;
use crate::simulator::graph::Universe;
use crate::simulator::oracle::{Deed, Oracle};
use crate::simulator::view::{Order, Seen};

/// A difference: its subject and its description.
pub type Difference = (String, String);

/// Converts the machine's actions to unit numbers.
pub fn orders(universe: &Universe, actions: &[Action]) -> Vec<Order> {
    let unit = |name: &crate::text::name::Name| universe.unit(name).unwrap_or(usize::MAX);
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

/// Compares starts as a list and all other actions as sets.
pub fn same_orders(orders: &[Order], deeds: &[Deed]) -> Result<(), Difference> {
    let order = |order: &Order| match *order {
        Order::Start(unit, id) => Deed::Start(unit, id),
        Order::Stop(unit, id, _, left) => Deed::Stop(unit, id, left),
        Order::Kill(unit, id) => Deed::Kill(unit, id),
        Order::Reload(unit, id) => Deed::Reload(unit, id),
        Order::Finish => Deed::Finish,
    };
    let sorted = |deeds: Vec<Deed>| {
        let is_start = |deed: &Deed| matches!(deed, Deed::Start(..));
        let (starts, mut rest): (Vec<Deed>, Vec<Deed>) = deeds.into_iter().partition(is_start);
        rest.sort_unstable();
        (starts, rest)
    };
    if sorted(orders.iter().map(order).collect()) != sorted(deeds.to_vec()) {
        let detail = format!("ordered {orders:?}, the oracle says {deeds:?}");
        return Err(("oracle: deeds".into(), detail));
    }
    Ok(())
}

/// Compares every public answer.
pub fn same_states(oracle: &Oracle, after: &Seen) -> Result<(), Difference> {
    let law = oracle.states();
    for (unit, state) in law.iter().enumerate() {
        if after.state(unit) != *state {
            let detail = format!(
                "{} is {}, the oracle says {}",
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
                format!("{name} has (failures, verdict, needed) {is:?}, the oracle says {law:?}");
            return Err(("oracle: counts".into(), detail));
        }
    }
    let differs = |what: &str, is: String, law: String| {
        Err((format!("oracle: {what}"), format!("{what} {is}, the oracle says {law}")))
    };
    let name = |unit: usize| oracle.universe.units[unit].as_str();
    let list =
        |set: crate::simulator::set::Set| format!("{:?}", set.iter().map(name).collect::<Vec<_>>());
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
