//! The claims of exclusive units: taken before the unit is handed to init, given back after
//! it is down, and given up while the lease that holds them can not have ended yet.

use super::Steward;
use crate::agent::{self, Wanted};
use crate::fence;
use crate::fleetd::init_socket::InitFault;
use crate::fleetd::voice;
use crate::mutant::{Mutant, planted};
use crate::picture::Picture;
use crate::registry;
use crate::store::Fault;
use crate::unit_name::UnitName;
use groundstate_units::control::answer::UnitStatus;
use groundstate_units::machine::reason::State;
use std::time::Duration;

impl Steward {
    /// Takes the claims of exclusive units that are to run here, gives back those of others.
    /// False: for now nobody knows whether one that is ours still is.
    pub(super) async fn claim(&mut self, picture: &Picture, lease: i64) -> bool {
        let there = |name: &UnitName| picture.claim_of(name, &self.me).map(|kept| kept.modified);
        self.released.retain(|name, revision| there(name) == Some(*revision));
        let answered = self.take_claims(picture, lease).await;
        let (goal, ttl) = (&self.goal, self.ttl);
        let wanted = |name: &UnitName| {
            let may = |one: &Wanted| one.needs_claim() && refusal(one, ttl).is_none();
            goal.get(name).is_some_and(may)
        };
        self.held.retain(wanted);
        self.claimed.retain(|name, _| wanted(name));
        // Those of an earlier run of the machine end with its lease.
        let is_ours = |name: &&UnitName| {
            let claim = picture.claim_of(name, &self.me);
            claim.is_some_and(|claim| registry::is_own_claim(claim, &self.instance))
        };
        let ours: Vec<&UnitName> = picture.claims.keys().filter(is_ours).collect();
        let open = ours.iter().any(|name| wanted(name) && !self.held.contains(*name));
        let left: Vec<&UnitName> = ours.into_iter().filter(|name| !wanted(name)).collect();
        self.release(picture, &left).await;
        // A sign of life may have come while the store was asked.
        self.take_proof();
        if !self.held.is_empty() && self.is_overdue() && !planted(Mutant::ClaimedUnproven) {
            // Asking took so long that the lease may end while what it holds begins: the guard
            // looks at it first.
            self.again = true;
            return false;
        }
        // A fleetd that begins anew finds claims of the one before it, and what they are for may
        // run: it is not stopped because an answer was lost.
        answered || !open || self.is_overdue() || planted(Mutant::UnansweredIsStopped)
    }

    /// False: not all that was asked was answered and so.
    async fn take_claims(&mut self, picture: &Picture, lease: i64) -> bool {
        let store = self.mirror.store().clone();
        let mut answered = true;
        for (name, wanted) in self.goal.clone() {
            // Asking for the one before took its time.
            self.take_proof();
            if !wanted.needs_claim() || refusal(&wanted, self.ttl).is_some() {
                continue;
            }
            let ours = picture.claim_of(&name, &self.me);
            let ours = ours.filter(|kept| !self.gave_back(&name, kept.modified));
            if ours.is_some_and(|kept| kept.lease == lease) {
                match self.is_overdue() {
                    // It was given up: held again with the next sign of life.
                    true => self.again |= !planted(Mutant::GivenUpForGood),
                    false => {
                        self.held.insert(name);
                    }
                }
                continue;
            }
            if ours.is_none() {
                let claimed = self.claimed.get(&name);
                if self.held.contains(&name) && claimed.is_some_and(|at| picture.revision < *at) {
                    continue;
                }
                // By what is known it is not ours (any more).
                self.held.remove(&name);
            }
            if self.is_overdue() && !planted(Mutant::ClaimedUnproven) {
                // A claim is worth nothing under a lease that may have ended.
                self.again = true;
                continue;
            }
            let us = (&self.me, self.instance.as_str());
            let Some(claim) = registry::claim(picture, us, &name, lease) else { continue };
            match self.in_time(store.commit(&claim)).await {
                Ok(Some(revision)) => {
                    self.claimed.insert(name.clone(), revision);
                    self.held.insert(name);
                }
                Ok(None) => (self.again, answered) = (true, false),
                // The store does not answer: what is held is guarded, not waited for.
                Err(_) => {
                    (self.again, answered) = (true, false);
                    break;
                }
            }
        }
        answered
    }

    /// That claim was given back, or may still be: an older picture does not know. It is made anew
    /// before it counts again, and what is on its way then does not land any more.
    fn gave_back(&self, name: &UnitName, revision: i64) -> bool {
        self.released.get(name) == Some(&revision) && !planted(Mutant::GivenBackCounts)
    }

    /// Gives back what is not to run here, when it is down.
    async fn release(&mut self, picture: &Picture, names: &[&UnitName]) {
        let store = self.mirror.store().clone();
        for name in names.iter().copied() {
            let up = match self.goal.get(name) {
                // How it fares is not known.
                _ if self.blind => true,
                // Another file under the same name: the claim is about the one before.
                Some(one) if !one.content.asks.exclusive => self.is_stopping(name),
                _ => {
                    let put = self.put.as_ref();
                    put.is_none_or(|put| agent::holds(put, name))
                        || !agent::is_down(self.unit_once_wanted(name))
                }
            };
            if up && !planted(Mutant::ReleasedWhileUp) {
                self.again = true;
            } else if let Some(release) = registry::release(picture, &self.me, name) {
                if let Some(kept) = picture.claim_of(name, &self.me) {
                    self.released.insert(name.clone(), kept.modified);
                }
                let landed = self.in_time(store.commit(&release)).await;
                self.again |= !matches!(landed, Ok(Some(_))) && !planted(Mutant::ReleasedOnce);
                if landed.is_err() {
                    // The store does not answer, nor will it for the next ones.
                    self.again = true;
                    return;
                }
            }
        }
    }

    /// What is asked of the store while exclusive units run here keeps nobody from looking at their
    /// lease when that is due.
    pub(super) fn in_time<T, C: Future<Output = Result<T, Fault>>>(
        &self,
        call: C,
    ) -> impl Future<Output = Result<T, Fault>> + use<T, C> {
        self.until_due(call, Fault::Unknown)
    }

    /// The same of init.
    pub(super) fn of_init<T, C: Future<Output = Result<T, InitFault>>>(
        &self,
        call: C,
    ) -> impl Future<Output = Result<T, InitFault>> + use<T, C> {
        self.until_due(call, InitFault::Gone)
    }

    fn until_due<T, F, C: Future<Output = Result<T, F>>>(
        &self,
        call: C,
        late: fn(String) -> F,
    ) -> impl Future<Output = Result<T, F>> + use<T, F, C> {
        let clock = self.mirror.clock().clone();
        let age = self.proof.map_or(Duration::MAX, |at| clock.since(at));
        let left = fence::patience(self.ttl).saturating_sub(age);
        let runs_on = !self.giving_up.is_empty() && !self.is_overdue();
        let bounded = !self.held.is_empty() || runs_on;
        async move {
            if !bounded {
                return call.await;
            }
            let late = || late("no answer before claims are to be looked at".to_string());
            clock.within(left, call).await.unwrap_or_else(|| Err(late()))
        }
    }

    /// Its file is not known any more: a native one has the name without the suffix.
    pub(super) fn unit_once_wanted(&self, name: &UnitName) -> Option<&UnitStatus> {
        self.units.get(name.as_str()).or_else(|| self.units.get(name.stem()))
    }

    fn is_stopping(&self, name: &UnitName) -> bool {
        self.unit_once_wanted(name).is_some_and(|unit| unit.state == State::Stopping)
    }

    /// Signs of life of another lease than the one that holds the claims prove nothing.
    pub(super) fn take_proof(&mut self) {
        let now = *self.presence.borrow();
        if now.lease.is_some() && now.lease == self.held_under {
            self.proof = now.proof.max(self.proof);
        }
    }

    /// Claims are made under this lease from now on.
    pub(super) fn hold_under(&mut self, lease: i64) {
        if self.held_under != Some(lease) {
            self.held_under = Some(lease);
            self.proof = None;
            self.claimed.clear();
        }
        self.take_proof();
    }

    fn is_older(&self, at: Option<Duration>, than: Duration) -> bool {
        at.is_none_or(|at| self.mirror.clock().since(at) > than)
    }

    fn is_overdue(&self) -> bool {
        let patience = fence::patience(self.ttl);
        self.is_older(self.proof, patience) && !planted(Mutant::NeverGivesUp)
    }

    /// Where no lease can end, ours lives only if it did not end before: a machine that has stood
    /// still for longer than its lease does not know.
    fn may_live(&self) -> bool {
        !self.is_older(self.proof, fence::life(self.ttl)) || planted(Mutant::LeaderlessForLong)
    }

    /// A machine that goes on after a pause asks for its sign of life just now: for what is left of
    /// the time to ask, its answer is waited for.
    async fn await_proof(&mut self, left: Duration) {
        let clock = self.mirror.clock().clone();
        let mut presence = self.presence.clone();
        let (until, waits) = (clock.now() + left, !planted(Mutant::SignNotAwaited));
        self.take_proof();
        while waits && self.is_overdue() {
            let left = until.saturating_sub(clock.now());
            if !matches!(clock.within(left, presence.changed()).await, Some(Ok(()))) {
                return;
            }
            self.take_proof();
        }
    }

    /// Gives exclusive units up before their lease can have ended: unless most members of
    /// etcd say that they have no leader, for then no lease can end either.
    pub(super) async fn guard_claims(&mut self) {
        self.give_up_again().await;
        if self.held.is_empty() {
            return;
        }
        self.take_proof();
        let silent = self.is_older(self.proof, self.ttl / 2);
        let asked_lately = !self.is_older(self.asked_members, fence::asking(self.ttl));
        if silent && !asked_lately {
            let clock = self.mirror.clock().clone();
            let began = clock.now();
            self.asked_members = Some(began);
            let patience = fence::asking(self.ttl);
            let asking = self.mirror.store().is_leaderless(patience * 3 / 4);
            if clock.within(patience, asking).await == Some(true)
                && !planted(Mutant::QuorumLossIsCutOff)
                && self.may_live()
            {
                self.proof = Some(began);
            }
            self.await_proof(patience.saturating_sub(clock.since(began))).await;
        }
        self.take_proof();
        if self.is_overdue() {
            let names: Vec<String> = self.held.iter().map(ToString::to_string).collect();
            voice::error(format_args!("cut off from etcd: {} given up", names.join(" ")));
            self.giving_up.append(&mut self.held);
            if self.begin().await {
                self.put().await;
            }
            self.again |= !planted(Mutant::GivenUpForGood);
        }
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
        names.retain(|name| !agent::is_down(self.unit_once_wanted(name)));
        if names.is_empty() {
            return;
        }
        self.giving_up = names;
        self.take_proof();
        if self.is_overdue() {
            if self.begin().await {
                self.put().await;
            }
        } else {
            // The lease lived all the while: what it holds is looked at anew before anything is put.
            self.again = true;
        }
    }
}

/// Why an exclusive unit is not run here though nobody else has its claim.
pub(super) fn refusal(wanted: &Wanted, ttl: Duration) -> Option<String> {
    if !wanted.content.asks.exclusive {
        return None;
    }
    fence::stops_in_time(&wanted.content, ttl).err()
}
