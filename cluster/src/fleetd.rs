//! The daemon on every machine: it says that the machine is there ([`machine_lease`]), leads
//! the cluster where it is its turn ([`lead`]), hands what the machine was told to the
//! local init and tells how it fares ([`unit_runner`]), and serves the API. Each part is a
//! task that goes on when etcd or init do not answer; none of them takes silence for an
//! order. What is decided is decided in the pure parts of this crate.

pub mod arguments;
pub mod config;
pub mod core_dump;
pub mod daemon;
pub mod examination;
pub mod identity;
pub mod init;
pub mod init_socket;
pub mod lead;
pub mod life;
pub mod machine_lease;
mod memory;
pub mod metrics;
pub mod persisted_identity;
mod shutdown_policy;
pub mod trusted_keys;
pub mod unit_runner;
