//! Deterministic simulation of whole clusters: the tasks of fleetd ([`crate::fleetd::daemon`]) on a
//! virtual clock.
//! The in-memory etcd loses answers, delays writes, compacts and falls silent; inits fail to
//! answer. Machines drift, pause, crash, lose their network, or appear twice. A seed always gives
//! the same schedule.
//!
//! - Input: [`plan`] draws the cluster and its faults; [`swarm`], [`story`] and [`sequel`] add
//!   harder ones.
//! - Execution: [`run`] plays it, [`executor`] polls the tasks, [`world`] holds all that they use
//!   ([`etcd`], [`watch`], [`partial`], [`garbled`], [`local_init`], [`deed`], [`client`],
//!   [`signer`]).
//! - Checks: [`rules`] restates placement naively, [`invariant`] judges by the [`book`] and
//!   [`continuity`], [`coverage`] counts faults, [`shrink`] reduces a failing schedule.
//!
//! [`crate::mutant`] proves that the simulation finds faults; the program is `simulate-cluster`.
//! Not simulated: gRPC and TLS ([`crate::store`]) and init (`groundstate_units::simulator`).
#![allow(clippy::indexing_slicing, reason = "the simulation numbers the machines itself")]
#![allow(clippy::wildcard_enum_match_arm, reason = "each invariant handles few moments")]

pub mod book;
pub mod client;
pub mod continuity;
pub mod coverage;
pub mod deed;
pub mod departures;
pub mod etcd;
pub mod executor;
pub mod garbled;
pub mod invariant;
pub mod lease_proof;
pub mod local_init;
pub mod members;
pub mod partial;
pub mod plan;
mod rebound;
pub mod rules;
pub mod run;
pub mod sequel;
pub mod shrink;
pub mod signer;
pub mod story;
pub mod swarm;
pub mod watch;
pub mod world;
