//! The table of runs and their processes.
//!
//! Cost, with cgroups: a start makes a directory (20 µs; [`super::tracker`] for units that wait) and opens it; an end removes it (19 µs),
//! which is also the question whether anything is left in it. A watch (8 µs) is set only for a run somebody waits for, so it
//! costs nothing at boot. All watches are behind one descriptor; none is kept open for a run.

mod cgroup_settings;
mod orphans;

use super::cgroup_root::Hierarchy;
use super::cgroup_root::LEFTOVERS;
use super::controller::Wish;
use super::group;
use super::process_tree::ProcessTree;
use crate::base::{limit, procfs};
use crate::process_tracking::Place;
use crate::state::table::Table;
use crate::sys::{Pid, wait};
use groundstate_units::machine::event::{ExecFailure, RunId, Stage};
use groundstate_units::text::fields::is_default;
use groundstate_units::text::name::Name;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// One run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tracked {
    /// Its cgroup, below ours; none where there are no cgroups.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) cgroup: Option<Box<str>>,
    /// A process was put into it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) entered: bool,
    /// All in it may have been killed by cgroup.kill, so the kernel may kill a child that is cloned
    /// into it. Of a run that an image before this one had, this is not known.
    #[serde(skip, default = "unknown")]
    pub(super) killed: bool,
    /// Somebody waits for it to empty.
    #[serde(default, skip_serializing_if = "is_default")]
    waited_for: bool,
    /// How often the kernel has killed in it for want of memory, as far as was told.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) kills: u64,
    /// It is told of what happens to its memory.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) counts_memory: bool,
    /// Children of ours, not reaped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) children: Vec<i32>,
}

/// Which processes belong to which run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Tracker {
    pub(super) hierarchy: Option<Hierarchy>,
    #[serde(skip)]
    pub(super) inotify: Option<Inotify>,
    #[serde(skip)]
    pub(crate) runs: Table<RunId, Tracked>,
    /// Of each run, where there are no cgroups.
    #[serde(skip)]
    pub(crate) families: Table<RunId, ProcessTree>,
    /// Of whom processes were reaped, and what they left is to be found: each with when it began.
    #[serde(skip)]
    pub(super) parted: Vec<(RunId, u64)>,
    /// All that were: who has such a pid by now was left by none of them.
    #[serde(skip)]
    pub(super) reaped: BTreeSet<i32>,
    /// Without cgroups: those that were killed, and are to be for as long as anything of them ends.
    #[serde(skip)]
    pub(super) killed: BTreeSet<RunId>,
    #[serde(skip)]
    pub(super) children: BTreeMap<i32, RunId>,
    #[serde(skip)]
    pub(super) watches: BTreeMap<WatchDescriptor, Box<str>>,
    /// Their `memory.events`.
    #[serde(skip)]
    pub(super) memory_watches: BTreeMap<WatchDescriptor, RunId>,
    /// Runs in which the kernel has killed for want of memory.
    #[serde(default)]
    pub(super) short: BTreeSet<RunId>,
    /// What could not be set, and was no reason not to start.
    #[serde(default)]
    pub(super) complaints: Vec<String>,
    /// Cgroups of runs that are forgotten, but could not be removed.
    #[serde(default)]
    pub(super) leftovers: BTreeSet<Box<str>>,
    /// A run that is waited for has to be looked at although no watch will tell.
    #[serde(default)]
    pub(super) look_again: bool,
    /// The kernel may have more to tell than was read in one turn.
    #[serde(default)]
    pub(super) more: bool,
    /// For units that wait.
    #[serde(default)]
    pub(super) ahead: Ahead,
}

impl Tracker {
    /// `may_mount`: this is PID 1 of a machine, and the hierarchy may be mounted. The text, when
    /// there is one, says why there are no cgroups.
    pub(crate) fn new(may_mount: bool) -> (Tracker, Option<String>) {
        // What passes must not leave init without cgroups for as long as it lives.
        let tries = 1..limit::ASKED_AT_ONCE;
        let found = tries.into_iter().find_map(|_| Hierarchy::find(may_mount).ok());
        match found.map_or_else(|| Hierarchy::find(may_mount), Ok) {
            Ok(hierarchy) => (Tracker::with(Some(hierarchy)), None),
            Err(why) => (Tracker::with(None), Some(why)),
        }
    }

    /// As where there are none.
    #[cfg(test)]
    pub(super) fn without_cgroups() -> Tracker {
        Tracker::with(None)
    }

    pub(super) fn with(hierarchy: Option<Hierarchy>) -> Tracker {
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        let inotify = hierarchy.as_ref().and_then(|_| Inotify::init(flags).ok());
        Tracker {
            hierarchy,
            inotify,
            runs: Table::default(),
            families: Table::default(),
            parted: Vec::new(),
            reaped: BTreeSet::new(),
            killed: BTreeSet::new(),
            children: BTreeMap::new(),
            watches: BTreeMap::new(),
            memory_watches: BTreeMap::new(),
            short: BTreeSet::new(),
            complaints: Vec::new(),
            leftovers: BTreeSet::new(),
            look_again: false,
            more: false,
            ahead: Ahead::default(),
        }
    }

    /// To be polled; readable: ask [`Tracker::emptied`]. None without cgroups: ask after each
    /// round of reaping.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// The place for the next process of a run; the first call makes its cgroup. None: there are
    /// no cgroups here. The place holds a descriptor: keep it no longer than the spawn takes.
    pub(crate) fn place(
        &mut self,
        run: RunId,
        unit: &str,
        wish: Wish<'_>,
    ) -> Result<Option<Place>, ExecFailure> {
        match self.try_place(run, unit, wish) {
            Err(failure) if failure.stage == Stage::Cgroup && self.replaces_directory() => {
                self.try_place(run, unit, wish)
            }
            placed => placed,
        }
    }

    fn try_place(
        &mut self,
        run: RunId,
        unit: &str,
        wish: Wish<'_>,
    ) -> Result<Option<Place>, ExecFailure> {
        let has_one = self.runs.get(&run).is_some_and(|tracked| tracked.cgroup.is_some());
        let ahead = match wish.slice().is_empty() && !has_one {
            true => self.take_ahead(unit, run),
            false => None,
        };
        if self.hierarchy.is_none() {
            self.runs.get_or_default(run);
            let none = io::Error::from_raw_os_error(libc::ENODEV);
            for (file, _) in wish.settings() {
                self.refuse(wish, unit, &file, &none)?;
            }
            return Ok(None);
        }
        let opened = self.cgroup_of(run, unit, wish.slice(), ahead);
        let (directory, name) = opened.map_err(|error| refused(unit, &error))?;
        let apart = wish.helper && wish.delegates();
        let tracked = self.runs.get_or_default(run);
        tracked.cgroup = Some(name.clone());
        let fresh = !std::mem::replace(&mut tracked.entered, true);
        let bounded = wish.counts_memory() || !wish.slice().is_empty();
        let killed = tracked.killed;
        if fresh && wish.particular.is_some() {
            self.furnish(run, unit, &name, wish)?;
        }
        let directory = match (apart, &self.hierarchy) {
            (true, Some(hierarchy)) => {
                let control = group::make_control(hierarchy.as_fd(), &name);
                control.map_err(|error| refused(unit, &error))?
            }
            _ => directory,
        };
        let directory = Rc::new(directory);
        Ok(Some(Place { directory, fresh: fresh && !apart, bounded, killed }))
    }

    /// The cgroup of a run: the one it has, or the one made `ahead`, or a new one. Another program
    /// may have removed the first two while they were empty.
    fn cgroup_of(
        &mut self,
        run: RunId,
        unit: &str,
        slice: &str,
        ahead: Option<Box<str>>,
    ) -> io::Result<(OwnedFd, Box<str>)> {
        let none = || io::Error::from_raw_os_error(libc::ENODEV);
        let parent = self.hierarchy.as_ref().ok_or_else(none)?.as_fd();
        let known = self.runs.get(&run).and_then(|tracked| tracked.cgroup.clone()).or(ahead);
        if let Some(name) = known {
            match group::open(parent, &name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.is_removed(run, &name)
                }
                opened => return Ok((opened?, name)),
            }
        }
        let parent = self.hierarchy.as_ref().ok_or_else(none)?.as_fd();
        let name = group::make_for(parent, slice, unit, run)?.into_boxed_str();
        Ok((group::open(parent, &name)?, name))
    }

    /// The run's cgroup is not there any more.
    fn is_removed(&mut self, run: RunId, name: &str) {
        if let Some(tracked) = self.runs.get_mut(&run) {
            (tracked.cgroup, tracked.entered, tracked.killed) = (None, false, false);
        }
        self.unwatch(name);
        self.give_up(name);
    }

    /// A child was cloned for this run.
    pub(crate) fn started(&mut self, run: RunId, pid: Pid) {
        let tracked = self.runs.get_or_default(run);
        tracked.children.push(pid.as_raw());
        self.children.insert(pid.as_raw(), run);
        self.has_begun(run, pid);
    }

    /// A child has ended and was reaped: call this before the next clone, whoever it is. Gives its
    /// run if it was started for one.
    pub(crate) fn ended(&mut self, pid: Pid) -> Option<RunId> {
        let run = self.children.remove(&pid.as_raw());
        if let Some(tracked) = run.and_then(|run| self.runs.get_mut(&run)) {
            tracked.children.retain(|child| *child != pid.as_raw());
        }
        if self.hierarchy.is_none() {
            self.look_again = true;
            self.reaped.insert(pid.as_raw());
            let of = self.families.iter().find(|(_, family)| family.leads(pid.as_raw()));
            if let Some(of) = of.map(|(run, _)| *run)
                && let Some(began) = self.families.get_mut(&of).and_then(|of| of.remove(pid))
            {
                self.parted.push((of, began));
            }
        }
        run
    }

    /// The run a process belongs to: a child of ours, in the cgroup of a run, or descended from
    /// its processes. None: nobody's, or gone.
    pub(crate) fn whose(&self, pid: Pid) -> Option<RunId> {
        self.below_whom(pid).or_else(|| self.lost(pid).filter(|_| self.hierarchy.is_none()))
    }

    /// The same of what its mark alone does not make a run's: a service can lower its own to that of another.
    pub(crate) fn below_whom(&self, pid: Pid) -> Option<RunId> {
        if let Some(run) = self.children.get(&pid.as_raw()) {
            return Some(*run);
        }
        if self.hierarchy.is_some() {
            return self.run_around(&self.below(pid)?);
        }
        let stat = procfs::stat(pid)?;
        let mut above = procfs::ancestors(pid).filter_map(procfs::stat);
        self.family_of(&stat).or_else(|| above.find_map(|stat| self.family_of(&stat)))
    }

    /// A process of this run is in a cgroup that is not the run's: it has gone there itself, or was
    /// put there.
    pub(crate) fn has_strayed(&self, run: RunId, pid: Pid) -> bool {
        let entered = self.runs.get(&run).is_some_and(|tracked| tracked.entered);
        let is_there = || procfs::cgroup(pid).is_some();
        let below = || self.below(pid).and_then(|below| self.run_around(&below));
        self.hierarchy.is_some() && entered && is_there() && below() != Some(run)
    }

    /// Whose cgroup this path, below ours, is or lies in.
    fn run_around(&self, below: &str) -> Option<RunId> {
        let ends = below.match_indices('/').map(|(at, _)| at).chain([below.len()]);
        let mut names = ends.filter_map(|end| below.get(..end));
        names.find_map(|name| self.run_in(name))
    }

    /// The path of its cgroup, below ours.
    pub(super) fn below(&self, pid: Pid) -> Option<String> {
        let path = procfs::cgroup(pid)?;
        let below = path.strip_prefix(&self.hierarchy.as_ref()?.shown)?.strip_prefix('/')?;
        Some(below.to_string())
    }

    /// Whose cgroup has this name, by what such a name ends in.
    fn run_in(&self, name: &str) -> Option<RunId> {
        let run = self.run_of(name)?;
        let tracked = self.runs.get(&run)?;
        (tracked.cgroup.as_deref() == Some(name)).then_some(run)
    }

    /// Nothing of the run is left. When something is, [`Tracker::emptied`] will name the run as
    /// soon as nothing is: ask once, then wait.
    pub(crate) fn is_empty(&mut self, run: RunId) -> bool {
        let empty = self.look(run) || {
            // Set before the second look: what empties in between is seen by one of the two.
            self.watch(run);
            self.look(run)
        };
        if let Some(tracked) = self.runs.get_mut(&run) {
            tracked.waited_for = !empty;
        }
        empty
    }

    fn look(&mut self, run: RunId) -> bool {
        let Some(tracked) = self.runs.get_mut(&run) else { return true };
        if !tracked.children.is_empty() {
            return false;
        }
        let Some(hierarchy) = &self.hierarchy else {
            return self.families.get(&run).is_none_or(ProcessTree::is_empty);
        };
        let Some(name) = &tracked.cgroup else { return true };
        if group::remove_leaf(hierarchy.as_fd(), name) {
            // Made again should there be another process to put into it.
            let name = name.clone();
            self.is_removed(run, &name);
            return true;
        }
        group::is_populated(hierarchy.as_fd(), name).is_ok_and(|populated| !populated)
    }

    /// The runs that were waited for and of which nothing is left now. Never waits.
    pub(crate) fn emptied(&mut self) -> Vec<RunId> {
        let touched = self.heard();
        let all = std::mem::take(&mut self.look_again) || self.hierarchy.is_none();
        let left = self.leftovers.iter();
        let over: Vec<Box<str>> =
            left.filter(|name| all || touched.contains(*name)).cloned().collect();
        over.into_iter().for_each(|name| self.discard(name));
        let mut due: BTreeSet<RunId> = if all {
            self.runs.keys().copied().collect()
        } else {
            touched.iter().filter_map(|name| self.run_in(name)).collect()
        };
        due.retain(|run| self.runs.get(run).is_some_and(|tracked| tracked.waited_for));
        due.into_iter().filter(|run| self.is_empty(*run)).collect()
    }

    /// There is a process of the run, as far as can be told.
    pub(crate) fn has_processes(&mut self, run: RunId) -> bool {
        !self.look(run)
    }

    /// Sends `signal` to every process of the run but `except`.
    pub(crate) fn signal(&mut self, run: RunId, signal: u8, except: Option<Pid>) {
        if self.look(run) {
            return;
        }
        let Some(tracked) = self.runs.get_mut(&run) else { return };
        match (&self.hierarchy, &tracked.cgroup) {
            (Some(_), None) => {}
            (Some(hierarchy), Some(name)) => {
                group::signal(hierarchy.as_fd(), &hierarchy.shown, name, signal, except);
            }
            (None, _) => {
                if let Some(family) = self.families.get(&run) {
                    family.signal(signal, except);
                }
            }
        }
    }

    /// Kills everything of the run. What can not be killed shows by the run not emptying.
    pub(crate) fn kill(&mut self, run: RunId) {
        let Some(tracked) = self.runs.get_mut(&run) else { return };
        let killed = match (&self.hierarchy, &tracked.cgroup) {
            (Some(hierarchy), Some(name)) => {
                tracked.killed = true;
                group::kill(hierarchy.as_fd(), &hierarchy.shown, name).is_ok()
            }
            _ => false,
        };
        if !killed {
            // Before its children: what these leave would not be known any more.
            self.signal(run, KILL, None);
            if self.hierarchy.is_none() {
                self.killed.insert(run);
            }
        }
        // A child that is not in its cgroup yet is reached too.
        for pid in self.runs.get(&run).map(|tracked| &tracked.children).into_iter().flatten() {
            let _ = wait::kill_made(Pid::from_raw(*pid), KILL);
        }
    }

    /// The run is over (or is given up as unkillable): its cgroup goes as soon as it is empty.
    pub(crate) fn forget(&mut self, run: RunId) {
        let Some(tracked) = self.runs.remove(&run) else { return };
        self.families.remove(&run);
        self.killed.remove(&run);
        self.memory_watches.retain(|_, of| *of != run);
        for pid in tracked.children {
            self.children.remove(&pid);
        }
        if let Some(name) = tracked.cgroup {
            self.give_up(&name);
            self.discard(name);
        }
    }
}

/// Of [`Tracked::killed`].
fn unknown() -> bool {
    true
}

fn refused(unit: &str, error: &io::Error) -> ExecFailure {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    ExecFailure { stage: Stage::Cgroup, errno, path: unit.to_string() }
}

/// SIGKILL.
const KILL: u8 = 9;

// The two ways of finding the processes of a run; which one it is stands in `status`. And what
// becomes of the first where another program has removed init's cgroup directory.

/// How processes are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracking {
    /// By the cgroup they are in: nothing escapes.
    Cgroup2,
    /// By session, process group and parent.
    ProcessGroup,
}

impl Tracking {
    /// As `status` and `stats` say it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Tracking::Cgroup2 => "cgroup2",
            Tracking::ProcessGroup => "process-group",
        }
    }
}

impl Tracker {
    /// Init's cgroup directory was removed, and now a process can be placed: in a directory made
    /// again, or without cgroups. False: the directory is there.
    pub(super) fn replaces_directory(&mut self) -> bool {
        let Some(hierarchy) = self.hierarchy.as_mut().filter(|hierarchy| hierarchy.is_gone())
        else {
            return false;
        };
        let path = hierarchy.path.clone();
        match hierarchy.make_again() {
            Ok(()) => self.complain(format!("{path} was removed: it is made again")),
            Err(why) => {
                self.complain(format!(
                    "{path} was removed and {why}: from now on processes are tracked by their parents, not by cgroups"
                ));
                self.do_without_cgroups();
            }
        }
        true
    }

    /// Present runs are tracked by the children that init knows.
    fn do_without_cgroups(&mut self) {
        if let Some(mut hierarchy) = self.hierarchy.take() {
            hierarchy.is_ours = false;
        }
        self.inotify = None;
        self.watches.clear();
        self.memory_watches.clear();
        self.leftovers.clear();
        self.ahead = Ahead::default();
        for (_, tracked) in self.runs.iter_mut() {
            (tracked.cgroup, tracked.entered, tracked.counts_memory) = (None, false, false);
        }
        let children: Vec<(i32, RunId)> =
            self.children.iter().map(|(pid, run)| (*pid, *run)).collect();
        for (pid, run) in children {
            self.has_begun(run, Pid::from_raw(pid));
        }
        self.look_again = true;
    }
}

// What the kernel tells of cgroups by inotify(7): that one has emptied, that it has killed in
// one for want of memory. All watches are behind one descriptor.

impl Tracker {
    pub(super) fn watch(&mut self, run: RunId) {
        let Some(name) = self.runs.get(&run).and_then(|tracked| tracked.cgroup.clone()) else {
            return;
        };
        self.watch_cgroup(&name);
    }

    pub(super) fn watch_cgroup(&mut self, name: &str) {
        if self.watches.values().any(|watched| **watched == *name) {
            return;
        }
        let (Some(hierarchy), Some(inotify)) = (&self.hierarchy, &self.inotify) else {
            self.look_again = true;
            return;
        };
        let path = format!("{}/{name}/cgroup.events", hierarchy.path);
        match inotify.add_watch(path.as_str(), AddWatchFlags::IN_MODIFY) {
            Ok(watch) => {
                self.watches.insert(watch, name.into());
            }
            // Too many watches: asked again after each round of reaping.
            Err(_) => self.look_again = true,
        }
    }

    pub(super) fn unwatch(&mut self, name: &str) {
        let found = self.watches.iter().find(|(_, watched)| ***watched == *name).map(|(w, _)| *w);
        if let (Some(watch), Some(inotify)) = (found, &self.inotify) {
            let _ = inotify.rm_watch(watch);
            self.watches.remove(&watch);
        }
    }

    /// [`Tracker::emptied`] is to be asked again although the poll has nothing to say.
    pub(crate) fn has_more(&self) -> bool {
        self.more
    }

    /// [`Tracker::emptied`] or [`Tracker::short_of_memory`] may have something to tell.
    pub(crate) fn may_have_news(&self) -> bool {
        let watches = !self.watches.is_empty() || !self.memory_watches.is_empty();
        let is_behind = self.more || self.look_again || !self.short.is_empty();
        watches || is_behind || self.hierarchy.is_none()
    }

    /// Somebody waits for a cgroup to empty that can not be watched: it is to be looked at from time to
    /// time. Where there are no cgroups each end is told of.
    pub(crate) fn has_to_look(&self) -> bool {
        self.look_again && self.hierarchy.is_some()
    }

    /// The cgroups of which something was told: of those that somebody waits for by their names,
    /// of the others in [`Tracker::short`]. Never waits.
    pub(super) fn heard(&mut self) -> BTreeSet<Box<str>> {
        let mut touched = BTreeSet::new();
        let watches = !self.watches.is_empty() || !self.memory_watches.is_empty();
        let inotify = self.inotify.as_ref().filter(|_| watches);
        self.more = inotify.is_some();
        for _ in 0..limit::WATCHES_READ_A_TURN {
            let Some(Ok(events)) = inotify.map(Inotify::read_events) else {
                self.more = false;
                break;
            };
            for event in events {
                if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                    self.look_again = true;
                }
                touched.extend(self.watches.get(&event.wd).cloned());
                self.short.extend(self.memory_watches.get(&event.wd).copied());
                if event.mask.contains(AddWatchFlags::IN_IGNORED) {
                    self.memory_watches.remove(&event.wd);
                    self.watches.remove(&event.wd);
                }
            }
        }
        touched
    }
}

// Cgroups made ahead: for units that wait for others, in moments in which init has nothing
// else to do. What a start needs then is there, and a chain of units is that much quicker. Each
// is made for one unit and used by one run of it; who waits no longer loses it.

/// Those that are there, and for whom there are to be some.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Ahead {
    wanted: BTreeSet<Name>,
    made: BTreeMap<Name, u64>,
    /// Whose run has which of them now.
    taken: BTreeMap<u64, RunId>,
    last: u64,
}

impl Tracker {
    /// The unit waits for others: it will want a cgroup.
    pub(crate) fn announce(&mut self, unit: &Name) {
        if self.hierarchy.is_some() && !self.ahead.made.contains_key(unit) {
            self.ahead.wanted.insert(unit.clone());
        }
    }

    /// It does not wait any more, and was not started.
    pub(crate) fn withdraw(&mut self, unit: &Name) {
        self.ahead.wanted.remove(unit);
        if let (Some(number), Some(hierarchy)) = (self.ahead.made.remove(unit), &self.hierarchy) {
            // Nobody was ever put into it.
            group::remove_leaf(hierarchy.as_fd(), &group::name_ahead(unit.as_str(), number));
        }
    }

    /// There is something to do in an idle moment.
    pub(crate) fn has_work_ahead(&self) -> bool {
        !self.ahead.wanted.is_empty() && self.ahead.made.len() < limit::CGROUPS_AHEAD
    }

    /// Makes one.
    pub(crate) fn work_ahead(&mut self) {
        let (Some(hierarchy), Some(unit)) = (&self.hierarchy, self.ahead.wanted.pop_first()) else {
            return;
        };
        let number = self.ahead.last.saturating_add(1);
        let name = group::name_ahead(unit.as_str(), number);
        // Opened once, for that is dearer the first time. What can not be made is made, and told
        // of, when it is needed.
        if group::make(hierarchy.as_fd(), &name).is_ok()
            && group::open(hierarchy.as_fd(), &name).is_ok()
        {
            self.ahead.last = number;
            self.ahead.made.insert(unit, number);
        }
    }

    /// The one that was made for this unit, for this run of it.
    pub(super) fn take_ahead(&mut self, unit: &str, run: RunId) -> Option<Box<str>> {
        self.ahead.wanted.remove(unit);
        let number = self.ahead.made.remove(unit)?;
        self.ahead.taken.insert(number, run);
        Some(group::name_ahead(unit, number).into_boxed_str())
    }

    /// The run the name of a cgroup speaks of.
    pub(super) fn run_of(&self, name: &str) -> Option<RunId> {
        match group::number_of(name)? {
            group::Number::Run(run) => Some(run),
            group::Number::Ahead(number) => self.ahead.taken.get(&number).copied(),
        }
    }

    /// No run has this cgroup any more.
    pub(super) fn give_up(&mut self, name: &str) {
        if let Some(group::Number::Ahead(number)) = group::number_of(name) {
            self.ahead.taken.remove(&number);
        }
    }
}

impl Tracker {
    /// Removes a cgroup, now or when it tells that nothing lives in it any more.
    pub(super) fn discard(&mut self, name: Box<str>) {
        let Some(hierarchy) = &self.hierarchy else { return };
        let removed = group::remove(hierarchy.as_fd(), &name).is_ok();
        let is_full = self.leftovers.len() >= LEFTOVERS && !self.leftovers.contains(&name);
        if removed || is_full {
            self.leftovers.remove(&name);
            self.unwatch(&name);
        } else {
            let is_new = self.leftovers.insert(name.clone());
            self.watch_cgroup(&name);
            if !is_new {
                return;
            }
            // It may have emptied before the watch was there.
            let parent = self.hierarchy.as_ref().map(AsFd::as_fd);
            if parent.is_some_and(|parent| group::remove(parent, &name).is_ok()) {
                self.leftovers.remove(&name);
                self.unwatch(&name);
            }
        }
    }

    /// Which way it is.
    pub(crate) fn tracking(&self) -> Tracking {
        match self.hierarchy {
            Some(_) => Tracking::Cgroup2,
            None => Tracking::ProcessGroup,
        }
    }

    /// Whatever is waited for is looked at in the next turn.
    pub(crate) fn look_again(&mut self) {
        self.look_again = true;
    }
}
