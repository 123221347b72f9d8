//! What a cluster is without machines of its own: the API, fleetctl, the engine and the agent, on a store in
//! memory and inits without processes. One program, for its tests wait most of their time and do so beside
//! each other: what one changes of the process it changes for all, and who measures the process is
//! `tests/bodies.rs`. With etcd: `tests/etcd.rs`; with the real init: `tests/machine.rs`, `tests/nodes`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where it is surprised"
)]

// What the tests stand on; that of other programs, too, is beside this folder.
#[path = "../authority/mod.rs"]
mod authority;
#[path = "../browser/mod.rs"]
mod browser;
#[path = "../hostile/mod.rs"]
mod hostile;
#[path = "../original/mod.rs"]
mod original;
#[path = "../stand/mod.rs"]
mod stand;
#[path = "../told/mod.rs"]
mod told;

mod led;
mod placed;
mod rolled;
mod way;
mod written;

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
mod claims_untold;
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
mod progress;
mod random_scheduler;
mod rollout;
mod rollout_amid;
mod rollout_back;
mod scheduler;
mod server_certificates;
mod snapshots;
mod stood_still;
mod succession;
mod terminal;
mod txn_split;
mod unanswered;
mod unread;
mod untold;
mod watched;
