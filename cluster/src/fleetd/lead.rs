//! Leading: one engine of the cluster holds the key `leader` by its lease and writes the
//! [`Engine`]'s tasks, each fenced by the revision that made that key. All else, here, is
//! when the engine is told what and what became of a write.

use super::presence::Presence;
use super::voice;
use crate::clock::Clock;
use crate::engine::{Engine, Task};
use crate::key::Subject;
use crate::machine::MachineId;
use crate::mirror::Mirror;
use crate::mutant::{Mutant, planted};
use crate::registry::{self, Epoch};
use crate::store::{Batch, Fault};
use std::time::Duration;
use tokio::sync::watch;

/// Between two tries to be elected.
const AGAIN: Duration = Duration::from_millis(500);
/// The same where etcd says that it is not ours to lead.
const DENIED: Duration = Duration::from_secs(60);
/// The lease, in intervals of reconciliation, as fleet has it.
const LEASE: u32 = 5;
/// Between two readings of everything, in intervals.
const PROOF: u32 = 15;

/// The task.
pub struct Candidate {
    /// The cluster.
    pub mirror: Mirror,
    /// Who leads, if we do.
    pub machine: MachineId,
    /// `engine_reconcile_interval`
    pub interval: Duration,
    /// `reschedule_grace`
    pub grace: Duration,
    /// Operations in one write.
    pub room: usize,
    /// Who is not in the cluster does not lead it.
    pub presence: watch::Receiver<Presence>,
    /// The lease we lead by, for who lets it go at the end.
    pub leading: watch::Sender<Option<i64>>,
}

/// Why a term is over.
enum Over {
    /// The key, or the lease, is gone.
    Lost,
    Fault(Fault),
}

impl From<Fault> for Over {
    fn from(fault: Fault) -> Over {
        Over::Fault(fault)
    }
}

impl Candidate {
    /// Goes on for ever.
    pub async fn stand(mut self) {
        let mut pictures = self.mirror.changes();
        let mut denied = false;
        loop {
            let mut pause = AGAIN;
            let free = |picture: &std::sync::Arc<crate::picture::Picture>| {
                picture.revision > 0 && picture.leader.is_none()
            };
            if self.presence.wait_for(|told| told.lease.is_some()).await.is_err()
                || pictures.wait_for(free).await.is_err()
            {
                return;
            }
            match self.term().await {
                Ok(()) | Err(Over::Lost) => {}
                Err(Over::Fault(fault)) if fault.is_denied() => {
                    if !std::mem::replace(&mut denied, true) {
                        voice::error(format_args!(
                            "engine: etcd does not let this machine lead: its user needs the role \
                             of an engine, or disable_engine is to be set"
                        ));
                    }
                    pause = DENIED;
                }
                Err(Over::Fault(fault)) => voice::debug(format_args!("engine: {fault}")),
            }
            if let Some(lease) = self.leading.send_replace(None) {
                voice::info(format_args!("engine: leadership is over"));
                let _ = self.mirror.store().revoke(lease).await;
            }
            self.mirror.clock().sleep(pause).await;
        }
    }

    async fn term(&mut self) -> Result<(), Over> {
        let store = self.mirror.store().clone();
        let keys = self.mirror.keys().clone();
        let lease = store.grant(self.interval * LEASE).await?;
        self.leading.send_replace(Some(lease.id));
        let won = match store.commit(&registry::lead(&keys, &self.machine, lease.id)).await {
            Ok(won) => won.is_some(),
            // The reading tells.
            Err(Fault::Unknown(_)) => true,
            Err(fault) => return Err(fault.into()),
        };
        if !won {
            let _ = store.revoke(lease.id).await;
            self.leading.send_replace(None);
            return Ok(());
        }
        let reading = store.read(keys.root()).await?;
        let key = keys.of(&Subject::Leader);
        let made = reading.entries.iter().find(|entry| entry.key == key);
        let Some(made) = made.filter(|entry| entry.lease == lease.id) else {
            return Err(Over::Lost);
        };
        let epoch = Epoch(made.modified);
        voice::info(format_args!("engine: {} leads, since revision {}", self.machine, epoch.0));
        let clock = self.mirror.clock().clone();
        let engine = Engine::new(keys, &reading, self.grace, clock.now());
        let engine = engine.with_room_for(self.room);
        let term = Term {
            mirror: self.mirror.clone(),
            engine,
            epoch,
            lease: lease.id,
            machine: self.machine.clone(),
            clock,
            behind: false,
            seen: reading.revision,
        };
        term.lead(lease.ttl, self.interval * PROOF).await
    }
}

struct Term {
    mirror: Mirror,
    engine: Engine,
    epoch: Epoch,
    lease: i64,
    machine: MachineId,
    clock: Clock,
    /// A write did not land: there is something newer to come.
    behind: bool,
    /// Decide when what we wrote ourselves has been seen.
    seen: i64,
}

impl Term {
    async fn lead(mut self, ttl: Duration, proof: Duration) -> Result<(), Over> {
        let store = self.mirror.store().clone();
        let keys = self.mirror.keys().clone();
        if self.engine.picture().cluster.is_none() {
            let id = format!("{}-{:x}", self.machine, self.lease);
            match store.commit(&registry::found(&keys, self.epoch, id)).await {
                Ok(Some(_)) => {}
                Ok(None) => return Err(Over::Lost),
                Err(fault) => return Err(fault.into()),
            }
        }
        let mut watch = store.watch(keys.root(), self.engine.picture().revision).await?;
        let clock = self.clock.clone();
        let mut signs = clock.every(ttl / 3);
        let mut proofs = clock.every(proof);
        proofs.reset();
        let mut alive_until = clock.now() + ttl;
        let mut turn = store.turn();
        loop {
            if !self.waits() {
                self.carry_out().await?;
            }
            // While it waits for news a deadline that has passed can not be met: no spinning on it.
            let due = self
                .engine
                .next_deadline()
                .filter(|_| !self.waits() || planted(Mutant::SpinsOnDeadline));
            let due = due.unwrap_or_else(|| clock.now() + proof);
            tokio::select! {
                biased;
                batch = watch.next() => match batch {
                    Ok(Batch::Changes { changes, .. }) => {
                        self.engine.absorb(&changes, clock.now());
                        self.behind = false;
                        self.check()?;
                    }
                    Ok(Batch::Compacted) | Err(_) => {
                        self.read_anew().await?;
                        watch = store.watch(keys.root(), self.engine.picture().revision).await?;
                    }
                },
                () = signs.tick() => {
                    let began = clock.now();
                    match store.keep_alive(self.lease).await {
                        Ok(true) => {
                            alive_until = began + ttl;
                            if store.turn() != turn {
                                turn = store.turn();
                                self.read_anew().await?;
                                let seen = self.engine.picture().revision;
                                watch = store.watch(keys.root(), seen).await?;
                            }
                        }
                        Ok(false) => return Err(Over::Lost),
                        Err(fault) if clock.now() > alive_until => return Err(fault.into()),
                        Err(_) => signs.reset_after(AGAIN),
                    }
                }
                () = proofs.tick() => {
                    self.read_anew().await?;
                    // A stream that is dead and says nothing would make each answer wait for a proof.
                    if !planted(Mutant::DeafForEver) {
                        watch = store.watch(keys.root(), self.engine.picture().revision).await?;
                    }
                }
                () = clock.sleep_until(due) => {}
            }
        }
    }

    /// There is something newer to come than what could be decided on now.
    fn waits(&self) -> bool {
        self.behind || self.engine.picture().revision < self.seen
    }

    fn check(&self) -> Result<(), Over> {
        let leader = self.engine.picture().leader.as_ref();
        if leader.is_some_and(|kept| kept.lease == self.lease) { Ok(()) } else { Err(Over::Lost) }
    }

    /// A write nobody knows of: it shall not land after what is decided from now on.
    async fn begin_anew(&mut self) -> Result<(), Over> {
        if !planted(Mutant::EpochKept) {
            let renewed =
                registry::renew(self.mirror.keys(), &self.machine, self.lease, self.epoch);
            match self.mirror.store().commit(&renewed).await {
                Ok(Some(revision)) => self.epoch = Epoch(revision),
                Ok(None) => return Err(Over::Lost),
                Err(fault) => return Err(fault.into()),
            }
        }
        self.read_anew().await
    }

    async fn read_anew(&mut self) -> Result<(), Over> {
        let reading = self.mirror.store().read(self.mirror.keys().root()).await?;
        if self.engine.prove(&reading, self.clock.now()) {
            voice::error(format_args!("engine: a change was not told; the proof found it"));
        }
        self.behind = false;
        self.seen = 0;
        self.check()
    }

    /// Writes what is to be written, in order; what did not land is decided anew.
    async fn carry_out(&mut self) -> Result<(), Over> {
        let tasks = self.engine.tasks(self.epoch, self.clock.now());
        let mut tasks = tasks.into_iter();
        while let Some(task) = tasks.next() {
            let landed = self.mirror.store().commit(&task.transaction).await;
            if let Ok(Some(revision)) = landed {
                self.seen = revision;
                tell(&task);
                continue;
            }
            if planted(Mutant::GoesOnAfterLoss) && landed == Ok(None) {
                continue;
            }
            // The rest stood on this one.
            self.engine.undo(&task.units);
            tasks.for_each(|task| self.engine.undo(&task.units));
            return match landed {
                Err(Fault::Unknown(_)) => self.begin_anew().await,
                Err(fault) => Err(fault.into()),
                Ok(_) => {
                    self.behind = true;
                    Ok(())
                }
            };
        }
        Ok(())
    }
}

fn tell(task: &Task) {
    for step in &task.moves {
        let to = step.to.as_ref().map_or("no machine".to_string(), ToString::to_string);
        voice::info(format_args!("engine: {} to {to}: {}", step.unit, step.cause));
    }
}
