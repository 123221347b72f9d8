//! The writes of an engine that leads, one behind the other. What is to be written is
//! [`crate::engine`]'s to say.

use super::{AGAIN, Over, SIGNS, Term};
use crate::engine::Task;
use crate::log;
use crate::mutant::{Mutant, planted};
use crate::store::Fault;

impl Term {
    /// A write is not taken as it is: smaller ones may be, and all else goes on.
    fn shrink(&mut self, why: &str) {
        self.again = Some(self.clock.now() + AGAIN);
        if self.engine.write_less() {
            log::error(format_args!("engine: {why}; it writes less at once from now on"));
        } else if self.refusal != why {
            log::error(format_args!("engine: a write is not taken: {why}"));
            self.refusal = why.to_string();
        }
    }

    /// Writes what is to be written, in order; what did not land is decided anew.
    pub(super) async fn carry_out(&mut self) -> Result<(), Over> {
        let began = self.clock.now();
        let tasks = self.engine.tasks(self.epoch, began);
        if let Some(spent) = self.spent.take() {
            self.metrics.note(spent.saturating_add(self.clock.since(began)));
        }
        let mut tasks = tasks.into_iter();
        while let Some(task) = tasks.next() {
            if self.clock.since(self.signed) > self.ttl / SIGNS {
                // Thousands of writes take longer than the lease that they are made under.
                self.show_life().await?;
            }
            let landed = self.cache.store().commit(&task.transaction).await;
            if let Ok(Some(revision)) = landed {
                self.seen = revision;
                self.metrics.carried_out(&task);
                tell(&task);
                continue;
            }
            if planted(Mutant::GoesOnAfterLoss) && landed == Ok(None) {
                continue;
            }
            self.metrics.failed(&task);
            // The rest stood on this one.
            self.engine.undo(&task.units);
            tasks.for_each(|task| self.engine.undo(&task.units));
            return match landed {
                Err(Fault::Unknown(_)) => self.begin_anew().await,
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

fn tell(task: &Task) {
    for step in &task.moves {
        let to = step.to.as_ref().map_or("no machine".to_string(), ToString::to_string);
        log::info(format_args!("engine: {} to {to}: {}", step.unit, step.cause));
    }
}
