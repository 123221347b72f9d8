//! Any bytes as a service script of OpenRC and its settings. The checks are in
//! `../src/import_openrc.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(import_openrc, |kind| {
    *kind == groundstate_units::spec::Kind::ForegroundNotified
});
