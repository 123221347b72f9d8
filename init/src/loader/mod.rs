//! The loader, as PID 1 sees it: a child that reads and checks the unit files and returns a
//! complete generation. It is a fork of init without an exec, with a deadline and resource limits.
//! PID 1 verifies its result.
//!
//! The child's work is in [`child`]; the transfer of the result in [`transfer`].

pub(crate) mod boot_load;
pub(crate) mod child;
pub(crate) mod disk;
pub(crate) mod failed_load;
pub(crate) mod identity;
pub(crate) mod queue;
pub(crate) mod source_put;
pub(crate) mod transfer;

use crate::base::limit;
use crate::output::oom_score;
use crate::state::carried;
use crate::sys::{Pid, process, wait};
use child::{LoadRequest, Part};
use failed_load::SlowSources;
use failed_load::Stragglers;
use failed_load::{Death, LeftOut, Progress};
use groundstate_units::spec::Exit;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use mio::Registry;
use nix::sys::resource::Resource;
pub(crate) use queue::{Asker, Purpose};
use queue::{Queue, Rank};
use serde::{Deserialize, Serialize};
use std::os::fd::BorrowedFd;
use std::time::Duration;
use transfer::Origin;
use transfer::{LoadResult, Parcel};

/// A load in flight.
#[derive(Serialize, Deserialize)]
pub(crate) struct Working {
    #[serde(with = "carried::pid")]
    pid: Pid,
    parcel: Parcel,
    deadline: Time,
    purpose: Purpose,
    killed: bool,
    /// True if root has requested another load: when this one is killed, it is queued behind that.
    #[serde(skip)]
    gives_way: bool,
}

/// At most one load in flight, and the queue.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Loader {
    working: Option<Working>,
    waiting: Queue,
    #[serde(skip)]
    stragglers: Stragglers,
    /// Failed attempts of the first load.
    #[serde(skip)]
    boots: u8,
    /// The time of the first attempt.
    #[serde(skip)]
    since: Option<Time>,
    /// True if a policy edit was granted since the load in flight started. `None` if another image
    /// started it.
    #[serde(skip)]
    policy_edited: Option<bool>,
    /// Files on which loaders of the load in flight failed.
    #[serde(skip)]
    left_out: LeftOut,
    /// Sources that took too long to load.
    #[serde(skip)]
    slow: SlowSources,
    /// The memory that holds the present generation.
    pub(crate) origin: Origin,
}

impl Loader {
    /// Returns true until the first generation is loaded.
    pub(crate) fn is_booting(&self) -> bool {
        let boots = |working: &Working| matches!(working.purpose, Purpose::Boot);
        self.working.as_ref().is_some_and(boots)
    }

    /// Returns true if a load is in flight.
    pub(crate) fn is_at_work(&self) -> bool {
        self.working.is_some()
    }

    /// Returns true if the load in flight may install another generation.
    pub(crate) fn will_change(&self) -> bool {
        self.working.as_ref().is_some_and(|working| !working.purpose.is_shown_only())
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
    /// Queued behind the load for which it was killed.
    Wait(Purpose),
    /// At once, without the files that caused it or one file at a time; with the reason.
    Again(Purpose, String),
    /// Not at all; with the reason.
    GiveUp(Purpose, String),
}

impl Working {
    pub(crate) fn purpose(&self) -> &Purpose {
        &self.purpose
    }
}

impl Loader {
    /// The purpose of the load in flight.
    pub(crate) fn purpose(&self) -> Option<&Purpose> {
        self.working.as_ref().map(Working::purpose)
    }

    /// Queues a load. Returns it as an error if the queue is full.
    pub(crate) fn queue(&mut self, rank: Rank, purpose: Purpose) -> Result<(), Purpose> {
        self.waiting.push(rank, purpose)
    }

    /// The next queued load, if none is in flight.
    pub(crate) fn next(&mut self) -> Option<Purpose> {
        if self.is_at_work() { None } else { self.waiting.pop() }
    }

    /// Drops queued loads whose client no longer waits.
    pub(crate) fn drop_unasked(&mut self, waits: impl Fn(Asker) -> bool) {
        self.waiting.drop_unasked(waits);
    }

    /// Starts a new load without skipped files.
    pub(crate) fn leave_out_nothing(&mut self) {
        self.left_out = LeftOut::default();
    }

    /// The files that the next loader skips.
    pub(crate) fn left_out(&self) -> LeftOut {
        self.left_out.clone()
    }

    /// Returns true if too many killed loaders have not exited.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stragglers.are_many()
    }

    /// Records a forked loader.
    pub(crate) fn started(
        &mut self,
        (pid, parcel): (Pid, Parcel),
        purpose: Purpose,
        deadline: Time,
    ) {
        let (killed, gives_way) = (false, false);
        self.policy_edited = Some(false);
        self.working = Some(Working { pid, parcel, deadline, purpose, killed, gives_way });
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
    pub(crate) fn knows(&self, pid: Pid) -> bool {
        self.working.as_ref().is_some_and(|working| working.pid == pid) || self.stragglers.has(pid)
    }

    /// Handles a reaped loader. Returns `None` if its load is over already.
    pub(crate) fn reaped(&mut self, pid: Pid, exit: Exit) -> Option<Outcome> {
        let Some(working) = self.working.take_if(|working| working.pid == pid) else {
            self.stragglers.ended(pid);
            return None;
        };
        if exit != Exit::Code(0) {
            return Some(Outcome::Died(working, exit));
        }
        let brought = working.parcel.open();
        let brought = brought.map_err(|error| format!("cannot read the loader's result: {error}"));
        Some(Outcome::Brought(working.purpose, Box::new(brought)))
    }

    /// Reads from the loader, kills it at its deadline, and abandons it if the kill does not end
    /// it. Returns the abandoned load and its process.
    pub(crate) fn due(&mut self, now: Time) -> Option<(Working, Pid)> {
        let working = self.working.as_mut()?;
        working.parcel.read_some();
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
        self.stragglers.add(pid);
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
        let Working { parcel, purpose, killed, gives_way, .. } = load;
        if killed && gives_way {
            return Next::Wait(purpose);
        }
        let death = Death::of(exit, killed, patience);
        let file = parcel.file_at_work();
        let why = death.of_load(file.as_deref());
        if let Purpose::Put { source, .. } = &purpose {
            if !matches!(death, Death::Other(_)) {
                self.slow.add(source, now);
            }
        } else if self.left_out.learn(&death, file) {
            return Next::Again(purpose, why);
        }
        Next::GiveUp(purpose, why)
    }

    /// The time before which this source may not be loaded again, because it took too long.
    pub(crate) fn waits_until(&self, source: &Name) -> Option<Time> {
        self.slow.until(source)
    }

    /// Notes that this source was loaded.
    pub(crate) fn source_loaded(&mut self, source: &Name) {
        self.slow.forget(source);
    }

    /// Notes a granted policy edit: a loader in flight may have read an older policy.
    pub(crate) fn policy_edited(&mut self) {
        self.policy_edited = Some(true);
    }

    /// Returns true if a policy edit was granted since the load in flight started. Returns `None`
    /// if another image started it.
    pub(crate) fn is_policy_edited(&self) -> Option<bool> {
        self.policy_edited
    }

    /// Notes the start of the first load.
    pub(crate) fn boots(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// Starts the attempts of the first load again, in another root.
    pub(crate) fn boot_anew(&mut self) {
        (self.boots, self.since) = (0, None);
        self.leave_out_nothing();
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
pub(crate) fn send(
    registry: &Registry,
    errand: &LoadRequest<'_>,
) -> std::io::Result<(Pid, Parcel)> {
    let (parcel, wrapping) = Parcel::new(registry)?;
    let body = match errand.part {
        Part::Source(_, body) => body,
        Part::Whole | Part::Instances => None,
    };
    let kept: Vec<BorrowedFd<'_>> = [wrapping.as_fd()].into_iter().chain(body).collect();
    let pid = process::fork(&kept, || {
        oom_score::protect_from_oom();
        // Without these limits, the deadline still applies.
        let _ = process::die_with_parent(9);
        for (resource, most) in [
            (Resource::RLIMIT_CPU, limit::LOADER_CPU),
            (Resource::RLIMIT_AS, limit::LOADER_MEMORY),
            (Resource::RLIMIT_CORE, 0),
        ] {
            let _ = nix::sys::resource::setrlimit(resource, most, most);
        }
        #[cfg(debug_assertions)]
        crate::base::crash_test::strike_in("loader", true);
        let progress = Progress::new(wrapping.memory(), &errand.left_out);
        let delivery = child::run(errand, &progress);
        match wrapping.fill(&delivery) {
            Ok(()) => 0,
            Err(_) => 1,
        }
    })?;
    Ok((pid, parcel))
}
