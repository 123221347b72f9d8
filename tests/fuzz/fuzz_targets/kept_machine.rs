//! Any bytes as a machine that was kept over a crash. What is held of them: `../src/kept_machine.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(kept_machine, |machine: &groundstate_units::machine::Machine| machine
    .next_deadline()
    .is_none());
