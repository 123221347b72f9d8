//! How an exclusive unit is never on two machines: it runs only while its machine holds a
//! claim, which is bound to the machine's lease, and is stopped before that lease can have
//! ended. Here is how long each part of that may take; pure. The claims themselves are
//! [`crate::registry`]'s and the steward's. What it stands on: etcd starts every lease anew when
//! a leader is elected (lease checkpoints, an experiment of etcd's, are off), and clocks that
//! drift by less than a hundredth.

use crate::native_unit;
use crate::picture::Content;
use groundstate_units::value;
use std::time::Duration;

/// What is kept back for the way to init, its kill and clocks that differ.
const MARGIN: Duration = Duration::from_millis(500);
/// What a service may take to stop when its file does not say, as the importer has it.
const STOP_OF_SERVICES: Duration = Duration::from_secs(90);
/// The same of native units.
const STOP_OF_NATIVE: Duration = Duration::from_secs(10);

/// After the last proof of the lease, how long exclusive units are kept.
pub fn patience(ttl: Duration) -> Duration {
    ttl - ttl / 3
}

/// After the last proof of the lease, how long it can not have ended by any clock: two may drift
/// apart by a fiftieth.
pub fn life(ttl: Duration) -> Duration {
    ttl - ttl / 50
}

/// How long the members of etcd have to say that they have no leader.
pub fn asking(ttl: Duration) -> Duration {
    ttl / 12
}

/// What is left, from when they are given up, for their stop.
pub fn longest_stop(ttl: Duration) -> Duration {
    (ttl - patience(ttl)).saturating_sub(asking(ttl)).saturating_sub(MARGIN)
}

/// # Errors
/// Its stop may outlast the lease: why it is not run.
pub fn stops_in_time(content: &Content, ttl: Duration) -> Result<(), String> {
    let longest = longest_stop(ttl);
    let (key, stop) = stop_of(content);
    if stop.is_some_and(|stop| stop <= longest) {
        return Ok(());
    }
    let takes = stop.map_or("any time".to_string(), |stop| format!("{stop:?}"));
    Err(format!(
        "it is exclusive, and its stop may take {takes}: {key} has to be {longest:?} at most, what \
         agent_ttl={ttl:?} leaves for it"
    ))
}

/// Which key says how long its stop takes, and how long; `None`: without bound, or not to be
/// understood.
fn stop_of(content: &Content) -> (&'static str, Option<Duration>) {
    if let Some(text) = native_unit::text(&content.file) {
        return ("stop-timeout", native_stop(&text));
    }
    let last = |name| content.file.values("Service", name).last();
    let said = last("TimeoutStopSec").or(last("TimeoutSec"));
    let stop = match said {
        None => Some(STOP_OF_SERVICES),
        // Zero is systemd's word for no bound.
        Some(text) => value::duration(text).ok().filter(|stop| !stop.is_zero()),
    };
    ("TimeoutStopSec", stop)
}

fn native_stop(text: &str) -> Option<Duration> {
    match native_unit::scalar(text, "stop-timeout") {
        None => Some(STOP_OF_NATIVE),
        Some(text) => value::duration(&text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit_file::UnitFile;
    use crate::unit_name::UnitName;

    const TTL: Duration = Duration::from_secs(30);

    fn judged(text: &str) -> Result<(), String> {
        let name = UnitName::new("a.service").unwrap();
        stops_in_time(&Content::of(&name, UnitFile::parse(text).unwrap()), TTL)
    }

    #[test]
    fn what_is_left_after_all_else_is_within_the_lease() {
        assert!(patience(TTL) + asking(TTL) + longest_stop(TTL) < TTL);
        assert_eq!(longest_stop(TTL), Duration::from_secs(7));
        assert_eq!(longest_stop(Duration::from_secs(1)), Duration::ZERO);
    }

    #[test]
    fn a_stop_that_may_outlast_the_lease_is_refused_and_told() {
        for fits in ["TimeoutStopSec=5", "TimeoutStopSec=7s", "TimeoutSec=2s\nTimeoutStopSec=3s"] {
            assert_eq!(judged(&format!("[Service]\n{fits}\n")), Ok(()), "{fits}");
        }
        let without = judged("[Service]\nExecStart=/bin/true\n").unwrap_err();
        assert!(without.contains("may take 90s") && without.contains("7s at most"), "{without}");
        for long in
            ["TimeoutStopSec=8s", "TimeoutSec=8", "TimeoutStopSec=0", "TimeoutStopSec=infinity"]
        {
            assert!(judged(&format!("[Service]\n{long}\n")).is_err(), "{long}");
        }
    }

    #[test]
    fn a_native_unit_says_it_by_its_own_key() {
        let of = |line: &str| {
            let text = format!("unit: a\nexec-start: /bin/true\n{line}\n");
            let name = UnitName::new("a.service").unwrap();
            stops_in_time(&Content::of(&name, native_unit::read("a.yaml", &text).unwrap()), TTL)
        };
        assert_eq!(of("stop-timeout: 3s"), Ok(()));
        assert!(of("").unwrap_err().contains("stop-timeout has to be 7s at most"));
        assert!(of("stop-timeout: none").unwrap_err().contains("may take any time"));
    }
}
