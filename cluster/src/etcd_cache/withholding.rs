//! What a reading that has less in it than there is does not stop: the parts of [`super::Follower`] that
//! ask etcd what became of units of which it says nothing. By which measure: [`crate::suspicious_read_guard`].

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

/// For what was told between two readings, where the second has too little in it.
const HISTORY: Duration = Duration::from_secs(5);

impl Follower {
    /// It is told by this what is not run there, though it is to be: that is no measure of what is.
    #[must_use]
    pub fn told_of(self, refused: watch::Receiver<BTreeSet<UnitName>>) -> Follower {
        Follower { refused: Some(refused), ..self }
    }

    /// Units of this machine that a reading has nothing of, and of which nothing was told meanwhile; those
    /// that were withheld before, too: it may have been told while nobody listened.
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
        let mut still = suspicious_read_guard::still(&before, fresh, me);
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
                    suspicious_read_guard::hear(&mut missing.units, &self.keys, &changes);
                    suspicious_read_guard::hear(&mut still, &self.keys, &changes);
                }
                Some(Err(fault)) => return Err(fault),
                // Nobody can tell any more, or nothing more is told.
                Some(Ok(Batch::Compacted)) | None => break,
            }
        }
        if missing.are_many() {
            still.extend(missing.units);
        }
        Ok(still)
    }
}
