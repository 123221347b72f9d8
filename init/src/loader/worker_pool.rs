//! The same work on many files, by several threads at once. In the loader's child alone: PID 1
//! has one thread, and so has the core, which asks for this by
//! [`groundstate_units::load::files::Files::each`].

use crate::base::limit;
use nix::sched::{CpuSet, sched_getaffinity};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, scope};

/// Files a hand takes at a time.
const PORTION: usize = 16;
/// Files below which another hand is not worth its thread.
const WORTH: usize = 32;
/// Bytes of a thread's stack: nothing that is done so recurses.
const STACK: usize = 512 * 1024;

/// Does `work` for each number below `count`. A thread that can not be had is done without; a
/// panic in one goes on in the caller.
pub(super) fn each(hands: usize, count: usize, work: &(dyn Fn(usize) + Sync)) {
    let next = AtomicUsize::new(0);
    let serve = || {
        loop {
            let from = next.fetch_add(PORTION, Ordering::Relaxed);
            if from >= count {
                return;
            }
            (from..count.min(from + PORTION)).for_each(work);
        }
    };
    let hands = hands.min(count / WORTH);
    scope(|scope| {
        let begin = |_| Builder::new().stack_size(STACK).spawn_scoped(scope, serve).ok();
        let others: Vec<_> = (1..hands).filter_map(begin).collect();
        serve();
        for other in others {
            if let Err(panic) = other.join() {
                resume_unwind(panic);
            }
        }
    });
}

/// One for each processor this process may use, [`limit::LOADER_HANDS`] at most.
pub(super) fn count() -> usize {
    let set = sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap_or_default();
    let usable = (0..CpuSet::count()).filter(|at| set.is_set(*at) == Ok(true)).count();
    usable.min(limit::LOADER_HANDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::{Barrier, Mutex};

    #[test]
    fn each_is_done_once_whoever_does_it() {
        for (hands, count) in [(0, 10), (1, 0), (1, 100), (2, 1), (4, 63), (3, 1000), (64, 1001)] {
            let done = Mutex::new(vec![0; count]);
            each(hands, count, &|at| done.lock().unwrap()[at] += 1);
            assert_eq!(done.into_inner().unwrap(), vec![1; count]);
        }
    }

    #[test]
    fn several_threads_work_and_a_few_files_are_worth_one_only() {
        let by = |count: usize| {
            let (seen, both) = (Mutex::new(BTreeSet::new()), Barrier::new(2));
            each(2, count, &|_| {
                let name = format!("{:?}", std::thread::current().id());
                // Nobody goes on with its first before the other has begun.
                if seen.lock().unwrap().insert(name) && count >= 2 * WORTH {
                    both.wait();
                }
            });
            seen.into_inner().unwrap().len()
        };
        assert_eq!((by(2 * WORTH - 1), by(2 * WORTH)), (1, 2));
    }

    #[test]
    #[should_panic(expected = "on purpose")]
    fn a_panic_of_one_hand_is_the_caller_s() {
        each(2, 1000, &|at| assert!(at < 999, "on purpose"));
    }
}
