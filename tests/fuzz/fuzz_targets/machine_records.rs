//! Any bytes as the records of a machine. The checks are in `../src/machine_records.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(machine_records, |machine: &groundstate_units::machine::Machine| machine
    .next_deadline()
    .is_none());
