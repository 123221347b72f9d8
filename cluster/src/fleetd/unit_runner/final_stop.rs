//! Stops units together with fleetd: all units if the machine leaves the cluster, otherwise those
//! with a claim, which nothing would stop later.

use super::handover::is_same;
use super::{PULSE, Stops, UnitRunner};
use crate::agent::{self, Wanted};
use crate::log;
use crate::unit_name::UnitName;
use groundstate_units::control::answer::UnitStatus;
use groundstate_units::machine::reason::State;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::mpsc;

/// Timeout for the units to stop.
const FAREWELL: Duration = Duration::from_secs(120);

impl UnitRunner {
    /// Stops units and waits for them. Returns false on timeout, when they may still run.
    pub(super) async fn stop_and_wait(
        &mut self,
        stops: Stops,
        happens: &mut mpsc::Receiver<()>,
    ) -> bool {
        let stays = |wanted: &Wanted| stops == Stops::Exclusive && !wanted.content.asks.exclusive;
        // The units stay in the saved state until init has accepted the new source, in case fleetd
        // restarts.
        self.giving_up.append(&mut self.held);
        let leaving = self.giving_up.clone();
        if stops == Stops::Exclusive && leaving.is_empty() {
            return true;
        }
        let own = self.own_targets();
        // An unkillable run without a unit file is not waited for, unless it is ours.
        let is_foreign = |unit: &UnitStatus| {
            let is_left = unit.state == State::Failed && unit.source.is_none();
            is_left && unit.file.is_empty() && !own.contains(&unit.unit)
        };
        let is_down = |unit: &UnitStatus| agent::is_down(Some(unit)) || is_foreign(unit);
        let clock = self.cache.clock().clone();
        let ended = clock.within(FAREWELL, async {
            loop {
                self.look().await;
                // A fleetd that never reached its cluster takes over and stops the units of its
                // predecessor.
                if !self.ending && self.take_over().await {
                    self.goal.retain(|_, one| stays(one));
                    self.put().await;
                    self.remember_claims();
                }
                let is_accepted = self.ending || self.has_only_remaining(stops, &leaving);
                let down = match stops {
                    Stops::All => self.units.values().all(is_down),
                    Stops::Exclusive => leaving.iter().all(|name| self.is_down(name)),
                };
                if is_accepted && !self.blind && down {
                    return;
                }
                if self.blind && self.has_put_nothing() && self.init.is_absent().await {
                    return;
                }
                tokio::select! {
                    biased;
                    _ = happens.recv() => {}
                    () = clock.sleep(PULSE) => {}
                }
            }
        });
        let ended = ended.await.is_some();
        if !ended {
            log::error(format_args!("timed out after {FAREWELL:?} waiting for units to stop"));
        }
        ended
    }

    /// Returns true if init has no units of this fleetd or its predecessor.
    fn has_put_nothing(&self) -> bool {
        let ran = self.ran.as_ref().is_some_and(|ran| !ran.is_empty());
        self.put.is_none() && self.had.is_none() && self.revision.is_none() && !ran
    }

    /// The names at init of all units that belong here or are still claimed.
    fn own_targets(&self) -> BTreeSet<String> {
        let snapshot = self.cache.snapshot();
        let is_ours = |name: &&UnitName| snapshot.claim_of(name, &self.me).is_some();
        let claimed = snapshot.claims.keys().filter(is_ours).chain(&self.giving_up);
        let ran = self.ran.iter().flatten().map(|(name, _)| name);
        claimed.chain(self.goal.keys()).chain(ran).flat_map(agent::targets).collect()
    }

    /// Returns true if init's source has only the remaining units, so that init restarts no stopped
    /// one. If init has no source of ours and rejected the last one, it starts nothing. A put
    /// without an answer may still take effect, so it does not count.
    fn has_only_remaining(&self, stops: Stops, leaving: &BTreeSet<UnitName>) -> bool {
        if self.put_off.is_some() && self.put.is_none() && self.init_has_no_source {
            return true;
        }
        let gone = |put| leaving.iter().all(|name| !agent::holds(put, name));
        self.put.as_ref().is_some_and(|put| {
            is_same(put, &self.next_source()) || stops == Stops::Exclusive && gone(put)
        })
    }
}
