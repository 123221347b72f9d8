//! Saves the goal and its revision before init gets it, and takes over from a previous fleetd.
//! [`crate::fleetd::saved_state`] stores the files.

use super::{Hashes, UnitRunner};
use crate::agent::{self, Goal};
use crate::desired::Desired;
use crate::fence::ClaimValidity;
use crate::fleetd::saved_state::{Held, Keep, SavedState};
use crate::mutant::{Mutant, planted};
use crate::unit_name::UnitName;
use std::collections::BTreeSet;
use std::time::Duration;

/// Interval for saving when only the revision has changed.
const PAUSE: Duration = Duration::from_secs(5);

impl UnitRunner {
    /// Continues after a previous fleetd: guards the claims from now on even without etcd, and
    /// keeps them saved for the next fleetd.
    #[must_use]
    pub fn after(self, recalled: SavedState) -> UnitRunner {
        let now = self.cache.clock().now();
        let kept = recalled.known.is_some().then(|| (recalled.clone(), now));
        let SavedState { ran, held, running: older, .. } = recalled;
        let own = ran.iter().map(|(name, one)| (name.clone(), one.content.hash.clone()));
        let mut running: Hashes = own.collect();
        running.extend(older);
        let before = ClaimValidity { proof: held.proof, ttl: held.ttl.unwrap_or(self.ttl) };
        let validity = |name: &UnitName| held.earlier.get(name).copied().unwrap_or(before);
        let earlier = held.units.iter().map(|name| (name.clone(), validity(name))).collect();
        // Init may still have units that must no longer run.
        let (claimed, left) = held.units.into_iter().partition(|name| ran.contains_key(name));
        UnitRunner {
            earlier,
            held: claimed,
            giving_up: left,
            running,
            ran: Some(ran).filter(|ran| !ran.is_empty()),
            kept,
            ..self
        }
    }

    /// Sets the function that saves the state.
    #[must_use]
    pub fn with_keep(self, keep: Keep) -> UnitRunner {
        UnitRunner { keep: Some(keep), ..self }
    }

    /// Takes over the units that the previous fleetd ran, if init still has them. They are guarded
    /// like the units of this fleetd. Returns false if init did not answer.
    pub(super) async fn take_over(&mut self) -> bool {
        if self.ran.is_none() {
            return true;
        }
        self.look().await;
        let Some(ran) = self.ran.take() else { return true };
        if self.blind {
            self.goal.clone_from(&ran);
            self.ran = Some(ran);
            return false;
        }
        let runs = |(name, one): &(UnitName, agent::Wanted)| {
            let unit = agent::find(name, one, &self.units);
            unit.is_some_and(|unit| unit.needed || one.desired != Desired::Launched)
        };
        self.goal = ran.into_iter().filter(runs).collect();
        let guarded = self.held.union(&self.giving_up).cloned().collect();
        self.had = Some(agent::source_set(&self.goal, &guarded));
        true
    }

    /// Saves a new state at once: a running unit that is not saved would be missing when a reading
    /// is checked. The revision alone does not tell whether a state is new: readings with different
    /// contents may have the same revision.
    pub(super) fn remember(&mut self, next: Option<SavedState>) {
        let Some(next) = next else { return };
        let (held, running) = (self.held_claims(), self.started_from_older(&next.ran));
        let Some(keep) = &mut self.keep else { return };
        let next = SavedState { held, running, ..next };
        let now = self.cache.clock().now();
        let is_kept = self.kept.as_ref().is_some_and(|(kept, at)| {
            let lately = now.saturating_sub(*at) < PAUSE;
            let same = kept.has_same_units(&next) || planted(Mutant::KeptLate);
            same && kept.held == next.held && (kept.known == next.known || lately)
        });
        if !is_kept {
            keep(&next);
            self.kept = Some((next, now));
        }
    }

    /// Returns the running units whose file hash differs from their current file.
    fn started_from_older(&self, ran: &Goal) -> Hashes {
        let is_older = |(name, hash): &(&UnitName, &String)| {
            ran.get(*name).is_some_and(|one| one.content.hash != **hash)
        };
        let older = self.running.iter().filter(is_older);
        older.map(|(name, hash)| (name.clone(), hash.clone())).collect()
    }

    /// Returns the held claims with those being given up, which init may still have.
    fn held_claims(&self) -> Held {
        let units: BTreeSet<UnitName> = self.held.union(&self.giving_up).cloned().collect();
        if units.is_empty() {
            return Held::default();
        }
        let earlier = self.earlier.keys().filter(|name| units.contains(*name));
        let earlier = earlier.map(|name| (name.clone(), self.validity_of(name))).collect();
        let lease = self.held_under.unwrap_or_default();
        Held { units, lease, proof: self.proof, ttl: Some(self.ttl), earlier }
    }

    /// Saves the claims before their units start.
    pub(super) fn remember_claims(&mut self) {
        let held = self.held_claims();
        if let (Some(keep), Some((kept, _))) = (&mut self.keep, &mut self.kept)
            && kept.held != held
        {
            kept.held = held;
            keep(kept);
        }
    }

    /// Saves the newer revision every few seconds while changes concern only other machines.
    pub(super) fn save_periodically(&mut self) {
        self.remember_claims();
        if self.ran.is_some() {
            // The units of the previous fleetd are not taken over yet.
            return;
        }
        let clock = self.cache.clock();
        if self.kept.as_ref().is_none_or(|(_, at)| clock.since(*at) < PAUSE) {
            return;
        }
        // An unregistered machine acts on no change, so its saved goal stays, too. A restarted
        // fleetd puts that goal without the exclusive units when it gives them up. A goal of a
        // newer snapshot would stop other units.
        let (snapshot, lease) = (self.cache.snapshot(), self.machine_lease.borrow().lease);
        if lease.is_some_and(|lease| self.is_registered(&snapshot, lease)) {
            self.remember(SavedState::later(&snapshot, &self.me, &self.goal));
        }
    }
}
