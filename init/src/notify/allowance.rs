//! How much is heard: a flood of datagrams has a bounded share of init's time. What is not read stays in the
//! socket's queue, and its senders wait; nothing is lost. All share it, for whose a datagram is says only
//! itself, and the queue is first come, first served.

use crate::limit;
use groundstate_units::time::Time;

/// What may still be read.
#[derive(Debug)]
pub(super) struct Allowance {
    left: u32,
    /// Up to when what comes with time was counted.
    at: Time,
    rests_until: Option<Time>,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { left: limit::NOTIFICATIONS_A_SECOND, at: Time::ZERO, rests_until: None }
    }
}

impl Allowance {
    /// One more may be read.
    pub(super) fn has(&mut self, now: Time) -> bool {
        let rate = u128::from(limit::NOTIFICATIONS_A_SECOND);
        let gained = now.since(self.at).as_nanos().saturating_mul(rate) / 1_000_000_000;
        if gained > 0 {
            let gained = u32::try_from(gained).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(gained).min(limit::NOTIFICATIONS_A_SECOND);
            self.at = now;
        }
        !self.rests(now) && self.left > 0
    }

    /// So many were read.
    pub(super) fn take(&mut self, count: u64, now: Time) {
        self.left = self.left.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
        if self.left == 0 {
            self.rests_until = Some(now.after(limit::NOTIFY_REST));
        }
    }

    /// None is read before it has rested.
    pub(super) fn rests(&self, now: Time) -> bool {
        self.rests_until.is_some_and(|until| now < until)
    }

    /// When it has.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.rests_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// How many are read in so many milliseconds, if there is always one.
    fn read(allowance: &mut Allowance, begin: Time, millis: u64) -> u32 {
        let mut read = 0;
        for milli in 0..millis {
            let now = begin.after(Duration::from_millis(milli));
            while allowance.has(now) {
                allowance.take(1, now);
                read += 1;
            }
        }
        read
    }

    #[test]
    fn a_burst_is_read_at_once_and_a_flood_at_its_rate() {
        let (mut allowance, begin) = (Allowance::default(), Time::from_nanos(1_000_000_000));
        assert_eq!(read(&mut allowance, begin, 1), limit::NOTIFICATIONS_A_SECOND);
        let after = begin.after(Duration::from_millis(1));
        assert!(!allowance.has(after) && allowance.deadline() > Some(after));
        let in_a_second = read(&mut allowance, after, 1000);
        assert!((7500..=8192).contains(&in_a_second), "{in_a_second}");
        // After a quiet second a burst is read again, and not two.
        let later = after.after(Duration::from_secs(60));
        assert_eq!(read(&mut allowance, later, 1), limit::NOTIFICATIONS_A_SECOND);
    }
}
