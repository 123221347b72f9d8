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
mod blocked_children;
mod bomb;
mod caretaker;
mod cgroup_entry;
#[cfg(target_arch = "x86_64")]
mod chaos;
mod clock;
mod command;
mod control;
mod course;
mod crash;
mod crowd;
mod directory;
mod disk;
mod ending;
mod exec;
mod failure;
mod fault;
mod flapping;
mod flood;
mod foreign;
mod goal;
mod grant_during_load;
mod hierarchy;
mod identity;
mod imported;
mod init_script;
mod keeping;
mod loader_fault;
mod log;
mod lookout;
mod massacre;
mod memory;
mod mount;
mod new_root;
mod no_network;
mod notify;
mod notify_attacks;
mod once;
mod orphan;
mod outfit;
mod outlet;
mod over;
mod past;
mod path;
mod pid_file;
mod pid_file_changes;
mod pipe;
mod prefix;
mod process;
mod process_endings;
mod prod;
mod properties;
mod purpose;
mod race;
mod reaping;
#[cfg(target_arch = "x86_64")]
mod recycled;
mod relation;
mod reload;
mod reopening;
mod restricted_environments;
mod restriction;
mod rights;
mod scale;
mod share;
mod shim;
mod shortage;
mod shutdown;
mod socket;
mod socket_option;
mod source;
mod starvation;
mod stop_with;
mod store;
mod stranger;
mod streams;
mod survival;
mod systemctl;
mod template;
mod terminal;
mod timer;
mod truncated_log_answer;
#[cfg(target_arch = "x86_64")]
mod trust;
mod turn;
mod twice;
mod types;
mod unit_directory;
mod unkillable_stop;
mod unresponsive_paths;
mod upgrade;
mod voice;
mod weight;
