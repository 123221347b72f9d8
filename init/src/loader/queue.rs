//! The queue of loads: their order and their limits. Pure; [`super`] carries them out.
//!
//! Every user may read, and some queries need a load. Neither their number nor their order may
//! delay root's reload or a controller's files.

use crate::base::limit;
use crate::fd::Foreign;
use groundstate_units::machine::event::Event;
use groundstate_units::text::name::Name;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Who requested a load, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Rank {
    /// Root, the user init runs as, or a signal.
    Trusted,
    /// The uid that the settings name for a source.
    Owner(u32),
    /// Any other user, with a read-only request.
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

/// The queued loads.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Queue {
    waiting: VecDeque<(Rank, Purpose)>,
}

impl Queue {
    /// Queues a load behind those of its rank.
    ///
    /// # Errors
    /// The queue is full.
    pub(crate) fn push(&mut self, rank: Rank, purpose: Purpose) -> Result<(), Purpose> {
        // Several signals during a load are one more load.
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

    pub(crate) fn pop(&mut self) -> Option<Purpose> {
        self.waiting.pop_front().map(|(_, purpose)| purpose)
    }

    /// Drops read-only requests whose client is gone.
    pub(crate) fn drop_unasked(&mut self, waits: impl Fn(Asker) -> bool) {
        self.waiting
            .retain(|(_, purpose)| !purpose.is_shown_only() || purpose.asker().is_none_or(&waits));
    }
}

// Purposes of loads

/// The client and the request that wait for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asker {
    /// The connection.
    pub(crate) client: usize,
    /// The request.
    pub(crate) id: u64,
}

/// The purpose of a load.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// The first generation.
    Boot,
    /// Install a new generation.
    Reload {
        /// True if changed units keep their run.
        no_restart: bool,
        /// `None` if a signal requested it.
        asker: Option<Asker>,
    },
    /// Plan with a new generation and drop it.
    Plan { asker: Asker },
    /// Replace the files of one source in the present generation.
    Put {
        /// The controller.
        asker: Asker,
        source: Name,
        /// True to include the plan in the answer.
        plan: bool,
        /// The sealed memfd; `None` empties the source.
        body: Option<Foreign>,
    },
    /// Add the instances of templates that a request names.
    Instances {
        asker: Asker,
        /// The request, decided once the instances exist.
        wish: Box<Event>,
        /// True to only plan it.
        dry: bool,
    },
}

impl Purpose {
    /// Returns true if the load only produces an answer.
    pub(super) fn is_shown_only(&self) -> bool {
        match self {
            Purpose::Boot | Purpose::Reload { .. } | Purpose::Put { .. } => false,
            Purpose::Plan { .. } => true,
            Purpose::Instances { dry, .. } => *dry,
        }
    }

    /// The client that waits for an answer.
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
