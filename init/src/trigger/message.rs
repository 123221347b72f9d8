//! What PID 1 and its lookouts say to each other: one postcard value a SOCK_SEQPACKET
//! message. Neither side waits for the other.

use groundstate_units::machine::event::RunId;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::trigger::timer::{Due, History};
use groundstate_units::trigger::{Timer, Watch};
use serde::{Deserialize, Serialize};

/// Bytes of one message: what a socket takes with the kernel's own buffers.
pub(super) const MESSAGE: usize = 128 * 1024;

/// A timer to be kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Alarm {
    /// Its unit.
    pub(super) unit: Name,
    /// What it waits for.
    pub(super) timer: Timer,
    /// What PID 1 knows of its past.
    pub(super) history: History,
    /// Where the time of its last firing is kept, if it is persistent.
    pub(super) stamp: Option<String>,
    /// Of this life of init, for the chance.
    pub(super) seed: u64,
}

/// From PID 1.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Keep this timer.
    Keep(RunId, Box<Alarm>),
    /// Its unit was started, or ended.
    Past(RunId, History),
    /// Watch these paths; nothing is told before [`Order::Look`].
    Watch(RunId, Watch),
    /// A firing counts: look now, and tell the first reason. Changes count that were seen
    /// after this point: what the activated unit itself changed while it was up does not.
    Look(RunId, Time),
    /// A firing does not count now.
    Rest(RunId),
    /// Forget it.
    End(RunId),
}

/// From a lookout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    /// It fired. A timer's time on the wall clock, in microseconds; of a path: 0.
    Fired(RunId, i64),
    /// When a timer is due, and when it last fired on the wall clock.
    Due(RunId, Due, Option<i64>),
    /// It can not be kept or watched: what, and why.
    Broken(RunId, String, i32),
    /// Its paths have answered, as far as this order asks for it.
    Looked(RunId, By),
    /// A look at its paths may block. This lookout has dropped it.
    MayBlock(RunId),
}

/// An order that [`Report::Looked`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum By {
    /// [`Order::Watch`].
    Watch,
    /// [`Order::Look`] with that time.
    Look(Time),
    /// [`Order::Rest`]: whatever was asked for before is not any more, or has answered.
    Rest,
}
