//! Starts the processes of units. PID 1 builds a [`Prepared`] with all that the child needs,
//! [`Spawner::spawn`] clones it, and a [`Report`] tells whether the program was executed.
//!
//! Nothing here blocks: if a child hangs before its exec (a FIFO as program, a dead file system, a
//! frozen cgroup), the report of its run stays pending. The child's code is [`crate::sys::child`].

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
