//! How much is heard: a flood of datagrams has a bounded share of init's time. What is not read stays in the
//! socket's queue, and its senders wait; nothing is lost. All share it, for whose a datagram is says only
//! itself, and the queue is first come, first served.

use crate::base::limit;
use groundstate_units::text::time::Time;
use std::time::Duration;

/// What may still be read.
#[derive(Debug)]
pub(super) struct Allowance {
    /// Below nothing: what had to be heard at once is made up for.
    left: i64,
    /// Up to when what comes with time was counted.
    at: Time,
    rests_until: Option<Time>,
}

const MOST: i64 = limit::NOTIFICATIONS_A_SECOND as i64;
/// So little may be left: what a quarter of a second brings.
const LEAST: i64 = -MOST / 4;

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { left: MOST, at: Time::ZERO, rests_until: None }
    }
}

impl Allowance {
    /// One more may be read.
    pub(super) fn has(&mut self, now: Time) -> bool {
        let gained = now.since(self.at).as_nanos().saturating_mul(MOST.unsigned_abs().into());
        let gained = i64::try_from(gained / 1_000_000_000).unwrap_or(MOST);
        if gained > 0 {
            self.left = self.left.saturating_add(gained).min(MOST);
            self.at = now;
        }
        !self.rests(now) && self.left > 0
    }

    /// So many were read, whether there was any left or not.
    pub(super) fn take(&mut self, count: u64, now: Time) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.left = self.left.saturating_sub(count).max(LEAST);
        if self.left <= 0 {
            let makes_up =
                self.left.unsigned_abs().saturating_mul(1_000_000_000) / MOST.unsigned_abs();
            let rests = limit::NOTIFY_REST.saturating_add(Duration::from_nanos(makes_up));
            self.rests_until = Some(now.after(rests));
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

    /// How many are read in so many milliseconds, if there is always one.
    fn read(allowance: &mut Allowance, begin: Time, millis: u64) -> i64 {
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
        assert_eq!(read(&mut allowance, begin, 1), MOST);
        let after = begin.after(Duration::from_millis(1));
        assert!(!allowance.has(after) && allowance.deadline() > Some(after));
        let in_a_second = read(&mut allowance, after, 1000);
        assert!((7500..=8192).contains(&in_a_second), "{in_a_second}");
        // After a quiet second a burst is read again, and not two.
        let later = after.after(Duration::from_secs(60));
        assert_eq!(read(&mut allowance, later, 1), MOST);
    }

    #[test]
    fn what_had_to_be_heard_at_once_is_made_up_for() {
        let (mut allowance, begin) = (Allowance::default(), Time::from_nanos(1_000_000_000));
        assert_eq!(read(&mut allowance, begin, 1), MOST);
        // Each time somebody ends, ten times in a tenth of a second.
        for time in 0..10 {
            allowance.take(1024, begin.after(Duration::from_millis(10 * time)));
        }
        let after = begin.after(Duration::from_millis(100));
        assert_eq!(read(&mut allowance, after, 100), 0);
        let rested = allowance.deadline().expect("it rests");
        assert!(rested < after.after(Duration::from_millis(400)), "not for longer than its bound");
        assert!(!allowance.rests(rested) && allowance.has(rested), "it has something then");
    }
}
