//! Any bytes as the inbox of a crashed init. What is held of them: `../src/inbox.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(inbox, |inputs: &usize| *inputs > 6);
