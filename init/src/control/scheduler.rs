//! Fairness between clients of the control socket. A client that makes init work has a share of each turn: root
//! comes first, and requests of other users continue in the next turn.

use super::Control;
use super::client::{Caller, Client};
use crate::base::limit;
use groundstate_units::text::time::Time;

// Who goes first at the control socket, and how much of what was answered others than root may leave
// unread.

impl Control {
    /// In this order they are served: root first, then the others, who was served last at the end.
    pub(crate) fn order(&self) -> Vec<usize> {
        let of = |trusted: bool| {
            let all = self.clients.iter().filter(move |(_, it)| it.caller.trusted == trusted);
            all.map(|(number, _)| *number)
        };
        let behind = of(false).filter(|number| *number > self.served);
        let others = behind.chain(of(false).filter(|number| *number <= self.served));
        of(true).chain(others).collect()
    }

    /// Who follows the events and leaves some unread, where others than root leave too much unread, goes: it
    /// would be more and more.
    pub(crate) fn cuts_off(&mut self, number: usize) -> bool {
        let caller =
            self.clients.get(&number).filter(|it| it.unsent() > limit::UNREAD_OF_A_FOLLOWER);
        let goes = caller.is_some_and(|it| !self.has_room_for_answer(it.caller));
        if let Some(client) = self.clients.get_mut(&number).filter(|_| goes) {
            client.given_up = true;
        }
        goes
    }

    /// Others than root leave no more unread than that, all together and each uid's: what they asked is
    /// served when there is room for its answer. One long answer is not all that a uid may have.
    pub(crate) fn has_room_for_answer(&self, caller: Caller) -> bool {
        let unread = |of: &dyn Fn(Caller) -> bool, most: usize| -> usize {
            let these = self.clients.values().filter(|it| of(it.caller));
            these.map(|it| it.unsent().min(most)).sum()
        };
        caller.trusted
            || (unread(&|it| it.uid == caller.uid, limit::UNREAD) < limit::UNREAD_OF_A_UID
                && unread(&|it| !it.trusted, usize::MAX) < limit::UNREAD_OF_OTHERS)
    }

    /// Who waits for others to make room, and not for itself, is not to blame for it.
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
