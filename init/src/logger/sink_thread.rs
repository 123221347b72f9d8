//! A way out that may stand still: a thread with a bounded queue before it. The thread may
//! wait for its disk, terminal or reader as long as it likes; the logger's loop never does.
//!
//! One rule for all of them. A lane that is *full* but moving holds its runs back: their
//! pipes are not read until there is room, so nothing is lost to a disk that is merely slow.
//! A full lane that moved nothing for [`limit::STUCK`] is *stuck*: what is meant for it is
//! dropped and counted, so no service waits longer than that.

use super::limit;
pub(crate) use super::pending_buffer::Lines;
use mio::Waker;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// May more be pushed?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Yes.
    Free,
    /// Not now: ask again when woken, or then.
    Full(Instant),
    /// No, and it is not worth waiting.
    Stuck,
}

/// The loop's end of a lane that carries `J`s.
#[derive(Debug)]
pub(crate) struct Lane<J> {
    shared: Arc<Shared<J>>,
    /// Full since, at this count of jobs done.
    full: Option<(Instant, u64)>,
    stuck: bool,
}

#[derive(Debug)]
struct Shared<J> {
    state: Mutex<State<J>>,
    /// There is work, or the lane is closed.
    work: Condvar,
    /// All work is done.
    idle: Condvar,
}

#[derive(Debug)]
struct State<J> {
    jobs: VecDeque<(J, usize)>,
    /// Of all jobs not done yet, the one under way too.
    bytes: usize,
    done: u64,
    /// The loop wants to know when there is room.
    wanted: bool,
    closed: bool,
}

impl<J> Shared<J> {
    fn lock(&self) -> MutexGuard<'_, State<J>> {
        // A sink that panicked left the queue whole: it runs outside the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J: Send + 'static> Lane<J> {
    /// A thread that puts each job through `sink`. It wakes the loop when there is room again.
    pub(crate) fn start(
        name: &str,
        waker: Arc<Waker>,
        sink: impl FnMut(J) + Send + 'static,
    ) -> io::Result<Lane<J>> {
        let state =
            State { jobs: VecDeque::new(), bytes: 0, done: 0, wanted: false, closed: false };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            work: Condvar::new(),
            idle: Condvar::new(),
        });
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new().name(name.to_string()).stack_size(limit::STACK);
        thread.spawn(move || work(&theirs, &waker, sink))?;
        Ok(Lane { shared, full: None, stuck: false })
    }

    /// Adds a job of so many bytes. Whether there is room is asked before.
    pub(crate) fn push(&self, job: J, bytes: usize) {
        let mut state = self.shared.lock();
        state.bytes += bytes;
        state.jobs.push_back((job, bytes));
        drop(state);
        self.shared.work.notify_one();
    }

    /// Whether to push now. After [`Room::Full`] the loop is woken when there is room.
    pub(crate) fn room(&mut self, now: Instant) -> Room {
        let mut state = self.shared.lock();
        if state.bytes < limit::LANE {
            self.full = None;
            self.stuck = false;
            return Room::Free;
        }
        state.wanted = true;
        let done = state.done;
        drop(state);
        if self.stuck {
            return Room::Stuck;
        }
        let since = match self.full {
            Some((since, before)) if before == done => since,
            _ => {
                self.full = Some((now, done));
                now
            }
        };
        self.stuck = now.duration_since(since) >= limit::STUCK;
        if self.stuck { Room::Stuck } else { Room::Full(since + limit::STUCK) }
    }

    /// Waits until all that was pushed is done, or nothing more moves for so long. For the
    /// very end.
    pub(crate) fn finish(&self, patience: Duration) {
        let mut state = self.shared.lock();
        let (mut done, mut since) = (state.done, Instant::now());
        while state.bytes > 0 || !state.jobs.is_empty() {
            if state.done != done {
                (done, since) = (state.done, Instant::now());
            }
            let left = patience.saturating_sub(since.elapsed());
            if left.is_zero() {
                return;
            }
            let idle = &self.shared.idle;
            state = idle.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl<J> Drop for Lane<J> {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_one();
    }
}

fn work<J>(shared: &Shared<J>, waker: &Waker, mut sink: impl FnMut(J)) {
    let mut state = shared.lock();
    loop {
        if let Some((job, bytes)) = state.jobs.pop_front() {
            drop(state);
            sink(job);
            state = shared.lock();
            state.bytes = state.bytes.saturating_sub(bytes);
            state.done += 1;
            if state.wanted && state.bytes < limit::LANE / 2 {
                state.wanted = false;
                // Refused only with 2^64 wake-ups pending.
                let _ = waker.wake();
            }
        } else if state.closed {
            return;
        } else {
            shared.idle.notify_all();
            state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    fn waker() -> (mio::Poll, Arc<Waker>) {
        let poll = mio::Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), mio::Token(0)).unwrap();
        (poll, Arc::new(waker))
    }

    #[test]
    fn jobs_are_done_in_order_and_finish_waits_for_them() {
        let (_poll, waker) = waker();
        let (done, seen) = sync_channel(100);
        let lane = Lane::start("test", waker, move |job: u32| done.send(job).unwrap()).unwrap();
        (0..100).for_each(|job| lane.push(job, 1));
        lane.finish(Duration::from_secs(60));
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_full_lane_holds_back_then_counts_as_stuck_then_moves_again() {
        let (mut poll, waker) = waker();
        let (go, gate) = sync_channel(0);
        let mut lane = Lane::start("test", waker, move |(): ()| gate.recv().unwrap()).unwrap();
        let now = Instant::now();
        assert_eq!(lane.room(now), Room::Free);
        lane.push((), limit::LANE);
        assert_eq!(lane.room(now), Room::Full(now + limit::STUCK));
        assert_eq!(lane.room(now + limit::STUCK), Room::Stuck);
        go.send(()).unwrap();
        let mut events = mio::Events::with_capacity(4);
        poll.poll(&mut events, Some(Duration::from_secs(60))).unwrap();
        assert!(!events.is_empty(), "the loop was not woken");
        assert_eq!(lane.room(now + limit::STUCK), Room::Free);
    }

    #[test]
    fn a_lane_that_moves_is_never_stuck() {
        let (_poll, waker) = waker();
        let (go, gate) = sync_channel(0);
        let (done, seen) = sync_channel(10);
        let sink = move |(): ()| {
            gate.recv().unwrap();
            done.send(()).unwrap();
        };
        let mut lane = Lane::start("test", waker, sink).unwrap();
        let mut now = Instant::now();
        (0..5).for_each(|_| lane.push((), limit::LANE));
        for _ in 0..3 {
            assert!(matches!(lane.room(now), Room::Full(_)));
            go.send(()).unwrap();
            seen.recv().unwrap();
            let before = lane.full.unwrap().1;
            while lane.shared.lock().done == before {
                thread::yield_now();
            }
            now += limit::STUCK;
        }
        (0..2).for_each(|_| go.send(()).unwrap());
    }
}
