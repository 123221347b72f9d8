//! What is stopped with fleetd: all units where the machine leaves the cluster, and else those that
//! run by a claim, which nobody would give up any more.

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

/// How long the units may take to stop when the machine leaves.
const FAREWELL: Duration = Duration::from_secs(120);

impl UnitRunner {
    /// Stops units, and waits until they have. False: that took too long, and they may run on.
    pub(super) async fn say_farewell(
        &mut self,
        stops: Stops,
        happens: &mut mpsc::Receiver<()>,
    ) -> bool {
        let stays = |wanted: &Wanted| stops == Stops::Exclusive && !wanted.content.asks.exclusive;
        // Until init has taken it, it is kept for a fleetd that may have to begin anew.
        self.giving_up.append(&mut self.held);
        let leaving = self.giving_up.clone();
        if stops == Stops::Exclusive && leaving.is_empty() {
            return true;
        }
        let own = self.own_targets();
        // What runs without a file and was never ours is not for us to stop.
        let is_strange = |unit: &UnitStatus| {
            let is_left = unit.state == State::Failed && unit.source.is_none();
            is_left && unit.file.is_empty() && !own.contains(&unit.unit)
        };
        let is_down = |unit: &UnitStatus| agent::is_down(Some(unit)) || is_strange(unit);
        let clock = self.cache.clock().clone();
        let ended = clock.within(FAREWELL, async {
            loop {
                self.look().await;
                // A fleetd that never came to its cluster has what the one before it had.
                if !self.ending && self.begin().await {
                    self.goal.retain(|_, one| stays(one));
                    self.put().await;
                    self.remember_claims();
                }
                let told = self.ending || self.is_told(stops, &leaving);
                let down = match stops {
                    Stops::All => self.units.values().all(is_down),
                    Stops::Exclusive => leaving.iter().all(|name| self.is_down(name)),
                };
                if told && !self.blind && down {
                    return;
                }
                if self.blind && self.has_told_nobody() && self.init.is_absent().await {
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
            log::error(format_args!("units have not stopped within {FAREWELL:?}"));
        }
        ended
    }

    /// No init has taken anything of this fleetd, nor of one before it that it knows of.
    fn has_told_nobody(&self) -> bool {
        let ran = self.ran.as_ref().is_some_and(|ran| !ran.is_empty());
        self.put.is_none() && self.had.is_none() && self.revision.is_none() && !ran
    }

    /// What init may call what is to run here, and what is claimed for it still.
    fn own_targets(&self) -> BTreeSet<String> {
        let snapshot = self.cache.snapshot();
        let is_ours = |name: &&UnitName| snapshot.claim_of(name, &self.me).is_some();
        let claimed = snapshot.claims.keys().filter(is_ours).chain(&self.giving_up);
        let ran = self.ran.iter().flatten().map(|(name, _)| name);
        claimed.chain(self.goal.keys()).chain(ran).flat_map(agent::targets).collect()
    }

    /// Init has no more than what is to stay: what is down just now it does not begin again. What it
    /// refuses for another's sake is not waited for; and one that has nothing of ours, and has said no to
    /// what it was told last, begins nothing: what it did not answer it may be at still.
    fn is_told(&self, stops: Stops, leaving: &BTreeSet<UnitName>) -> bool {
        if self.put_off.is_some() && self.put.is_none() && self.has_none {
            return true;
        }
        let gone = |put| leaving.iter().all(|name| !agent::holds(put, name));
        self.put
            .as_ref()
            .is_some_and(|put| is_same(put, &self.set()) || stops == Stops::Exclusive && gone(put))
    }
}
