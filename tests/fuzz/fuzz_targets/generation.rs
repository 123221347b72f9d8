//! Any bytes from a loader to PID 1, as a generation. The checks are in `../src/generation.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(generation, |generation: &groundstate_units::unit::generation::Generation| {
    generation.units.iter().any(|unit| unit.live.failure_verdict > 9)
});
