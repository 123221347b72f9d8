//! Any bytes as a systemd unit file. The checks are in `../src/import.rs`.
#![no_main]

groundstate_fuzz::target!(import, |kind| *kind == groundstate_units::spec::Kind::Timer);
