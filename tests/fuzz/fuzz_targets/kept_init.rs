//! Any bytes as what init has kept of itself. What is held of them: `../src/kept_init.rs`.
#![no_main]

groundstate_fuzz::target!(kept_init, |fits: &bool| !fits);
