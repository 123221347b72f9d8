//! Trigger units: sockets, timers and paths that start other units.

mod socket;
mod units;
mod watch;
