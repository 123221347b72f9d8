//! The store of the simulation: [`MemoryStore`] behind a network.
//! Requests take time, arrive late or never, and are executed even after the caller's timeout.
//! Answers get lost. Watches break, fall silent, or repeat events. Leases expire, except without a
//! quorum, after which each restarts with its full time.

use crate::memory_store::MemoryStore;
use crate::sim::invariant::Moment;
pub use crate::sim::lease_proof::LeaseProof;
use crate::sim::members::{FOREIGN, MEMBERS, OURS, members};
use crate::sim::watch::{Watched, Watching};
use crate::sim::world::{Event, Shared, World, lock};
use crate::store::driven::{Answered, Call, Driven, DrivenWatch, Reply};
use crate::store::{Fault, Lease, Remainder};
use crate::transaction::{Change, Transaction};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// `etcd_request_timeout`
const PATIENCE: Duration = Duration::from_secs(1);
/// Maximum delay of a lease's expiry, in milliseconds.
const LEASE_LATE: u64 = 500;
/// First lease id of the foreign cluster; etcd draws them at random.
const FOREIGN_LEASES: i64 = 1_000_000;

/// A value that is not a record.
pub(super) const GARBAGE: &[u8] = b"{";

/// The simulated etcd.
pub struct Etcd {
    /// Our cluster.
    pub store: MemoryStore,
    /// The foreign cluster that a machine may be connected to.
    pub(super) foreign: MemoryStore,
    /// The time until which etcd has no leader.
    pub no_quorum_until: Duration,
    /// Existing leases: their duration and expiry.
    pub leases: BTreeMap<i64, (Duration, Duration)>,
    /// When each lease was last granted or renewed.
    pub last_renewal: BTreeMap<i64, Duration>,
    /// The last proof of each lease that a machine has received.
    pub proofs: BTreeMap<(usize, i64), LeaseProof>,
    flights: BTreeMap<u64, Flight>,
    pub(super) watches: BTreeMap<u64, Watched>,
    parked: Vec<u64>,
    pub(super) next: u64,
}

struct Flight {
    machine: usize,
    call: Call,
    /// When the caller times out; zero once the answer has arrived.
    until: Duration,
    /// The caller will not receive the answer.
    lost: bool,
    reply: Option<Result<Reply, Fault>>,
    /// The foreign cluster answers.
    foreign: bool,
    waker: Option<Waker>,
}

impl Default for Etcd {
    fn default() -> Etcd {
        Etcd {
            store: MemoryStore::default(),
            foreign: MemoryStore::with_leases_after(FOREIGN_LEASES),
            no_quorum_until: Duration::ZERO,
            leases: BTreeMap::new(),
            last_renewal: BTreeMap::new(),
            proofs: BTreeMap::new(),
            flights: BTreeMap::new(),
            watches: BTreeMap::new(),
            parked: Vec::new(),
            next: 0,
        }
    }
}

fn unanswered(call: &Call) -> Fault {
    match call {
        Call::Commit(_) => Fault::Unknown("no answer in time".to_string()),
        _ => Fault::Unavailable("no answer in time".to_string()),
    }
}

impl World {
    /// A machine sends a request.
    fn send(&mut self, machine: usize, call: Call) -> u64 {
        self.etcd.next += 1;
        let id = self.etcd.next;
        self.remember_leader(machine, &call);
        let rates = self.plan.rates.clone();
        let lost = self.mishap(rates.lost);
        let until = self.now + PATIENCE;
        let mut flight =
            Flight { machine, call, until, lost, reply: None, foreign: false, waker: None };
        let mut arrival = Some(self.now + self.latency());
        if self.now < self.machines[machine].requests_lost_until {
            arrival = None;
            if matches!(flight.call, Call::Commit(_)) {
                self.coverage.count("answer lost, write not done");
            } else if matches!(flight.call, Call::Leaderless) && machine % 2 == 1 {
                self.coverage.count("cut off with one member");
                flight.reply = Some(Ok(members(OURS, &[(1, 0), (1, 0)])));
                flight.until = Duration::ZERO;
            }
        } else if self.mishap(rates.refused) {
            self.coverage.count("call refused");
            self.trouble(machine, self.now);
            flight.reply = Some(Err(Fault::Unavailable("refused".to_string())));
            arrival = None;
        } else if matches!(flight.call, Call::Commit(_)) && self.mishap(rates.late) {
            let late = Duration::from_millis(self.chance.between(200, 8_000));
            arrival = Some(self.now + late);
            self.trouble(machine, self.now + late);
        }
        if lost {
            self.trouble(machine, self.now + PATIENCE);
        }
        self.etcd.flights.insert(id, flight);
        if let Some(at) = arrival {
            self.plan_at(at, Event::Arrive(id));
        }
        id
    }

    /// Records a fault of a machine until then.
    pub fn trouble(&mut self, machine: usize, until: Duration) {
        let troubled = &mut self.machines[machine].troubled;
        *troubled = until.max(*troubled);
    }

    /// A request arrives at etcd.
    pub fn arrive(&mut self, id: u64) {
        let Some(flight) = self.etcd.flights.get(&id) else { return };
        let (machine, call) = (flight.machine, flight.call.clone());
        let leaderless = self.now < self.etcd.no_quorum_until;
        if leaderless && !matches!(call, Call::Leaderless) {
            // A proposal may be accepted once there is a leader again.
            if matches!(call, Call::Commit(_)) && self.chance.percent(50) {
                self.etcd.parked.push(id);
            }
            return;
        }
        if self.now > flight.until && matches!(call, Call::Commit(_)) {
            self.coverage.count("write arrived late");
        }
        let foreign = self.now < self.machines[machine].foreign_until;
        let reply = match call {
            Call::Leaderless if leaderless => members(OURS, &MEMBERS.map(|one| (one, 0))),
            _ if foreign => self.foreign(&call),
            _ => {
                if let Call::Grant(ttl) = call {
                    self.judge(&Moment::Asked { machine, ttl });
                }
                self.carry_out(machine, &call)
            }
        };
        let Some(flight) = self.etcd.flights.get_mut(&id) else { return };
        if flight.lost {
            let kind = match reply {
                Reply::Committed(Some(_)) => "answer lost, write done",
                _ => "answer lost, write not done",
            };
            self.coverage.count(kind);
            return;
        }
        flight.reply = Some(Ok(reply));
        flight.foreign = foreign;
        let back = self.latency();
        self.plan_in(back, Event::Answer(id));
    }

    /// An answer arrives at the machine.
    pub fn answer(&mut self, id: u64) {
        let Some(flight) = self.etcd.flights.get_mut(&id) else { return };
        if self.now < self.machines[flight.machine].answers_lost_until {
            if matches!(flight.reply, Some(Ok(Reply::Committed(Some(_))))) {
                self.coverage.count("answer lost, write done");
            }
            flight.reply = None;
            return;
        }
        // An answer proves that the lease existed when the request was sent, not when the answer
        // arrives.
        let asked = flight.until.saturating_sub(PATIENCE);
        flight.until = Duration::ZERO;
        if let Some(waker) = flight.waker.take() {
            waker.wake();
        }
        let proof = match (&flight.call, &flight.reply) {
            (Call::KeepAlive(lease), Some(Ok(Reply::Alive(true)))) => Some(*lease),
            (Call::Grant(_), Some(Ok(Reply::Granted(lease)))) => Some(lease.id),
            _ => None,
        };
        if let Some(lease) = proof.filter(|_| !flight.lost) {
            let heard = self.now;
            let proof = self.etcd.proofs.entry((flight.machine, lease)).or_default();
            *proof = LeaseProof { asked, heard, before: proof.asked };
        }
    }

    fn foreign(&mut self, call: &Call) -> Reply {
        let store = &mut self.etcd.foreign;
        match call {
            Call::Read(prefix) => Reply::Read(store.read(prefix)),
            Call::Commit(transaction) => Reply::Committed(store.commit(transaction)),
            Call::Grant(ttl) => Reply::Granted(Lease { id: store.grant(u64::MAX), ttl: *ttl }),
            Call::KeepAlive(lease) => Reply::Alive(store.keep_alive(*lease, u64::MAX)),
            Call::Remainder(_) => Reply::Left(None),
            Call::Revoke(lease) => {
                store.revoke(*lease);
                Reply::Revoked
            }
            Call::Leaderless => members(FOREIGN, &MEMBERS.map(|one| (one, 1))),
        }
    }

    fn carry_out(&mut self, machine: usize, call: &Call) -> Reply {
        match call {
            Call::Read(prefix) => {
                let reading = self.etcd.store.read(prefix);
                Reply::Read(self.as_read(machine, prefix, reading))
            }
            Call::Commit(transaction) => {
                let landed = self.etcd.store.commit(transaction);
                match landed {
                    Some(_) => self.landed(Some(transaction)),
                    None => self.coverage.count("write refused by a condition"),
                }
                Reply::Committed(landed)
            }
            Call::Grant(ttl) => {
                let id = self.etcd.store.grant(u64::MAX);
                self.record_renewal(id, *ttl);
                Reply::Granted(Lease { id, ttl: *ttl })
            }
            Call::KeepAlive(id) => {
                let Some((ttl, _)) = self.etcd.leases.get(id).copied() else {
                    return Reply::Alive(false);
                };
                self.record_renewal(*id, ttl);
                Reply::Alive(true)
            }
            Call::Remainder(id) => Reply::Left(self.etcd.leases.get(id).map(|(granted, until)| {
                let left = until.saturating_sub(self.now).as_secs();
                Remainder { granted: *granted, left: Duration::from_secs(left) }
            })),
            Call::Revoke(id) => {
                self.end_lease(*id);
                Reply::Revoked
            }
            Call::Leaderless => members(OURS, &MEMBERS.map(|one| (one, 1))),
        }
    }

    /// Records a grant or a renewal of a lease.
    fn record_renewal(&mut self, lease: i64, ttl: Duration) {
        self.etcd.last_renewal.insert(lease, self.now);
        self.extend(lease, ttl);
    }

    fn extend(&mut self, lease: i64, ttl: Duration) {
        let until = self.now + ttl;
        self.etcd.leases.insert(lease, (ttl, until));
        let late = Duration::from_millis(self.chance.between(0, LEASE_LATE));
        self.plan_at(until + late, Event::LeaseDue(lease));
    }

    /// Ends a lease and deletes its keys.
    pub fn end_lease(&mut self, lease: i64) {
        self.etcd.leases.remove(&lease);
        let before = self.etcd.store.revision();
        self.etcd.store.revoke(lease);
        if self.etcd.store.revision() > before {
            self.landed(None);
        }
    }

    /// Expires a lease if it is due.
    pub fn lease_due(&mut self, lease: i64) {
        let Some((_, until)) = self.etcd.leases.get(&lease) else { return };
        if *until <= self.now && self.now >= self.etcd.no_quorum_until {
            self.coverage.count("lease expired");
            self.end_lease(lease);
        }
    }

    /// etcd has a leader again: leases restart, and pending proposals may be accepted.
    pub fn quorum_back(&mut self) {
        // Skipped if a later loss of quorum is in effect, or if all faults have ended already.
        if self.now != self.etcd.no_quorum_until {
            return;
        }
        let leases: Vec<(i64, Duration)> =
            self.etcd.leases.iter().map(|(id, (ttl, _))| (*id, *ttl)).collect();
        leases.into_iter().for_each(|(id, ttl)| self.extend(id, ttl));
        for id in std::mem::take(&mut self.etcd.parked) {
            self.arrive(id);
        }
    }

    /// Applies new changes of the store.
    pub(super) fn landed(&mut self, transaction: Option<&Transaction>) {
        let last = self.etcd.store.changes_since(self.truth.revision).unwrap_or_default();
        let changes: Vec<Change> = last.into_iter().map(|(_, change)| change).collect();
        self.take_in(transaction, &changes);
        let waiting: Vec<u64> = self
            .etcd
            .watches
            .iter()
            .filter(|(_, watch)| watch.coming.is_none() && !watch.foreign)
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            let time = self.latency();
            if let Some(watch) = self.etcd.watches.get_mut(&id) {
                watch.coming = Some(self.now);
            }
            self.plan_in(time, Event::News(id));
        }
    }
}

/// etcd as seen by a machine.
#[derive(Clone)]
pub struct EtcdOf {
    /// The world.
    pub world: Shared,
    /// The machine.
    pub machine: usize,
}

impl Driven for EtcdOf {
    fn call(&self, call: Call) -> Answered<'static, Reply> {
        let id = lock(&self.world).send(self.machine, call);
        Box::pin(Waiting { world: self.world.clone(), id })
    }

    fn watch(&self, prefix: &str, after: i64) -> Answered<'static, Box<dyn DrivenWatch>> {
        let (from, prefix) = (self.clone(), prefix.to_string());
        // The stream is opened by an ordinary call, which takes time and may fail.
        let made = self.call(Call::Read("\u{0}".to_string()));
        Box::pin(async move {
            made.await?;
            let id = lock(&from.world).begin_watch(from.machine, prefix, after);
            Ok(Box::new(Watching { world: from.world, id }) as Box<dyn DrivenWatch>)
        })
    }
}

struct Waiting {
    world: Shared,
    id: u64,
}

impl Future for Waiting {
    type Output = Result<Reply, Fault>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut world = lock(&self.world);
        let now = world.now;
        let root = world.truth.keys().root().to_string();
        let Some(flight) = world.etcd.flights.get_mut(&self.id) else {
            return Poll::Ready(Err(Fault::Unavailable("nothing is on its way".to_string())));
        };
        let refused = matches!(flight.reply, Some(Err(_)));
        if refused || (flight.until.is_zero() && flight.reply.is_some()) {
            let late = Err(unanswered(&flight.call));
            let reply = flight.reply.take().unwrap_or(late);
            let of_all = |call: &Call| matches!(call, Call::Read(prefix) if *prefix == root);
            if let Ok(Reply::Read(reading)) = &reply
                && of_all(&flight.call)
                && !flight.foreign
            {
                let (task, revision) = (world.task, reading.revision);
                world.book.departures.read_again(task, revision);
            }
            world.etcd.flights.remove(&self.id);
            return Poll::Ready(reply);
        }
        let until = flight.until;
        if now >= until && !until.is_zero() {
            let fault = unanswered(&flight.call);
            // The caller has timed out, but the request may still arrive.
            flight.lost = true;
            return Poll::Ready(Err(fault));
        }
        flight.waker = Some(context.waker().clone());
        world.wake_at(until);
        Poll::Pending
    }
}
