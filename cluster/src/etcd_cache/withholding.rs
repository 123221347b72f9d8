//! Asks etcd about units that a reading does not mention, so that an incomplete reading does not
//! stop them. [`crate::suspicious_read_guard`] has the rules.

use super::Follower;
use crate::agent::Goal;
use crate::mutant::{Mutant, planted};
use crate::snapshot::Snapshot;
use crate::store::{Batch, Fault};
use crate::suspicious_read_guard::{self, Missing};
use crate::unit_name::UnitName;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::watch;

/// Time limit for fetching the changes between two readings.
const HISTORY: Duration = Duration::from_secs(5);

impl Follower {
    /// Sets the channel of units that are wanted here but do not run; they do not count as running.
    #[must_use]
    pub fn with_refused(self, refused: watch::Receiver<BTreeSet<UnitName>>) -> Follower {
        Follower { refused: Some(refused), ..self }
    }

    /// Returns units of this machine that the reading lacks without an event about them. Includes
    /// units withheld before, because the event may have passed while fleetd was not listening.
    pub(super) async fn withheld(
        &self,
        goal: &Goal,
        fresh: &Snapshot,
    ) -> Result<BTreeSet<UnitName>, Fault> {
        let before = self.snapshot.borrow().clone();
        let Some(me) = &self.machine else { return Ok(BTreeSet::new()) };
        let refused = self.refused.as_ref().map(|refused| refused.borrow().clone());
        let refused = refused.unwrap_or_default();
        let mut goal = goal.clone();
        goal.retain(|name, _| !before.withheld.contains(name) && !refused.contains(name));
        let mut missing = Missing::of(goal, fresh, me);
        let mut still = suspicious_read_guard::still_withheld(&before, fresh, me);
        if !missing.are_many() || planted(Mutant::MassStopBelieved) {
            missing.units.clear();
        }
        if missing.units.is_empty() && still.is_empty() {
            return Ok(still);
        }
        let mut watch = self.store.watch(self.keys.root(), before.revision).await?;
        let until = self.clock.now() + HISTORY;
        let mut heard = before.revision;
        while heard < fresh.revision && !(missing.units.is_empty() && still.is_empty()) {
            let left = until.saturating_sub(self.clock.now());
            match self.clock.within(left, watch.next()).await {
                Some(Ok(Batch::Changes { revision, changes })) => {
                    heard = heard.max(revision);
                    suspicious_read_guard::remove_reported(
                        &mut missing.units,
                        &self.keys,
                        &changes,
                    );
                    suspicious_read_guard::remove_reported(&mut still, &self.keys, &changes);
                }
                Some(Err(fault)) => return Err(fault),
                // The events are compacted, or no further event arrives.
                Some(Ok(Batch::Compacted)) | None => break,
            }
        }
        if missing.are_many() {
            still.extend(missing.units);
        }
        Ok(still)
    }
}
