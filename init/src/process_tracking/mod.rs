//! Which processes belong to which run, and how all of them are reached: by one cgroup a run,
//! or, where no cgroup v2 is to be had, by process group and descent. The same questions either
//! way; which way it is stands in `status`.
//!
//! [`Tracker`] is the whole interface. What it is not: the reaping and the deciding. How a
//! child gets into its cgroup is in [`crate::sys::launch`].

mod cgroup_events;
mod cgroup_root;
mod cgroup_settings;
mod controller;
mod group;
pub(crate) mod place;
mod preallocated;
mod process_tree;
#[cfg(test)]
mod tests;
mod tracker;

pub(crate) use controller::Wish;
pub(crate) use tracker::Tracker;
