//! Any bytes as a unit file. The checks are in `../src/unit_file.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(unit_file, |draft: &groundstate_units::unit::assembly::Draft| {
    draft.live.restart == groundstate_units::spec::Restart::Always && draft.dependencies.len() > 1
});
