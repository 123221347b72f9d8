//! Runs of services: carries out the orders of the state machine and of
//! [`crate::service::sequence`], and reports the outcome to the machine.

mod command;
mod main_pid;
mod notify_handler;
mod reaper;
mod runs;
