//! An init that tells nothing may have nothing to tell, hang, or be gone: it is asked now and then, and where
//! it does not answer for a while, nobody knows how its units fare.

use super::UnitRunner;
use crate::fence;
use crate::fleetd::init_socket::{InitFault, PATIENCE};
use std::time::Duration;

/// As often as that it is asked whether it is there.
const ASKED: Duration = Duration::from_secs(5);
/// What it is told last counts for as long: an init that begins anew is silent for a moment.
const UNHEARD: Duration = Duration::from_secs(3);

impl UnitRunner {
    /// Asks init, where nobody has for a while.
    pub(super) async fn hear_init(&mut self) {
        let clock = self.cache.clock().clone();
        if self.blind || self.put.is_none() || clock.since(self.asked_init) < ASKED {
            return;
        }
        self.asked_init = clock.now();
        if let Err(fault) = self.of_init(self.init.revision()).await {
            self.blind = true;
            self.failed(&fault);
        }
    }

    /// What init says at once, where it is well. One that hangs is asked again, and all else goes on
    /// meanwhile: what is to be given up, what is told to the others, and the end of fleetd.
    pub(super) fn of_init<T, C: Future<Output = Result<T, InitFault>>>(
        &self,
        call: C,
    ) -> impl Future<Output = Result<T, InitFault>> + use<T, C> {
        self.within(self.at_once(), call)
    }

    /// That it has taken a set in: of many files that takes its time. One that did not answer last is not
    /// believed to be at it.
    pub(super) fn taken_by_init<T, C: Future<Output = Result<T, InitFault>>>(
        &self,
        call: C,
    ) -> impl Future<Output = Result<T, InitFault>> + use<T, C> {
        self.within(if self.silent.is_some() { self.at_once() } else { PATIENCE }, call)
    }

    /// Well before anything is to be given up. One that has not answered for a while has longer each time:
    /// it may be slow, and not gone.
    fn at_once(&self) -> Duration {
        let least = ASKED.min(fence::patience(self.ttl) / 2);
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

    /// Why nobody knows how what init has fares.
    pub(super) fn unheard(&self) -> Option<String> {
        let since = self.silent?;
        (self.cache.clock().since(since) >= UNHEARD).then(|| self.inability()).flatten()
    }
}
