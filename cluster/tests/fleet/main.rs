//! Tests of the cluster without real machines: API, fleetctl, engine and agent on an in-memory
//! store. They are one program because they mostly wait and run in parallel; tests that measure the
//! process are in `tests/bodies.rs`. With etcd: `tests/etcd.rs`; with the real init:
//! `tests/machine.rs` and `tests/nodes`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

// Shared modules; those of other programs are next to this folder.
#[path = "../authority/mod.rs"]
mod authority;
#[path = "../browser/mod.rs"]
mod browser;
#[path = "../fake_init/mod.rs"]
mod fake_init;
#[path = "../hostile/mod.rs"]
mod hostile;
#[path = "../original/mod.rs"]
mod original;
#[path = "../stand/mod.rs"]
mod stand;

mod from_text;
mod led;
mod placed;
mod proxy;
mod rolled;

// The tests.
mod agent;
mod api;
mod api_cluster;
mod api_fuzz;
mod api_hostile;
mod api_promised;
mod api_roles;
mod api_tls;
mod bring_down;
mod cut_off;
mod documents;
mod engine;
mod etcd_cache;
mod etcd_silence;
mod flapping;
mod fleetctl;
mod fuzzed;
mod lead;
mod left_running;
mod lost_answers;
mod namesakes;
mod original_fleetctl;
mod page;
mod paused_machine;
mod progress;
mod published_states;
mod random_scheduler;
mod rollout;
mod rollout_amid;
mod rollout_back;
mod scheduler;
mod server_certificates;
mod snapshots;
mod succession;
mod terminal;
mod txn_split;
mod unanswered;
mod unanswered_claims;
mod unread;
mod watched;
