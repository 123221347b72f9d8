//! Any bytes as init.yaml. The checks are in `../src/settings.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(settings, |settings: &groundstate_units::unit::settings::Settings| {
    settings.max_starting == 3 && settings.echo.is_some()
});
