//! What a machine has heard of its lease in the simulation, and when.

use std::time::Duration;

/// A lease lived: when that was asked, when the answer was heard, and the question before it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sign {
    /// It lived at that moment, or later.
    pub asked: Duration,
    /// Nobody knew before.
    pub heard: Duration,
    /// What was known until then.
    pub before: Duration,
}

impl Sign {
    /// What was known of it at that moment.
    pub fn known_at(&self, moment: Duration) -> Duration {
        if self.heard <= moment { self.asked } else { self.before }
    }
}
