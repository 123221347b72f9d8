//! The machine: facts in, deeds out. See [`event`] and [`action`].

pub mod action;
pub mod event;
pub mod reason;
