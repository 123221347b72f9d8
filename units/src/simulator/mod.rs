//! Deterministic simulation: the machine runs in a world of random units and processes, on a
//! virtual clock, beside the naive oracle. A seed always gives the same schedule.
//!
//! [`shape`] draws units ([`unit_model`]), [`schedule`] the wishes, and [`process`] simulates runs.
//! [`run`] plays one schedule and [`invariant`] checks every moment of it ([`view`],
//! [`run_ledger`]). [`coverage`] counts what was reached, [`shrink`] minimizes a failing schedule,
//! and [`exhaust`] searches small worlds completely. The programs are in `tests/src/bin`.
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
