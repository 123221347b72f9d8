//! Watches of the simulated etcd: they deliver late, break, fall silent, or repeat events.
//! [`super::etcd`] is the store.

use crate::sim::etcd::Etcd;
use crate::sim::world::{Event, Shared, World, lock};
use crate::store::driven::{Answered, DrivenWatch};
use crate::store::{Batch, Fault};
use crate::transaction::Change;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A stream without data is given up after this time.
const STREAM_PATIENCE: Duration = Duration::from_secs(8);

pub(super) struct Watched {
    pub(super) machine: usize,
    pub(super) prefix: String,
    pub(super) seen: i64,
    pub(super) foreign: bool,
    /// Since when a message is in flight.
    pub(super) coming: Option<Duration>,
    pub(super) ready: bool,
    pub(super) broken: bool,
    pub(super) silent: bool,
    /// The range of revisions to repeat.
    pub(super) again: Option<(i64, i64)>,
    pub(super) waker: Option<Waker>,
}

impl World {
    /// Starts a watch after a reading.
    pub(super) fn begin_watch(&mut self, machine: usize, prefix: String, after: i64) -> u64 {
        let foreign = self.now < self.machines[machine].foreign_until;
        if !foreign {
            self.book.departures.read_again(self.task, after);
        }
        let watched = Watched {
            machine,
            prefix,
            seen: after,
            foreign,
            coming: Some(self.now),
            ready: false,
            broken: false,
            silent: false,
            again: None,
            waker: None,
        };
        self.etcd.next += 1;
        let id = self.etcd.next;
        self.etcd.watches.insert(id, watched);
        // The first changes follow in a message of their own.
        let way = self.latency();
        self.plan_in(way, Event::News(id));
        id
    }

    /// Delivers a watch's message to its machine, unless a fault prevents it.
    pub fn news(&mut self, id: u64) {
        let Some(watch) = self.etcd.watches.get_mut(&id) else { return };
        let cut = self.now < self.machines[watch.machine].answers_lost_until;
        let since = watch.coming.unwrap_or(self.now);
        if cut && self.now < since + STREAM_PATIENCE {
            self.plan_in(Duration::from_millis(200), Event::News(id));
            return;
        }
        watch.coming = None;
        watch.broken |= cut;
        watch.ready = !watch.silent;
        if let Some(waker) = watch.waker.take().filter(|_| watch.ready || watch.broken) {
            waker.wake();
        }
    }

    /// Ends watches on the foreign cluster once the machine is reconnected.
    pub fn end_foreign_watches(&mut self, machine: usize) {
        if self.now < self.machines[machine].foreign_until {
            return;
        }
        let own = self.etcd.watches.values_mut();
        for watch in own.filter(|watch| watch.machine == machine && watch.foreign) {
            watch.broken = true;
            if let Some(waker) = watch.waker.take() {
                waker.wake();
            }
        }
    }

    /// Applies a fault to the watches of a machine. Returns their number.
    pub fn each_watch(&mut self, machine: usize, what: WatchFault) -> usize {
        let own = self.etcd.watches.values_mut().filter(|watch| watch.machine == machine);
        let mut count = 0;
        for watch in own {
            count += 1;
            match what {
                WatchFault::Broken => watch.broken = true,
                WatchFault::Silent => watch.silent = true,
                WatchFault::Again(back, count) => {
                    let from = (watch.seen - back).max(0);
                    watch.again = Some((from, (from + count).min(watch.seen)));
                }
            }
            if let Some(waker) = watch.waker.take() {
                waker.wake();
            }
        }
        count
    }
}

/// A fault of watches.
#[derive(Clone, Copy, Debug)]
pub enum WatchFault {
    /// The watches end.
    Broken,
    /// The watches deliver nothing more, without an error.
    Silent,
    /// The watches go back by the first number of revisions, then deliver the second number of
    /// revisions again.
    Again(i64, i64),
}

pub(super) struct Watching {
    pub(super) world: Shared,
    pub(super) id: u64,
}

impl Drop for Watching {
    fn drop(&mut self) {
        lock(&self.world).etcd.watches.remove(&self.id);
    }
}

impl DrivenWatch for Watching {
    fn next(&mut self) -> Answered<'_, Batch> {
        Box::pin(std::future::poll_fn(|context| {
            let mut world = lock(&self.world);
            world.poll_watch(self.id, context)
        }))
    }
}

impl World {
    fn poll_watch(&mut self, id: u64, context: &Context<'_>) -> Poll<Result<Batch, Fault>> {
        let Etcd { watches, store, foreign, .. } = &mut self.etcd;
        let gone = || Fault::Unavailable("the watch has ended".to_string());
        let Some(watch) = watches.get_mut(&id) else { return Poll::Ready(Err(gone())) };
        if watch.broken {
            return Poll::Ready(Err(gone()));
        }
        let store = if watch.foreign { foreign } else { store };
        let again = watch.again.take();
        if (watch.ready && !watch.silent) || again.is_some() {
            let from = again.map_or(watch.seen, |(from, _)| from);
            let Some(changes) = store.changes_since(from) else {
                return Poll::Ready(Ok(Batch::Compacted));
            };
            let to = again.map_or(store.revision(), |(_, to)| to);
            watch.ready = again.is_some();
            watch.seen = to.max(watch.seen);
            if !watch.foreign {
                let seen = watch.seen;
                self.book.departures.has_heard(self.task, seen);
            }
            let of = |change: &Change| match change {
                Change::Put(entry) => entry.key.starts_with(&watch.prefix),
                Change::Delete { key, .. } => key.starts_with(&watch.prefix),
            };
            let changes = changes.into_iter().filter(|(at, change)| *at <= to && of(change));
            let changes: Vec<Change> = changes.map(|(_, change)| change).collect();
            if !changes.is_empty() {
                if again.is_some() {
                    self.coverage.count("watch repeated");
                }
                return Poll::Ready(Ok(Batch::Changes { revision: to, changes }));
            }
        }
        watch.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
