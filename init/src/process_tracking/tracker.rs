//! The table of runs and their processes.
//!
//! Cost with cgroups: a start creates a directory (20 µs; in a chain, init does it while it is idle)
//! and opens it. An end removes it (19 µs), which also tells whether a process is left in it. A watch (8 µs) is set only for a run that init
//! waits for, so a boot needs none. All watches share one descriptor; no run keeps one open.

mod cgroup_settings;

use crate::base::procfs::Stat;
use crate::base::retry::retry_now;
use crate::base::{limit, procfs};
use crate::process_tracking::controller::Wish;
use crate::process_tracking::group::{Hierarchy, LEFTOVERS};
use crate::process_tracking::process_tree::{ProcessTree, mark_of, run_marked_on};
use crate::process_tracking::{Place, group};
use crate::state::table::Table;
use crate::sys::child_setup::Limit;
use crate::sys::{Pid, wait};
use groundstate_units::machine::event::{ExecFailure, RunId, Stage};
use groundstate_units::spec::ResourceLimit;
use groundstate_units::text::fields::is_default;
use groundstate_units::text::name::Name;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// The tracking of one run.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tracked {
    /// Its cgroup, below ours; `None` without cgroups.
    pub(super) cgroup: Option<Box<str>>,
    /// True after a process was put into it.
    pub(super) entered: bool,
    /// True if all its processes may have been killed by cgroup.kill: the kernel may kill a child
    /// that is cloned into it. Unknown for a run of an earlier image.
    #[serde_with(skip_apply)]
    #[serde(skip, default = "unknown")]
    pub(super) killed: bool,
    /// True if init waits for it to become empty.
    waited_for: bool,
    /// The number of OOM kills reported so far.
    pub(super) kills: u64,
    /// True if its memory events are watched.
    pub(super) counts_memory: bool,
    /// Unreaped children of init. The run's record has them too.
    #[serde(skip)]
    pub(super) children: Vec<i32>,
}

/// The processes of all runs.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Tracker {
    pub(super) hierarchy: Option<Hierarchy>,
    #[serde(skip)]
    pub(super) inotify: Option<Inotify>,
    #[serde(skip)]
    pub(crate) runs: Table<RunId, Tracked>,
    /// The processes of each run without cgroups.
    #[serde(skip)]
    pub(crate) families: Table<RunId, ProcessTree>,
    /// Runs of reaped processes whose orphans must be found, with the start time of each process.
    pub(super) parted: Vec<(RunId, u64)>,
    /// Pids that were just reaped: a process with such a pid now is a new one.
    #[serde(skip)]
    pub(super) reaped: BTreeSet<i32>,
    /// Without cgroups: killed runs. At each exit of one of their processes, init kills them again,
    /// because they may have forked.
    #[serde(skip)]
    pub(super) killed: BTreeSet<RunId>,
    #[serde(skip)]
    pub(super) children: BTreeMap<i32, RunId>,
    /// The run of the latest child, until init is idle.
    #[serde(skip)]
    pub(super) latest: Option<RunId>,
    /// The cgroup of a run that init expects to start next.
    #[serde(skip)]
    next: Option<String>,
    #[serde(skip)]
    pub(super) watches: BTreeMap<WatchDescriptor, Box<str>>,
    /// Watches of their `memory.events`.
    #[serde(skip)]
    pub(super) memory_watches: BTreeMap<WatchDescriptor, RunId>,
    /// Runs in which the OOM killer has killed a process.
    pub(super) short: BTreeSet<RunId>,
    /// Settings that could not be applied and did not fail the start.
    pub(super) complaints: Vec<String>,
    /// Cgroups of forgotten runs that could not be removed.
    pub(super) leftovers: BTreeSet<Box<str>>,
    /// True if a run that init waits for must be checked without a watch.
    pub(super) look_again: bool,
    /// True if inotify may have more events than were read in one turn.
    pub(super) more: bool,
}

impl Tracker {
    /// `may_mount` is true for PID 1 of a machine, which may mount the hierarchy. Also returns why
    /// there are no cgroups, if so.
    pub(crate) fn new(may_mount: bool) -> (Tracker, Option<String>) {
        // A transient failure must not leave init without cgroups for its lifetime.
        match retry_now(|| Hierarchy::find(may_mount)) {
            Ok(hierarchy) => (Tracker::with(Some(hierarchy)), None),
            Err(why) => (Tracker::with(None), Some(why)),
        }
    }

    /// A tracker without cgroups.
    #[cfg(test)]
    pub(super) fn without_cgroups() -> Tracker {
        Tracker::with(None)
    }

    pub(super) fn with(hierarchy: Option<Hierarchy>) -> Tracker {
        let mut tracker = Tracker { hierarchy, ..Tracker::default() };
        tracker.open_inotify();
        tracker
    }

    pub(super) fn open_inotify(&mut self) {
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        self.inotify = self.hierarchy.as_ref().and_then(|_| Inotify::init(flags).ok());
    }

    /// The descriptor to poll; when it is readable, call [`Tracker::emptied`]. `None` without
    /// cgroups: call it after each round of reaping.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// The cgroup for the next process of a run, created at the first call. Returns `None` without
    /// cgroups. The result holds a descriptor: keep it no longer than the spawn takes.
    pub(crate) fn place(
        &mut self,
        run: RunId,
        unit: &str,
        wish: Wish<'_>,
    ) -> Result<Option<Place>, ExecFailure> {
        match self.try_place(run, unit, wish) {
            Err(failure) if failure.stage == Stage::Cgroup && self.recreate_directory() => {
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
        if self.hierarchy.is_none() {
            self.runs.get_or_default(run);
            let none = io::Error::from_raw_os_error(libc::ENODEV);
            for (file, _) in wish.settings() {
                self.note_failed_setting(wish, unit, &file, &none)?;
            }
            return Ok(None);
        }
        let opened = self.cgroup_of(run, unit, wish.slice());
        let (directory, name) = opened.map_err(|error| refused(unit, &error))?;
        let apart = wish.helper && wish.delegates();
        let tracked = self.runs.get_or_default(run);
        tracked.cgroup = Some(name.clone());
        let fresh = !std::mem::replace(&mut tracked.entered, true);
        let bounded = wish.counts_memory() || !wish.slice().is_empty();
        let killed = tracked.killed;
        if fresh && wish.particular.is_some() {
            self.apply_unit_settings(run, unit, &name, wish)?;
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

    /// The cgroup of a run: the one it has, or a new one. Another program may have removed the
    /// first while it was empty.
    fn cgroup_of(
        &mut self,
        run: RunId,
        unit: &str,
        slice: &str,
    ) -> io::Result<(OwnedFd, Box<str>)> {
        let none = || io::Error::from_raw_os_error(libc::ENODEV);
        let parent = self.hierarchy.as_ref().ok_or_else(none)?.as_fd();
        let known = self.runs.get(&run).and_then(|tracked| tracked.cgroup.clone());
        if let Some(name) = known {
            match group::open(parent, &name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.note_removed_cgroup(run, &name)
                }
                opened => return Ok((opened?, name)),
            }
        }
        let parent = self.hierarchy.as_ref().ok_or_else(none)?.as_fd();
        let is_it = |name: &mut String| slice.is_empty() && *name == group::name_of(unit, run);
        if let Some(name) = self.next.take_if(is_it)
            && let Ok(directory) = group::open(parent, &name)
        {
            return Ok((directory, name.into()));
        }
        let name = group::make_for(parent, slice, unit, run)?.into_boxed_str();
        Ok((group::open(parent, &name)?, name))
    }

    /// Creates the cgroup of the run that `start_after` expects after the latest one, while init is
    /// idle. A start in a chain is faster by one mkdir(2). There is at most one such cgroup; a crash
    /// leaves it behind, empty.
    pub(crate) fn prepare_next<'a>(
        &mut self,
        start_after: impl FnOnce(RunId) -> Option<(&'a Name, RunId)>,
    ) {
        let next = self.latest.take().and_then(start_after);
        let (Some(hierarchy), Some((unit, run))) = (&self.hierarchy, next) else { return };
        if let Some(unused) = self.next.take() {
            group::remove_leaf(hierarchy.as_fd(), &unused);
        }
        self.next = group::make_for(hierarchy.as_fd(), "", unit.as_str(), run).ok();
        // The first open of a directory takes longer than a second one.
        let _ = self.next.as_ref().map(|name| group::open(hierarchy.as_fd(), name));
    }

    /// Notes that the run's cgroup does not exist any more.
    fn note_removed_cgroup(&mut self, run: RunId, name: &str) {
        if let Some(tracked) = self.runs.get_mut(&run) {
            (tracked.cgroup, tracked.entered, tracked.killed) = (None, false, false);
        }
        self.unwatch(name);
    }

    /// Notes that a child was cloned for this run.
    pub(crate) fn add_child(&mut self, run: RunId, pid: Pid) {
        if !self.runs.contains_key(&run) {
            self.runs.insert(run, Tracked::default());
        }
        if let Some(tracked) = self.runs.unmarked(&run) {
            tracked.children.push(pid.as_raw());
        }
        self.children.insert(pid.as_raw(), run);
        self.latest = Some(run);
        self.note_cloned(run, pid);
    }

    /// Notes that a child was reaped; must be called before the next clone. Returns its run if it
    /// was started for one.
    pub(crate) fn remove_child(&mut self, pid: Pid) -> Option<RunId> {
        let run = self.children.remove(&pid.as_raw());
        if let Some(tracked) = run.and_then(|run| self.runs.unmarked(&run)) {
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

    /// The run of a process: of a child of init, of a process in the run's cgroup, or of a
    /// descendant of its processes. Returns `None` if it belongs to no run or is gone.
    pub(crate) fn whose(&self, pid: Pid) -> Option<RunId> {
        self.whose_without_marks(pid)
            .or_else(|| self.run_of_unadopted_orphan(pid).filter(|_| self.hierarchy.is_none()))
    }

    /// Like [`Tracker::whose`], but ignores marks: a service can lower its mark to that of another
    /// run.
    pub(crate) fn whose_without_marks(&self, pid: Pid) -> Option<RunId> {
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

    /// Returns true if a process of this run is in a cgroup that is not the run's.
    pub(crate) fn has_strayed(&self, run: RunId, pid: Pid) -> bool {
        let entered = self.runs.get(&run).is_some_and(|tracked| tracked.entered);
        let Some(hierarchy) = self.hierarchy.as_ref().filter(|_| entered) else { return false };
        // Without a cgroup the process has exited.
        procfs::cgroup(pid).is_some_and(|path| {
            let below = hierarchy.relative(&path);
            below.and_then(|below| self.run_around(below)) != Some(run)
        })
    }

    /// The run whose cgroup contains this path, relative to ours.
    fn run_around(&self, below: &str) -> Option<RunId> {
        let ends = below.match_indices('/').map(|(at, _)| at).chain([below.len()]);
        let mut names = ends.filter_map(|end| below.get(..end));
        names.find_map(|name| self.run_in(name))
    }

    /// The path of a process's cgroup, relative to ours.
    pub(super) fn below(&self, pid: Pid) -> Option<String> {
        self.hierarchy.as_ref()?.relative(&procfs::cgroup(pid)?).map(str::to_string)
    }

    /// The run whose cgroup has this name.
    fn run_in(&self, name: &str) -> Option<RunId> {
        let run = group::run_of(name)?;
        let tracked = self.runs.get(&run)?;
        (tracked.cgroup.as_deref() == Some(name)).then_some(run)
    }

    /// Returns true if the run has no process left. If it returns false, [`Tracker::emptied`] will
    /// report the run once it is empty.
    pub(crate) fn is_empty(&mut self, run: RunId) -> bool {
        let empty = self.look(run) || {
            // The watch is set before the second look, so that a change in between is noticed by
            // one of them.
            if let Some(name) = self.runs.get(&run).and_then(|tracked| tracked.cgroup.clone()) {
                self.watch_cgroup(&name);
            }
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
            // It is created again if another process needs it.
            let name = name.clone();
            self.note_removed_cgroup(run, &name);
            return true;
        }
        group::is_populated(hierarchy.as_fd(), name).is_ok_and(|populated| !populated)
    }

    /// The runs that init waits for and that are empty now. Never blocks.
    pub(crate) fn emptied(&mut self) -> Vec<RunId> {
        let touched = self.take_cgroup_events();
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

    /// Returns true if the run has a process, as far as known.
    pub(crate) fn has_processes(&mut self, run: RunId) -> bool {
        !self.look(run)
    }

    /// Sends `signal` to every process of the run, except `except`.
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

    /// Kills all processes of the run. An unkillable one keeps the run from becoming empty.
    pub(crate) fn kill(&mut self, run: RunId) {
        let Some(tracked) = self.runs.get_mut(&run) else { return };
        let killed = match (&self.hierarchy, &tracked.cgroup) {
            (Some(hierarchy), Some(name)) => {
                tracked.killed = true;
                group::write(hierarchy.as_fd(), &format!("{name}/cgroup.kill"), "1").is_ok()
            }
            _ => false,
        };
        if !killed {
            // Before the children are killed: their orphans would no longer be known.
            self.signal(run, KILL, None);
            if self.hierarchy.is_none() {
                self.killed.insert(run);
            }
        }
        // This also reaches a child that is not in its cgroup yet.
        for pid in self.runs.get(&run).map(|tracked| &tracked.children).into_iter().flatten() {
            let _ = wait::kill_made(Pid::from_raw(*pid), KILL);
        }
    }

    /// Forgets a run that is over or unkillable. Its cgroup is removed when it is empty.
    pub(crate) fn forget(&mut self, run: RunId) {
        let Some(tracked) = self.runs.remove(&run) else { return };
        self.families.remove(&run);
        self.killed.remove(&run);
        self.memory_watches.retain(|_, of| *of != run);
        for pid in tracked.children {
            self.children.remove(&pid);
        }
        if let Some(name) = tracked.cgroup {
            self.discard(name);
        }
    }
}

/// The default of [`Tracked::killed`].
fn unknown() -> bool {
    true
}

fn refused(unit: &str, error: &io::Error) -> ExecFailure {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    ExecFailure { stage: Stage::Cgroup, errno, path: unit.to_string() }
}

const KILL: u8 = 9;

// If another program removes init's cgroup directory, init creates it again.

impl Tracker {
    /// Recreates init's cgroup directory if it was removed. Returns false if the start cannot be
    /// repeated: the directory exists, or cannot be created.
    pub(super) fn recreate_directory(&mut self) -> bool {
        let Some(hierarchy) = self.hierarchy.as_mut().filter(|hierarchy| hierarchy.is_gone())
        else {
            return false;
        };
        let path = hierarchy.path.clone();
        let again = hierarchy.make_again();
        let is_made = again.is_ok();
        self.complain(match again {
            Ok(()) => format!("{path} was removed: created it again"),
            Err(why) => format!("{path} was removed, and cannot be created again: {why}"),
        });
        is_made
    }
}

// Notifications of cgroups by inotify(7): a cgroup became empty, or the OOM killer killed a process
// in it. All watches share one descriptor.

impl Tracker {
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
            // Too many watches: the cgroup is checked after each round of reaping.
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

    /// Returns true if [`Tracker::emptied`] must be called again without a poll event.
    pub(crate) fn has_more(&self) -> bool {
        self.more
    }

    /// Returns true if [`Tracker::emptied`] or [`Tracker::short_of_memory`] may have news.
    pub(crate) fn may_have_news(&self) -> bool {
        let watches = !self.watches.is_empty() || !self.memory_watches.is_empty();
        let is_behind = self.more || self.look_again || !self.short.is_empty();
        watches || is_behind || self.hierarchy.is_none()
    }

    /// Returns true if init waits for a cgroup that cannot be watched, so that it must be checked
    /// periodically. Without cgroups every exit is noticed.
    pub(crate) fn has_to_look(&self) -> bool {
        self.look_again && self.hierarchy.is_some()
    }

    /// The names of awaited cgroups with events; the runs with memory events are added to
    /// [`Tracker::short`]. Never blocks.
    pub(super) fn take_cgroup_events(&mut self) -> BTreeSet<Box<str>> {
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

    /// Removes a cgroup, now or when it becomes empty.
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
            if is_new {
                // It may have become empty before the watch was set.
                self.discard(name);
            }
        }
    }

    /// The way of tracking, in a word for `status` and `stats`: by cgroup, which no process
    /// escapes, or by session, process group and parent.
    pub(crate) fn tracking(&self) -> &'static str {
        if self.hierarchy.is_some() { "cgroup2" } else { "process-group" }
    }

    /// Checks all awaited runs in the next turn.
    pub(crate) fn look_again(&mut self) {
        self.look_again = true;
    }
}

// Assigns children and orphans to runs without cgroups.

impl Tracker {
    /// The mark for programs of this run without cgroups. `None` if its unit sets that limit
    /// itself: its value may be above the mark, and the mark would make it unreachable.
    pub(crate) fn mark(&self, run: RunId, asked: &[ResourceLimit]) -> Option<Limit> {
        let mark = self.hierarchy.is_none().then(|| mark_of(run))??;
        asked.iter().all(|limit| u32::from(limit.resource) != mark.resource).then_some(mark)
    }

    /// Notes that a child was cloned for this run, so that its pid no longer belongs to an earlier
    /// process.
    pub(in crate::process_tracking) fn note_cloned(&mut self, run: RunId, pid: Pid) {
        if self.hierarchy.is_some() {
            return;
        }
        // A process started after a kill, such as an exec-stop-post, must not be killed.
        self.killed.remove(&run);
        let had =
            |(of, family): &(&RunId, &ProcessTree)| **of != run && family.has_number(pid.as_raw());
        let before: Vec<RunId> = self.families.iter().filter(had).map(|(of, _)| *of).collect();
        for of in before {
            self.families.get_mut(&of).into_iter().for_each(|family| family.forget_reused_pid(pid));
        }
        // Otherwise the child was started earlier and is known.
        if wait::is_made(pid) {
            let family = self.families.get_or_default(run);
            family.forget_reused_pid(pid);
            family.add(pid);
        }
    }

    /// Kills killed runs again in a new image without cgroups, because they may have forked
    /// meanwhile.
    pub(crate) fn kill_again(&mut self, killed: impl IntoIterator<Item = RunId>) {
        if self.hierarchy.is_some() {
            return;
        }
        // A run with children may be running an exec-stop-post, which starts after the kill.
        let is_alone = |tracked: &Tracked| tracked.children.is_empty();
        for run in killed {
            if self.runs.get(&run).is_some_and(is_alone) {
                self.kill(run);
            }
        }
    }

    /// Finds the runs of orphans that have become children of init, by one look at all children.
    /// Called after all calls of [`Tracker::remove_child`] and before any query about a run.
    pub(crate) fn adopt_left(&mut self) {
        // Runs of processes that have just exited, with their start times.
        let parted = std::mem::take(&mut self.parted);
        let reaped = std::mem::take(&mut self.reaped);
        if self.hierarchy.is_some() {
            return;
        }
        for pid in procfs::children().into_iter().map(Pid::from_raw) {
            let known = |family: &ProcessTree| family.leads(pid.as_raw());
            let is_new = reaped.contains(&pid.as_raw()) || wait::is_made(pid);
            if is_new || self.families.values().any(known) {
                continue;
            }
            let Some(stat) = procfs::stat(pid) else { continue };
            let by_session_or_group = || self.family_of(&stat);
            let left =
                || parted.iter().find(|(_, began)| stat.began >= *began).map(|(run, _)| *run);
            let mark = run_marked_on(pid);
            let marked = mark.filter(|run| self.families.contains_key(run));
            // An orphan with the mark of an ended run belongs to that run, not to the one whose
            // process exited now.
            let run =
                marked.or_else(by_session_or_group).or_else(|| left().filter(|_| mark.is_none()));
            if let Some(family) = run.and_then(|run| self.families.get_mut(&run)) {
                family.add(pid);
            }
        }
        self.kill_new_processes(&parted);
    }

    /// The run of a process by its session or group, or as a known child.
    pub(in crate::process_tracking) fn family_of(&self, stat: &Stat) -> Option<RunId> {
        self.families.iter().find(|(_, family)| family.has(stat)).map(|(run, _)| *run)
    }

    /// Kills again: runs that fork while they are killed have new processes.
    fn kill_new_processes(&self, parted: &[(RunId, u64)]) {
        let killed: BTreeSet<RunId> =
            parted.iter().map(|(run, _)| *run).filter(|run| self.killed.contains(run)).collect();
        for family in killed.iter().filter_map(|run| self.families.get(run)) {
            family.signal(9, None);
        }
    }

    /// The run of a process by the mark of the child of init that it is or descends from. That
    /// child is an orphan whose parent's exit init has not handled; the next call of
    /// [`Tracker::adopt_left`] finds it.
    pub(in crate::process_tracking) fn run_of_unadopted_orphan(&self, pid: Pid) -> Option<RunId> {
        let own = nix::unistd::getpid();
        let line = [pid].into_iter().chain(procfs::ancestors(pid));
        let child = line.take_while(|one| *one != own).last()?;
        let is_lost = wait::is_child(child) && !wait::is_made(child);
        is_lost.then(|| run_marked_on(child))?.filter(|run| self.families.contains_key(run))
    }
}
