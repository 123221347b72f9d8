//! The cluster extension: fleet units, stored in etcd, placed on machines by an elected engine, and
//! run there by the local init.
//! `fleetd` and `fleetctl` share this library. Its pure parts (names, files, requirements,
//! scheduler, transactions) use no network and no clock. The README of this folder follows a unit
//! through the cluster.

pub mod agent;
pub mod api;
pub mod clock;
pub mod desired;
pub mod documents;
pub mod enabling;
pub mod engine;
pub mod etcd_cache;
pub mod fence;
pub mod flap_damping;
pub mod fleetctl;
pub mod fleetd;
pub mod key;
pub mod log;
pub mod machine;
pub mod memory_store;
pub mod move_order;
pub mod mutant;
pub mod native_unit;
pub mod placement;
pub mod record;
pub mod registry;
pub mod requirement;
pub mod scheduler;
pub mod secret;
pub mod signature;
#[cfg(feature = "sim")]
pub mod sim;
pub mod snapshot;
pub mod store;
pub mod suspicious_read_guard;
pub mod transaction;
pub mod trust;
pub mod txn_split;
pub mod unit_file;
pub mod unit_name;
pub mod wire;
