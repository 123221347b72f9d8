//! The fuzz targets: what each holds of any bytes is a function of a module of its name; a fuzzer
//! calls it through `fuzz_targets/`, the tests of the workspace feed `corpus/` to it. Beside
//! them: how input becomes a choice ([`composed`]), how many inputs came past the parser
//! ([`share`]).
//!
//! init is a program that nobody can depend on: what is held of its own readers is held of its
//! files, which are taken in as they are.
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

#[path = "../../../init/src/begin.rs"]
mod begin;
#[path = "../../../init/src/blockers.rs"]
mod blockers;
#[path = "../../../init/src/boot/mod.rs"]
mod boot;
#[path = "../../../init/src/caretaker.rs"]
mod caretaker;
#[path = "../../../init/src/cgroup/mod.rs"]
mod cgroup;
#[path = "../../../init/src/clock.rs"]
mod clock;
#[path = "../../../init/src/control/mod.rs"]
mod control;
#[path = "../../../init/src/credentials.rs"]
mod credentials;
#[cfg(debug_assertions)]
#[path = "../../../init/src/crash_test.rs"]
mod crash_test;
#[path = "../../../init/src/drain.rs"]
mod drain;
#[path = "../../../init/src/emergency.rs"]
mod emergency;
#[path = "../../../init/src/event_loop.rs"]
mod event_loop;
#[path = "../../../init/src/foreign.rs"]
mod foreign;
#[path = "../../../init/src/hand_back.rs"]
mod hand_back;
#[path = "../../../init/src/history.rs"]
mod history;
#[path = "../../../init/src/insistence.rs"]
mod insistence;
#[path = "../../../init/src/journal/mod.rs"]
mod journal;
#[path = "../../../init/src/limit.rs"]
mod limit;
#[path = "../../../init/src/lineage.rs"]
mod lineage;
#[path = "../../../init/src/loader/mod.rs"]
mod loader;
#[path = "../../../init/src/logger/mod.rs"]
mod logger;
#[path = "../../../init/src/mounted.rs"]
mod mounted;
#[path = "../../../init/src/new_root.rs"]
mod new_root;
#[path = "../../../init/src/notify/mod.rs"]
mod notify;
#[path = "../../../init/src/options.rs"]
mod options;
#[path = "../../../init/src/outer.rs"]
mod outer;
#[path = "../../../init/src/paths.rs"]
mod paths;
#[path = "../../../init/src/process.rs"]
mod process;
#[path = "../../../init/src/reconcile.rs"]
mod reconcile;
#[path = "../../../init/src/record.rs"]
mod record;
#[path = "../../../init/src/rest.rs"]
mod rest;
#[path = "../../../init/src/resume.rs"]
mod resume;
#[path = "../../../init/src/run/mod.rs"]
mod run;
#[path = "../../../init/src/scribe.rs"]
mod scribe;
#[path = "../../../init/src/shutdown.rs"]
mod shutdown;
#[path = "../../../init/src/signals.rs"]
mod signals;
#[path = "../../../init/src/spawn/mod.rs"]
mod spawn;
#[path = "../../../init/src/state/mod.rs"]
mod state;
#[path = "../../../init/src/step.rs"]
mod step;
#[path = "../../../init/src/store.rs"]
mod store;
#[path = "../../../init/src/suspect.rs"]
mod suspect;
#[path = "../../../init/src/sys/mod.rs"]
mod sys;
#[path = "../../../init/src/timings.rs"]
mod timings;
#[path = "../../../init/src/trial.rs"]
mod trial;
#[path = "../../../init/src/trigger/mod.rs"]
mod trigger;
#[path = "../../../init/src/unmount/mod.rs"]
mod unmount;
#[path = "../../../init/src/upgrade.rs"]
mod upgrade;
#[path = "../../../init/src/voice.rs"]
mod voice;
#[path = "../../../init/src/watchdog.rs"]
mod watchdog;
#[path = "../../../init/src/weight.rs"]
mod weight;
