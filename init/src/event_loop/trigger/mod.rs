//! Trigger units: what fires them.

mod connection;
mod listening;
mod socket_open;
mod units;
mod watch;
