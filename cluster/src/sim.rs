//! Deterministic simulation: whole clusters of fleetd's own tasks ([`crate::fleetd::daemon`])
//! on a virtual clock, beside an etcd in memory that loses answers, delays writes, compacts
//! and falls silent, and inits that are away, on machines that drift, pause, crash, are cut
//! off, or come twice. A seed is a schedule for ever.
//!
//! [`plan`] draws the cluster and what happens to it, [`swarm`] makes some of it harder, [`story`] and [`sequel`] tell stories, [`run`] plays it, [`executor`] polls
//! the tasks, [`world`] holds everything they touch ([`etcd`], [`watch`], [`partial`], [`garbled`], [`local_init`], [`deed`], [`client`], [`signer`]),
//! [`rules`] says once more, naively, what may be where, [`invariant`] judges, [`book`] keeps
//! what it judges by ([`continuity`] some of it), [`coverage`] counts what happened, [`shrink`] makes a failing schedule
//! small. That it finds something is shown by [`crate::mutant`]. The program is
//! `simulate-cluster`. Not simulated: gRPC and TLS ([`crate::store`]'s), init itself
//! (`groundstate_units::simulator` does).
#![allow(clippy::indexing_slicing, reason = "machines are the simulation's own numbers")]
#![allow(clippy::wildcard_enum_match_arm, reason = "most moments mean nothing to most invariants")]

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
pub mod local_init;
pub mod members;
pub mod partial;
pub mod plan;
mod rebound;
pub mod rules;
pub mod run;
pub mod sequel;
pub mod shrink;
pub mod sign;
pub mod signer;
pub mod story;
pub mod swarm;
pub mod watch;
pub mod world;
