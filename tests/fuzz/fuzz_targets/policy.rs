//! Any bytes as policy.yaml, and as the one laid over it. The checks are in `../src/policy.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(policy, |policy: &groundstate_units::unit::policy::Policy| {
    policy.mask.len() > 1 && !policy.prefer.is_empty()
});
