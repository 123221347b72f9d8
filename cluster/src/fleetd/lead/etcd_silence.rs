//! A silence of etcd that is so long that live machines may have lost their leases, and what the engine
//! is told of it. [`MachineLease`] knows when that is so; what follows is the engine's.

use super::super::machine_lease::MachineLease;
use crate::engine::Engine;
use std::time::Duration;
use tokio::sync::watch;

/// How an engine learns of a time in which etcd said nothing.
pub(super) struct EtcdSilence {
    pub(super) machine_lease: watch::Receiver<MachineLease>,
    pub(super) ttl: Duration,
}

impl EtcdSilence {
    pub(super) fn tell(&self, engine: &mut Engine, now: Duration) {
        let until = self.machine_lease.borrow().nobody_is_gone_until(self.ttl, now);
        if let Some(until) = until {
            engine.nobody_is_gone_until(until, now);
        }
    }
}
