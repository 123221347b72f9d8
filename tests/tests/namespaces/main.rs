//! The real init as PID 1 of namespaces of its own, and as a supervisor: what a unit
//! test can not see because the kernel takes part. One file per subject.
//!
//! Each test ends with `finish`, which also checks what must hold after every test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod command;
mod control;
mod directory;
mod ending;
mod failure;
mod fault;
mod goal;
mod log;
mod notify;
mod outfit;
mod path;
mod pid_file;
mod process;
mod reload;
mod shutdown;
mod socket;
mod source;
mod timer;
mod types;
mod ways;
