//! Tracks which processes belong to which run, and signals them: by one cgroup for each run or,
//! without cgroup v2, by process group and descent. The interface is the same either way; `status`
//! shows which one is used.
//!
//! [`Tracker`] is the whole interface. [`crate::sys::launch`] puts a child into its cgroup.

mod controller;
mod group;
mod process_tree;
#[cfg(test)]
mod tests;
mod tracker;

pub(crate) use controller::{Wish, machine_memory};
use std::os::fd::OwnedFd;
use std::rc::Rc;
pub(crate) use tracker::Tracker;

/// The cgroup of a run.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub directory: Rc<OwnedFd>,
    /// True if no process is in it yet. A child that shares PID 1's memory is never put beside
    /// other processes. An OOM kill of one of them could kill it, and PID 1 with it.
    pub fresh: bool,
    /// True if its memory may be limited, by its own or a parent's setting.
    pub bounded: bool,
    /// True if all its processes were killed once: children cloned into it die too (seen with Linux
    /// 6.18).
    pub killed: bool,
}
