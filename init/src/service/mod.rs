//! Runs of units. [`sequence`] decides which command of a run comes next, and calls no kernel. [`run_table`] has
//! the runs that are up and their processes. [`crate::event_loop`] carries out the decisions.

pub(crate) mod effects;
pub(crate) mod fd_store;
pub(crate) mod main_pid;
pub(crate) mod pid_file;
pub(crate) mod run_table;
pub(crate) mod sequence;
