//! What is left of a lease, and how long it has been without a sign of life: so that a machine that
//! was booted anew can tell whether its last run is over. Pure.

use crate::fence;
use std::time::Duration;

/// Of one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remainder {
    /// For how long it was granted.
    pub granted: Duration,
    /// Until it ends, in whole seconds: it may be up to one more.
    pub left: Duration,
}

impl Remainder {
    /// etcd rounds what is left down to that.
    const STEP: Duration = Duration::from_secs(1);

    /// How long at least it has been without a sign of life. etcd starts leases anew when it elects
    /// a leader, so that may be long ago though this is short, never the other way round.
    pub fn silence(&self) -> Duration {
        self.granted.saturating_sub(self.left).saturating_sub(Remainder::STEP)
    }

    /// It has been silent for so long that what it stands for may be taken for ended: a machine that
    /// lives shows that twice in this time.
    pub fn is_silent(&self) -> bool {
        self.missing().is_zero()
    }

    /// How much longer it has to be silent for that.
    pub fn missing(&self) -> Duration {
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
    fn a_lease_is_silent_after_two_thirds_of_it_by_any_reading_of_its_seconds() {
        assert!(of(30, 9).is_silent() && !of(30, 10).is_silent());
        assert!(of(3, 0).is_silent() && !of(3, 1).is_silent());
        assert!(!of(1, 0).is_silent(), "too short to tell");
        assert_eq!(of(30, 29).missing(), Duration::from_secs(20));
        assert_eq!(of(30, 31).missing(), Duration::from_secs(20), "begun anew just now");
    }
}
