//! Any bytes as a systemd unit file. What is held of them: `../src/import.rs`.
#![no_main]

#[path = "../src/import.rs"]
mod import;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| import::import(bytes));
