//! Tells the engine about a silence of etcd in which live machines may have lost their leases.
//! [`MachineLease`] detects it.

use super::super::machine_lease::MachineLease;
use crate::engine::Engine;
use std::time::Duration;
use tokio::sync::watch;

/// Connects an engine to the machine's lease.
pub(super) struct EtcdSilence {
    pub(super) machine_lease: watch::Receiver<MachineLease>,
    pub(super) ttl: Duration,
}

impl EtcdSilence {
    pub(super) fn inform(&self, engine: &mut Engine, now: Duration) {
        let until = self.machine_lease.borrow().silence_grace_end(self.ttl, now);
        if let Some(until) = until {
            engine.keep_units_until(until, now);
        }
    }
}
