//! The real init as PID 1 of namespaces of its own, and as a supervisor: what a unit
//! test can not see because the kernel takes part. One file per subject.
//!
//! Each test ends with `finish`, which also checks what must hold after every test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "these are tests"
)]

mod accept;
mod account;
mod aftermath;
#[cfg(target_arch = "x86_64")]
mod asked;
mod begun;
mod bomb;
mod caretaker;
#[cfg(target_arch = "x86_64")]
mod chaos;
mod clock;
mod command;
mod control;
mod course;
mod crash;
mod crowd;
mod deaf;
mod directory;
mod disk;
mod ending;
mod entrance;
mod exec;
mod failure;
mod fate;
mod fault;
mod flapping;
mod flood;
mod foreign;
mod goal;
mod half;
mod hand_over;
mod hierarchy;
mod identity;
mod imported;
mod init_script;
mod keeping;
mod loader_fault;
mod log;
mod lookout;
mod massacre;
mod meanwhile;
mod memory;
mod mount;
mod new_root;
mod notify;
mod once;
mod orphan;
mod outfit;
mod outlet;
mod over;
mod past;
mod path;
mod pid_file;
mod pipe;
mod plenty;
mod prefix;
mod process;
mod prod;
mod properties;
mod purpose;
mod race;
mod reach;
mod reaping;
#[cfg(target_arch = "x86_64")]
mod recycled;
mod relation;
mod reload;
mod reopening;
mod restriction;
mod rights;
mod rumour;
mod share;
mod shim;
mod shortage;
mod shutdown;
mod socket;
mod socket_option;
mod source;
mod starvation;
mod still;
mod stop_with;
mod store;
mod stranger;
mod streams;
mod survival;
mod systemctl;
mod template;
mod terminal;
mod timer;
#[cfg(target_arch = "x86_64")]
mod trust;
mod turn;
mod twice;
mod types;
mod unasked;
mod unit_directory;
mod upgrade;
mod voice;
mod ways;
mod weight;
