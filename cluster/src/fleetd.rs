//! The daemon on every machine: it says that the machine is there ([`presence`]), leads
//! the cluster where it is its turn ([`lead`]), hands what the machine was told to the
//! local init and tells how it fares ([`steward`]), and serves the API. Each part is a
//! task that goes on when etcd or init do not answer; none of them takes silence for an
//! order. What is decided is decided in the pure parts of this crate.

pub mod arguments;
pub mod config;
pub mod core_dump;
pub mod daemon;
pub mod examination;
mod farewell;
pub mod identity;
pub mod init;
pub mod init_socket;
pub mod lead;
pub mod life;
mod memory;
pub mod meter;
pub mod presence;
pub mod recollection;
pub mod steward;
pub mod vouching;
