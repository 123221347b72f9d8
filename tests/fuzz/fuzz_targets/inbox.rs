//! Any bytes as the inbox of a crashed init. The checks are in `../src/inbox.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(inbox, |inputs: &usize| *inputs > 6);
