//! Any files in the directories of a machine. The checks are in `../src/unit_folder.rs`.
#![no_main]

groundstate_fuzz::target!(unit_folder, |generation: &groundstate_units::unit::generation::Generation| {
    generation.units.len() > 5
});
