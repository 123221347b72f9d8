//! Which processes belong to which run, and how all of them are reached: by one cgroup a run,
//! or, where no cgroup v2 is to be had, by process group and descent. The same questions either
//! way; which way it is stands in `status`.
//!
//! [`Tracker`] is the whole interface. What it is not: the reaping and the deciding. How a
//! child gets into its cgroup is in [`crate::sys::launch`].

mod cgroup_root;
mod controller;
mod group;
mod process_tree;
#[cfg(test)]
mod tests;
mod tracker;

pub(crate) use controller::Wish;
use std::os::fd::OwnedFd;
use std::rc::Rc;
pub(crate) use tracker::Tracker;

// Where the processes of a run are put.

/// The cgroup of a run.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Its directory.
    pub directory: Rc<OwnedFd>,
    /// Nothing runs in it yet. A child that shares PID 1's memory is never put beside others,
    /// which could get it (and PID 1 with it) killed for want of memory.
    pub fresh: bool,
    /// Its memory may have a bound, of its own or of one it lies in.
    pub bounded: bool,
    /// All in it were killed once: who is cloned into it dies, too (seen with Linux 6.18).
    pub killed: bool,
}
