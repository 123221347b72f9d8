//! The proofs of a lease that a machine has received, and when it received them.

use std::time::Duration;

/// A proof that a lease existed: the time of the request, of the answer, and of the previous proof.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeaseProof {
    /// The lease existed at this time.
    pub asked: Duration,
    /// The machine knows that since this time.
    pub heard: Duration,
    /// The proof known until then.
    pub before: Duration,
}

impl LeaseProof {
    /// The proof known at a moment.
    pub fn known_at(&self, moment: Duration) -> Duration {
        if self.heard <= moment { self.asked } else { self.before }
    }
}
