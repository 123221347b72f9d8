//! That etcd said nothing for so long that machines which live may have lost their leases, and what
//! an engine is told of it. When it is so is [`Presence`]'s to know, what follows the engine's.

use super::super::presence::Presence;
use crate::engine::Engine;
use std::time::Duration;
use tokio::sync::watch;

/// How an engine learns of a time in which etcd said nothing.
pub(super) struct Hush {
    pub(super) presence: watch::Receiver<Presence>,
    pub(super) ttl: Duration,
}

impl Hush {
    pub(super) fn tell(&self, engine: &mut Engine, now: Duration) {
        let until = self.presence.borrow().nobody_is_gone_until(self.ttl, now);
        if let Some(until) = until {
            engine.nobody_is_gone_until(until, now);
        }
    }
}
