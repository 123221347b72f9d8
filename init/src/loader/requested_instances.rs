//! What a loader is told is asked for from outside the unit files, which may be instances of
//! templates. Which of them it makes is `groundstate_units::load::template`'s.

use super::Purpose;
use crate::control::instance::instances_of;
use crate::event_loop::Init;
use groundstate_units::text::name::Name;

impl Init {
    pub(super) fn wanted_for(&self, purpose: &Purpose) -> Vec<Name> {
        let wish = self.machine.wish();
        let mut wanted: Vec<Name> = wish.goal.iter().chain(wish.want.keys()).cloned().collect();
        if let Purpose::Put { .. } | Purpose::Instances { .. } = purpose {
            // The others read the policy anew.
            wanted.extend(self.machine.policy().enable.iter().cloned());
        }
        if let Purpose::Instances { wish, .. } = purpose {
            wanted.extend(instances_of(wish).cloned());
        }
        wanted
    }
}
