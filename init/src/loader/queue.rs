//! Loads that wait for the one under way: who comes first, and how many of whose. Pure; who
//! carries them out is [`super`].
//!
//! Reading is anybody's right, and some questions need a load: neither the number nor the
//! order of theirs may keep root's reload, or a controller's files, from their turn.

use crate::base::limit;
use crate::fd::Foreign;
use groundstate_units::machine::event::Event;
use groundstate_units::text::name::Name;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// In whose name a load is asked for, first come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Rank {
    /// Root, the user init runs as, a signal.
    Trusted,
    /// The uid that the settings name for a source.
    Owner(u32),
    /// Anybody else: only to be shown something.
    Reader(u32),
}

impl Rank {
    fn class(self) -> u8 {
        match self {
            Rank::Trusted => 0,
            Rank::Owner(_) => 1,
            Rank::Reader(_) => 2,
        }
    }
}

/// See the module.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Queue {
    waiting: VecDeque<(Rank, Purpose)>,
}

impl Queue {
    /// Lets it wait behind its like.
    ///
    /// # Errors
    /// There is no room for it.
    pub(crate) fn push(&mut self, rank: Rank, purpose: Purpose) -> Result<(), Purpose> {
        // Signals that come during a load are one more load.
        let by_signal = |purpose: &Purpose| matches!(purpose, Purpose::Reload { asker: None, .. });
        if by_signal(&purpose) && self.waiting.iter().any(|(_, waits)| by_signal(waits)) {
            return Ok(());
        }
        let like = |of: fn(Rank, Rank) -> bool| {
            self.waiting.iter().filter(|(other, _)| of(*other, rank)).count()
        };
        let room = match rank {
            Rank::Trusted => self.waiting.len() < limit::LOADS_WAITING,
            Rank::Owner(_) | Rank::Reader(_) => {
                like(|other, rank| other == rank) < limit::LOADS_OF_A_UID
                    && like(|other, _| other != Rank::Trusted)
                        < limit::LOADS_WAITING.saturating_sub(limit::LOADS_FOR_ROOT)
            }
        };
        if !room {
            return Err(purpose);
        }
        let behind = |(other, _): &(Rank, Purpose)| other.class() <= rank.class();
        let at = self.waiting.partition_point(behind);
        self.waiting.insert(at, (rank, purpose));
        Ok(())
    }

    /// The next one.
    pub(crate) fn pop(&mut self) -> Option<Purpose> {
        self.waiting.pop_front().map(|(_, purpose)| purpose)
    }

    /// What would only be shown is dropped where nobody is there any more to see it.
    pub(crate) fn drop_unasked(&mut self, waits: impl Fn(Asker) -> bool) {
        self.waiting
            .retain(|(_, purpose)| !purpose.is_shown_only() || purpose.asker().is_none_or(&waits));
    }
}

// What a load is for, and who waits for its outcome.

/// Who asked over the control socket, and with which id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asker {
    /// The connection.
    pub(crate) client: usize,
    /// The request.
    pub(crate) id: u64,
}

/// What a load is for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// The first generation.
    Boot,
    /// A new generation, to be taken.
    Reload {
        /// Changed units keep their run.
        #[serde(default)]
        no_restart: bool,
        /// Nobody, where a signal asked.
        asker: Option<Asker>,
    },
    /// A new generation, to be planned with and forgotten.
    Plan {
        /// Who wants to see it.
        asker: Asker,
    },
    /// The present generation with other files of one source.
    Put {
        /// The controller.
        asker: Asker,
        /// Which.
        source: Name,
        /// The plan is to be answered too.
        #[serde(default)]
        plan: bool,
        /// The sealed memfd; None: it is to hold nothing.
        body: Option<Foreign>,
    },
    /// The present generation with the instances of templates that a wish names.
    Instances {
        /// Whose wish it is.
        asker: Asker,
        /// Granted or refused once they are there.
        wish: Box<Event>,
        /// It is only planned.
        #[serde(default)]
        dry: bool,
    },
}

impl Purpose {
    /// Nothing comes of it but an answer.
    pub(super) fn is_shown_only(&self) -> bool {
        match self {
            Purpose::Boot | Purpose::Reload { .. } | Purpose::Put { .. } => false,
            Purpose::Plan { .. } => true,
            Purpose::Instances { dry, .. } => *dry,
        }
    }

    /// Who waits for an answer.
    pub(crate) fn asker(&self) -> Option<Asker> {
        match self {
            Purpose::Boot => None,
            Purpose::Reload { asker, .. } => *asker,
            Purpose::Plan { asker }
            | Purpose::Put { asker, .. }
            | Purpose::Instances { asker, .. } => Some(*asker),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(client: usize) -> Purpose {
        Purpose::Plan { asker: Asker { client, id: 1 } }
    }

    fn reload(client: usize) -> Purpose {
        Purpose::Reload { no_restart: false, asker: Some(Asker { client, id: 1 }) }
    }

    fn order(queue: &mut Queue) -> Vec<Option<usize>> {
        std::iter::from_fn(|| queue.pop()).map(|p| p.asker().map(|a| a.client)).collect()
    }

    #[test]
    fn a_flood_of_readers_leaves_room_and_the_first_places() {
        let mut queue = Queue::default();
        let asked = 2 * limit::LOADS_WAITING;
        let taken = (0..asked).filter(|n| queue.push(Rank::Reader(7), plan(*n)).is_ok()).count();
        assert_eq!(taken, limit::LOADS_OF_A_UID, "of one uid");
        let others = (0..asked).filter(|n| {
            let uid = 1_000 + u32::try_from(*n).unwrap();
            queue.push(Rank::Reader(uid), plan(*n)).is_ok()
        });
        let readers = taken + others.count();
        assert_eq!(readers, limit::LOADS_WAITING - limit::LOADS_FOR_ROOT, "of all");
        for number in 0..limit::LOADS_FOR_ROOT {
            assert!(queue.push(Rank::Trusted, reload(900 + number)).is_ok());
        }
        assert!(queue.push(Rank::Trusted, reload(0)).is_err(), "it does not grow without end");
        let order = order(&mut queue);
        let first = (900..900 + limit::LOADS_FOR_ROOT).map(Some);
        assert!(order.iter().copied().zip(first).all(|(one, other)| one == other), "{order:?}");
        assert_eq!(order[limit::LOADS_FOR_ROOT], Some(0), "then in the order they came");
    }

    #[test]
    fn an_owner_comes_before_readers_and_after_root_and_signals_are_one_load() {
        let mut queue = Queue::default();
        queue.push(Rank::Reader(7), plan(1)).unwrap();
        queue.push(Rank::Owner(8), plan(2)).unwrap();
        queue.push(Rank::Trusted, reload(3)).unwrap();
        for _ in 0..3 {
            let signal = Purpose::Reload { no_restart: false, asker: None };
            queue.push(Rank::Trusted, signal).unwrap();
        }
        queue.push(Rank::Owner(8), plan(4)).unwrap();
        assert_eq!(order(&mut queue), [Some(3), None, Some(2), Some(4), Some(1)]);
    }

    #[test]
    fn whoever_has_gone_is_shown_nothing_and_a_change_is_still_made() {
        let mut queue = Queue::default();
        queue.push(Rank::Trusted, reload(1)).unwrap();
        queue.push(Rank::Trusted, plan(2)).unwrap();
        queue.push(Rank::Trusted, plan(3)).unwrap();
        queue.drop_unasked(|asker| asker.client == 3);
        assert_eq!(order(&mut queue), [Some(1), Some(3)]);
    }
}
