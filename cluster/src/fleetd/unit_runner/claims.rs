//! Claims of exclusive units: taken before init gets the unit, released after it has stopped, and
//! given up before their lease can expire.

use super::UnitRunner;
use crate::agent::{self, Wanted};
use crate::fence::{self, ClaimValidity};
use crate::log;
use crate::mutant::{Mutant, planted};
use crate::registry;
use crate::snapshot::Snapshot;
use crate::store::Fault;
use crate::unit_name::UnitName;
use std::collections::BTreeSet;
use std::time::Duration;

impl UnitRunner {
    /// Takes the claims of exclusive units that belong here, and releases the others. Returns false
    /// while it is unknown whether a claim of ours is still valid; then init gets no new source.
    pub(super) async fn claim(&mut self, snapshot: &Snapshot, lease: i64) -> bool {
        let there = |name: &UnitName| snapshot.claim_of(name, &self.me).map(|kept| kept.modified);
        self.released.retain(|name, revision| there(name) == Some(*revision));
        let answered = self.take_claims(snapshot, lease).await;
        let (goal, ttl) = (&self.goal, self.ttl);
        let wanted = |name: &UnitName| goal.get(name).is_some_and(|one| may_run(one, ttl));
        // From now on fleetd repeats the stop until init no longer has the unit, even if the lease
        // is renewed.
        self.giving_up.extend(self.held.iter().filter(|name| !wanted(name)).cloned());
        self.held.retain(wanted);
        let guarded = |name: &UnitName| self.held.contains(name) || self.giving_up.contains(name);
        self.earlier.retain(|name, _| guarded(name));
        self.claimed.retain(|name, _| wanted(name));
        // Claims of an earlier run of the machine expire with its lease.
        let is_ours = |name: &&UnitName| {
            let claim = snapshot.claim_of(name, &self.me);
            claim.is_some_and(|claim| registry::is_own_claim(claim, &self.instance))
        };
        let ours: Vec<&UnitName> = snapshot.claims.keys().filter(is_ours).collect();
        let open = ours.iter().any(|name| wanted(name) && !self.held.contains(*name));
        let left: Vec<&UnitName> = ours.into_iter().filter(|name| !wanted(name)).collect();
        self.release(snapshot, &left).await;
        // The lease may have been renewed during the requests.
        self.take_proof();
        self.note_renewed_claims();
        // The next step may take long; the claims are saved first for a possible next fleetd.
        self.remember_claims();
        let overdue = self.held.iter().any(|name| self.is_overdue_for(name));
        if overdue && !planted(Mutant::ClaimedUnproven) {
            // The requests took so long that the lease may expire while the unit starts: the guard
            // checks it first.
            self.again = true;
            return false;
        }
        // A fleetd without saved state finds its claims in etcd, and their units may run. A source
        // without these units would stop them, so it waits for etcd's answer.
        answered || !open || self.is_overdue()
    }

    /// Takes missing claims. Returns false if a result is unknown.
    async fn take_claims(&mut self, snapshot: &Snapshot, lease: i64) -> bool {
        let store = self.cache.store().clone();
        let mut answered = true;
        for (name, wanted) in self.goal.clone() {
            // The previous request took time.
            self.take_proof();
            if !may_run(&wanted, self.ttl) {
                continue;
            }
            let ours = snapshot.claim_of(&name, &self.me);
            let ours = ours.filter(|kept| !self.may_be_released(&name, kept.modified));
            if ours.is_some_and(|kept| kept.lease == lease) {
                match self.is_overdue() {
                    // The unit was given up. A claim under a renewed lease counts again, so this is
                    // retried.
                    true => self.etcd_failed |= !planted(Mutant::GivenUpForGood),
                    false => self.hold(name),
                }
                continue;
            }
            if ours.is_none() {
                let claimed = self.claimed.get(&name);
                if self.held.contains(&name) && claimed.is_some_and(|at| snapshot.revision < *at) {
                    continue;
                }
                // The claim is not ours, or no longer ours.
                self.giving_up.extend(self.held.take(&name));
            }
            if self.is_overdue() && !planted(Mutant::ClaimedUnproven) {
                // A claim is worthless under a lease that may have expired.
                self.etcd_failed = true;
                continue;
            }
            let us = (&self.me, self.instance.as_str());
            let Some(claim) = registry::claim(snapshot, us, &name, lease) else { continue };
            self.note_claim_request(&name);
            match self.in_time(store.commit(&claim)).await {
                Ok(Some(revision)) => {
                    self.claimed.insert(name.clone(), revision);
                    self.hold(name);
                }
                Ok(None) => (self.etcd_failed, answered) = (true, false),
                // The store does not answer: the loop ends, so that the held claims are guarded in
                // time.
                Err(_) => {
                    (self.etcd_failed, answered) = (true, false);
                    break;
                }
            }
        }
        answered
    }

    /// Records that a claim is requested under the present lease. Until the answer, it may be under
    /// either lease and expires with the first. The next fleetd must know that too.
    fn note_claim_request(&mut self, name: &UnitName) {
        let before = self.validity_of(name);
        if self.earlier.contains_key(name) {
            self.requested_again.insert(name.clone());
        }
        if self.validity_of(name) != before {
            self.remember_claims();
        }
    }

    /// Records that the claim is under the present lease.
    fn hold(&mut self, name: UnitName) {
        self.earlier.remove(&name);
        self.held.insert(name);
    }

    /// Returns true if the snapshot shows a claim that this fleetd has, or may have, released
    /// since. It must be claimed again before it counts, and a release in flight then fails.
    fn may_be_released(&self, name: &UnitName, revision: i64) -> bool {
        self.released.get(name) == Some(&revision) && !planted(Mutant::GivenBackCounts)
    }

    /// Limits a request to the store to the time until the next check of the claims.
    pub(super) fn in_time<T, C: Future<Output = Result<T, Fault>>>(
        &self,
        call: C,
    ) -> impl Future<Output = Result<T, Fault>> + use<T, C> {
        self.until_due(call, Fault::Unknown)
    }

    /// Limits any request in the same way.
    pub(super) fn until_due<T, F, C: Future<Output = Result<T, F>>>(
        &self,
        call: C,
        late: fn(String) -> F,
    ) -> impl Future<Output = Result<T, F>> + use<T, F, C> {
        let clock = self.cache.clock().clone();
        let now = clock.now();
        // A shorter wait does not help claims that are overdue.
        let giving_up = self.giving_up.iter().filter(|name| !self.is_overdue_for(name));
        let guarded = self.held.iter().chain(giving_up);
        let left = guarded.map(|name| self.validity_of(name).left(now, fence::patience)).min();
        async move {
            let Some(left) = left else { return call.await };
            let late = || late("no answer before the next check of the claims".to_string());
            clock.within(left, call).await.unwrap_or_else(|| Err(late()))
        }
    }

    /// Takes a renewal as proof, unless it is of another lease than that of the claims.
    pub(super) fn take_proof(&mut self) {
        let now = *self.machine_lease.borrow();
        if now.lease.is_some() && now.lease == self.held_under {
            self.proof = now.proof.max(self.proof);
        }
    }

    /// Switches to a new lease for further claims. Existing claims may expire with the earlier
    /// lease until they are renewed.
    pub(super) fn hold_under(&mut self, lease: i64) {
        if self.held_under != Some(lease) {
            let guarded = self.held.union(&self.giving_up);
            self.earlier = guarded.map(|name| (name.clone(), self.validity_of(name))).collect();
            self.requested_again.clear();
            if planted(Mutant::ProvedByAnother) {
                self.earlier.clear();
            }
            self.held_under = Some(lease);
            self.proof = None;
            self.claimed.clear();
        }
        self.take_proof();
    }

    /// Returns true if claims under the present lease must be given up.
    pub(super) fn is_overdue(&self) -> bool {
        self.is_expired(self.validity())
    }

    fn is_overdue_for(&self, name: &UnitName) -> bool {
        self.is_expired(self.validity_of(name))
    }

    fn is_expired(&self, validity: ClaimValidity) -> bool {
        validity.is_past(self.cache.clock().now(), fence::patience)
            && !planted(Mutant::NeverGivesUp)
    }

    /// Forgets the earlier lease of each claim that the snapshot shows under the present lease. The
    /// snapshot may show it before etcd's answer arrives.
    fn note_renewed_claims(&mut self) {
        let (snapshot, me, lease) = (self.cache.snapshot(), &self.me, self.held_under);
        self.earlier.retain(|name, _| {
            let kept = snapshot.claim_of(name, me);
            kept.is_none_or(|kept| Some(kept.lease) != lease)
        });
    }

    /// The validity of a claim under the present lease.
    fn validity(&self) -> ClaimValidity {
        ClaimValidity { proof: self.proof, ttl: self.ttl }
    }

    pub(super) fn validity_of(&self, name: &UnitName) -> ClaimValidity {
        match self.earlier.get(name) {
            None => self.validity(),
            Some(earlier) if self.requested_again.contains(name) => {
                earlier.or_less(self.validity())
            }
            Some(earlier) => *earlier,
        }
    }

    /// Takes `at` as a proof of the leases, because no lease expires while etcd has no leader. A
    /// lease that may have expired before `at` gets no proof: a machine that was paused for longer
    /// than its lease cannot know whether the lease had expired.
    fn accept_as_proof(&mut self, at: Duration) {
        let now = self.cache.clock().now();
        let mut own = self.validity();
        for validity in self.earlier.values_mut().chain([&mut own]) {
            if !validity.is_past(now, fence::life) || planted(Mutant::LeaderlessForLong) {
                validity.proof = Some(at);
            }
        }
        self.proof = own.proof;
    }

    /// After a pause of the machine, waits for the renewal of its lease, for at most `left`.
    async fn await_proof(&mut self, left: Duration) {
        let clock = self.cache.clock().clone();
        let mut machine_lease = self.machine_lease.clone();
        // A renewal does not help claims under an earlier lease.
        let present = self.held.iter().any(|name| !self.earlier.contains_key(name));
        let (until, waits) = (clock.now() + left, present && !planted(Mutant::RenewalNotAwaited));
        self.take_proof();
        while waits && self.is_overdue() {
            let left = until.saturating_sub(clock.now());
            if !matches!(clock.within(left, machine_lease.changed()).await, Some(Ok(()))) {
                return;
            }
            self.take_proof();
        }
    }

    /// The time at which the first held unit must be given up, unless its lease is renewed.
    pub(super) fn due(&self) -> Option<Duration> {
        self.held.iter().map(|name| self.validity_of(name).end()).min()
    }

    /// Publishes the deadline for init's watchdog, which kills a fleetd that hangs until then.
    pub(super) fn publish_deadline(&self) {
        let each = self.held.iter().map(|name| self.validity_of(name));
        let last = each.map(|validity| validity.end() + fence::members_timeout(validity.ttl)).min();
        self.give_up_deadline.send_if_modified(|sent| std::mem::replace(sent, last) != last);
    }

    /// Gives exclusive units up before their lease can expire, unless most etcd members have no
    /// leader: then no lease can expire.
    pub(super) async fn guard_claims(&mut self) {
        // After this time another machine may run the units, so they are given up without asking
        // the members. A restarted fleetd has no time left for that question.
        let part =
            if self.held_under.is_some() { fence::life } else { fence::give_up_without_answer };
        if !renews_expired_lease() {
            self.give_up_after(part).await;
        }
        self.give_up_again().await;
        if self.held.is_empty() {
            return;
        }
        self.take_proof();
        self.ask_members().await;
        self.give_up_after(fence::patience).await;
    }

    /// Asks etcd's members for a leader and waits for a renewal in flight, because a lease without
    /// news may still exist.
    async fn ask_members(&mut self) {
        let validities: Vec<ClaimValidity> =
            self.held.iter().map(|name| self.validity_of(name)).collect();
        let clock = self.cache.clock().clone();
        let began = clock.now();
        let silent = validities.iter().any(|validity| validity.is_past(began, |ttl| ttl / 2));
        let ttl = validities.iter().map(|validity| validity.ttl).min().unwrap_or(self.ttl);
        let asked = ClaimValidity { proof: self.asked_members, ttl };
        if !silent || !asked.is_past(began, fence::members_timeout) {
            return;
        }
        self.asked_members = Some(began);
        let patience = match renews_expired_lease() {
            true => fence::members_timeout(ttl),
            false => fence::members_timeout_for(&validities, began),
        };
        let asking = self.cache.store().is_leaderless(patience * 3 / 4);
        if clock.within(patience, asking).await == Some(true)
            && !planted(Mutant::QuorumLossIsCutOff)
        {
            self.accept_as_proof(began);
        }
        self.await_proof(patience.saturating_sub(clock.since(began))).await;
    }

    /// Gives up the units whose lease was last proved longer ago than `part` of its time.
    async fn give_up_after(&mut self, part: fn(Duration) -> Duration) {
        self.take_proof();
        self.note_renewed_claims();
        let now = self.cache.clock().now();
        let is_over = |name: &&UnitName| self.validity_of(name).is_past(now, part);
        let mut over: BTreeSet<UnitName> = self.held.iter().filter(is_over).cloned().collect();
        if over.is_empty() || planted(Mutant::NeverGivesUp) {
            return;
        }
        let names: Vec<String> = over.iter().map(ToString::to_string).collect();
        log::error(format_args!(
            "cut off from etcd: stopping exclusive units: {}",
            names.join(" ")
        ));
        self.held.retain(|name| !over.contains(name));
        self.giving_up.append(&mut over);
        self.publish_deadline();
        if self.take_over().await {
            self.put().await;
        }
        self.again |= !planted(Mutant::GivenUpForGood);
    }

    /// Repeats the stop of given-up units while init has them. Nothing else is put: an unregistered
    /// machine starts nothing.
    async fn give_up_again(&mut self) {
        if self.giving_up.is_empty() {
            return;
        }
        self.look().await;
        if self.blind {
            return;
        }
        let mut names = std::mem::take(&mut self.giving_up);
        // A unit that waits for a restart, or that another unit needs, may run again.
        names.retain(|name| !self.holds_for_all_names(name, agent::stays_down));
        if names.is_empty() {
            return;
        }
        self.giving_up = names;
        self.take_proof();
        let living = self.giving_up.iter().filter(|name| !self.is_overdue_for(name));
        let living: Vec<UnitName> = living.cloned().collect();
        if living.len() == self.giving_up.len() {
            // The leases were renewed in time, so reconcile checks the units before it puts a
            // source.
            self.again = true;
            return;
        }
        // The lease of these units is valid, so they are not stopped with the others.
        for name in living {
            if !self.is_ours(&name) {
                continue;
            }
            self.giving_up.remove(&name);
            self.held.insert(name);
        }
        if self.take_over().await {
            self.put().await;
        }
    }

    /// Returns true if the unit belongs here and the snapshot shows our claim.
    fn is_ours(&self, name: &UnitName) -> bool {
        if !self.goal.get(name).is_some_and(|one| may_run(one, self.ttl)) {
            return false;
        }
        let snapshot = self.cache.snapshot();
        let claim = snapshot.claim_of(name, &self.me);
        claim.is_some_and(|claim| {
            registry::is_own_claim(claim, &self.instance)
                && !self.may_be_released(name, claim.modified)
        })
    }
}

/// Returns true if a mutant renews a lease that may have expired.
fn renews_expired_lease() -> bool {
    planted(Mutant::EndedLeaseAsked) || planted(Mutant::LeaderlessForLong)
}

/// Returns true if the unit may run with a claim.
fn may_run(wanted: &Wanted, ttl: Duration) -> bool {
    wanted.needs_claim() && refusal(wanted, ttl).is_none()
}

/// Returns why an exclusive unit does not run here even with a claim.
pub(super) fn refusal(wanted: &Wanted, ttl: Duration) -> Option<String> {
    if !wanted.content.asks.exclusive {
        return None;
    }
    fence::stops_in_time(&wanted.content, ttl).err()
}
