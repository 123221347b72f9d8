//! Any bytes as what a loader hands to PID 1. The checks are in `../src/parcel.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(parcel, |refused: &bool| *refused);
