//! Publishes the unit states of this machine when they change, many in one transaction. Each write
//! requires the revision of the previous one, so that a late write fails.

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

/// Explains that a running process has another hash than the unit's file.
const OLDER: &str = "still running with an older file: init has the new file and uses it at the \
    next start of the unit";
/// States per transaction.
const STATES_AT_ONCE: usize = 100;

/// The last published state of a unit.
pub(super) struct Published {
    /// `None` if unknown or not published by this fleetd.
    state: Option<StateRecord>,
    revision: i64,
}

impl UnitRunner {
    pub(super) async fn publish(&mut self, snapshot: &Snapshot, lease: i64) {
        let now = match &self.put {
            Some(put) => self.states(put, snapshot),
            None => match self.why_not_put() {
                Some(why) => self.last_states(snapshot, &why),
                None => return,
            },
        };
        if self.published_under != Some(lease) {
            self.read_published(snapshot);
            self.published_under = Some(lease);
        }
        self.find_strays(snapshot);
        let left = |name: &&UnitName| !now.contains_key(*name) && !planted(Mutant::StateLeft);
        let gone = self.published.keys().filter(left).map(|name| (name.clone(), None));
        let published_state = |name: &UnitName| {
            self.published.get(name).and_then(|published| published.state.as_ref())
        };
        let fresh = now.iter().filter(|(name, state)| published_state(name) != Some(*state));
        let fresh = fresh.map(|(name, state)| (name.clone(), Some(state.clone())));
        let all: Vec<(UnitName, Option<StateRecord>)> = gone.chain(fresh).collect();
        for part in all.chunks(STATES_AT_ONCE) {
            if !self.publish_part(part, lease).await {
                // The stored revisions are read again before the next write.
                self.published_under = None;
                self.etcd_failed = true;
                return;
            }
        }
    }

    /// Returns the states that init reports.
    fn states(&self, put: &SourceSet, snapshot: &Snapshot) -> BTreeMap<UnitName, StateRecord> {
        let state = |(name, wanted): (&UnitName, &Wanted)| {
            let complaint = agent::complaint(name, wanted, &self.complaints);
            let unit = agent::find(name, wanted, &self.units);
            let mut state = agent::state(name, wanted, put, unit, complaint);
            // The states are from before the last put, so they carry the hashes of that time. A
            // client that waits for the new hash keeps waiting.
            if let Some(hash) = self.hashes.get(name) {
                state.hash.clone_from(hash);
            }
            if unit.is_some_and(|unit| unit.stale) {
                if let Some(hash) = self.running_hash(snapshot, name) {
                    state.hash = hash;
                }
                // A stopping unit will restart with the new file.
                let stays = unit.is_some_and(|unit| unit.state != State::Stopping);
                state.reason = state.reason.or_else(|| stays.then(|| OLDER.to_string()));
            }
            if wanted.refusal.is_none() {
                let is_put = agent::is_put(put, name, wanted);
                let unknown =
                    if is_put { self.why_states_are_unknown() } else { self.why_not_put() };
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

    /// Returns the file hash of a running process next to a newer file, if known; a previous fleetd
    /// may have published it.
    fn running_hash(&self, snapshot: &Snapshot, name: &UnitName) -> Option<String> {
        let published = snapshot.states.get(name).and_then(|by| by.get(&self.me));
        self.running.get(name).cloned().or_else(|| published.map(|kept| kept.record.hash.clone()))
    }

    /// Logs changes of the withheld units.
    pub(super) fn log_withheld(&mut self, snapshot: &Snapshot) {
        if self.withheld == snapshot.withheld {
            return;
        }
        self.withheld.clone_from(&snapshot.withheld);
        let names: Vec<String> = self.withheld.iter().map(ToString::to_string).collect();
        match names.is_empty() {
            true => log::info(format_args!("no units are withheld now")),
            false => log::error(format_args!("{}: {WITHHELD}", names.join(" "))),
        }
    }

    /// Returns why init does not have the current set.
    pub(super) fn why_not_put(&self) -> Option<String> {
        let of = "the init of this machine does not";
        if self.silent.is_some() {
            return Some(format!("{of} answer: {}", self.fault));
        }
        self.refused.as_ref().map(|why| format!("{of} accept the units of this machine: {why}"))
    }

    /// Returns the last published states, with the reason why they may be stale.
    fn last_states(&self, snapshot: &Snapshot, why: &str) -> BTreeMap<UnitName, StateRecord> {
        let state = |(name, wanted): (&UnitName, &Wanted)| {
            let known = snapshot.states.get(name).and_then(|by| by.get(&self.me));
            (name.clone(), agent::last_state(wanted, known.map(|kept| &kept.record), why))
        };
        self.goal.iter().map(state).collect()
    }

    /// States published by an earlier fleetd are not bound to this lease and are published again.
    fn read_published(&mut self, snapshot: &Snapshot) {
        self.published.clear();
        for (name, by) in &snapshot.states {
            if let Some(kept) = by.get(&self.me) {
                self.published
                    .insert(name.clone(), Published { state: None, revision: kept.modified });
            }
        }
    }

    /// Finds states of earlier writes with an unknown result that etcd has applied. Otherwise such
    /// a state would stay after its unit is gone. A snapshot older than our own writes cannot tell;
    /// the check is repeated.
    fn find_strays(&mut self, snapshot: &Snapshot) {
        if planted(Mutant::StrayLeft) {
            return;
        }
        for (name, by) in &snapshot.states {
            let Some(kept) = by.get(&self.me) else { continue };
            if self.has_published(name, kept.modified) {
                continue;
            }
            if snapshot.revision < self.published_at {
                self.etcd_failed = true;
                return;
            }
            let stray = Published { state: None, revision: kept.modified };
            self.published.insert(name.clone(), stray);
        }
    }

    /// Returns true if the state was published by this fleetd.
    pub(super) fn has_published(&self, name: &UnitName, revision: i64) -> bool {
        self.published.get(name).is_some_and(|published| published.revision >= revision)
    }

    async fn publish_part(&mut self, part: &[(UnitName, Option<StateRecord>)], lease: i64) -> bool {
        let mut transaction = Transaction::default();
        for (name, state) in part {
            let last = self.published.get(name).map(|published| published.revision);
            let keys = self.cache.keys();
            let one = registry::publish(keys, &self.me, name, state.as_ref(), last, lease);
            transaction = transaction.and(one);
        }
        let store = self.cache.store().clone();
        let Ok(Some(revision)) = self.in_time(store.commit(&transaction)).await else {
            return false;
        };
        self.published_at = revision;
        for (name, state) in part {
            match state {
                Some(_) => {
                    self.published
                        .insert(name.clone(), Published { state: state.clone(), revision });
                }
                None => {
                    self.published.remove(name);
                }
            }
        }
        true
    }
}
