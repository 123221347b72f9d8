//! Where the processes of a run are put.

use std::os::fd::OwnedFd;
use std::rc::Rc;

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
