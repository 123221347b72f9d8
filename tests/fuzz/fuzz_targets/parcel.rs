//! Any bytes from a loader to PID 1, as a delivery. The checks are in `../src/parcel.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(parcel, |refused: &bool| *refused);
