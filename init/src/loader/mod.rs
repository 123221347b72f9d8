//! The loader, as PID 1 sees it: a child that reads and checks the unit files and hands
//! over one finished generation. A fork of init without an exec, with a deadline and
//! limits. PID 1 believes nothing of what it says before it has proved it.
//!
//! What the child does is in [`child`]; how the bytes travel in [`transfer`].

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

/// One at work.
#[derive(Serialize, Deserialize)]
pub(crate) struct Working {
    #[serde(with = "carried::pid")]
    pid: Pid,
    parcel: Parcel,
    deadline: Time,
    purpose: Purpose,
    #[serde(default)]
    killed: bool,
    /// Root asked for another load meanwhile: killed, this one waits behind it.
    #[serde(skip)]
    gives_way: bool,
}

/// At most one at work, and those that wait.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Loader {
    working: Option<Working>,
    waiting: Queue,
    #[serde(skip)]
    stragglers: Stragglers,
    /// First loads that brought nothing.
    #[serde(skip)]
    boots: u8,
    /// When the first of these began.
    #[serde(skip)]
    since: Option<Time>,
    /// A policy edit was granted since the load at work began. None: another image began it.
    #[serde(skip)]
    policy_edited: Option<bool>,
    /// Files that loaders of the load at work did not come past.
    #[serde(skip)]
    left_out: LeftOut,
    /// Sources that took too long to load.
    #[serde(skip)]
    slow: SlowSources,
    /// Where the generation in force came from.
    pub(crate) origin: Origin,
}

impl Loader {
    /// The first generation is not there yet.
    pub(crate) fn is_booting(&self) -> bool {
        let boots = |working: &Working| matches!(working.purpose, Purpose::Boot);
        self.working.as_ref().is_some_and(boots)
    }

    /// One is at work.
    pub(crate) fn is_at_work(&self) -> bool {
        self.working.is_some()
    }

    /// One is at work that may bring another generation.
    pub(crate) fn will_change(&self) -> bool {
        self.working.as_ref().is_some_and(|working| !working.purpose.is_shown_only())
    }

    /// When the one at work is killed, or given up.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.working.as_ref().map(|working| working.deadline)
    }
}

/// What the end of a loader brought.
pub(crate) enum Outcome {
    /// The loader ended well. An error: what it wrote cannot be read.
    Brought(Purpose, Box<Result<LoadResult, String>>),
    /// It was killed, or died.
    Died(Working, Exit),
}

/// How a load continues whose loader died.
pub(crate) enum Next {
    /// Behind the load for which it was killed.
    Wait(Purpose),
    /// At once, without the files that caused it, or one file at a time; with the reason.
    Again(Purpose, String),
    /// Not at all; with the reason.
    GiveUp(Purpose, String),
}

impl Working {
    /// What the load is for.
    pub(crate) fn purpose(&self) -> &Purpose {
        &self.purpose
    }
}

impl Loader {
    /// What the load at work is for.
    pub(crate) fn purpose(&self) -> Option<&Purpose> {
        self.working.as_ref().map(Working::purpose)
    }

    /// This load waits for the one at work. An error: too many wait.
    pub(crate) fn queue(&mut self, rank: Rank, purpose: Purpose) -> Result<(), Purpose> {
        self.waiting.push(rank, purpose)
    }

    /// The next load that waits, if none is at work.
    pub(crate) fn next(&mut self) -> Option<Purpose> {
        if self.is_at_work() { None } else { self.waiting.pop() }
    }

    /// Drops waiting loads whose client does not wait for them any more.
    pub(crate) fn drop_unasked(&mut self, waits: impl Fn(Asker) -> bool) {
        self.waiting.drop_unasked(waits);
    }

    /// A new load leaves out no file.
    pub(crate) fn leave_out_nothing(&mut self) {
        self.left_out = LeftOut::default();
    }

    /// The files that the next loader leaves out.
    pub(crate) fn left_out(&self) -> LeftOut {
        self.left_out.clone()
    }

    /// Too many loaders were killed and have not ended.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stragglers.are_many()
    }

    /// A loader was forked.
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

    /// The load at work is killed then, unless it ends before: a load of root's waits for it.
    pub(crate) fn give_way(&mut self, until: Time) {
        if let Some(working) = self.working.as_mut().filter(|working| !working.killed)
            && working.deadline > until
        {
            (working.deadline, working.gives_way) = (until, true);
        }
    }

    /// This child is a loader.
    pub(crate) fn knows(&self, pid: Pid) -> bool {
        self.working.as_ref().is_some_and(|working| working.pid == pid) || self.stragglers.has(pid)
    }

    /// A loader was reaped. None: its load is over already.
    pub(crate) fn reaped(&mut self, pid: Pid, exit: Exit) -> Option<Outcome> {
        let Some(working) = self.working.take_if(|working| working.pid == pid) else {
            self.stragglers.ended(pid);
            return None;
        };
        if exit != Exit::Code(0) {
            return Some(Outcome::Died(working, exit));
        }
        let brought = working.parcel.open();
        let brought = brought.map_err(|error| format!("the loader's work: {error}"));
        Some(Outcome::Brought(working.purpose, Box::new(brought)))
    }

    /// Reads from the loader, kills it at its deadline, and gives it up when the kill does not end it.
    /// Gives the load that was given up, and its process.
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

    /// A loader died, or was given up, and has brought nothing.
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
        let files = parcel.files_at_work();
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

    /// Until when this source may not be loaded again: it took too long.
    pub(crate) fn waits_until(&self, source: &Name) -> Option<Time> {
        self.slow.until(source)
    }

    /// This source was loaded.
    pub(crate) fn source_loaded(&mut self, source: &Name) {
        self.slow.forget(source);
    }

    /// A policy edit was granted. What a loader at work has read of the policy may be older.
    pub(crate) fn policy_edited(&mut self) {
        self.policy_edited = Some(true);
    }

    /// A policy edit was granted since the load at work began. None: another image began it.
    pub(crate) fn is_policy_edited(&self) -> Option<bool> {
        self.policy_edited
    }

    /// The first load has begun, or could not.
    pub(crate) fn boots(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// The first load begins anew, in another root.
    pub(crate) fn boot_anew(&mut self) {
        (self.boots, self.since) = (0, None);
        self.leave_out_nothing();
    }

    /// A first load brought nothing. True: it is tried again. One that took all its time would take it again.
    pub(crate) fn retries_boot(&mut self, now: Time) -> bool {
        let is_late = self.since.is_some_and(|since| now.since(since) >= limit::LOADER);
        let retries = !is_late && self.boots < limit::BOOT_LOADS;
        self.boots += u8::from(retries);
        retries
    }
}

/// Forks the child.
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
        // Limits that can not be set leave the deadline.
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
