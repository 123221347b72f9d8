//! The claims of exclusive units: taken before the unit is handed to init, given back after
//! it is down, and given up while the lease that holds them can not have ended yet.

use super::UnitRunner;
use crate::agent::{self, Wanted};
use crate::fence::{self, Worth};
use crate::log;
use crate::mutant::{Mutant, planted};
use crate::registry;
use crate::snapshot::Snapshot;
use crate::store::Fault;
use crate::unit_name::UnitName;
use std::collections::BTreeSet;
use std::time::Duration;

impl UnitRunner {
    /// Takes the claims of exclusive units that are to run here, gives back those of others.
    /// False: for now nobody knows whether one that is ours still is.
    pub(super) async fn claim(&mut self, snapshot: &Snapshot, lease: i64) -> bool {
        let there = |name: &UnitName| snapshot.claim_of(name, &self.me).map(|kept| kept.modified);
        self.released.retain(|name, revision| there(name) == Some(*revision));
        let answered = self.take_claims(snapshot, lease).await;
        let (goal, ttl) = (&self.goal, self.ttl);
        let wanted = |name: &UnitName| goal.get(name).is_some_and(|one| may_run(one, ttl));
        // As long as init has it, it is to be stopped whatever becomes of the lease.
        self.giving_up.extend(self.held.iter().filter(|name| !wanted(name)).cloned());
        self.held.retain(wanted);
        let guarded = |name: &UnitName| self.held.contains(name) || self.giving_up.contains(name);
        self.earlier.retain(|name, _| guarded(name));
        self.claimed.retain(|name, _| wanted(name));
        // Those of an earlier run of the machine end with its lease.
        let is_ours = |name: &&UnitName| {
            let claim = snapshot.claim_of(name, &self.me);
            claim.is_some_and(|claim| registry::is_own_claim(claim, &self.instance))
        };
        let ours: Vec<&UnitName> = snapshot.claims.keys().filter(is_ours).collect();
        let open = ours.iter().any(|name| wanted(name) && !self.held.contains(*name));
        let left: Vec<&UnitName> = ours.into_iter().filter(|name| !wanted(name)).collect();
        self.release(snapshot, &left).await;
        // A sign of life may have come while the store was asked.
        self.take_proof();
        self.see_claims();
        // What follows may take long, and what was learnt is worth more to a fleetd after this one.
        self.remember_claims();
        let overdue = self.held.iter().any(|name| self.is_overdue_for(name));
        if overdue && !planted(Mutant::ClaimedUnproven) {
            // Asking took so long that the lease may end while what it holds begins: the guard
            // looks at it first.
            self.again = true;
            return false;
        }
        // Who knows nothing of the fleetd before it, for what was kept is lost, finds its claims all the
        // same, and what they are for may run: it is not stopped because an answer was lost.
        answered || !open || self.is_overdue()
    }

    /// False: not all that was asked was answered and so.
    async fn take_claims(&mut self, snapshot: &Snapshot, lease: i64) -> bool {
        let store = self.cache.store().clone();
        let mut answered = true;
        for (name, wanted) in self.goal.clone() {
            // Asking for the one before took its time.
            self.take_proof();
            if !may_run(&wanted, self.ttl) {
                continue;
            }
            let ours = snapshot.claim_of(&name, &self.me);
            let ours = ours.filter(|kept| !self.gave_back(&name, kept.modified));
            if ours.is_some_and(|kept| kept.lease == lease) {
                match self.is_overdue() {
                    // It was given up: held again with the next sign of life.
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
                // By what is known it is not ours (any more).
                self.giving_up.extend(self.held.take(&name));
            }
            if self.is_overdue() && !planted(Mutant::ClaimedUnproven) {
                // A claim is worth nothing under a lease that may have ended.
                self.etcd_failed = true;
                continue;
            }
            let us = (&self.me, self.instance.as_str());
            let Some(claim) = registry::claim(snapshot, us, &name, lease) else { continue };
            self.may_be_rebound(&name);
            match self.in_time(store.commit(&claim)).await {
                Ok(Some(revision)) => {
                    self.claimed.insert(name.clone(), revision);
                    self.hold(name);
                }
                Ok(None) => (self.etcd_failed, answered) = (true, false),
                // The store does not answer: what is held is guarded, not waited for.
                Err(_) => {
                    (self.etcd_failed, answered) = (true, false);
                    break;
                }
            }
        }
        answered
    }

    /// Its claim is made anew under the present lease, or is not, as long as that is not answered:
    /// it ends with the first of the two. The next fleetd has to know that as well.
    fn may_be_rebound(&mut self, name: &UnitName) {
        let before = self.worth_of(name);
        if self.earlier.contains_key(name) {
            self.asked_anew.insert(name.clone());
        }
        if self.worth_of(name) != before {
            self.remember_claims();
        }
    }

    /// Its claim is made under the present lease.
    fn hold(&mut self, name: UnitName) {
        self.earlier.remove(&name);
        self.held.insert(name);
    }

    /// That claim was given back, or may still be: an older snapshot does not know. It is made anew
    /// before it counts again, and what is on its way then does not land any more.
    fn gave_back(&self, name: &UnitName, revision: i64) -> bool {
        self.released.get(name) == Some(&revision) && !planted(Mutant::GivenBackCounts)
    }

    /// What is asked of the store while exclusive units run here keeps nobody from looking at their
    /// lease when that is due.
    pub(super) fn in_time<T, C: Future<Output = Result<T, Fault>>>(
        &self,
        call: C,
    ) -> impl Future<Output = Result<T, Fault>> + use<T, C> {
        self.until_due(call, Fault::Unknown)
    }

    /// The same of whatever is asked.
    pub(super) fn until_due<T, F, C: Future<Output = Result<T, F>>>(
        &self,
        call: C,
        late: fn(String) -> F,
    ) -> impl Future<Output = Result<T, F>> + use<T, F, C> {
        let clock = self.cache.clock().clone();
        let now = clock.now();
        // What is overdue is not to be saved by hurry.
        let giving_up = self.giving_up.iter().filter(|name| !self.is_overdue_for(name));
        let guarded = self.held.iter().chain(giving_up);
        let left = guarded.map(|name| self.worth_of(name).left(now, fence::patience)).min();
        async move {
            let Some(left) = left else { return call.await };
            let late = || late("no answer before claims are to be looked at".to_string());
            clock.within(left, call).await.unwrap_or_else(|| Err(late()))
        }
    }

    /// Signs of life of another lease than the one that holds the claims prove nothing.
    pub(super) fn take_proof(&mut self) {
        let now = *self.machine_lease.borrow();
        if now.lease.is_some() && now.lease == self.held_under {
            self.proof = now.proof.max(self.proof);
        }
    }

    /// Claims are made under this lease from now on. Until those that are there are, they may end
    /// with the lease before.
    pub(super) fn hold_under(&mut self, lease: i64) {
        if self.held_under != Some(lease) {
            let guarded = self.held.union(&self.giving_up);
            self.earlier = guarded.map(|name| (name.clone(), self.worth_of(name))).collect();
            self.asked_anew.clear();
            if planted(Mutant::ProvedByAnother) {
                self.earlier.clear();
            }
            self.held_under = Some(lease);
            self.proof = None;
            self.claimed.clear();
        }
        self.take_proof();
    }

    /// What is claimed under the present lease is to be given up.
    pub(super) fn is_overdue(&self) -> bool {
        self.is_worthless(self.worth())
    }

    fn is_overdue_for(&self, name: &UnitName) -> bool {
        self.is_worthless(self.worth_of(name))
    }

    fn is_worthless(&self, worth: Worth) -> bool {
        worth.is_past(self.cache.clock().now(), fence::patience) && !planted(Mutant::NeverGivesUp)
    }

    /// That a claim is made anew under the present lease may be seen before it is answered.
    fn see_claims(&mut self) {
        let (snapshot, me, lease) = (self.cache.snapshot(), &self.me, self.held_under);
        self.earlier.retain(|name, _| {
            let kept = snapshot.claim_of(name, me);
            kept.is_none_or(|kept| Some(kept.lease) != lease)
        });
    }

    /// Of a claim under the present lease.
    fn worth(&self) -> Worth {
        Worth { proof: self.proof, ttl: self.ttl }
    }

    pub(super) fn worth_of(&self, name: &UnitName) -> Worth {
        match self.earlier.get(name) {
            None => self.worth(),
            Some(earlier) if self.asked_anew.contains(name) => earlier.or_less(self.worth()),
            Some(earlier) => *earlier,
        }
    }

    /// No lease can end since then. Ours lives only if it did not end before: a machine that has
    /// stood still for longer than its lease does not know.
    fn take_for_proof(&mut self, at: Duration) {
        let now = self.cache.clock().now();
        let mut own = self.worth();
        for worth in self.earlier.values_mut().chain([&mut own]) {
            if !worth.is_past(now, fence::life) || planted(Mutant::LeaderlessForLong) {
                worth.proof = Some(at);
            }
        }
        self.proof = own.proof;
    }

    /// A machine that goes on after a pause asks for its sign of life just now: for what is left of
    /// the time to ask, its answer is waited for.
    async fn await_proof(&mut self, left: Duration) {
        let clock = self.cache.clock().clone();
        let mut machine_lease = self.machine_lease.clone();
        // What is claimed under an earlier lease is not worth more by it.
        let present = self.held.iter().any(|name| !self.earlier.contains_key(name));
        let (until, waits) = (clock.now() + left, present && !planted(Mutant::SignNotAwaited));
        self.take_proof();
        while waits && self.is_overdue() {
            let left = until.saturating_sub(clock.now());
            if !matches!(clock.within(left, machine_lease.changed()).await, Some(Ok(()))) {
                return;
            }
            self.take_proof();
        }
    }

    /// When the first of what is held is to be given up, unless a sign of life comes before.
    pub(super) fn due(&self) -> Option<Duration> {
        self.held.iter().map(|name| self.worth_of(name).end()).min()
    }

    /// For init's watch over this process: a fleetd that hangs is killed by that deadline.
    pub(super) fn tell_deadline(&self) {
        let each = self.held.iter().map(|name| self.worth_of(name));
        let last = each.map(|worth| worth.end() + fence::asking(worth.ttl)).min();
        self.guarded.send_if_modified(|told| std::mem::replace(told, last) != last);
    }

    /// Gives exclusive units up before their lease can have ended: unless most members of
    /// etcd say that they have no leader, for then no lease can end either.
    pub(super) async fn guard_claims(&mut self) {
        // After so long another machine may run the units: they are given up without a question. A
        // fleetd that was started again has spent the time for questions on its restart.
        let part = if self.held_under.is_some() { fence::life } else { fence::unanswered };
        if !asks_in_vain() {
            self.give_up_after(part).await;
        }
        self.give_up_again().await;
        if self.held.is_empty() {
            return;
        }
        self.take_proof();
        self.ask_for_leases().await;
        self.give_up_after(fence::patience).await;
    }

    /// Where nothing was heard of a lease for long, it may live all the same: the members are asked
    /// for a leader, and a sign of life that is on its way is waited for.
    async fn ask_for_leases(&mut self) {
        let worths: Vec<Worth> = self.held.iter().map(|name| self.worth_of(name)).collect();
        let clock = self.cache.clock().clone();
        let began = clock.now();
        let silent = worths.iter().any(|worth| worth.is_past(began, |ttl| ttl / 2));
        let ttl = worths.iter().map(|worth| worth.ttl).min().unwrap_or(self.ttl);
        let asked = Worth { proof: self.asked_members, ttl };
        if !silent || !asked.is_past(began, fence::asking) {
            return;
        }
        self.asked_members = Some(began);
        let patience = match asks_in_vain() {
            true => fence::asking(ttl),
            false => fence::asking_for(&worths, began),
        };
        let asking = self.cache.store().is_leaderless(patience * 3 / 4);
        if clock.within(patience, asking).await == Some(true)
            && !planted(Mutant::QuorumLossIsCutOff)
        {
            self.take_for_proof(began);
        }
        self.await_proof(patience.saturating_sub(clock.since(began))).await;
    }

    /// Those whose lease was not proved for longer than that part of it.
    async fn give_up_after(&mut self, part: fn(Duration) -> Duration) {
        self.take_proof();
        self.see_claims();
        let now = self.cache.clock().now();
        let is_over = |name: &&UnitName| self.worth_of(name).is_past(now, part);
        let mut over: BTreeSet<UnitName> = self.held.iter().filter(is_over).cloned().collect();
        if over.is_empty() || planted(Mutant::NeverGivesUp) {
            return;
        }
        let names: Vec<String> = over.iter().map(ToString::to_string).collect();
        log::error(format_args!("cut off from etcd: {} given up", names.join(" ")));
        self.held.retain(|name| !over.contains(name));
        self.giving_up.append(&mut over);
        self.tell_deadline();
        if self.begin().await {
            self.put().await;
        }
        self.again |= !planted(Mutant::GivenUpForGood);
    }

    /// init did not take it: it is told again, whatever becomes of the lease, as long as it runs
    /// what was given up. Else nothing is put: a machine that is in no cluster begins nothing.
    async fn give_up_again(&mut self) {
        if self.giving_up.is_empty() {
            return;
        }
        self.look().await;
        if self.blind {
            return;
        }
        let mut names = std::mem::take(&mut self.giving_up);
        // What waits for its next try, or is needed for another reason, may run again.
        names.retain(|name| !self.all_of(name, agent::is_out));
        if names.is_empty() {
            return;
        }
        self.giving_up = names;
        self.take_proof();
        let living = self.giving_up.iter().filter(|name| !self.is_overdue_for(name));
        let living: Vec<UnitName> = living.cloned().collect();
        if living.len() == self.giving_up.len() {
            // The lease lived all the while: what it holds is looked at anew before anything is put.
            self.again = true;
            return;
        }
        // It is not stopped with the others.
        for name in living {
            if !self.is_ours(&name) {
                continue;
            }
            self.giving_up.remove(&name);
            self.held.insert(name);
        }
        if self.begin().await {
            self.put().await;
        }
    }

    /// It is to run here, and its claim is ours, by what is known.
    fn is_ours(&self, name: &UnitName) -> bool {
        if !self.goal.get(name).is_some_and(|one| may_run(one, self.ttl)) {
            return false;
        }
        let snapshot = self.cache.snapshot();
        let claim = snapshot.claim_of(name, &self.me);
        claim.is_some_and(|claim| {
            registry::is_own_claim(claim, &self.instance) && !self.gave_back(name, claim.modified)
        })
    }
}

/// For a lease that may have ended.
fn asks_in_vain() -> bool {
    planted(Mutant::EndedLeaseAsked) || planted(Mutant::LeaderlessForLong)
}

/// By a claim.
fn may_run(wanted: &Wanted, ttl: Duration) -> bool {
    wanted.needs_claim() && refusal(wanted, ttl).is_none()
}

/// Why an exclusive unit is not run here though nobody else has its claim.
pub(super) fn refusal(wanted: &Wanted, ttl: Duration) -> Option<String> {
    if !wanted.content.asks.exclusive {
        return None;
    }
    fence::stops_in_time(&wanted.content, ttl).err()
}
