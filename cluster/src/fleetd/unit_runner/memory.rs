//! What a fleetd that begins anew knows of the one before it: what was to run here, kept before init
//! is told of it, and the revision that follows from. How it is kept is
//! [`crate::fleetd::persisted_identity`]'s.

use super::{Hashes, UnitRunner};
use crate::agent::{self, Goal};
use crate::desired::Desired;
use crate::fence::Worth;
use crate::fleetd::persisted_identity::{Held, Keep, Recalled};
use crate::mutant::{Mutant, planted};
use crate::unit_name::UnitName;
use std::collections::BTreeSet;
use std::time::Duration;

/// Where nothing but the revision is new it is kept that often.
const PAUSE: Duration = Duration::from_secs(5);

impl UnitRunner {
    /// A fleetd before it ran that, some of it by claims: what those are worth is guarded from now
    /// on, whether etcd answers or not, and is kept for the one after it all the same.
    #[must_use]
    pub fn after(self, recalled: Recalled) -> UnitRunner {
        let now = self.cache.clock().now();
        let kept = recalled.known.is_some().then(|| (recalled.clone(), now));
        let Recalled { ran, held, running: older, .. } = recalled;
        let own = ran.iter().map(|(name, one)| (name.clone(), one.content.hash.clone()));
        let mut running: Hashes = own.collect();
        running.extend(older);
        let before = Worth { proof: held.proof, ttl: held.ttl.unwrap_or(self.ttl) };
        let worth = |name: &UnitName| held.earlier.get(name).copied().unwrap_or(before);
        let earlier = held.units.iter().map(|name| (name.clone(), worth(name))).collect();
        // What was not to run any more init may have still.
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

    /// A fleetd after it is told by this what it runs.
    #[must_use]
    pub fn remembered_by(self, keep: Keep) -> UnitRunner {
        UnitRunner { keep: Some(keep), ..self }
    }

    /// Takes over from the fleetd before: what it ran, as far as init has it still, is stopped for
    /// no less than what this one runs. False: init has not said.
    pub(super) async fn begin(&mut self) -> bool {
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

    /// A unit that runs and is not kept would be no measure of what a reading has too little of. So
    /// whatever is new is kept at once: readings that have more or less in them are of one revision.
    pub(super) fn remember(&mut self, next: Option<Recalled>) {
        let Some(next) = next else { return };
        let (held, running) = (self.what_is_held(), self.begun_by_older(&next.ran));
        let Some(keep) = &mut self.keep else { return };
        let next = Recalled { held, running, ..next };
        let now = self.cache.clock().now();
        let is_kept = self.kept.as_ref().is_some_and(|(kept, at)| {
            let lately = now.saturating_sub(*at) < PAUSE;
            let same = kept.ran_the_same(&next) || planted(Mutant::KeptLate);
            same && kept.held == next.held && (kept.known == next.known || lately)
        });
        if !is_kept {
            keep(&next);
            self.kept = Some((next, now));
        }
    }

    /// What of that runs, or may still, as another file has it than the one that is to be here.
    fn begun_by_older(&self, ran: &Goal) -> Hashes {
        let is_older = |(name, hash): &(&UnitName, &String)| {
            ran.get(*name).is_some_and(|one| one.content.hash != **hash)
        };
        let older = self.running.iter().filter(is_older);
        older.map(|(name, hash)| (name.clone(), hash.clone())).collect()
    }

    /// With what is being given up: init may not have taken it yet.
    fn what_is_held(&self) -> Held {
        let units: BTreeSet<UnitName> = self.held.union(&self.giving_up).cloned().collect();
        if units.is_empty() {
            return Held::default();
        }
        let earlier = self.earlier.keys().filter(|name| units.contains(*name));
        let earlier = earlier.map(|name| (name.clone(), self.worth_of(name))).collect();
        let lease = self.held_under.unwrap_or_default();
        Held { units, lease, proof: self.proof, ttl: Some(self.ttl), earlier }
    }

    /// A claim is known of before what it is for begins.
    pub(super) fn remember_claims(&mut self) {
        let held = self.what_is_held();
        if let (Some(keep), Some((kept, _))) = (&mut self.keep, &mut self.kept)
            && kept.held != held
        {
            kept.held = held;
            keep(kept);
        }
    }

    /// What concerns other machines alone moves the revision on.
    pub(super) fn remember_now_and_then(&mut self) {
        self.remember_claims();
        if self.ran.is_some() {
            // What the one before it ran was not taken over yet.
            return;
        }
        let clock = self.cache.clock();
        if self.kept.as_ref().is_none_or(|(_, at)| clock.since(*at) < PAUSE) {
            return;
        }
        // Who is out of the cluster does nothing of what it hears: all of it runs on, and is to run on
        // where a fleetd begun anew gives up what is exclusive.
        let (snapshot, lease) = (self.cache.snapshot(), self.machine_lease.borrow().lease);
        if lease.is_some_and(|lease| self.is_in(&snapshot, lease)) {
            self.remember(Recalled::later(&snapshot, &self.me, &self.goal));
        }
    }
}
