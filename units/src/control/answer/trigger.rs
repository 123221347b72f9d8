//! `timers` and `sockets`: what triggers wait for.
//! See [`super`].

use crate::machine::reason::State;
use serde::{Deserialize, Serialize};

/// Answer of `timers`: all timer units, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timers {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// init's clock at this answer.
    #[serde(default)]
    pub now: String,
    /// One for each unit.
    #[serde(default)]
    pub timers: Vec<TimerStatus>,
}

/// One timer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimerStatus {
    /// Its unit.
    pub unit: String,
    /// Its state.
    pub state: State,
    /// When it fires next; null: it is not active, or nothing makes it fire.
    #[serde(default)]
    pub next: Option<String>,
    /// When it last fired.
    #[serde(default)]
    pub last: Option<String>,
    /// The target it brings in.
    #[serde(default)]
    pub activates: Option<String>,
}

/// Answer of `sockets`: all socket units, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sockets {
    /// [`super::SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// One for each unit.
    #[serde(default)]
    pub sockets: Vec<SocketStatus>,
}

/// One socket unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SocketStatus {
    /// Its unit.
    pub unit: String,
    /// Its state.
    pub state: State,
    /// The key and the address of each: `listen-stream /run/x.sock`.
    #[serde(default)]
    pub listen: Vec<String>,
    /// init waits for somebody to connect; false: what it activates is up, or it is not active.
    #[serde(default)]
    pub waits: bool,
    /// It fired too often, or there was no descriptor for a connection: until then it takes
    /// none. RFC 3339; null: it does not rest.
    #[serde(default, rename = "rests-until")]
    pub rests_until: Option<String>,
    /// The target it brings in; with `socket-accept` the template of the instances.
    #[serde(default)]
    pub activates: Option<String>,
    /// What has become of its connections; null: it accepts none.
    #[serde(default)]
    pub accepts: Option<Accepts>,
}

/// Connections that init accepts itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepts {
    /// So many may be open at once.
    pub most: u32,
    /// Since it listens.
    pub accepted: u64,
    /// Of those turned away.
    pub refused: u64,
    /// Of those whose run failed.
    #[serde(default)]
    pub failed: u64,
    /// The last of them; null: there was none.
    #[serde(default, rename = "last-failure")]
    pub last_failure: Option<BrokenOff>,
    /// Those that are open.
    pub connections: Vec<Connection>,
}

/// A connection whose run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenOff {
    /// The unit it was served by.
    pub unit: String,
    /// From where.
    pub peer: String,
    /// When the run was over.
    pub time: String,
    /// Why, in words.
    pub reason: String,
}

/// One that is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The unit it is served by.
    pub unit: String,
    /// From where: an address and a port, or a uid and a pid.
    pub peer: String,
}
