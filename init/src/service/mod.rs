//! Runs: what the machine orders, done; what becomes of it, told.
//!
//! [`sequence`] decides line by line and calls no kernel; here its deeds are carried
//! out on processes. Nothing waits: each deed either is done or fails at once, and
//! what happens later comes back through the loop.

pub(crate) mod command;
pub(crate) mod effects;
pub(crate) mod fd_store;
pub(crate) mod main_pid;
pub(crate) mod monitor;
pub(crate) mod pid_file;
pub(crate) mod reaper;
pub(crate) mod run_table;
pub(crate) mod sequence;

pub(crate) use monitor::LastEnd;
