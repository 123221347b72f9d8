//! The claims of what is not to run here (any more) are given back, once nothing of it does.

use super::Steward;
use crate::agent::{self, Wanted};
use crate::mutant::{Mutant, planted};
use crate::picture::Picture;
use crate::registry;
use crate::unit_name::UnitName;
use groundstate_units::control::answer::UnitStatus;

impl Steward {
    /// Gives back what is not to run here, when it is down.
    pub(super) async fn release(&mut self, picture: &Picture, names: &[&UnitName]) {
        let store = self.mirror.store().clone();
        for name in names.iter().copied() {
            if !self.is_over(name) && !planted(Mutant::ReleasedWhileUp) {
                self.again = true;
            } else if let Some(release) = registry::release(picture, &self.me, name) {
                if let Some(kept) = picture.claim_of(name, &self.me) {
                    self.released.insert(name.clone(), kept.modified);
                }
                let landed = self.in_time(store.commit(&release)).await;
                self.again |= !matches!(landed, Ok(Some(_))) && !planted(Mutant::ReleasedOnce);
                if landed.is_err() {
                    // The store does not answer, nor will it for the next ones.
                    return;
                }
            }
        }
    }

    /// Init was told that what was claimed is not to run, and nothing of it does any more, under
    /// whichever name. Another may have come under it: the claim is about the one before.
    fn is_over(&self, name: &UnitName) -> bool {
        // How it fares is not known, nor what it was told last.
        let Some(put) = self.put.as_ref().filter(|_| !self.blind) else { return false };
        let needs_none = |one: &Wanted| !one.content.asks.exclusive;
        if planted(Mutant::GivenBackUntold) && self.goal.get(name).is_some_and(needs_none) {
            return self.all_of(name, agent::has_given_way);
        }
        match agent::holds(put, name) {
            true => {
                agent::is_another(put, &self.goal, name) && self.all_of(name, agent::has_given_way)
            }
            false => self.is_down(name),
        }
    }

    pub(super) fn is_down(&self, name: &UnitName) -> bool {
        self.all_of(name, agent::is_down)
    }

    /// Its file is not known any more: it may have had either kind. Who only answers to the name, by an
    /// alias, is another.
    fn all_of(&self, name: &UnitName, are: fn(Option<&UnitStatus>) -> bool) -> bool {
        let own = |name: &String| self.units.get(name).filter(|unit| unit.unit == *name);
        agent::targets(name).iter().all(|name| are(own(name)))
    }
}
