//! What the others are told of the units here: when it changes, many in one transaction,
//! each word bound to the one before it, so that one that comes late does not count.

use super::{UnitRunner, claims};
use crate::agent::{self, Wanted};
use crate::log;
use crate::mutant::{Mutant, planted};
use crate::record::StateRecord;
use crate::registry;
use crate::snapshot::Snapshot;
use crate::suspicious_read_guard::WITHHELD;
use crate::transaction::Transaction;
use crate::unit_name::UnitName;
use groundstate_units::control::source_set::SourceSet;
use groundstate_units::machine::reason::State;
use std::collections::BTreeMap;

/// Why what runs has another hash than its file.
const OLDER: &str = "it runs on as an older file has it: init has the new one, and begins nothing by it \
    before the unit is restarted";
/// States told in one transaction.
const STATES_AT_ONCE: usize = 100;

/// What was said of a unit last.
pub(super) struct Told {
    /// `None`: not known, or not by us.
    state: Option<StateRecord>,
    revision: i64,
}

impl UnitRunner {
    pub(super) async fn tell(&mut self, snapshot: &Snapshot, lease: i64) {
        let now = match &self.put {
            Some(put) => self.states(put, snapshot),
            None => match self.inability() {
                Some(why) => self.states_unseen(snapshot, &why),
                None => return,
            },
        };
        if self.told_under != Some(lease) {
            self.read_told(snapshot);
            self.told_under = Some(lease);
        }
        self.see_strays(snapshot);
        let left = |name: &&UnitName| !now.contains_key(*name) && !planted(Mutant::StateLeft);
        let gone = self.told.keys().filter(left).map(|name| (name.clone(), None));
        let said = |name: &UnitName| self.told.get(name).and_then(|told| told.state.as_ref());
        let fresh = now.iter().filter(|(name, state)| said(name) != Some(*state));
        let fresh = fresh.map(|(name, state)| (name.clone(), Some(state.clone())));
        let all: Vec<(UnitName, Option<StateRecord>)> = gone.chain(fresh).collect();
        for part in all.chunks(STATES_AT_ONCE) {
            if !self.tell_part(part, lease).await {
                // What is there is read before it is told again.
                self.told_under = None;
                self.etcd_failed = true;
                return;
            }
        }
    }

    /// As init says they are.
    fn states(&self, put: &SourceSet, snapshot: &Snapshot) -> BTreeMap<UnitName, StateRecord> {
        let state = |(name, wanted): (&UnitName, &Wanted)| {
            let complaint = agent::complaint(name, wanted, &self.complaints);
            let unit = agent::find(name, wanted, &self.units);
            let mut state = agent::state(name, wanted, put, unit, complaint);
            // What it tells of is what init had by then: who waits for another file waits on.
            if let Some(hash) = self.hashes.get(name) {
                state.hash.clone_from(hash);
            }
            if unit.is_some_and(|unit| unit.stale) {
                if let Some(hash) = self.hash_of_what_runs(snapshot, name) {
                    state.hash = hash;
                }
                // On its way down it makes room for what the new file says.
                let stays = unit.is_some_and(|unit| unit.state != State::Stopping);
                state.reason = state.reason.or_else(|| stays.then(|| OLDER.to_string()));
            }
            if wanted.refusal.is_none() {
                let is_put = agent::is_put(put, name, wanted);
                let unknown = if is_put { self.unheard() } else { self.inability() };
                state.reason = unknown.or(state.reason);
            }
            if let Some(refusal) = claims::refusal(wanted, self.ttl) {
                (state.load, state.reason) = ("error".to_string(), Some(refusal));
            }
            if self.withheld.contains(name) {
                state.reason = Some(WITHHELD.to_string());
            }
            (name.clone(), state)
        };
        self.goal.iter().map(state).collect()
    }

    /// What is beside a newer file, as far as it is known of what it was begun by: a fleetd before this one
    /// may have said so.
    fn hash_of_what_runs(&self, snapshot: &Snapshot, name: &UnitName) -> Option<String> {
        let told = snapshot.states.get(name).and_then(|by| by.get(&self.me));
        self.running.get(name).cloned().or_else(|| told.map(|kept| kept.record.hash.clone()))
    }

    /// Says what goes on here though etcd has nothing of it.
    pub(super) fn say_withheld(&mut self, snapshot: &Snapshot) {
        if self.withheld == snapshot.withheld {
            return;
        }
        self.withheld.clone_from(&snapshot.withheld);
        let names: Vec<String> = self.withheld.iter().map(ToString::to_string).collect();
        match names.is_empty() {
            true => log::info(format_args!("no unit goes on without a word of etcd any more")),
            false => log::error(format_args!("{}: {WITHHELD}", names.join(" "))),
        }
    }

    /// Why init has not what was put.
    pub(super) fn inability(&self) -> Option<String> {
        let of = "the init of this machine does not";
        if self.silent.is_some() {
            return Some(format!("{of} answer: {}", self.fault));
        }
        self.refused.as_ref().map(|why| format!("{of} take what is to run here: {why}"))
    }

    /// As they were told last, and why that may not be so any more.
    fn states_unseen(&self, snapshot: &Snapshot, why: &str) -> BTreeMap<UnitName, StateRecord> {
        let state = |(name, wanted): (&UnitName, &Wanted)| {
            let known = snapshot.states.get(name).and_then(|by| by.get(&self.me));
            (name.clone(), agent::state_unseen(wanted, known.map(|kept| &kept.record), why))
        };
        self.goal.iter().map(state).collect()
    }

    /// What an earlier run of ours told is not bound to this lease: it is told anew.
    fn read_told(&mut self, snapshot: &Snapshot) {
        self.told.clear();
        for (name, by) in &snapshot.states {
            if let Some(kept) = by.get(&self.me) {
                self.told.insert(name.clone(), Told { state: None, revision: kept.modified });
            }
        }
    }

    /// What was told without our hearing of it, and landed since: a word nobody knows of would
    /// outlive its unit. A snapshot older than our own words is looked at again when it is newer: what
    /// makes it so need not concern us.
    fn see_strays(&mut self, snapshot: &Snapshot) {
        if planted(Mutant::StrayLeft) {
            return;
        }
        for (name, by) in &snapshot.states {
            let Some(kept) = by.get(&self.me) else { continue };
            if self.has_told(name, kept.modified) {
                continue;
            }
            if snapshot.revision < self.told_at {
                self.etcd_failed = true;
                return;
            }
            let stray = Told { state: None, revision: kept.modified };
            self.told.insert(name.clone(), stray);
        }
    }

    /// We know of that word.
    pub(super) fn has_told(&self, name: &UnitName, revision: i64) -> bool {
        self.told.get(name).is_some_and(|told| told.revision >= revision)
    }

    async fn tell_part(&mut self, part: &[(UnitName, Option<StateRecord>)], lease: i64) -> bool {
        let mut transaction = Transaction::default();
        for (name, state) in part {
            let last = self.told.get(name).map(|told| told.revision);
            let keys = self.cache.keys();
            let one = registry::publish(keys, &self.me, name, state.as_ref(), last, lease);
            transaction = transaction.and(one);
        }
        let store = self.cache.store().clone();
        let Ok(Some(revision)) = self.in_time(store.commit(&transaction)).await else {
            return false;
        };
        self.told_at = revision;
        for (name, state) in part {
            match state {
                Some(_) => {
                    self.told.insert(name.clone(), Told { state: state.clone(), revision });
                }
                None => {
                    self.told.remove(name);
                }
            }
        }
        true
    }
}
