//! Any bytes as the records of the state store. The checks are in `../src/state_records.rs`.
#![no_main]

groundstate_fuzz::target!(state_records, |(): &()| true);
