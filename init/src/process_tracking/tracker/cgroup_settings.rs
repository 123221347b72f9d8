//! Applies the settings of units to their cgroups, and counts OOM kills.

use crate::process_tracking::controller::{
    Wish, available, enable, hand_over, needed, oom_kills, set,
};
use crate::process_tracking::group;
use crate::process_tracking::process_tree::ProcessTree;
use crate::process_tracking::tracker::{Tracked, Tracker};
use crate::state::table::Table;
use groundstate_units::machine::event::{ExecFailure, RunId, Stage};
use nix::sys::inotify::AddWatchFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd;

/// Complaints kept until they are read.
const COMPLAINTS: usize = 256;

impl Tracker {
    /// Applies the unit's settings to a new cgroup.
    pub(in crate::process_tracking) fn apply_unit_settings(
        &mut self,
        run: RunId,
        unit: &str,
        name: &str,
        wish: Wish<'_>,
    ) -> Result<(), ExecFailure> {
        let Some(hierarchy) = &self.hierarchy else { return Ok(()) };
        let (base, own, parent) = (hierarchy.base.as_fd(), &hierarchy.name, hierarchy.as_fd());
        let settings = wish.settings();
        let all = if wish.delegates() { available(base) } else { BTreeSet::new() };
        for one in &all {
            // A controller that cannot be enabled is unavailable to the unit.
            let _ = enable(base, own, wish.slice(), one);
        }
        let turn_on = |one| Some((one, enable(base, own, wish.slice(), one).err()?));
        let off: BTreeMap<&str, io::Error> =
            needed(&settings).into_iter().filter_map(turn_on).collect();
        let mut refused = Vec::new();
        for (file, text) in &settings {
            let controller = file.split('.').next().unwrap_or_default();
            let set = match off.get(controller) {
                Some(error) => Err(io::Error::from_raw_os_error(raw(error))),
                None => set(parent, name, file, text),
            };
            refused.extend(set.err().map(|error| (file.clone(), error)));
        }
        if wish.delegates()
            && let Err(error) = hand_over(parent, name, wish.owner)
        {
            refused.push(("cgroup-delegate".to_string(), error));
        }
        for (file, error) in refused {
            self.note_failed_setting(wish, unit, &file, &error)?;
        }
        if wish.counts_memory() {
            self.watch_memory(run, name);
        }
        Ok(())
    }

    /// Handles a setting that could not be applied: a failure, or for an imported unit a complaint.
    pub(in crate::process_tracking) fn note_failed_setting(
        &mut self,
        wish: Wish<'_>,
        unit: &str,
        file: &str,
        error: &io::Error,
    ) -> Result<(), ExecFailure> {
        let errno = raw(error);
        if !wish.is_lenient() {
            return Err(ExecFailure { stage: Stage::Controller, errno, path: file.to_string() });
        }
        self.complain(format!("{unit}: runs weaker than asked: cannot set {file}: {error}"));
        Ok(())
    }

    /// Queues a complaint, which init logs after the start.
    pub(in crate::process_tracking) fn complain(&mut self, text: String) {
        if self.complaints.len() < COMPLAINTS {
            self.complaints.push(text);
        }
    }

    /// The present processes of a run.
    pub(crate) fn processes(&mut self, run: RunId) -> BTreeSet<i32> {
        let Some(tracked) = self.runs.get_mut(&run) else { return BTreeSet::new() };
        match (&self.hierarchy, &tracked.cgroup) {
            (Some(hierarchy), Some(name)) => group::processes(hierarchy.as_fd(), name),
            (Some(_), None) => BTreeSet::new(),
            (None, _) => {
                let family = self.families.get(&run);
                family.map(|family| family.living().into_keys().collect()).unwrap_or_default()
            }
        }
    }

    /// The complaints since the last call.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.complaints)
    }

    fn watch_memory(&mut self, run: RunId, name: &str) {
        let (Some(hierarchy), Some(inotify)) = (&self.hierarchy, &self.inotify) else { return };
        let path = format!("{}/{name}/memory.events", hierarchy.path);
        if let Ok(watch) = inotify.add_watch(path.as_str(), AddWatchFlags::IN_MODIFY) {
            self.memory_watches.insert(watch, run);
            if let Some(tracked) = self.runs.get_mut(&run) {
                tracked.counts_memory = true;
            }
        }
    }

    /// Takes over the runs and processes that an earlier image has recorded.
    pub(crate) fn take_over(
        &mut self,
        runs: BTreeMap<RunId, Tracked>,
        families: BTreeMap<RunId, ProcessTree>,
    ) {
        (self.runs, self.families) = (Table::of(runs), Table::of(families));
    }

    /// Takes over a child of a run that an earlier image has recorded.
    pub(crate) fn take_over_child(&mut self, run: RunId, pid: i32) {
        if let Some(tracked) = self.runs.unmarked(&run) {
            tracked.children.push(pid);
            self.children.insert(pid, run);
        }
    }

    /// Sets up all watches again in a new image, and checks the awaited runs.
    pub(crate) fn rewatch(&mut self) {
        if let Some(hierarchy) = &mut self.hierarchy {
            hierarchy.is_ours = true;
        }
        self.open_inotify();
        let counting = self.runs.iter().filter(|(_, tracked)| tracked.counts_memory);
        let counting: Vec<(RunId, Box<str>)> =
            counting.filter_map(|(run, tracked)| Some((*run, tracked.cgroup.clone()?))).collect();
        for (run, name) in counting {
            self.watch_memory(run, &name);
            self.short.insert(run);
        }
        for name in self.leftovers.clone() {
            self.discard(name);
        }
        self.look_again = true;
    }

    /// Runs in which the OOM killer has killed a process since the last call.
    pub(crate) fn short_of_memory(&mut self) -> Vec<RunId> {
        let touched = std::mem::take(&mut self.short);
        touched.into_iter().filter(|run| self.has_new_oom_kill(*run)).collect()
    }

    /// Returns true if the OOM killer has killed a process of this run since the last call. Needs
    /// cgroup v2.
    pub(crate) fn has_new_oom_kill(&mut self, run: RunId) -> bool {
        let (Some(hierarchy), Some(tracked)) = (&self.hierarchy, self.runs.get_mut(&run)) else {
            return false;
        };
        let Some(name) = &tracked.cgroup else { return false };
        let kills = oom_kills(hierarchy.as_fd(), name);
        kills > std::mem::replace(&mut tracked.kills, kills)
    }
}

fn raw(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
