//! Fairness between clients of the control socket. Root comes first. Each other client has a share
//! of the turn, and its further requests continue in the next turn.

use super::Control;
use super::client::{Caller, Client};
use crate::base::limit;
use groundstate_units::text::time::Time;

impl Control {
    /// The order in which clients are served: root first, then the others, starting behind the one
    /// served last.
    pub(crate) fn order(&self) -> Vec<usize> {
        let of = |trusted: bool| {
            let all = self.clients.iter().filter(move |(_, it)| it.caller.trusted == trusted);
            all.map(|(number, _)| *number)
        };
        let behind = of(false).filter(|number| *number > self.served);
        let others = behind.chain(of(false).filter(|number| *number <= self.served));
        of(true).chain(others).collect()
    }

    /// Disconnects a follower of events with unread bytes if other clients than root have too many
    /// unread bytes, because its backlog only grows.
    pub(crate) fn cuts_off(&mut self, number: usize) -> bool {
        let caller =
            self.clients.get(&number).filter(|it| it.unsent() > limit::UNREAD_OF_A_FOLLOWER);
        let goes = caller.is_some_and(|it| !self.has_room_for_answer(it.caller));
        if let Some(client) = self.clients.get_mut(&number).filter(|_| goes) {
            client.given_up = true;
        }
        goes
    }

    /// Returns true if there is room for another answer: the unread bytes of each uid and of all
    /// users other than root are limited. A single long answer counts only up to a limit.
    pub(crate) fn has_room_for_answer(&self, caller: Caller) -> bool {
        let unread = |of: &dyn Fn(Caller) -> bool, most: usize| -> usize {
            let these = self.clients.values().filter(|it| of(it.caller));
            these.map(|it| it.unsent().min(most)).sum()
        };
        caller.trusted
            || (unread(&|it| it.uid == caller.uid, limit::UNREAD) < limit::UNREAD_OF_A_UID
                && unread(&|it| !it.trusted, usize::MAX) < limit::UNREAD_OF_OTHERS)
    }

    /// Resets the time limit of clients that wait only for other clients' unread bytes.
    pub(super) fn forgive(&mut self, now: Time) {
        let is_late = |client: &Client| client.is_stuck(now) && client.unsent() == 0;
        let late = self.clients.iter().filter(|(_, client)| is_late(client));
        let callers: Vec<(usize, Caller)> = late.map(|(at, client)| (*at, client.caller)).collect();
        for (number, caller) in callers {
            if !self.has_room_for_answer(caller)
                && let Some(client) = self.clients.get_mut(&number)
            {
                client.moved = now;
            }
        }
    }
}
