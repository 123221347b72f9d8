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
use crate::sys::{Pid, process};
use child::{LoadRequest, Part};
use failed_load::SlowSources;
use failed_load::Stragglers;
use failed_load::{LeftOut, Progress};
use groundstate_units::text::time::Time;
use mio::Registry;
use nix::sys::resource::Resource;
use queue::Queue;
pub(crate) use queue::{Asker, Purpose};
use serde::{Deserialize, Serialize};
use std::os::fd::BorrowedFd;
use transfer::Origin;
use transfer::Parcel;

/// One at work.
#[derive(Serialize, Deserialize)]
pub(crate) struct Working {
    #[serde(with = "carried::pid")]
    pub(crate) pid: Pid,
    pub(crate) parcel: Parcel,
    pub(crate) deadline: Time,
    pub(crate) purpose: Purpose,
    pub(crate) killed: bool,
    /// Root asked for another load meanwhile: killed, this one waits behind it.
    #[serde(skip)]
    pub(crate) gives_way: bool,
}

/// At most one at work, and those that wait.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Loader {
    pub(crate) working: Option<Working>,
    pub(crate) waiting: Queue,
    #[serde(skip)]
    pub(crate) stragglers: Stragglers,
    /// First loads that brought nothing.
    #[serde(skip)]
    pub(crate) boots: u8,
    /// When the first of these began.
    #[serde(skip)]
    pub(crate) since: Option<Time>,
    /// A policy edit was granted since the load at work began. None: another image began it.
    #[serde(skip)]
    pub(crate) policy_edited: Option<bool>,
    /// Files that loaders of the load at work did not come past.
    #[serde(skip)]
    pub(crate) left_out: LeftOut,
    /// Sources that took too long to load.
    #[serde(skip)]
    pub(crate) slow: SlowSources,
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
