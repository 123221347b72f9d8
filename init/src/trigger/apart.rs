//! Paths that somebody else answers for, a network or a file system in user space: the lookout of paths leaves each
//! to a process of its own, as it may wait there for ever and see nothing of the others meanwhile. There are so many
//! and no more; what comes after that shares one.
//!
//! Its orders come from the lookout, its reports go to PID 1 as the lookout's own do ([`super::link`]).

use super::message::Order;
use super::watcher;
use crate::insistence::ask_again;
use crate::limit;
use crate::mounted;
use crate::sys::{Pid, process, socket, wait};
use groundstate_units::machine::event::RunId;
use groundstate_units::trigger::Watch;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// One of these processes.
struct Lane {
    pid: Pid,
    orders: OwnedFd,
    runs: BTreeSet<RunId>,
}

/// All of them.
#[derive(Default)]
pub(super) struct Apart {
    lanes: Vec<Lane>,
    /// They were told to end, and may have to wait before.
    leaving: Vec<Pid>,
}

/// Asking for one of these paths may mean to wait, as things are mounted now.
pub(super) fn may_wait(watch: &Watch) -> bool {
    let table = mounted::table().ok().filter(|table| mounted::has_elsewheres(table));
    let Some(table) = table else { return false };
    watch.looks.iter().any(|(_, path)| {
        // A pattern is asked for in each folder it leads into.
        let plain = path.find(['*', '?', '[', '\\']).and_then(|at| path.get(..at));
        let fixed =
            plain.map_or(path.as_str(), |start| start.rsplit_once('/').map_or("/", |p| p.0));
        let fixed = if fixed.is_empty() { "/" } else { fixed };
        (plain.is_some() && mounted::has_elsewheres_below(&table, fixed))
            || mounted::open_asked(&table, fixed, OFlag::O_PATH).is_err_and(|e| e == Errno::EXDEV)
    })
}

impl Apart {
    /// This run is looked after by one of them.
    pub(super) fn has(&self, run: RunId) -> bool {
        self.lanes.iter().any(|lane| lane.runs.contains(&run))
    }

    /// From now on it is; the lookout's end of the line is for its reports. EBUSY: there are too many that
    /// never ended.
    pub(super) fn begin(&mut self, run: RunId, reports: &OwnedFd) -> io::Result<()> {
        self.reap();
        let at_work = self.lanes.len() + self.leaving.len();
        let lane = if at_work < limit::LOOKOUTS_APART {
            let (ours, theirs) = socket::pair()?;
            let pid = process::fork(&[theirs.as_fd(), reports.as_fd()], || {
                watcher::run_apart(&theirs, reports)
            })?;
            self.lanes.push(Lane { pid, orders: ours, runs: BTreeSet::new() });
            self.lanes.last_mut()
        } else {
            self.lanes.iter_mut().min_by_key(|lane| lane.runs.len())
        };
        let busy = || io::Error::from_raw_os_error(libc::EBUSY);
        lane.ok_or_else(busy)?.runs.insert(run);
        Ok(())
    }

    /// Told on. An error: it can not be spoken with, and is to be begun anew with all others.
    pub(super) fn order(&mut self, run: RunId, order: &Order) -> io::Result<()> {
        let Some(at) = self.lanes.iter().position(|lane| lane.runs.contains(&run)) else {
            return Ok(());
        };
        let Some(lane) = self.lanes.get_mut(at) else { return Ok(()) };
        if let Order::End(_) = order {
            lane.runs.remove(&run);
            if lane.runs.is_empty() {
                // It ends when it sees that this end is closed.
                let ended = self.lanes.extract_if(.., |lane| lane.runs.is_empty());
                self.leaving.extend(ended.map(|lane| lane.pid));
                return Ok(());
            }
        }
        let bytes = postcard::to_allocvec(order).map_err(io::Error::other)?;
        ask_again(|| socket::send(lane.orders.as_fd(), &bytes, &[])).map(drop)
    }

    /// What tells that one of them has ended.
    pub(super) fn lines(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.lanes.iter().map(|lane| lane.orders.as_fd())
    }

    /// Some are on their way out.
    pub(super) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Those that have ended meanwhile count no more.
    pub(super) fn reap(&mut self) {
        self.leaving.retain(|pid| matches!(wait::reap(*pid), Ok(None)));
    }
}
