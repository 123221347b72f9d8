//! The orders of the machine that are not carried out yet. They are part of the state.

use crate::state::table::Table;
use groundstate_units::machine::action::Action;
use groundstate_units::machine::event::RunId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An order of one event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// An order of the machine.
    Machine(Action),
    /// Forget the run that the event was about, if it is over.
    LetGo(RunId),
}

/// The orders of each event, oldest first. The orders of one event are one record, which is written
/// once: the boot of 1,000 services is one event with 2,000 orders.
#[derive(Default)]
pub(crate) struct Orders {
    events: Table<u64, Vec<Order>>,
    /// The number of the next event, higher than all numbers in the table.
    next: u64,
    /// How many orders of the first event are carried out.
    done: usize,
}

impl Orders {
    /// The orders of stored records.
    pub(crate) fn of(events: BTreeMap<u64, Vec<Order>>, done: usize) -> Orders {
        let next = events.last_key_value().map_or(0, |(last, _)| last.saturating_add(1));
        let mut orders = Orders { events: Table::of(events), next, done };
        orders.drop_finished();
        orders
    }

    /// Adds the orders of one event.
    pub(crate) fn push(&mut self, orders: Vec<Order>) {
        if !orders.is_empty() {
            self.events.insert(self.next, orders);
            self.next = self.next.saturating_add(1);
        }
    }

    pub(crate) fn front(&self) -> Option<&Order> {
        self.events.values().next()?.get(self.done)
    }

    pub(crate) fn pop_front(&mut self) -> Option<Order> {
        let order = self.front()?.clone();
        self.done = self.done.saturating_add(1);
        self.drop_finished();
        Some(order)
    }

    /// How many orders of the first event are carried out. It is recorded at each commit.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// The orders as a table of records.
    pub(crate) fn table(&mut self) -> &mut Table<u64, Vec<Order>> {
        &mut self.events
    }

    /// Drops the first events whose orders are all carried out.
    fn drop_finished(&mut self) {
        while let Some((&first, orders)) = self.events.first_key_value()
            && self.done >= orders.len()
        {
            self.events.remove(&first);
            self.done = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(numbers: impl IntoIterator<Item = u64>) -> Vec<Order> {
        numbers.into_iter().map(|number| Order::LetGo(RunId(number))).collect()
    }

    fn all(mut orders: Orders) -> Vec<Order> {
        std::iter::from_fn(|| orders.pop_front()).collect()
    }

    #[test]
    fn stored_orders_continue_behind_those_carried_out() {
        let stored = BTreeMap::from([(7, runs([1, 2, 3])), (9, Vec::new()), (10, runs([4]))]);
        let mut orders = Orders::of(stored, 2);
        orders.push(Vec::new());
        orders.push(runs([5]));
        assert_eq!(orders.front(), runs([3]).first());
        assert_eq!(all(orders), runs([3, 4, 5]));
    }

    #[test]
    fn record_of_an_event_changes_only_when_it_is_added_and_finished() {
        let mut orders = Orders::default();
        orders.push(runs([1, 2]));
        assert_eq!(orders.table().take_changes().len(), 1);
        assert_eq!((orders.pop_front(), orders.done()), (runs([1]).pop(), 1));
        assert!(orders.table().take_changes().is_empty());
        assert_eq!((orders.pop_front(), orders.done()), (runs([2]).pop(), 0));
        assert_eq!(orders.table().take_changes().len(), 1);
    }

    #[test]
    fn any_recorded_count_of_orders_carried_out_ends_at_an_existing_order() {
        for done in [3, usize::MAX] {
            let stored = BTreeMap::from([(7, runs([1, 2, 3])), (9, runs([4]))]);
            assert_eq!(all(Orders::of(stored, done)), runs([4]));
        }
    }
}
