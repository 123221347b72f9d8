//! A fleetd finds claims in etcd without its saved state, and etcd does not answer when it renews
//! them. Their units keep running until etcd answers.

use crate::fake_init::{FakeInit, Fleetd, soon};
use cluster::desired::Desired;
use cluster::fleetd::saved_state::SavedState;
use cluster::snapshot::Snapshot;
use cluster::store::driven::{Answered, Call, Driven, DrivenWatch, Reply};
use cluster::store::{Batch, Fault, Store, Watch};
use cluster::transaction::{Operation, Transaction};
use std::sync::Arc;
use tokio::sync::watch;

/// An in-memory store that does not answer claims.
#[derive(Clone)]
struct Losing {
    memory: Store,
    /// Number of unanswered claims while enabled.
    lost: Arc<watch::Sender<Option<u32>>>,
}

struct Seeing(Watch);

impl DrivenWatch for Seeing {
    fn next(&mut self) -> Answered<'_, Batch> {
        Box::pin(self.0.next())
    }
}

fn claims(transaction: &Transaction) -> bool {
    let is_claim =
        |one: &Operation| matches!(one, Operation::Put { key, .. } if key.contains("/claim/"));
    transaction.operations.iter().any(is_claim)
}

impl Losing {
    async fn commit(&self, transaction: &Transaction) -> Result<Reply, Fault> {
        if claims(transaction) && self.lost.borrow().is_some() {
            self.lost.send_modify(|lost| *lost = lost.map(|count| count + 1));
            return Err(Fault::Unknown("lost".to_string()));
        }
        self.memory.commit(transaction).await.map(Reply::Committed)
    }
}

impl Driven for Losing {
    fn call(&self, call: Call) -> Answered<'static, Reply> {
        let losing = self.clone();
        Box::pin(async move {
            let memory = &losing.memory;
            match call {
                Call::Commit(transaction) => losing.commit(&transaction).await,
                Call::Read(prefix) => memory.read(&prefix).await.map(Reply::Read),
                Call::Grant(ttl) => memory.grant(ttl).await.map(Reply::Granted),
                Call::KeepAlive(lease) => memory.keep_alive(lease).await.map(Reply::Alive),
                Call::Remainder(lease) => memory.remainder(lease).await.map(Reply::Left),
                Call::Revoke(lease) => memory.revoke(lease).await.map(|()| Reply::Revoked),
                Call::Leaderless => Err(Fault::Unavailable("one member has a leader".to_string())),
            }
        })
    }

    fn watch(&self, prefix: &str, after: i64) -> Answered<'static, Box<dyn DrivenWatch>> {
        let (memory, prefix) = (self.memory.clone(), prefix.to_string());
        Box::pin(async move {
            let watch = memory.watch(&prefix, after).await?;
            Ok(Box::new(Seeing(watch)) as Box<dyn DrivenWatch>)
        })
    }
}

#[test]
fn unit_whose_claim_renewal_is_unconfirmed_is_not_stopped() {
    soon(async {
        let (memory, init) = (Store::memory(), FakeInit::new());
        let fleetd = Fleetd::begin(&memory, &init, SavedState::default());
        fleetd.cache.changes().wait_for(|snapshot| snapshot.machines.len() == 1).await.unwrap();
        fleetd.submit("x.service", "Exclusive=true", Desired::Launched).await;
        init.has(&["x.service"]).await;
        fleetd.cache.changes().wait_for(|snapshot| snapshot.states.len() == 1).await.unwrap();
        fleetd.crash();
        let puts = init.set.borrow().0;
        let lost = Arc::new(watch::channel(Some(0)).0);
        let losing = Losing { memory, lost: lost.clone() };
        let fleetd = Fleetd::begin(&Store::driven(Arc::new(losing)), &init, SavedState::default());
        // fleetd handles each result before it writes the next claim.
        lost.subscribe().wait_for(|lost| lost.is_some_and(|lost| lost > 2)).await.unwrap();
        assert_eq!(init.set.borrow().0, puts, "a unit was stopped before etcd answered");
        lost.send_replace(None);
        let is_put = |set: &(u64, _)| set.0 > puts;
        init.set.subscribe().wait_for(is_put).await.unwrap();
        init.has(&["x.service"]).await;
        let own = |snapshot: &Snapshot| {
            let lease = snapshot.machines.values().next().map(|kept| kept.lease);
            let mut claims = snapshot.claims.values().flat_map(|by| by.values());
            claims.any(|claim| Some(claim.lease) == lease)
        };
        fleetd.cache.changes().wait_for(|snapshot| own(snapshot)).await.unwrap();
        assert_eq!(
            init.set.borrow().0,
            puts + 1,
            "a unit was stopped before the claim was renewed"
        );
        fleetd.crash();
    });
}
