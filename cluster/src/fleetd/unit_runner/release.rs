//! Releases the claims of units that do not belong here, once they have stopped.

use super::UnitRunner;
use crate::agent::{self, Wanted};
use crate::mutant::{Mutant, planted};
use crate::registry;
use crate::snapshot::Snapshot;
use crate::unit_name::UnitName;
use groundstate_units::control::answer::UnitStatus;
use groundstate_units::control::source_set::SourceSet;
use std::collections::BTreeSet;

impl UnitRunner {
    /// Returns the source for init. init may keep a process when it gets another file under the
    /// same name. So a unit that needs no claim is left out until the process with a claim has
    /// stopped.
    pub(super) fn next_source(&self) -> SourceSet {
        let guarded = self.guarded();
        let put = self.put.as_ref();
        let waits = |(name, one): (&UnitName, &Wanted)| {
            !one.content.asks.exclusive
                && one.refusal.is_none()
                && guarded.contains(&agent::name_at_init(name, one))
                && agent::keeps_what_runs(one)
                && !put.is_some_and(|put| agent::is_put(put, name, one))
        };
        if !self.goal.iter().any(waits) {
            return agent::source_set(&self.goal, &self.held);
        }
        let mut goal = self.goal.clone();
        goal.retain(|name, one| !waits((name, one)));
        agent::source_set(&goal, &self.held)
    }

    /// Returns the names at init of all units that run, or may run, with a claim.
    fn guarded(&self) -> BTreeSet<String> {
        let snapshot = self.cache.snapshot();
        let is_ours = |name: &&UnitName| {
            let claim = snapshot.claim_of(name, &self.me);
            claim.is_some_and(|claim| registry::is_own_claim(claim, &self.instance))
        };
        let all = snapshot.claims.keys().filter(is_ours).chain(&self.held).chain(&self.giving_up);
        let called = |name: &UnitName| {
            let has_it = |one: &&Wanted| one.needs_claim() && self.init_has(name, one);
            match self.goal.get(name).filter(has_it) {
                // Init has this file and no longer the previous one.
                Some(one) => vec![agent::name_at_init(name, one)],
                // It may have had a file of either kind.
                None => agent::targets(name).to_vec(),
            }
        };
        all.flat_map(called).collect()
    }

    /// Returns true if init has this file. While the source at init is unknown, returns true if
    /// init's unit was made from the same kind of file. Otherwise, after a restart of fleetd or
    /// init, the claim would guard both names of the unit, and [`Self::next_source`] would leave
    /// out another unit that has the second name.
    fn init_has(&self, name: &UnitName, wanted: &Wanted) -> bool {
        if let Some(put) = &self.put {
            return agent::is_put(put, name, wanted);
        }
        let unit = agent::find(name, wanted, &self.units).filter(|_| !self.blind);
        unit.is_some_and(|unit| agent::is_of(name, wanted, unit))
    }

    /// Releases the claims of units that do not belong here, once they have stopped.
    pub(super) async fn release(&mut self, snapshot: &Snapshot, names: &[&UnitName]) {
        let store = self.cache.store().clone();
        for name in names.iter().copied() {
            if !self.is_over(name) && !planted(Mutant::ReleasedWhileUp) {
                self.again = true;
            } else if let Some(release) = registry::release(snapshot, &self.me, name) {
                if let Some(kept) = snapshot.claim_of(name, &self.me) {
                    self.released.insert(name.clone(), kept.modified);
                }
                let landed = self.in_time(store.commit(&release)).await;
                self.etcd_failed |=
                    !matches!(landed, Ok(Some(_))) && !planted(Mutant::ReleasedOnce);
                if landed.is_err() {
                    // The store does not answer, so the other requests are not sent.
                    return;
                }
            }
        }
    }

    /// Returns true if init's source no longer has the claimed unit and no process of it runs under
    /// any name. If another unit has taken the name, only the processes of the previous one count.
    fn is_over(&self, name: &UnitName) -> bool {
        // The unit states or the source at init are unknown.
        let Some(put) = self.put.as_ref().filter(|_| !self.blind) else { return false };
        let needs_none = |one: &Wanted| !one.content.asks.exclusive;
        if planted(Mutant::GivenBackUntold) && self.goal.get(name).is_some_and(needs_none) {
            return self.holds_for_all_names(name, agent::has_given_way);
        }
        match agent::holds(put, name) {
            true => {
                agent::is_file_of_another(put, &self.goal, name)
                    && self.holds_for_all_names(name, agent::has_given_way)
            }
            false if agent::has_namesake(&self.goal, name) => {
                self.holds_for_all_names(name, agent::has_given_way)
            }
            false => self.is_down(name),
        }
    }

    pub(super) fn is_down(&self, name: &UnitName) -> bool {
        self.holds_for_all_names(name, agent::is_down)
    }

    /// Returns true if `are` holds for both names that the unit can have at init: as a fleet unit
    /// and as a native one. The unit's file may be unknown. A unit that has the name only as an
    /// alias is another unit.
    pub(super) fn holds_for_all_names(
        &self,
        name: &UnitName,
        are: fn(Option<&UnitStatus>) -> bool,
    ) -> bool {
        let own = |name: &String| self.units.get(name).filter(|unit| unit.unit == *name);
        agent::targets(name).iter().all(|name| are(own(name)))
    }
}
