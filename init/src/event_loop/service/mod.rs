//! Runs: the orders of the machine about them, and what becomes of them.

mod command;
mod effects;
mod fd_store;
mod main_pid;
mod monitor;
mod notify_handler;
mod pid_file;
mod reaper;
mod runs;
