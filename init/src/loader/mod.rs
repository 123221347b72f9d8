//! The loader, as PID 1 sees it: a child that reads and checks the unit files and returns a
//! complete generation. It is a fork of init without an exec, with a deadline and resource limits.
//! PID 1 verifies its result.
//!
//! The child's work is in [`child`]; the transfer of the result in [`transfer`].

pub(crate) mod child;
pub(crate) mod failed_load;
pub(crate) mod identity;
pub(crate) mod transfer;

use crate::base::limit;
use crate::fd::Foreign;
use crate::loader::child::LoadRequest;
use crate::loader::failed_load::{Death, LeftOut, Progress, SlowSources, files_at_work};
use crate::loader::transfer::{LoadResult, Origin};
use crate::output::oom_score;
use crate::state::carried::{self, KeptFd};
use crate::sys::{Pid, memfd, process, wait};
use groundstate_units::machine::event::Event;
use groundstate_units::spec::Exit;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use nix::sys::resource::Resource;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// A load in flight.
#[derive(Serialize, Deserialize)]
pub(crate) struct Working {
    #[serde(with = "carried::pid")]
    pid: Pid,
    /// The memfd that the child fills and seals.
    memory: KeptFd<OwnedFd>,
    deadline: Time,
    pub(crate) purpose: Purpose,
    #[serde(default)]
    killed: bool,
    /// True if root has requested another load: if this one is killed, it is queued behind root's.
    #[serde(skip)]
    gives_way: bool,
}

/// At most one load in flight, and the queue.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Loader {
    working: Option<Working>,
    pub(crate) waiting: Queue,
    /// Killed loaders that have not exited: they wait in the kernel for an unresponsive file
    /// system. A later image reaps them as unknown children.
    #[serde(skip)]
    stragglers: BTreeSet<Pid>,
    /// Failed attempts of the first load.
    #[serde(skip)]
    boots: u8,
    /// The time of the first attempt.
    #[serde(skip)]
    since: Option<Time>,
    /// True if a policy edit was granted since the load in flight started. `None` if another image
    /// started it.
    #[serde(skip)]
    pub(crate) policy_edited: Option<bool>,
    /// Files on which loaders of the load in flight failed: the next loader skips them.
    #[serde(skip)]
    pub(crate) left_out: LeftOut,
    /// Sources that took too long to load.
    #[serde(skip)]
    pub(crate) slow: SlowSources,
    /// The memory that holds the present generation.
    pub(crate) origin: Origin,
}

impl Loader {
    /// Returns true if a load is in flight.
    pub(crate) fn is_at_work(&self) -> bool {
        self.working.is_some()
    }

    /// The time at which the loader in flight is killed, or abandoned.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.working.as_ref().map(|working| working.deadline)
    }
}

/// The result of a loader's exit.
pub(crate) enum Outcome {
    /// The loader succeeded. An error means that its result is unreadable.
    Brought(Purpose, Box<Result<LoadResult, String>>),
    /// The loader was killed or crashed.
    Died(Working, Exit),
}

/// How a load whose loader died continues.
pub(crate) enum Next {
    /// It is queued behind the load for which it was killed.
    Wait(Purpose),
    /// It is repeated at once: without the files that caused the death, or one file at a time. The
    /// text is the reason.
    Again(Purpose, String),
    /// It is abandoned; with the reason.
    GiveUp(Purpose, String),
}

impl Loader {
    /// The purpose of the load in flight.
    pub(crate) fn purpose(&self) -> Option<&Purpose> {
        self.working.as_ref().map(|working| &working.purpose)
    }

    /// The next queued load, if none is in flight.
    pub(crate) fn next(&mut self) -> Option<Purpose> {
        if self.is_at_work() { None } else { self.waiting.pop() }
    }

    /// Returns true if too many killed loaders have not exited.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stragglers.len() >= limit::LOADERS_LEFT
    }

    /// Records a forked loader.
    pub(crate) fn note_forked(
        &mut self,
        (pid, memory): (Pid, OwnedFd),
        purpose: Purpose,
        deadline: Time,
    ) {
        let (killed, gives_way) = (false, false);
        self.policy_edited = Some(false);
        let memory = memory.into();
        self.working = Some(Working { pid, memory, deadline, purpose, killed, gives_way });
    }

    /// Shortens the deadline of the load in flight, because root has requested another load.
    pub(crate) fn give_way(&mut self, until: Time) {
        if let Some(working) = self.working.as_mut().filter(|working| !working.killed)
            && working.deadline > until
        {
            (working.deadline, working.gives_way) = (until, true);
        }
    }

    /// Returns true if this child is a loader.
    pub(crate) fn is_loader(&self, pid: Pid) -> bool {
        self.working.as_ref().is_some_and(|working| working.pid == pid)
            || self.stragglers.contains(&pid)
    }

    /// Handles a reaped loader. Returns `None` if its load is over already.
    pub(crate) fn reaped(&mut self, pid: Pid, exit: Exit) -> Option<Outcome> {
        let Some(working) = self.working.take_if(|working| working.pid == pid) else {
            self.stragglers.remove(&pid);
            return None;
        };
        if exit != Exit::Code(0) {
            return Some(Outcome::Died(working, exit));
        }
        let brought = transfer::unwrap(working.memory.into_inner());
        let brought = brought.map_err(|error| format!("cannot read the loader's result: {error}"));
        Some(Outcome::Brought(working.purpose, Box::new(brought)))
    }

    /// Kills the loader at its deadline, and abandons it if the kill does not end it. Returns the
    /// abandoned load and its process.
    pub(crate) fn enforce_deadline(&mut self, now: Time) -> Option<(Working, Pid)> {
        let working = self.working.as_mut()?;
        if working.deadline > now {
            return None;
        }
        if !working.killed {
            (working.killed, working.deadline) = (true, now.after(limit::LOADER_DYING));
            let _ = wait::kill_made(working.pid, 9);
            return None;
        }
        let working = self.working.take()?;
        let pid = working.pid;
        self.stragglers.insert(pid);
        Some((working, pid))
    }

    /// Handles a loader that died or was abandoned without a result.
    pub(crate) fn failed(
        &mut self,
        load: Working,
        exit: Exit,
        patience: Duration,
        now: Time,
    ) -> Next {
        let Working { memory, purpose, killed, gives_way, .. } = load;
        if killed && gives_way {
            return Next::Wait(purpose);
        }
        let death = Death::of(exit, killed, patience);
        let files = files_at_work(&memory);
        let why = death.of_load(&files);
        if let Purpose::Put { source, .. } = &purpose {
            if !matches!(death, Death::Other(_)) {
                self.slow.add(source, now);
            }
        } else if self.left_out.learn(&death, files) {
            return Next::Again(purpose, why);
        }
        Next::GiveUp(purpose, why)
    }

    /// Notes the start of the first load.
    pub(crate) fn note_boot_load(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// Starts the attempts of the first load again, in another root.
    pub(crate) fn boot_again(&mut self) {
        (self.boots, self.since) = (0, None);
        self.left_out = LeftOut::default();
    }

    /// Returns true if a failed first load is retried. A load that timed out is not, because it
    /// would time out again.
    pub(crate) fn retries_boot(&mut self, now: Time) -> bool {
        let is_late = self.since.is_some_and(|since| now.since(since) >= limit::LOADER);
        let retries = !is_late && self.boots < limit::BOOT_LOADS;
        self.boots += u8::from(retries);
        retries
    }
}

/// Forks the loader.
pub(crate) fn fork(errand: &LoadRequest<'_>) -> io::Result<(Pid, OwnedFd)> {
    let memory = memfd::create(c"generation")?;
    let body = if let Purpose::Put { body, .. } = errand.purpose { body.as_ref() } else { None };
    let body = body.map(AsFd::as_fd);
    let kept: Vec<BorrowedFd<'_>> = [memory.as_fd()].into_iter().chain(body).collect();
    let pid = process::fork(&kept, || {
        oom_score::protect_from_oom();
        // Without these limits, the deadline still applies.
        let _ = process::die_with_parent();
        for (resource, most) in [
            (Resource::RLIMIT_CPU, limit::LOADER_CPU),
            (Resource::RLIMIT_AS, limit::LOADER_MEMORY),
            (Resource::RLIMIT_CORE, 0),
        ] {
            let _ = nix::sys::resource::setrlimit(resource, most, most);
        }
        #[cfg(debug_assertions)]
        crate::base::crash_test::strike_in("loader", true);
        let progress = Progress::new(&memory, &errand.left_out);
        let delivery = child::run(errand, &progress);
        match transfer::fill(&memory, &delivery) {
            Ok(()) => 0,
            Err(_) => 1,
        }
    })?;
    Ok((pid, memory))
}

// The queue of loads: their order and their limits. Pure; [`crate::event_loop`] carries them
// out.
//
// Every user may read, and some queries need a load. Neither their number nor their order may
// delay root's reload or a controller's files.

/// The requester of a load, in order of precedence.
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
#[serde(default)]
pub(crate) struct Queue {
    waiting: VecDeque<(Rank, Purpose)>,
}

impl Queue {
    /// Queues a load behind those of its rank.
    ///
    /// # Errors
    /// The queue is full.
    pub(crate) fn push(&mut self, rank: Rank, purpose: Purpose) -> Result<(), Purpose> {
        // Several signals during a load request one further load together.
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
        #[serde(default)]
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
        #[serde(default)]
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
        #[serde(default)]
        dry: bool,
    },
}

impl Purpose {
    /// Returns true if the load only produces an answer.
    pub(crate) fn is_shown_only(&self) -> bool {
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
mod queue_tests {
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
    fn flood_of_read_only_loads_leaves_room_for_owners_and_root() {
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
    fn owner_comes_after_root_and_before_readers_and_signals_share_one_load() {
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
    fn only_changes_of_a_disconnected_client_are_kept() {
        let mut queue = Queue::default();
        queue.push(Rank::Trusted, reload(1)).unwrap();
        queue.push(Rank::Trusted, plan(2)).unwrap();
        queue.push(Rank::Trusted, plan(3)).unwrap();
        queue.drop_unasked(|asker| asker.client == 3);
        assert_eq!(order(&mut queue), [Some(1), Some(3)]);
    }
}
