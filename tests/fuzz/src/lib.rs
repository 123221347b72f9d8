//! The fuzz targets: the checks of each are a function of a module with its name. A fuzzer calls it
//! through `fuzz_targets/`, and the tests of the workspace feed `corpus/` to it. Also: how input
//! becomes choices ([`composed`]), and how many inputs passed the parser ([`share`]).
//!
//! init is a program and cannot be a dependency, so this crate includes the files of its parsers.
#![allow(dead_code, unused_imports, reason = "of init a few readers are called")]

pub mod accounts;
pub mod api_request;
pub mod calendar;
pub mod composed;
pub mod exec_line;
pub mod fleet;
pub mod generation;
pub mod graph;
pub mod import;
pub mod import_openrc;
pub mod import_sysv;
pub mod inbox;
pub mod log_line;
pub mod machine_records;
pub mod name;
pub mod notification;
pub mod parcel;
pub mod policy;
pub mod request;
pub mod settings;
pub mod share;
pub mod state_records;
pub mod stored_value;
pub mod unit_file;
pub mod unit_folder;
pub mod wire;
pub mod written;

#[path = "../../../init/src/base/mod.rs"]
mod base;
#[path = "../../../init/src/boot/mod.rs"]
mod boot;
#[path = "../../../init/src/control/mod.rs"]
mod control;
#[path = "../../../init/src/crash/mod.rs"]
mod crash;
#[path = "../../../init/src/event_loop/mod.rs"]
mod event_loop;
#[path = "../../../init/src/fd/mod.rs"]
mod fd;
#[path = "../../../init/src/loader/mod.rs"]
mod loader;
#[path = "../../../init/src/logger/mod.rs"]
mod logger;
#[path = "../../../init/src/notify/mod.rs"]
mod notify;
#[path = "../../../init/src/options.rs"]
mod options;
#[path = "../../../init/src/output/mod.rs"]
mod output;
#[path = "../../../init/src/process_tracking/mod.rs"]
mod process_tracking;
#[path = "../../../init/src/restore/mod.rs"]
mod restore;
#[path = "../../../init/src/service/mod.rs"]
mod service;
#[path = "../../../init/src/shutdown/mod.rs"]
mod shutdown;
#[path = "../../../init/src/spawn/mod.rs"]
mod spawn;
#[path = "../../../init/src/state/mod.rs"]
mod state;
#[path = "../../../init/src/sys/mod.rs"]
mod sys;
#[path = "../../../init/src/trigger/mod.rs"]
mod trigger;
#[path = "../../../init/src/upgrade/mod.rs"]
mod upgrade;
