//! Deterministic simulation: the machine in a world of drawn units and processes, on
//! a virtual clock, beside the naive oracle. A seed is a schedule for ever.
//!
//! [`shape`] draws units ([`unit_model`]), [`schedule`] the wishes, [`process`] what runs
//! do; [`run`] plays one schedule, [`invariant`] judges every moment of it
//! ([`view`], [`run_ledger`]), [`coverage`] counts what was reached, [`shrink`] makes a
//! failing schedule small. [`exhaust`] is the small world taken completely. The
//! programs are in `tests/src/bin`.
#![allow(clippy::wildcard_enum_match_arm, reason = "most events mean nothing to most watchers")]
#![allow(
    clippy::indexing_slicing,
    reason = "numbers come from the simulator's own universe; this never runs in PID 1"
)]

pub mod oracle;

pub mod compare;
pub mod coverage;
pub mod digest;
pub mod exhaust;
mod fact;
pub mod fault;
pub mod fixpoint;
pub mod foreign;
pub mod graph;
pub mod invariant;
pub mod place;
pub mod process;
pub mod rng;
pub mod run;
pub mod run_ledger;
pub mod schedule;
pub mod set;
pub mod shape;
pub mod shrink;
pub mod subject;
pub mod unit_model;
pub mod view;
