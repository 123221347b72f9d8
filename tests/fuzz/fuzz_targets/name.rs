//! Any text as a name, a pattern, a value. The checks are in `../src/name.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(name, |name: &groundstate_units::text::name::Name| {
    name.as_str().len() > 3 && name.as_str().contains('@')
});
