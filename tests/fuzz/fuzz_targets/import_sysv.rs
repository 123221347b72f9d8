//! Any bytes as a script of /etc/init.d. The checks are in `../src/import_sysv.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(import_sysv, |kind| {
    *kind == groundstate_units::spec::Kind::BackgroundPidfile
});
