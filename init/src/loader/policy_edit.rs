//! Policy edits that are granted while a loader is at work. Who edits writes the file first and
//! says then what is in it: what the loader had read by then is older. How an edit is made is
//! `initctl`'s.

use super::Purpose;
use crate::event_loop::Init;
use groundstate_units::unit::generation::Generation;

impl Init {
    /// One was granted.
    pub(crate) fn policy_edited(&mut self) {
        self.loader.policy_edited = Some(true);
    }

    /// Gives the generation the policy that it is to be taken with. None: which one that is can
    /// not be known, and it is loaded once more.
    pub(super) fn with_present_policy(
        &mut self,
        purpose: Purpose,
        generation: &mut Generation,
    ) -> Option<Purpose> {
        let present = self.machine.policy();
        match (&purpose, self.loader.policy_edited) {
            (Purpose::Put { .. } | Purpose::Instances { .. }, _) | (_, Some(true)) => {
                generation.policy.clone_from(present);
            }
            // Of the next one it is known: this happens once.
            (Purpose::Reload { .. } | Purpose::Plan { .. }, None)
                if generation.policy != *present =>
            {
                self.load(purpose);
                return None;
            }
            (Purpose::Boot | Purpose::Reload { .. } | Purpose::Plan { .. }, _) => {}
        }
        Some(purpose)
    }
}
