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
    /// The target it brings in.
    #[serde(default)]
    pub activates: Option<String>,
}
