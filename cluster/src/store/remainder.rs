//! The remaining time of a lease and the time since its last keepalive, by which a rebooted machine
//! recognizes that its previous run is over. Pure.

use crate::fence;
use std::time::Duration;

/// The state of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remainder {
    /// The granted time.
    pub granted: Duration,
    /// The remaining time, rounded down to seconds.
    pub left: Duration,
}

impl Remainder {
    /// etcd rounds the remaining time to whole seconds.
    const STEP: Duration = Duration::from_secs(1);

    /// Returns the minimum time since the last keepalive. etcd restarts leases when it elects a
    /// leader, so the real silence may be longer, but never shorter.
    pub fn silence(&self) -> Duration {
        self.granted.saturating_sub(self.left).saturating_sub(Remainder::STEP)
    }

    /// Returns true if the lease's owner may be considered dead: it has been silent for
    /// [`fence::patience`]. A live machine renews twice in that time.
    pub fn is_silent(&self) -> bool {
        self.until_silent().is_zero()
    }

    /// The time until [`Self::is_silent`] can be true.
    pub fn until_silent(&self) -> Duration {
        fence::patience(self.granted).saturating_sub(self.silence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(granted: u64, left: u64) -> Remainder {
        let seconds = Duration::from_secs;
        Remainder { granted: seconds(granted), left: seconds(left) }
    }

    #[test]
    fn lease_is_silent_after_two_thirds_despite_rounding() {
        assert!(of(30, 9).is_silent() && !of(30, 10).is_silent());
        assert!(of(3, 0).is_silent() && !of(3, 1).is_silent());
        assert!(!of(1, 0).is_silent(), "rounding hides a silence of less than a second");
        assert_eq!(of(30, 29).until_silent(), Duration::from_secs(20));
        assert_eq!(of(30, 31).until_silent(), Duration::from_secs(20), "its time was just renewed");
    }
}
