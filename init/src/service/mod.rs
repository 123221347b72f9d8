//! Runs of units. [`sequence`] decides which command of a run comes next, without any system call.
//! [`run_table`] holds the active runs and their processes. [`crate::event_loop`] carries out the
//! decisions.

pub(crate) mod effects;
pub(crate) mod fd_store;
pub(crate) mod main_pid;
pub(crate) mod orders;
pub(crate) mod pid_file;
pub(crate) mod run_table;
pub(crate) mod sequence;
