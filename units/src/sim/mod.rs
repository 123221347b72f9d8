//! Deterministic simulation.

pub mod chance;
pub mod shape;
pub mod sheet;
