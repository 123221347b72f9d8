//! Any bytes as a line of a log. The checks are in `../src/log_line.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(log_line, |time: &groundstate_units::text::wall_clock::WallTime| time.as_millis()
    > 2_145_916_800_000);
