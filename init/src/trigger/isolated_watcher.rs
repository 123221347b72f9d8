//! Paths that somebody else answers for, a network or a file system in user space: the lookout of paths leaves each
//! to a process of its own, as it may wait there for ever and see nothing of the others meanwhile. There are so many
//! and no more; what comes after that shares one.
//!
//! Its orders come from the lookout, its reports go to PID 1 as the lookout's own do ([`super::link`]).

use super::message::Order;
use super::watcher_client;
use super::watcher_slots::{Places, Row};
use crate::base::mount_table;
use crate::base::retry::ask_again;
use crate::sys::{Pid, process, socket, wait};
use groundstate_units::machine::event::RunId;
use groundstate_units::trigger::Watch;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// One of these processes.
struct Lane {
    pid: Pid,
    orders: OwnedFd,
    runs: BTreeSet<RunId>,
    /// It has not taken these: of each run no more than there is to say.
    unsent: VecDeque<(RunId, Order)>,
}

impl Lane {
    /// Said as soon as it takes it.
    fn tell(&mut self, run: RunId, order: Order) {
        let is_watch = |order: &Order| matches!(order, Order::Watch(_, _));
        let is_over = matches!(order, Order::End(_));
        let knows = !self.unsent.iter().any(|(of, before)| *of == run && is_watch(before));
        // What it has not heard is not so any more.
        self.unsent.retain(|(of, before)| *of != run || !is_over && is_watch(before));
        if knows || !is_over {
            self.unsent.push_back((run, order));
        }
    }

    /// As far as it takes it. An error: it can not be spoken with.
    fn flush(&mut self) -> io::Result<()> {
        while let Some((_, order)) = self.unsent.front() {
            let bytes = postcard::to_allocvec(order).map_err(io::Error::other)?;
            match ask_again(|| socket::send(self.orders.as_fd(), &bytes, &[])) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                sent => sent?,
            };
            self.unsent.pop_front();
        }
        Ok(())
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct Apart<'p> {
    lanes: Vec<Lane>,
    /// What tells of others that have not ended.
    places: Option<&'p Places>,
    /// They were told to end, and may have to wait before.
    leaving: Vec<Pid>,
}

/// Asking for one of these paths may mean to wait, as things are mounted now.
pub(super) fn may_wait(watch: &Watch) -> bool {
    let table = mount_table::table().ok().filter(|table| mount_table::has_elsewheres(table));
    let Some(table) = table else { return false };
    watch.looks.iter().any(|(_, path)| {
        // A pattern is asked for in each folder it leads into.
        let plain = path.find(['*', '?', '[', '\\']).and_then(|at| path.get(..at));
        let fixed =
            plain.map_or(path.as_str(), |start| start.rsplit_once('/').map_or("/", |p| p.0));
        let fixed = if fixed.is_empty() { "/" } else { fixed };
        (plain.is_some() && mount_table::has_elsewheres_below(&table, fixed))
            || mount_table::open_asked(&table, fixed, OFlag::O_PATH)
                .is_err_and(|e| e == Errno::EXDEV)
    })
}

impl<'p> Apart<'p> {
    /// None yet. Without places there are so many of each lookout.
    pub(super) fn new(places: Option<&'p Places>) -> Apart<'p> {
        Apart { places, ..Apart::default() }
    }

    /// This run is looked after by one of them.
    pub(super) fn has(&self, run: RunId) -> bool {
        self.lanes.iter().any(|lane| lane.runs.contains(&run))
    }

    /// From now on it is; the lookout's end of the line is for its reports. EBUSY: there are too many that
    /// never ended.
    pub(super) fn begin(&mut self, run: RunId, reports: &OwnedFd) -> io::Result<()> {
        self.reap();
        let lane = if self.at_work() < Row::Apart.most() {
            let (ours, theirs) = socket::pair()?;
            let places = self.places;
            let mut kept = vec![theirs.as_fd(), reports.as_fd()];
            kept.extend(places.map(AsFd::as_fd));
            let pid = process::fork(&kept, || watcher_client::run_apart(&theirs, reports, places))?;
            let (runs, unsent) = (BTreeSet::new(), VecDeque::new());
            self.lanes.push(Lane { pid, orders: ours, runs, unsent });
            self.lanes.last_mut()
        } else {
            self.lanes.iter_mut().min_by_key(|lane| lane.runs.len())
        };
        let busy = || io::Error::from_raw_os_error(libc::EBUSY);
        lane.ok_or_else(busy)?.runs.insert(run);
        Ok(())
    }

    /// There are so many now, those of lookouts before among them.
    fn at_work(&self) -> usize {
        let lanes = self.lanes.iter().map(|lane| lane.pid);
        let own: Vec<Pid> = lanes.chain(self.leaving.iter().copied()).collect();
        own.len() + self.places.map_or(0, |places| places.others(Row::Apart, &own))
    }

    /// Told on. An error: it can not be spoken with, and is to be begun anew with all others.
    pub(super) fn order(&mut self, run: RunId, order: Order) -> io::Result<()> {
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
        lane.tell(run, order);
        lane.flush()
    }

    /// Some of them may take now what they did not take before.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.lanes.iter_mut().try_for_each(Lane::flush)
    }

    /// What tells that one of them has ended; and whether it is to be heard when it takes more.
    pub(super) fn lines(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        self.lanes.iter().map(|lane| (lane.orders.as_fd(), !lane.unsent.is_empty()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::text::time::Time;

    #[test]
    fn one_that_takes_no_orders_costs_nobody_else_and_nothing_grows() {
        let (ours, theirs) = socket::pair().unwrap();
        let pid = process::fork(&[theirs.as_fd()], || {
            process::die_with_parent(9).unwrap();
            loop {
                nix::unistd::pause();
            }
        });
        let pid = pid.unwrap();
        let runs = (0..3).map(RunId).collect();
        let lane = Lane { pid, orders: ours, runs, unsent: VecDeque::new() };
        let mut apart = Apart { lanes: vec![lane], ..Apart::default() };
        for _ in 0..5_000 {
            for run in (0..2).map(RunId) {
                apart.order(run, Order::Look(run, Time::ZERO)).unwrap();
                apart.order(run, Order::Rest(run)).unwrap();
            }
        }
        let unsent = |apart: &Apart<'_>| -> Vec<RunId> {
            apart.lanes[0].unsent.iter().map(|(run, _)| *run).collect()
        };
        assert_eq!(unsent(&apart), [RunId(0), RunId(1)]);
        let watch = Watch { looks: Vec::new(), make_directory: false, directory_mode: 0 };
        // Of one that came and went it never hears.
        apart.order(RunId(2), Order::Watch(RunId(2), watch)).unwrap();
        apart.order(RunId(2), Order::Look(RunId(2), Time::ZERO)).unwrap();
        apart.order(RunId(0), Order::End(RunId(0))).unwrap();
        assert_eq!(unsent(&apart), [1, 2, 2, 0].map(RunId));
        apart.order(RunId(2), Order::End(RunId(2))).unwrap();
        assert_eq!(unsent(&apart), [1, 0].map(RunId));
        crate::sys::signal::kill(pid, 9).unwrap();
        wait::await_end(pid).unwrap();
    }
}
