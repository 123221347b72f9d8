//! Starting the processes of units: [`Prepared`] is built in PID 1 with all that a child
//! needs, [`Spawner::spawn`] clones it, [`Report`] tells whether the program was executed.
//! Nothing here waits for anything: a child that hangs before its exec (a FIFO as program, a
//! dead file system, a frozen cgroup) is a run whose report stays pending.
//!
//! What it is not: the decision what to start (`units::machine`), the cgroups
//! ([`crate::process_tracking`]), the reaping ([`crate::sys::wait`]). The child itself is
//! [`crate::sys::child`].

mod child_setup;
mod command_builder;
mod condition;
mod descriptor;
mod directory;
mod environment;
mod exec_result;
#[cfg(test)]
#[path = "../../../tests/src/extent.rs"]
#[allow(unreachable_pub, clippy::unwrap_used, reason = "shared with other tests")]
mod extent;
mod request;
mod spawner;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use child_setup::put_off;
pub(crate) use command_builder::Prepared;
pub(crate) use descriptor::Null;
pub(crate) use environment::Passed;
pub(crate) use exec_result::{ExecResult, Report};
pub(crate) use request::{Base, Request};
pub(crate) use spawner::Child;
pub(crate) use spawner::Kept as KeptGround;
pub(crate) use spawner::Spawner;
#[cfg(test)]
pub(crate) use spawner::Way;
