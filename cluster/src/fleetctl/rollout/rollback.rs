//! Restores the old files after a failed rollout. Units that it did not reach are left alone.

use super::super::client::{Client, hash_of};
use super::super::output::warn;
use super::super::trouble::Trouble;
use super::super::waiting::{Outage, answered};
use super::{Done, Rolling};
use crate::wire::{Before, Unit};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const LOOK: Duration = Duration::from_millis(100);

/// Returns the unit before the rollout in progress, or `None` if its old file is not stored.
pub(super) fn unit_before_rollout(unit: &Unit) -> Option<Unit> {
    let Before { options, signature } = unit.before.clone()?;
    Some(Unit { options, signature, machines: None, before: None, ..unit.clone() })
}

impl Rolling<'_> {
    /// Finishes a rollout. After a failure, restores the old files.
    pub(super) async fn finish(&mut self, rolled: Result<(), Trouble>) -> Result<u8, Trouble> {
        let Err(trouble) = rolled else { return Ok(0) };
        warn(&trouble.message);
        if self.what.no_rollback {
            return Err(Trouble::already_printed());
        }
        for done in std::mem::take(&mut self.done).iter().rev() {
            let name = &done.old.name;
            match self.restore(done).await {
                Ok(true) => warn(&format!("Unit {name}: restored the old file")),
                // The server refused the new file, so the old one is still stored.
                Ok(false) => {}
                Err(again) => warn(&format!("Unit {name}: {}", again.message)),
            }
        }
        Err(Trouble::already_printed())
    }

    /// Restores a unit. An unfinished earlier rollout left two files: `old` on its machines, and an
    /// older one on the rest. Then the rest get the older file back first. Returns false if the
    /// unit already has its old file.
    async fn restore(&mut self, Done { old, made }: &Done) -> Result<bool, Trouble> {
        let (limit, mut new) = (self.patience(), self.file.hash());
        if let Some((older, machines)) = self.unfinished_rollout(old, &new).await? {
            let client = &mut self.session.client;
            let give = async || restore_file(client, &older, machines.clone(), &new, *made).await;
            answered(limit, give).await?;
            self.wait_for_older_file(&older, old.machines.as_deref().unwrap_or_default()).await?;
            new = hash_of(&older);
        }
        let client = &mut self.session.client;
        let give = async || restore_file(client, old, old.machines.clone(), &new, *made).await;
        answered(limit, give).await
    }

    /// If an earlier rollout of the unit is unfinished, returns the unit before that rollout, and
    /// the machines that only the present rollout has reached. `None` in place of the machines
    /// means all. Returns `None` if no machine needs the older file.
    async fn unfinished_rollout(
        &mut self,
        old: &Unit,
        new: &str,
    ) -> Result<Option<(Unit, Option<Vec<String>>)>, Trouble> {
        let (Some(named), Some(older)) = (&old.machines, unit_before_rollout(old)) else {
            return Ok(None);
        };
        let (limit, client) = (self.patience(), &mut self.session.client);
        let there = answered(limit, async || client.unit(&old.name).await).await?;
        let Some(there) = there.filter(|there| hash_of(there) == new) else { return Ok(None) };
        let others = |all: Vec<String>| -> Vec<String> {
            all.into_iter().filter(|id| !named.contains(id)).collect()
        };
        let others = there.machines.map(others);
        let further = others.as_ref().is_none_or(|others| !others.is_empty());
        Ok(further.then_some((older, others)))
    }

    /// Waits until all machines but `named` have the older file. The next change restores another
    /// file on `named`, and every other machine keeps the file that it has by then.
    async fn wait_for_older_file(&mut self, older: &Unit, named: &[String]) -> Result<(), Trouble> {
        let (began, hash, name) = (Instant::now(), hash_of(older), &older.name);
        let mut outage = Outage::default();
        let mut late = String::from("no machine has reported");
        while began.elapsed() < self.patience() {
            if let Some(states) = outage.bridged(self.session.client.states().await)? {
                let own = states.into_iter().filter(|state| state.name == *name);
                let others = own.filter(|state| !named.contains(&state.machine_id));
                let without = others.filter(|state| state.hash != hash);
                let without: Vec<String> = without.map(|state| state.machine_id).collect();
                if without.is_empty() {
                    return Ok(());
                }
                late = format!("not restored on {}", without.join(" "));
            }
            sleep(LOOK).await;
        }
        warn(&format!("Unit {name}: cannot confirm that the previous file was restored: {late}"));
        Ok(())
    }
}

/// Restores the old file on `machines`, or on all if `None`. The unit must have been created at
/// `made` and have the file with hash `new`. Other machines keep their file. Returns false if the
/// unit already has the old file.
async fn restore_file(
    client: &mut Client,
    old: &Unit,
    machines: Option<Vec<String>>,
    new: &str,
    made: Option<i64>,
) -> Result<bool, Trouble> {
    loop {
        let there = client.unit(&old.name).await?;
        let there = there.ok_or_else(|| Trouble::new("the unit was destroyed"))?;
        if hash_of(&there) == hash_of(old) {
            return Ok(false);
        }
        if hash_of(&there) != new {
            return Err(Trouble::new("keeping another file that was stored in the meantime"));
        }
        let by = client.why(&old.name).await?.map(|why| why.created);
        if made.is_some() && by.is_some() && by != made {
            return Err(Trouble::new("keeping the unit, which was re-created in the meantime"));
        }
        // A desired state set in the meantime is kept: only the file is restored.
        let desired_state =
            if there.desired_state.is_empty() { &old.desired_state } else { &there.desired_state };
        let old = Unit { desired_state: desired_state.clone(), ..old.clone() };
        if client.put_back(&old, machines.clone(), new).await? {
            return Ok(true);
        }
    }
}
