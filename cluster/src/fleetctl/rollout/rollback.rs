//! What becomes of a rollout that failed: what it replaced has again what it had before it, and what it
//! never came to is left alone.

use super::super::client::{Client, hash_of};
use super::super::output::warn;
use super::super::trouble::Trouble;
use super::super::waiting::{Outage, answered};
use super::{Done, Rolling};
use crate::wire::{Before, Unit};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const LOOK: Duration = Duration::from_millis(100);

/// As it was before the rollout that is under way; `None`: nobody has kept that.
pub(super) fn as_before(unit: &Unit) -> Option<Unit> {
    let Before { options, signature } = unit.before.clone()?;
    Some(Unit { options, signature, machines: None, before: None, ..unit.clone() })
}

impl Rolling<'_> {
    /// What is said in the end; where it failed, what is done has its old file again.
    pub(super) async fn ended(&mut self, rolled: Result<(), Trouble>) -> Result<u8, Trouble> {
        let Err(trouble) = rolled else { return Ok(0) };
        warn(&trouble.message);
        if self.what.no_rollback {
            return Err(Trouble::said());
        }
        for done in std::mem::take(&mut self.done).iter().rev() {
            let name = &done.old.name;
            match self.goes_back(done).await {
                Ok(true) => warn(&format!("Unit {name} has its old file again")),
                // The server refused the new file: the old one is still there.
                Ok(false) => {}
                Err(again) => warn(&format!("Unit {name}: {}", again.message)),
            }
        }
        Err(Trouble::said())
    }

    /// A unit that was in the middle of another rollout had two files: those machines that this one alone
    /// came to have the older one back first. False: it has its old file already.
    async fn goes_back(&mut self, Done { old, made }: &Done) -> Result<bool, Trouble> {
        let (limit, mut new) = (self.patience(), self.file.hash());
        if let Some((older, machines)) = self.came_further(old, &new).await? {
            let client = &mut self.session.client;
            let give = async || give_back(client, &older, machines.clone(), &new, *made).await;
            answered(limit, give).await?;
            self.wait_for_the_others(&older, old.machines.as_deref().unwrap_or_default()).await?;
            new = hash_of(&older);
        }
        let client = &mut self.session.client;
        let give = async || give_back(client, old, old.machines.clone(), &new, *made).await;
        answered(limit, give).await
    }

    /// What all had before the other rollout, and the machines that this one has taken it from; none of
    /// them named: all.
    async fn came_further(
        &mut self,
        old: &Unit,
        new: &str,
    ) -> Result<Option<(Unit, Option<Vec<String>>)>, Trouble> {
        let (Some(named), Some(older)) = (&old.machines, as_before(old)) else { return Ok(None) };
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

    /// They keep what they have once the unit has another file: so until they have it.
    async fn wait_for_the_others(&mut self, older: &Unit, named: &[String]) -> Result<(), Trouble> {
        let (began, hash, name) = (Instant::now(), hash_of(older), &older.name);
        let mut outage = Outage::default();
        let mut late = String::from("nobody answers");
        while began.elapsed() < self.patience() {
            if let Some(states) = outage.bridged(self.session.client.states().await)? {
                let own = states.into_iter().filter(|state| state.name == *name);
                let others = own.filter(|state| !named.contains(&state.machine_id));
                let without = others.filter(|state| state.hash != hash);
                let without: Vec<String> = without.map(|state| state.machine_id).collect();
                if without.is_empty() {
                    return Ok(());
                }
                late = format!("not taken back by {}", without.join(" "));
            }
            sleep(LOOK).await;
        }
        warn(&format!("Unit {name}: the file that all machines had is {late}"));
        Ok(())
    }
}

/// Its old file, on those machines or on all, where the new one of that hash stands, in the unit that was
/// `made` then; whoever never took part keeps what it has. False: it has it already.
async fn give_back(
    client: &mut Client,
    old: &Unit,
    machines: Option<Vec<String>>,
    new: &str,
    made: Option<i64>,
) -> Result<bool, Trouble> {
    loop {
        let there = client.unit(&old.name).await?;
        let there = there.ok_or_else(|| Trouble::new("it was destroyed"))?;
        if hash_of(&there) == hash_of(old) {
            return Ok(false);
        }
        if hash_of(&there) != new {
            return Err(Trouble::new("another file was put there meanwhile, and stays"));
        }
        let by = client.why(&old.name).await?.map(|why| why.created);
        if made.is_some() && by.is_some() && by != made {
            return Err(Trouble::new("it was destroyed and made anew meanwhile, and stays"));
        }
        // What was wished meanwhile stands: it is the file that goes back.
        let desired_state =
            if there.desired_state.is_empty() { &old.desired_state } else { &there.desired_state };
        let old = Unit { desired_state: desired_state.clone(), ..old.clone() };
        if client.put_back(&old, machines.clone(), new).await? {
            return Ok(true);
        }
    }
}
