//! Sends the writes of a leading engine one after the other. [`crate::engine`] decides what is
//! written.

use super::{AGAIN, Over, RENEWALS, Term};
use crate::engine::Task;
use crate::log;
use crate::mutant::{Mutant, planted};
use crate::store::Fault;

impl Term {
    /// Halves the transaction size after etcd rejected a write; the engine continues.
    fn shrink(&mut self, why: &str) {
        self.again = Some(self.clock.now() + AGAIN);
        if self.engine.halve_transactions() {
            log::error(format_args!("engine: {why}; using smaller transactions from now on"));
        } else if self.refusal != why {
            log::error(format_args!("engine: etcd rejected a write: {why}"));
            self.refusal = why.to_string();
        }
    }

    /// Sends the due writes in order. Failed ones are decided again.
    pub(super) async fn carry_out(&mut self) -> Result<(), Over> {
        let began = self.clock.now();
        let tasks = self.engine.tasks(self.epoch, began);
        if let Some(spent) = self.spent.take() {
            self.metrics.note(spent.saturating_add(self.clock.since(began)));
        }
        let mut tasks = tasks.into_iter();
        while let Some(task) = tasks.next() {
            if self.clock.since(self.renewed) > self.ttl / RENEWALS {
                // Thousands of writes may take longer than the leader lease.
                self.renew_lease().await?;
            }
            let landed = self.cache.store().commit(&task.transaction).await;
            if let Ok(Some(revision)) = landed {
                self.seen = revision;
                self.metrics.carried_out(&task);
                log_moves(&task);
                continue;
            }
            if planted(Mutant::GoesOnAfterLoss) && landed == Ok(None) {
                continue;
            }
            self.metrics.failed(&task);
            // The remaining tasks depend on this one.
            self.engine.undo(&task.units);
            tasks.for_each(|task| self.engine.undo(&task.units));
            return match landed {
                Err(Fault::Unknown(_)) => self.start_epoch().await,
                Err(Fault::Refused(why)) => {
                    self.shrink(&why);
                    Ok(())
                }
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

fn log_moves(task: &Task) {
    for step in &task.moves {
        let to = step.to.as_ref().map_or("no machine".to_string(), ToString::to_string);
        log::info(format_args!("engine: {} to {to}: {}", step.unit, step.cause));
    }
}
