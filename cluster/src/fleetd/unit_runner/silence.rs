//! Detects an init that stops answering. fleetd asks init whether it is running if it has not read
//! init's states for a while. Without an answer, the unit states count as unknown.

use super::UnitRunner;
use crate::fence;
use crate::fleetd::init_socket::{InitFault, PATIENCE};
use std::time::Duration;

/// Time after the last reading of init's states until fleetd asks whether init is running.
const PING_AFTER: Duration = Duration::from_secs(5);
/// How long the last states stay valid after the first failed request: a restarting init is silent
/// for a moment.
const UNKNOWN_AFTER: Duration = Duration::from_secs(3);

impl UnitRunner {
    /// Asks init whether it is running, if its states were read more than [`PING_AFTER`] ago.
    pub(super) async fn ping_init(&mut self) {
        let clock = self.cache.clock().clone();
        if self.blind || self.put.is_none() || clock.since(self.asked_init) < PING_AFTER {
            return;
        }
        self.asked_init = clock.now();
        if let Err(fault) = self.within_init_timeout(self.init.revision()).await {
            self.blind = true;
            self.failed(&fault);
        }
    }

    /// Limits a request that a healthy init answers at once. So a hanging init does not delay
    /// guarding, publishing and exiting.
    pub(super) fn within_init_timeout<T, C: Future<Output = Result<T, InitFault>>>(
        &self,
        call: C,
    ) -> impl Future<Output = Result<T, InitFault>> + use<T, C> {
        self.within(self.short_timeout(), call)
    }

    /// Limits a put, which takes longer with many files, unless init did not answer last time.
    pub(super) fn within_put_timeout<T, C: Future<Output = Result<T, InitFault>>>(
        &self,
        call: C,
    ) -> impl Future<Output = Result<T, InitFault>> + use<T, C> {
        self.within(if self.silent.is_some() { self.short_timeout() } else { PATIENCE }, call)
    }

    /// The timeout of a request that a healthy init answers at once. While init answers, it is at
    /// most half of [`fence::patience`]. It grows while init stays silent, because init may be slow
    /// rather than gone.
    fn short_timeout(&self) -> Duration {
        let least = PING_AFTER.min(fence::patience(self.ttl) / 2);
        let since = |at| self.cache.clock().since(at);
        let silent = self.silent.map_or(Duration::ZERO, since);
        least.max((silent / 2).min(PATIENCE / 2))
    }

    fn within<T, C: Future<Output = Result<T, InitFault>>>(
        &self,
        bound: Duration,
        call: C,
    ) -> impl Future<Output = Result<T, InitFault>> + use<T, C> {
        let clock = self.cache.clock().clone();
        let late = move || Err(InitFault::Gone(format!("no answer within {bound:?}")));
        let call = async move { clock.within(bound, call).await.unwrap_or_else(late) };
        self.until_due(call, InitFault::Gone)
    }

    /// Returns why the unit states are unknown.
    pub(super) fn why_states_are_unknown(&self) -> Option<String> {
        let since = self.silent?;
        (self.cache.clock().since(since) >= UNKNOWN_AFTER).then(|| self.why_not_put()).flatten()
    }
}
