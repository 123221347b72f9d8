//! Damping for machines that come and go, so that their units stop moving.
//! Four departures within a short time cause no delay. Each further one adds a delay, which wears
//! off. Pure; only the leading engine has it, as long as it leads.

use crate::machine::MachineId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Damping added by one departure; it also takes this time to wear off.
const ONE: Duration = Duration::from_secs(30);
/// Damping up to this level delays nothing.
const FREE: Duration = ONE.saturating_mul(4);
/// Upper limit of the damping.
const MOST: Duration = ONE.saturating_mul(8);
/// Divisor for the damping beyond the free part.
const SHARE: u32 = 3;
/// Longest extra time that a flapping machine keeps its units.
pub const LONGEST: Duration = Duration::from_secs(40);

/// See the head of the module.
#[derive(Clone, Debug, Default)]
pub struct FlapDamping {
    of: BTreeMap<MachineId, Level>,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    height: Duration,
    at: Duration,
}

impl Level {
    fn height(self, now: Duration) -> Duration {
        self.height.saturating_sub(now.saturating_sub(self.at))
    }
}

impl FlapDamping {
    /// Records that a machine left.
    pub fn record_departure(&mut self, id: &MachineId, now: Duration) {
        let before = self.height(id, now);
        let height = before.saturating_add(ONE).min(MOST);
        self.of.insert(id.clone(), Level { height, at: now });
    }

    /// Returns the extra time that the machine keeps its units.
    pub fn patience(&self, id: &MachineId, now: Duration) -> Duration {
        (self.height(id, now).saturating_sub(FREE) / SHARE).min(LONGEST)
    }

    /// Forgets machines whose damping has worn off.
    pub fn forget(&mut self, now: Duration) {
        self.of.retain(|_, level| !level.height(now).is_zero());
    }

    fn height(&self, id: &MachineId, now: Duration) -> Duration {
        self.of.get(id).map_or(Duration::ZERO, |level| level.height(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_that_leaves_often_keeps_its_units_longer_until_the_damping_wears_off() {
        let id = MachineId::new("m").unwrap();
        let second = Duration::from_secs(1);
        let (mut flap_damping, mut waited) = (FlapDamping::default(), Vec::new());
        for turn in 0..20 {
            let now = second * 5 * turn;
            flap_damping.record_departure(&id, now);
            waited.push(flap_damping.patience(&id, now).as_secs());
        }
        assert_eq!(waited[..4], [0; 4], "the first departures cause no delay");
        assert!(waited.is_sorted() && waited[19] == LONGEST.as_secs(), "{waited:?}");
        let later = second * 95 + (MOST - FREE);
        assert_eq!(flap_damping.patience(&id, later), Duration::ZERO);
        flap_damping.forget(later);
        assert_eq!(flap_damping.of.len(), 1, "half of the damping is left");
        flap_damping.forget(second * 95 + MOST);
        assert!(flap_damping.of.is_empty(), "the damping has worn off");
    }
}
