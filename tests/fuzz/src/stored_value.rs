//! Checks of the fuzz target `stored_value` for any keys and values written to the cluster's etcd:
//!
//! - A key is one of ours or is ignored.
//! - A value is a record that is encoded again unchanged, or is set aside while the previous one
//!   stays.
//! - Everything else is unchanged. Unreadable values take no unit from its machine.
//! - Engine, agent and API continue.
//!
//! [`written`] turns bytes into keys and values; a first byte above 127 composes them.

use super::fleet::{entries, keys, machine};
use super::written;
use cluster::agent::{self, Goal};
use cluster::api::answer::Outcome;
use cluster::api::caller::Caller;
use cluster::api::change_stream;
use cluster::api::request::{Request, escape};
use cluster::api::route::decide;
use cluster::api::view::View;
use cluster::engine::Engine;
use cluster::key::Subject;
use cluster::machine::MachineId;
use cluster::memory_store::MemoryStore;
use cluster::record::{
    self, ClaimRecord, ClusterRecord, DesiredRecord, DrainRecord, LARGEST, Leader, MachineRecord,
    MetadataRecord, PlaceRecord, ScheduleRecord, StateRecord, UnitRecord, WhyRecord,
};
use cluster::registry::Epoch;
use cluster::snapshot::{Kept, Snapshot};
use cluster::transaction::{Change, MOST_OPERATIONS, Transaction};
use cluster::unit_name::UnitName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::OnceLock;
use std::time::Duration;

/// The maximum number of keys that one input writes.
const MOST_WRITES: usize = 8;

/// The results of the writes.
pub struct Found {
    /// The cluster, read again.
    pub snapshot: Snapshot,
    /// The readable records.
    pub read: Vec<Subject>,
}

/// The results, if one of the values was a record. Panics if a promise is broken.
pub fn stored_value(bytes: &[u8]) -> Option<Found> {
    let (first, rest) = bytes.split_first()?;
    let writes = if *first < 128 { written::plain(rest) } else { written::composed(rest) };
    let work = at_work();
    let mut store = work.store.clone();
    let mut touched: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for (key, value) in writes.into_iter().take(MOST_WRITES) {
        // Each key once: the previous value is then that of the running cluster.
        if touched.contains_key(&key) {
            continue;
        }
        every_record(&value);
        let write = Transaction::default().put(key.clone(), value.clone());
        assert!(store.commit(&write).is_some());
        touched.insert(key, value);
    }
    let changes = store.changes_since(work.snapshot.revision).expect("nothing was compacted");
    let changes: Vec<Change> = changes.into_iter().map(|(_, change)| change).collect();
    let mut watched = work.snapshot.clone();
    watched.take(&changes);
    let reread = work.snapshot.read_again(&store.read(keys().root()));
    let read = judged(&touched, [&watched, &reread]);
    if read.is_empty() {
        for snapshot in [&watched, &reread] {
            let goal = agent::goal(snapshot, &machine("m2"), &work.goal);
            assert_eq!(goal, work.goal, "what runs is let go");
        }
    }
    led(&store, read.is_empty());
    asked(&mut store, &touched, &changes);
    (!read.is_empty()).then_some(Found { snapshot: reread, read })
}

/// The records among the written values. Checks that each snapshot contains them and nothing else.
fn judged(touched: &BTreeMap<String, Vec<u8>>, snapshots: [&Snapshot; 2]) -> Vec<Subject> {
    let mut read = Vec::new();
    for (key, value) in touched {
        let subject = keys().subject(key);
        assert!(subject.as_ref().is_none_or(|subject| keys().of(subject) == *key), "{key}");
        let is_read = subject.as_ref().is_some_and(|subject| is_record(subject, value));
        for snapshot in snapshots {
            let is_aside = snapshot.set_aside.contains_key(key);
            assert_eq!(is_aside, subject.is_some() && !is_read, "{key}: {:?}", snapshot.set_aside);
        }
        read.extend(subject.filter(|_| is_read));
    }
    let was = &at_work().facts;
    for snapshot in snapshots {
        assert!(snapshot.set_aside.keys().all(|key| touched.contains_key(key)));
        let now = facts(snapshot);
        // A claim exists whatever its value.
        let is_claim = |key: &String| matches!(keys().subject(key), Some(Subject::Claim(..)));
        let stays = |key: &String| {
            !touched.contains_key(key) || (snapshot.set_aside.contains_key(key) && !is_claim(key))
        };
        for (key, said) in was.iter().filter(|(key, _)| stays(key)) {
            assert_eq!(now.get(key), Some(said), "{key}");
        }
        assert!(now.keys().all(|key| was.contains_key(key) || touched.contains_key(key)));
        assert!(read.iter().all(|subject| now.contains_key(&keys().of(subject))));
    }
    read
}

/// Runs the engine on it; unreadable values move no unit from its machine.
fn led(store: &MemoryStore, is_garbage: bool) {
    let reading = store.read(keys().root());
    let mut engine = Engine::new(keys(), &reading, Duration::ZERO, Duration::ZERO);
    for task in engine.tasks(Epoch(1), Duration::ZERO) {
        assert!(task.transaction.fits_in(MOST_OPERATIONS));
        let placed = &at_work().snapshot.places;
        let mut left = task.moves.iter().filter(|it| placed.contains_key(&it.unit));
        let left = left.find(|it| it.from.is_some() && is_garbage);
        assert!(left.is_none(), "moved because of an unreadable value: {left:?}");
    }
}

/// Checks that the API answers any request, and can read what it writes.
fn asked(store: &mut MemoryStore, touched: &BTreeMap<String, Vec<u8>>, changes: &[Change]) {
    for change in changes {
        change_stream::event_of(&keys(), change);
    }
    let lists = ["units", "state", "machines"].map(|list| format!("/fleet/v1/{list}"));
    let mut paths: BTreeSet<(&str, String)> = lists.into_iter().map(|it| ("GET", it)).collect();
    for key in touched.keys() {
        let name = escape(key.rsplit('/').next().unwrap_or_default());
        for kind in ["units", "why", "state"] {
            paths.insert(("GET", format!("/fleet/v1/{kind}/{name}")));
        }
        paths.insert(("PUT", format!("/fleet/v1/units/{name}")));
        paths.insert(("DELETE", format!("/fleet/v1/units/{name}")));
        paths.insert(("DELETE", format!("/fleet/v1/drain/{name}")));
    }
    let mut snapshot = Snapshot::of(keys(), &store.read(keys().root()));
    for (method, path) in paths {
        let request = Request {
            method: method.to_string(),
            path,
            content_types: vec!["application/json".to_string()],
            body: br#"{"desiredState":"loaded"}"#.to_vec(),
            caller: Caller::local(),
            ..Request::default()
        };
        let view = View { now: &snapshot, then: None, limit: 3, insecure: false };
        let answer = match decide(&request, &view) {
            Outcome::Answer(answer) => answer,
            Outcome::Write(transaction, answer) => {
                assert!(transaction.fits_in(MOST_OPERATIONS), "{request:?}");
                assert!(store.commit(&transaction).is_some(), "{request:?}");
                let after = Snapshot::of(keys(), &store.read(keys().root()));
                let known = |key: &String| snapshot.set_aside.contains_key(key);
                assert!(after.set_aside.keys().all(known), "{request:?} wrote what is no record");
                snapshot = after;
                answer
            }
        };
        assert!(answer.status < 500, "{request:?}: {answer:?}");
        if answer.content_type == Some("application/json") && answer.status != 204 {
            let body: Result<serde_json::Value, _> = serde_json::from_slice(&answer.body);
            assert!(body.is_ok(), "{request:?}: {answer:?}");
        }
    }
}

/// The cluster before the writes.
struct Work {
    snapshot: Snapshot,
    store: MemoryStore,
    facts: BTreeMap<String, String>,
    /// The goal of its second machine.
    goal: Goal,
}

fn at_work() -> &'static Work {
    static WORK: OnceLock<Work> = OnceLock::new();
    WORK.get_or_init(|| {
        let mut store = MemoryStore::default();
        for (key, value) in entries() {
            store.commit(&Transaction::default().put(key, value));
        }
        let reading = store.read(keys().root());
        let snapshot = Snapshot::of(keys(), &reading);
        assert!(snapshot.set_aside.is_empty(), "{:?}", snapshot.set_aside);
        let mut engine = Engine::new(keys(), &reading, Duration::ZERO, Duration::ZERO);
        let tasks = engine.tasks(Epoch(1), Duration::ZERO);
        assert!(tasks.iter().all(|task| task.moves.is_empty()), "it is at rest: {tasks:?}");
        let goal = agent::goal(&snapshot, &machine("m2"), &Goal::new());
        assert_eq!(goal.len(), 3, "{:?}", goal.keys());
        Work { facts: facts(&snapshot), snapshot, store, goal }
    })
}

/// Parses the value as each kind of record: it is encoded again unchanged, or is none.
fn every_record(value: &[u8]) {
    comes_back::<ClusterRecord>(value);
    comes_back::<Leader>(value);
    comes_back::<UnitRecord>(value);
    comes_back::<DesiredRecord>(value);
    comes_back::<PlaceRecord>(value);
    comes_back::<ScheduleRecord>(value);
    comes_back::<WhyRecord>(value);
    comes_back::<MachineRecord>(value);
    comes_back::<ClaimRecord>(value);
    comes_back::<MetadataRecord>(value);
    comes_back::<DrainRecord>(value);
    comes_back::<StateRecord>(value);
}

fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &[u8]) {
    let Ok(record) = record::decode::<T>(value) else { return };
    let written = record::encode(&record);
    // An escape such as `\n` takes more than a byte, so the written value may be too large.
    let again = record::decode::<T>(&written);
    assert!(written.len() > LARGEST || again.as_ref() == Ok(&record), "{record:?}: {again:?}");
}

/// Returns true if the value is a record for that key.
fn is_record(subject: &Subject, value: &[u8]) -> bool {
    match subject {
        Subject::Cluster => record::decode::<ClusterRecord>(value).is_ok(),
        Subject::Leader => record::decode::<Leader>(value).is_ok(),
        Subject::Unit(_) => {
            record::decode::<UnitRecord>(value).is_ok_and(|unit| unit.options.check().is_ok())
        }
        Subject::Desired(_) => record::decode::<DesiredRecord>(value).is_ok(),
        Subject::Place(_) => record::decode::<PlaceRecord>(value).is_ok(),
        Subject::Schedule(..) | Subject::Global(_) => {
            record::decode::<ScheduleRecord>(value).is_ok()
        }
        Subject::Why(_) => record::decode::<WhyRecord>(value).is_ok(),
        Subject::Claim(..) => record::decode::<ClaimRecord>(value).is_ok(),
        Subject::Machine(_) => record::decode::<MachineRecord>(value).is_ok(),
        Subject::Metadata(..) => record::decode::<MetadataRecord>(value).is_ok(),
        // The key alone has the information.
        Subject::Drain(_) => true,
        Subject::State(..) => record::decode::<StateRecord>(value).is_ok(),
    }
}

/// The facts of a snapshot by their keys.
fn facts(snapshot: &Snapshot) -> BTreeMap<String, String> {
    fn said<T: Debug>(kept: &Kept<T>) -> String {
        format!("{:?} {} {}", kept.record, kept.created, kept.modified)
    }
    let mut all = BTreeMap::new();
    let mut note = |subject: Subject, said: String| {
        all.insert(snapshot.keys().of(&subject), said);
    };
    snapshot.cluster.iter().for_each(|kept| note(Subject::Cluster, said(kept)));
    snapshot.leader.iter().for_each(|kept| note(Subject::Leader, said(kept)));
    for (name, kept) in &snapshot.units {
        let Kept { record, modified, .. } = kept;
        let file = format!("{:?} {:?} {modified}", record.file, record.signature);
        note(Subject::Unit(name.clone()), file);
    }
    snapshot.desired.iter().for_each(|(it, kept)| note(Subject::Desired(it.clone()), said(kept)));
    snapshot.places.iter().for_each(|(it, kept)| note(Subject::Place(it.clone()), said(kept)));
    snapshot.globals.iter().for_each(|(it, kept)| note(Subject::Global(it.clone()), said(kept)));
    snapshot.whys.iter().for_each(|(it, kept)| note(Subject::Why(it.clone()), said(kept)));
    snapshot.machines.iter().for_each(|(it, kept)| note(Subject::Machine(it.clone()), said(kept)));
    snapshot.drains.iter().for_each(|(it, at)| note(Subject::Drain(it.clone()), at.to_string()));
    for (id, told) in &snapshot.schedules {
        let subject = |it: &UnitName| Subject::Schedule(id.clone(), it.clone());
        told.iter().for_each(|(it, kept)| note(subject(it), said(kept)));
    }
    for (name, by) in &snapshot.claims {
        let subject = |it: &MachineId| Subject::Claim(it.clone(), name.clone());
        by.iter().for_each(|(it, kept)| note(subject(it), said(kept)));
    }
    for (id, over) in &snapshot.metadata {
        let subject = |it: &String| Subject::Metadata(id.clone(), it.clone());
        over.iter().for_each(|(it, kept)| note(subject(it), said(kept)));
    }
    for (name, on) in &snapshot.states {
        let subject = |it: &MachineId| Subject::State(it.clone(), name.clone());
        on.iter().for_each(|(it, kept)| note(subject(it), said(kept)));
    }
    all
}
