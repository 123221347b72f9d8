//! Any line on the control socket and on log.sock. The checks are in `../src/request.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(request, |request: &groundstate_units::control::request::Request| {
    use groundstate_units::control::request::Verb;
    matches!(request.verb, Verb::Kill { signal: Some(9), all: true, .. })
});
