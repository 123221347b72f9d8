//! Any bytes as the records of the state store. What is held of them: `../src/state_records.rs`.
#![no_main]

groundstate_fuzz::target!(state_records, |(): &()| true);
