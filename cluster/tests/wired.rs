//! The tasks of fleetd on a real etcd behind a faulty wire, with a simulated init: whatever the
//! fault, init stops only exclusive units. `tests/nodes` does the same with real machines.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

mod fake_init;
mod member;
mod overloaded_etcd;
mod wire;

use cluster::clock::Clock;
use cluster::desired::Desired;
use cluster::fleetd::saved_state::SavedState;
use cluster::key::{Keys, Subject};
use cluster::machine::MachineId;
use cluster::record::{ClaimRecord, encode};
use cluster::snapshot::Snapshot;
use cluster::store::{EtcdConfig, Store};
use cluster::transaction::Transaction;
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use etcd_client::{LeaseGrantOptions, PutOptions};
use fake_init::{FakeInit, Fleetd};
use groundstate_units::control::source_set::SourceSet;
use member::{Etcd, PATIENCE, run, when_there};
use nix::sys::signal::Signal;
use overloaded_etcd::Busy;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use wire::{Fault, Wire};

/// `agent_ttl`
const LEASE: Duration = Duration::from_secs(3);
const SECOND: Duration = Duration::from_secs(1);
/// One unit per desired state.
const ALL: [&str; 3] = ["a.service", "g.service", "l.service"];

/// A machine with its wire and its init.
struct Machine {
    own: &'static str,
    wire: Wire,
    init: Arc<FakeInit>,
    fleetd: Fleetd,
}

impl Machine {
    /// Creates a registered machine.
    async fn new(own: &'static str, etcd: &Etcd) -> Machine {
        Machine::with_lease(own, etcd, LEASE).await
    }

    async fn with_lease(own: &'static str, etcd: &Etcd, lease: Duration) -> Machine {
        let wire = Wire::open(vec![("127.0.0.1:0".parse().unwrap(), etcd.address())], None);
        let endpoints = vec![format!("http://{}", wire.addresses[0])];
        let store = Store::etcd(EtcdConfig { endpoints, ..etcd.impatient() }).unwrap();
        let (init, clock) = (FakeInit::new(), (lease, Clock::system()));
        let fleetd = Fleetd::begin_as(own, &store, &init, SavedState::default(), clock);
        let machine = Machine { own, wire, init, fleetd };
        machine.sees("it is there", |snapshot| snapshot.machines.contains_key(&id(own))).await;
        machine
    }

    async fn sees(&self, what: &str, so: impl Fn(&Snapshot) -> bool) {
        let mut snapshots = self.fleetd.cache.changes();
        let seen = timeout(PATIENCE, snapshots.wait_for(|snapshot| so(snapshot))).await;
        assert!(seen.is_ok(), "{}: {what}: {:?}", self.own, self.fleetd.cache.health().borrow());
    }

    async fn has(&self, names: &[&str]) {
        let has_them = timeout(PATIENCE, self.init.has(names)).await;
        assert!(has_them.is_ok(), "{}: {:?}", self.own, self.init.set.borrow().1.files.keys());
    }

    async fn puts(&self, own: &str, asks: &str) {
        let service = "[Service]\nExecStart=/bin/true\nTimeoutStopSec=200ms\n";
        let file = UnitFile::parse(&format!("{service}[X-Fleet]\n{asks}\n")).unwrap();
        self.fleetd.put(own, file, Desired::Launched).await;
    }

    /// Adds a running unit, a loaded one, and a global one.
    async fn runs_all(&self) {
        self.fleetd.submit(ALL[0], "", Desired::Launched).await;
        self.fleetd.submit(ALL[2], "", Desired::Loaded).await;
        self.puts(ALL[1], "Global=true").await;
        self.has(&ALL).await;
        self.is_back().await;
    }

    /// Waits until it is registered and its states are published.
    async fn is_back(&self) {
        let me = id(self.own);
        let all_published = |snapshot: &Snapshot| {
            let is_published = |name: &&str| {
                let on = snapshot.states.get(&name_of(name));
                on.is_some_and(|on| on.contains_key(&me))
            };
            let own = self.init.set.borrow().1.files.clone();
            snapshot.machines.contains_key(&me)
                && ALL.iter().filter(|name| own.contains_key(**name)).all(is_published)
        };
        self.sees("it is back", all_published).await;
    }

    /// Checks that init has the same source as before and got no other one.
    async fn is_whole(&self, before: &(u64, SourceSet), what: &str) {
        let well = |health: &cluster::etcd_cache::Health| health.fault.is_none();
        timeout(PATIENCE, self.fleetd.cache.health().wait_for(well)).await.unwrap().unwrap();
        self.is_back().await;
        self.is_left_alone(LEASE / 3, what).await;
        assert_eq!(*self.init.set.borrow(), *before, "{what}");
    }

    /// Checks that init gets nothing for this time.
    async fn is_left_alone(&self, time: Duration, what: &str) {
        let mut sets = self.init.set.subscribe();
        sets.mark_unchanged();
        let change = timeout(time, sets.changed()).await;
        assert!(change.is_err(), "{}: {what}: {:?}", self.own, sets.borrow().1.roots);
    }
}

fn id(own: &str) -> MachineId {
    MachineId::new(own).unwrap()
}

fn name_of(own: &str) -> UnitName {
    UnitName::new(own).unwrap()
}

async fn etcd() -> Etcd {
    let etcd = Etcd::start();
    when_there(&Store::etcd(etcd.config()).unwrap()).await;
    etcd
}

/// Applies a fault for two leases, then ends it.
async fn outlives(fault: Fault) {
    let etcd = etcd().await;
    let machine = Machine::new("m1", &etcd).await;
    machine.runs_all().await;
    let before = machine.init.set.borrow().clone();
    machine.wire.set(fault);
    machine.is_left_alone(2 * LEASE, &format!("{fault:?}")).await;
    assert!(machine.wire.affected() > 0, "{fault:?} touched nothing");
    machine.wire.set(Fault::None);
    machine.is_whole(&before, &format!("{fault:?}")).await;
    machine.fleetd.crash();
}

/// The same with an overloaded etcd.
async fn outlives_being_refused() {
    let mut etcd = etcd().await;
    let machine = Machine::new("m1", &etcd).await;
    machine.runs_all().await;
    let before = machine.init.set.borrow().clone();
    etcd.kill();
    let busy = Busy::at(etcd.address());
    machine.is_left_alone(2 * LEASE, "too many requests").await;
    let mut health = machine.fleetd.cache.health();
    let has_fault = health.wait_for(|now| {
        now.fault.as_ref().is_some_and(|fault| fault.to_string().contains("too many requests"))
    });
    assert!(
        timeout(PATIENCE, has_fault).await.is_ok(),
        "{:?}",
        machine.fleetd.cache.health().borrow()
    );
    assert!(busy.answered() > 4, "{} calls", busy.answered());
    drop(busy);
    etcd.restart();
    machine.is_whole(&before, "too many requests").await;
    machine.fleetd.crash();
}

#[test]
fn slow_overloaded_or_truncating_etcd_stops_no_unit() {
    run(async {
        let slow = |seconds| outlives(Fault::Slow(Duration::from_secs(seconds)));
        let (cut, broken) = (outlives(Fault::CutsEach(2)), outlives(Fault::BreaksEach(2)));
        tokio::join!(slow(2), slow(30), cut, broken, outlives_being_refused());
    });
}

/// Matches snapshots in which this machine leads.
fn by(own: &str) -> impl Fn(&Snapshot) -> bool {
    let leads = id(own);
    move |snapshot| snapshot.leader.as_ref().is_some_and(|kept| kept.record.machine == leads)
}

/// The leader is cut off from etcd; another machine is asked for a unit and starts it.
async fn starts_while_the_leader_is_cut_off(fault: Fault) {
    let etcd = etcd().await;
    let leads = Machine::new("m1", &etcd).await;
    leads.sees("it leads", by("m1")).await;
    let other = Machine::new("m2", &etcd).await;
    leads.runs_all().await;
    other.has(&ALL[1..2]).await;
    let before = leads.init.set.borrow().clone();
    leads.wire.set(fault);
    other.puts("new.service", "MachineID=m2").await;
    other.has(&[ALL[1], "new.service"]).await;
    assert!(by("m2")(&other.fleetd.cache.snapshot()), "{fault:?}: m2 does not lead");
    assert!(leads.wire.affected() > 0, "{fault:?} touched nothing");
    assert_eq!(*leads.init.set.borrow(), before, "{fault:?}");
    leads.wire.set(Fault::None);
    leads.sees("m1 sees the new leader", by("m2")).await;
    leads.is_whole(&before, &format!("{fault:?}")).await;
    leads.fleetd.crash();
    other.fleetd.crash();
}

#[test]
fn leader_cut_off_from_etcd_does_not_keep_others_from_starting_units() {
    run(async {
        let either = [Fault::HoldsAnswers, Fault::HoldsQuestions];
        let [answers, questions] = either.map(starts_while_the_leader_is_cut_off);
        tokio::join!(answers, questions);
    });
}

/// A lease is known only by its number. Another lease with that number is taken for our own, but
/// the keys bound to our own are gone.
#[test]
fn lease_id_reassigned_to_another_client_proves_no_claim() {
    run(async {
        let etcd = etcd().await;
        let machine = Machine::new("m1", &etcd).await;
        machine.puts("a.service", "MachineID=m1").await;
        machine.puts("x.service", "MachineID=m1\nExclusive=true").await;
        machine.has(&["a.service", "x.service"]).await;
        let lease = machine.fleetd.cache.snapshot().machines[&id("m1")].lease;
        machine.wire.set(Fault::HoldsAll);
        machine.has(&["a.service"]).await;
        // Its lease expires, another client gets the number, and a third one the claim.
        let mut client = etcd.client().await;
        let _ = client.lease_revoke(lease).await;
        client.lease_grant(600, Some(LeaseGrantOptions::new().with_id(lease))).await.unwrap();
        client.put("theirs", "", Some(PutOptions::new().with_lease(lease))).await.unwrap();
        let direct = Store::etcd(etcd.config()).unwrap();
        let (keys, others) = (Keys::under("/f"), direct.grant(LEASE * 100).await.unwrap().id);
        let claim = keys.of(&Subject::Claim(id("m2"), name_of("x.service")));
        let record = ClaimRecord { machine: id("m2"), instance: None };
        let write = Transaction::default().put_bound(claim, encode(&record), others);
        let claimed = direct.commit(&write).await.unwrap().unwrap();
        machine.wire.set(Fault::None);
        let is_there = |snapshot: &Snapshot| {
            snapshot.machines.get(&id("m1")).is_some_and(|kept| kept.modified > claimed)
        };
        machine.sees("it is there again", is_there).await;
        machine.is_left_alone(LEASE / 3, "it is claimed by another").await;
        assert!(machine.init.set.borrow().1.files.keys().eq(["a.service"]));
        direct.revoke(others).await.unwrap();
        machine.has(&["a.service", "x.service"]).await;
        // Its owner revokes it.
        client.lease_revoke(lease).await.unwrap();
        let has_its_own = |snapshot: &Snapshot| {
            let there = snapshot.machines.get(&id("m1")).is_some_and(|kept| kept.lease != lease);
            let claim = snapshot.claim_of(&name_of("x.service"), &id("m1"));
            there && claim.is_some_and(|kept| kept.lease != lease)
        };
        machine.sees("it has its own lease and a claim bound to it", has_its_own).await;
        machine.has(&["a.service", "x.service"]).await;
    });
}

#[test]
fn machine_that_returns_later_than_another_after_an_etcd_pause_keeps_its_units() {
    run(async {
        let lease = 8 * SECOND;
        let etcd = etcd().await;
        let first = Machine::with_lease("m1", &etcd, lease).await;
        let second = Machine::with_lease("m2", &etcd, lease).await;
        first.puts("a.service", "").await;
        first.puts("b.service", "").await;
        first.has(&["a.service"]).await;
        second.has(&["b.service"]).await;
        let before = [&first, &second].map(|machine| machine.init.set.borrow().clone());
        let revision = first.fleetd.cache.snapshot().revision;
        etcd.signal(Signal::SIGSTOP);
        second.wire.set(Fault::HoldsAll);
        // All leases have expired when it resumes.
        second.is_left_alone(lease + 2 * SECOND, "etcd stands still").await;
        etcd.signal(Signal::SIGCONT);
        let registered_again = |snapshot: &Snapshot, own: &str| {
            snapshot.machines.get(&id(own)).is_some_and(|kept| kept.created > revision)
        };
        let leads = |snapshot: &Snapshot| {
            let leader = snapshot.leader.as_ref().filter(|kept| kept.modified > revision);
            registered_again(snapshot, "m1")
                && leader.is_some_and(|kept| kept.record.machine == id("m1"))
        };
        first.sees("it leads", leads).await;
        // The resumed leader decides by the current state, too.
        first.puts("c.service", "MachineID=m1").await;
        first.has(&["a.service", "c.service"]).await;
        assert!(!registered_again(&first.fleetd.cache.snapshot(), "m2"), "its wire was held");
        second.wire.set(Fault::None);
        first.sees("the other is back", |snapshot| registered_again(snapshot, "m2")).await;
        assert_eq!(*second.init.set.borrow(), before[1]);
        assert_eq!(first.init.set.borrow().1.roots.len(), before[0].1.roots.len() + 1);
        second.is_left_alone(SECOND, "all is as it was").await;
        first.fleetd.crash();
        second.fleetd.crash();
    });
}
