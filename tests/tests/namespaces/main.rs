//! The real init as PID 1 of its own namespaces, and as a supervisor: behaviour that a unit test
//! cannot see because the kernel takes part. One file per subject.
//!
//! Each test ends with `finish`, which also checks the invariants of every test.
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
mod blocked_children;
mod blocked_close;
mod caretaker;
mod cgroup_entry;
#[cfg(target_arch = "x86_64")]
mod chaos;
mod child_setup;
mod clean_exit;
#[cfg(target_arch = "x86_64")]
mod client_during_crash;
mod clock;
mod command;
mod console_log;
mod control;
mod control_fairness;
#[cfg(target_arch = "x86_64")]
mod control_socket_trust;
mod crash;
mod crash_after_change;
mod crash_between_turns;
mod crash_changed_world;
mod crash_mid_spawn;
#[cfg(target_arch = "x86_64")]
mod crash_mistakes;
mod crash_start_once;
mod crash_test_hook;
mod crash_twice;
mod directory;
mod disk;
mod ending;
mod exec;
mod failure;
mod fault_signal;
mod fd_store;
mod flapping;
mod flood;
mod fork_bomb;
mod goal;
mod grant_during_load;
mod hierarchy;
mod hostile_clients;
mod identity;
mod imported;
mod imported_lifecycle;
mod init_script;
mod journal;
mod kill_all_processes;
mod loader_fault;
mod log;
mod memory;
mod mount;
mod new_root;
mod no_network;
mod notify;
mod notify_attacks;
mod notify_sender;
mod oom_score;
mod orphan;
mod output_target;
mod passed_fd;
mod path;
mod path_watcher;
mod pid_file;
mod pid_file_changes;
#[cfg(target_arch = "x86_64")]
mod pid_reuse;
mod pipe;
mod planned_shutdown;
mod prefix;
mod process;
mod process_endings;
mod properties;
mod race;
mod reaping;
mod reduced_capabilities;
mod relation;
mod reload;
mod restricted_environments;
mod restriction;
mod run_ops;
mod saved_state;
mod scale;
mod shortage;
mod shutdown;
mod socket;
mod socket_option;
mod socket_restart;
mod sole_command;
mod source;
mod starvation;
mod stop_failures;
mod stop_with;
mod systemctl;
mod systemctl_shim;
mod template;
mod terminal;
mod terminal_wait;
mod timer;
mod truncated_log_answer;
mod types;
mod unit_directory;
mod unkillable_stop;
mod unresponsive_paths;
mod upgrade;
