//! `timers` and `sockets`: the events that triggers wait for. See [`super`].

use crate::machine::reason::State;
use serde::{Deserialize, Serialize};
use serde_with::apply;

/// Answer of `timers`: all timer units, by name.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timers {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The time of this answer.
    pub now: String,
    /// The entries, one per unit.
    pub timers: Vec<TimerStatus>,
}

/// One timer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimerStatus {
    /// The unit.
    pub unit: String,
    /// The state of the unit.
    pub state: State,
    /// The next firing; null if the timer is inactive or has no next firing.
    #[serde(default)]
    pub next: Option<String>,
    /// The last firing.
    #[serde(default)]
    pub last: Option<String>,
    /// The target that the timer activates.
    #[serde(default)]
    pub activates: Option<String>,
}

/// Answer of `sockets`: all socket units, by name.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sockets {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The entries, one per unit.
    pub sockets: Vec<SocketStatus>,
}

/// One socket unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SocketStatus {
    /// The unit.
    pub unit: String,
    /// The state of the unit.
    pub state: State,
    /// Key and address of each listener: `listen-stream /run/x.sock`.
    #[serde(default)]
    pub listen: Vec<String>,
    /// Init waits for connections. False if the activated unit is up, or the socket is inactive.
    #[serde(default)]
    pub waits: bool,
    /// Until this time the socket accepts no connection, because it fired too often or a descriptor
    /// was missing. RFC 3339; null if it is not paused.
    #[serde(default, rename = "rests-until")]
    pub rests_until: Option<String>,
    /// The target that the socket activates; with `socket-accept`, the template of the instances.
    #[serde(default)]
    pub activates: Option<String>,
    /// Counts of its connections; null if it does not accept them itself.
    #[serde(default)]
    pub accepts: Option<Accepts>,
}

/// Connections that init accepts itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepts {
    /// The limit of open connections.
    pub most: u32,
    /// Accepted connections since the socket listens.
    pub accepted: u64,
    /// Refused connections.
    pub refused: u64,
    /// Connections whose run failed.
    #[serde(default)]
    pub failed: u64,
    /// The last connection whose run failed; null if there was none.
    #[serde(default, rename = "last-failure")]
    pub last_failure: Option<BrokenOff>,
    /// The open connections.
    pub connections: Vec<Connection>,
}

/// A connection whose run failed.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenOff {
    /// The unit of the run.
    pub unit: String,
    /// The peer.
    pub peer: String,
    /// The end of the run.
    pub time: String,
    /// The reason, in words.
    pub reason: String,
}

/// One open connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The unit of the connection.
    pub unit: String,
    /// The peer: an address and a port, or a uid and a pid.
    pub peer: String,
}
