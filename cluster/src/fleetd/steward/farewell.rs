//! What is stopped with fleetd: all units where the machine leaves the cluster, and else those that
//! run by a claim, which nobody would give up any more.

use super::{PULSE, Steward, Stops};
use crate::agent::{self, Wanted};
use crate::fleetd::voice;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long the units may take to stop when the machine leaves.
const FAREWELL: Duration = Duration::from_secs(120);

impl Steward {
    /// Stops units, and waits until they have.
    pub(super) async fn say_farewell(&mut self, stops: Stops, happens: &mut mpsc::Receiver<()>) {
        let stays = |wanted: &Wanted| stops == Stops::Exclusive && !wanted.content.asks.exclusive;
        // Until init has taken it, it is kept for a fleetd that may have to begin anew.
        self.giving_up.append(&mut self.held);
        let leaving = self.giving_up.clone();
        if stops == Stops::Exclusive && leaving.is_empty() {
            return;
        }
        let clock = self.mirror.clock().clone();
        let ended = clock.within(FAREWELL, async {
            loop {
                self.look().await;
                // A fleetd that never came to its cluster has what the one before it had.
                if !self.ending && self.begin().await {
                    self.goal.retain(|_, one| stays(one));
                    self.put().await;
                    self.remember_claims();
                }
                let told = self.put.is_some() || self.ending;
                let down = match stops {
                    Stops::All => self.units.values().all(|unit| agent::is_down(Some(unit))),
                    Stops::Exclusive => leaving.iter().all(|name| self.is_down(name)),
                };
                if told && !self.blind && down {
                    return;
                }
                tokio::select! {
                    biased;
                    _ = happens.recv() => {}
                    () = clock.sleep(PULSE) => {}
                }
            }
        });
        if ended.await.is_none() {
            voice::error(format_args!("units have not stopped within {FAREWELL:?}"));
        }
    }
}
