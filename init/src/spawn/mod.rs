//! Starts the processes of units. PID 1 builds a [`Prepared`] with all that the child needs,
//! [`Spawner::spawn`] clones it, and a [`Report`] tells whether the program was executed.
//!
//! Nothing here blocks: if a child hangs before its exec (a FIFO as program, a dead file system, a
//! frozen cgroup), the report of its run stays pending. The child's code is [`crate::sys::child`].

mod command_builder;
mod condition;
mod descriptor;
mod directory;
mod environment;
#[cfg(test)]
#[path = "../../../tests/src/extent.rs"]
#[allow(unreachable_pub, clippy::unwrap_used, reason = "shared with other tests")]
mod extent;
mod spawner;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use crate::spawn::command_builder::{
    Base, Prepared, Request, failure, remove_run_files,
};
pub(crate) use crate::spawn::descriptor::Null;
pub(crate) use crate::spawn::environment::Passed;
#[cfg(test)]
pub(crate) use crate::spawn::spawner::Way;
pub(crate) use crate::spawn::spawner::{ExecResult, Kept as KeptChildMemory, Report, Spawner};
