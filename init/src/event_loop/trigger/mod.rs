//! Trigger units: sockets, timers and paths that start other units.

mod connection;
mod listening;
mod socket_open;
mod units;
mod watch;
