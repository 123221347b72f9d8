//! The daemon on every machine.
//! It registers the machine ([`machine_lease`]) and leads the cluster when elected ([`lead`]). It
//! passes the machine's units to the local init and reports their state ([`unit_runner`]). It also
//! serves the API. Each part is a task that continues when etcd or init do not answer. No task
//! treats a missing answer as a change. Decisions are made in the pure modules of this crate.

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
pub mod saved_state;
mod shutdown_policy;
pub mod trusted_keys;
pub mod unit_runner;
