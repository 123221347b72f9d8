//! Any datagram of the notify socket. The checks are in `../src/notification.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(notification, |said: &usize| *said > 8);
