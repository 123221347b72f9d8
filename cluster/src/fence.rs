//! Time limits that keep an exclusive unit from running on two machines.
//! Such a unit runs only while its machine holds a claim bound to the machine's lease, and stops
//! before that lease can expire. [`crate::registry`] and the unit runner handle claims.
//! Assumptions: etcd restarts every lease when it elects a leader (lease checkpoints are off), and
//! clocks drift by less than 1%. The same limits decide when a rebooted machine may take over the
//! key of its previous run ([`crate::store::Remainder`]). Pure.

use crate::native_unit::Native;
use crate::snapshot::Content;
use crate::unit_file::UnitFile;
use groundstate_units::spec::Ending;
use groundstate_units::spec::value;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Reserve for the request to init, init's kill and clock drift.
const MARGIN: Duration = Duration::from_millis(500);
/// Number of times init checks for a keepalive of fleetd within `agent_ttl`.
const WATCHES: u32 = 3;
/// Default stop timeout of a service, as in the importer.
const STOP_OF_SERVICES: Duration = Duration::from_secs(90);
/// Default stop timeout of a native unit.
const STOP_OF_NATIVE_UNITS: &str = "as long as init.yaml on its machine says";
/// The key that lets a stop ignore dependents.
const PROMPTLY: &str = "stop-promptly";
/// SIGKILL.
const KILL: u8 = 9;

/// How long exclusive units are kept after the last proof of the lease.
pub fn patience(ttl: Duration) -> Duration {
    ttl - ttl / 3
}

/// Time after the last proof of a lease in which that lease cannot expire by any machine's clock.
/// Two clocks may drift apart by 2%.
pub fn life(ttl: Duration) -> Duration {
    ttl - ttl / 50
}

/// Time after the last proof of the lease at which the rebooted machine may take over the key. The
/// rebooted machine waits for [`patience`] by etcd's clock, which may run faster than ours.
pub fn takeover_time(ttl: Duration) -> Duration {
    patience(ttl) - ttl / 50
}

/// Time within which a machine that was silent for long must renew its lease after it has written
/// its key. If the renewal takes longer, the machine writes the key again.
pub fn renew_grace(ttl: Duration) -> Duration {
    key_settle_time(ttl) - ttl / 50
}

/// A successor checks the lease of a machine key only if the key was not written for this time. By
/// then a live owner has renewed the lease or written the key again.
pub fn key_settle_time(ttl: Duration) -> Duration {
    ttl / 4
}

/// After a silence of etcd this long, the leases of live machines may have expired. For the same
/// time afterwards no machine counts as gone, so that these machines can register again.
pub fn silence_limit(ttl: Duration) -> Duration {
    ttl / 2
}

/// The validity of a claim: the last proof of its lease, and the granted time of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimValidity {
    /// Time of the last proof; `None` if there was none.
    pub proof: Option<Duration>,
    /// `agent_ttl` at that time.
    pub ttl: Duration,
}

impl ClaimValidity {
    /// Returns true if the last proof is older than `part` of the lease.
    pub fn is_past(self, now: Duration, part: fn(Duration) -> Duration) -> bool {
        self.proof.is_none_or(|at| now.saturating_sub(at) > part(self.ttl))
    }

    /// Returns the value that expires first, for a claim that may be under either of two leases.
    #[must_use]
    pub fn or_less(self, other: ClaimValidity) -> ClaimValidity {
        let until = |one: &ClaimValidity| one.proof.map(|at| at + patience(one.ttl));
        std::cmp::min_by_key(self, other, until)
    }

    /// Returns the time until the given part of the lease has passed.
    pub fn left(self, now: Duration, part: fn(Duration) -> Duration) -> Duration {
        let age = self.proof.map_or(Duration::MAX, |at| now.saturating_sub(at));
        part(self.ttl).saturating_sub(age)
    }

    /// The first moment at which the unit must be given up.
    pub fn end(self) -> Duration {
        let past = |at: Duration| at + patience(self.ttl) + Duration::from_nanos(1);
        self.proof.map_or(Duration::ZERO, past)
    }
}

/// Timeout for etcd's members to answer whether they have a leader.
pub fn members_timeout(ttl: Duration) -> Duration {
    ttl / 12
}

/// Time after the last proof when exclusive units are given up, even if etcd's members have not
/// answered.
pub fn give_up_without_answer(ttl: Duration) -> Duration {
    patience(ttl) + members_timeout(ttl)
}

/// Returns the watchdog interval of fleetd at init, so that a hanging fleetd is killed by the time
/// its exclusive units must stop. The next fleetd gives them up at once. Returns `None` if `left`
/// has passed.
pub fn watchdog_interval(ttl: Duration, left: Option<Duration>) -> Option<Duration> {
    let watch = ttl / WATCHES;
    left.map_or(Some(watch), |left| Some(left.min(watch)).filter(|watch| !watch.is_zero()))
}

/// Like [`members_timeout`], for several claims. Ends at the earliest time at which one of their
/// leases may have expired by any clock.
pub fn members_timeout_for(validities: &[ClaimValidity], now: Duration) -> Duration {
    let each = validities
        .iter()
        .map(|validity| members_timeout(validity.ttl).min(validity.left(now, life)));
    each.min().unwrap_or_default()
}

/// The time that remains for the stop of exclusive units once they are given up.
pub fn longest_stop(ttl: Duration) -> Duration {
    (ttl - patience(ttl)).saturating_sub(members_timeout(ttl)).saturating_sub(MARGIN)
}

/// Checks that the unit stops within [`longest_stop`].
///
/// # Errors
/// Why the unit is not run: its stop may outlast the lease or leave processes behind.
pub fn stops_in_time(content: &Content, ttl: Duration) -> Result<(), String> {
    let settings = StopSettings { file: &content.file, native: content.native() };
    let longest = longest_stop(ttl);
    let because = |why: String| format!("it is exclusive, and {why}");
    settings.is_a_service().map_err(because)?;
    settings.leaves_no_process().map_err(because)?;
    settings.is_prompt().map_err(because)?;
    for (key, stop) in settings.spans() {
        if matches!(stop, Ok(stop) if stop <= longest) {
            continue;
        }
        let takes = stop.map_or_else(str::to_string, |stop| format!("{stop:?}"));
        return Err(because(format!(
            "its stop may take {takes}: {key} must be at most {longest:?}, the \
             time that agent_ttl={ttl:?} leaves for a stop"
        )));
    }
    Ok(())
}

/// The settings about stopping in a unit file of either kind.
struct StopSettings<'a> {
    file: &'a UnitFile,
    /// The parsed native unit, if it is one.
    native: Option<&'a Native>,
}

/// The duration of a stop, or words for a duration that is unknown here.
type Span = Result<Duration, &'static str>;

impl StopSettings<'_> {
    /// Returns the key's name in this kind of file and all its values, in any section: this check
    /// does not know which section counts.
    fn all(&self, native: &'static str, option: &'static str) -> (&'static str, Vec<String>) {
        if let Some(own) = self.native {
            return (native, own.scalar(native).into_iter().collect());
        }
        let own = self.file.options.iter().filter(|one| one.name == option);
        (option, own.map(|one| one.value.clone()).filter(|value| !value.is_empty()).collect())
    }

    /// A trigger and the service that it activates are two units. The claim of the trigger would
    /// not cover the service, which could run on another machine.
    fn is_a_service(&self) -> Result<(), String> {
        let other =
            ["Socket", "Timer", "Path"].into_iter().find(|kind| self.file.has_section(kind));
        match other.filter(|_| !self.file.has_section("Service")) {
            Some(kind) => Err(format!(
                "only a service can be exclusive, not a unit with only a [{kind}] section"
            )),
            None => Ok(()),
        }
    }

    /// Requires that init waits for all processes before the unit counts as stopped.
    fn leaves_no_process(&self) -> Result<(), String> {
        let native = self.native.is_some();
        let group = if native { "group" } else { "control-group" };
        let whole = |word: &str| word == group || word == "mixed";
        let kills = |word: &str| word == "1" || value::boolean(word) == Ok(true);
        only(self.all("kill-mode", "KillMode"), whole, &format!("{group} or mixed"))?;
        only(self.all("kill-final", "SendSIGKILL"), kills, "yes")
    }

    /// Requires that no dependent unit delays the stop. The importer ensures this for a service
    /// with `Exclusive=true`. It does not recognize the option with quotes or specifiers.
    fn is_prompt(&self) -> Result<(), String> {
        let Some(native) = self.native else {
            let given = self.file.values("X-Fleet", "Exclusive").last();
            let plain =
                given.is_some_and(|word| value::boolean(&word.to_ascii_lowercase()) == Ok(true));
            return match plain {
                true => Ok(()),
                false => Err("`Exclusive=true` must be written exactly like this".to_string()),
            };
        };
        match native.scalar(PROMPTLY).map(|word| value::boolean(&word)) {
            Some(Ok(true)) => Ok(()),
            _ => Err(format!(
                "units that depend on it may delay its stop: set `{PROMPTLY}: yes` in its file"
            )),
        }
    }

    /// Returns the keys that determine the duration of the stop, with their values.
    fn spans(&self) -> Vec<(&'static str, Span)> {
        let (_, last) = self.all("stop-final-signal", "FinalKillSignal");
        let killed = last.iter().all(|word| value::signal(word) == Ok(KILL));
        let more = if killed { Duration::ZERO } else { Ending::FINAL_PATIENCE };
        let (key, of_watchdog) = self.all("abort-timeout", "TimeoutAbortSec");
        let of_watchdog = of_watchdog.iter().map(|word| (key, span(word)));
        let (key, stop) = match self.native {
            Some(native) => {
                let given = native.scalar("stop-timeout");
                ("stop-timeout", given.map_or(Err(STOP_OF_NATIVE_UNITS), |word| span(&word)))
            }
            None => {
                let last = |name| self.file.values("Service", name).last();
                let given = last("TimeoutStopSec").or(last("TimeoutSec"));
                ("TimeoutStopSec", given.map_or(Ok(STOP_OF_SERVICES), span))
            }
        };
        let stops = std::iter::once((key, stop)).chain(of_watchdog);
        stops.map(|(key, stop)| (key, stop.map(|stop| stop.saturating_add(more)))).collect()
    }
}

/// Checks all words of a key. `wanted` names the allowed words in the message.
///
/// # Errors
/// The first word that is not allowed, and its consequence for the stop.
fn only(
    (key, words): (&str, Vec<String>),
    is_fine: impl Fn(&str) -> bool,
    wanted: &str,
) -> Result<(), String> {
    match words.iter().find(|word| !is_fine(word)) {
        None => Ok(()),
        Some(word) => Err(format!(
            "with {key} {word:?} its stop may leave processes behind: it must be {wanted}"
        )),
    }
}

/// Zero means "no limit" in systemd and is rejected.
fn span(text: &str) -> Span {
    let span = value::duration(text).ok().filter(|span| !span.is_zero());
    span.ok_or("unlimited time")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native_unit;
    use crate::unit_name::UnitName;

    const TTL: Duration = Duration::from_secs(30);

    fn judged(text: &str) -> Result<(), String> {
        judged_with_exclusive(text, "true")
    }

    fn judged_with_exclusive(text: &str, exclusive: &str) -> Result<(), String> {
        let name = UnitName::new("a@true.service").unwrap();
        let text = format!("{text}[X-Fleet]\nExclusive={exclusive}\n");
        stops_in_time(&Content::of(&name, UnitFile::parse(&text).unwrap()), TTL)
    }

    #[test]
    fn or_less_returns_the_claim_that_expires_first() {
        let of = |proof: Option<u64>, ttl| ClaimValidity {
            proof: proof.map(Duration::from_secs),
            ttl: Duration::from_secs(ttl),
        };
        let (long, short) = (of(Some(0), 30), of(Some(15), 6));
        assert_eq!((long.or_less(short), short.or_less(long)), (short, short));
        let later = of(Some(17), 6);
        assert_eq!((long.or_less(later), later.or_less(long)), (long, long));
        let never = of(None, 60);
        assert_eq!((long.or_less(never), never.or_less(long)), (never, never));
    }

    #[test]
    fn exclusive_option_that_the_importer_does_not_recognize_is_refused() {
        let short = "[Service]\nTimeoutStopSec=5\n";
        for plain in ["true", "yes", "True", "on"] {
            assert_eq!(judged_with_exclusive(short, plain), Ok(()), "{plain}");
        }
        for other in ["\"true\"", "%i", "no true"] {
            let refusal = judged_with_exclusive(short, other).unwrap_err();
            assert!(refusal.contains("written exactly like this"), "{other}: {refusal}");
        }
        let refusal = judged("[Timer]\nOnBootSec=5\n").unwrap_err();
        assert!(refusal.contains("only a service can be"), "{refusal}");
    }

    #[test]
    fn members_timeout_ends_with_the_lease() {
        let now = Duration::from_secs(100);
        let of = |age| ClaimValidity { proof: Some(now - Duration::from_millis(age)), ttl: TTL };
        for (age, asked) in [(20_000, 2_500), (26_900, 2_500), (28_400, 1_000), (29_400, 0)] {
            assert_eq!(members_timeout_for(&[of(age)], now), Duration::from_millis(asked), "{age}");
            assert_eq!(
                members_timeout_for(&[of(1_000), of(age)], now),
                Duration::from_millis(asked)
            );
        }
        let young = of(5_000);
        assert!(!young.is_past(young.end() - Duration::from_nanos(1), patience));
        assert!(young.is_past(young.end(), patience));
    }

    #[test]
    fn watchdog_of_fleetd_ends_when_exclusive_units_must_be_given_up() {
        let seconds = Duration::from_secs;
        assert_eq!(watchdog_interval(TTL, None), Some(seconds(10)));
        assert_eq!(watchdog_interval(TTL, Some(seconds(22))), Some(seconds(10)));
        assert_eq!(watchdog_interval(TTL, Some(seconds(3))), Some(seconds(3)));
        assert_eq!(watchdog_interval(TTL, Some(Duration::ZERO)), None);
        assert!(give_up_without_answer(TTL) + longest_stop(TTL) + MARGIN <= TTL);
    }

    #[test]
    fn longest_stop_fits_into_the_rest_of_the_lease() {
        assert!(patience(TTL) + members_timeout(TTL) + longest_stop(TTL) < TTL);
        assert_eq!(longest_stop(TTL), Duration::from_secs(7));
        assert_eq!(longest_stop(Duration::from_secs(1)), Duration::ZERO);
    }

    #[test]
    fn unit_whose_stop_may_outlast_the_lease_is_refused() {
        for fits in ["TimeoutStopSec=5", "TimeoutStopSec=7s", "TimeoutSec=2s\nTimeoutStopSec=3s"] {
            assert_eq!(judged(&format!("[Service]\n{fits}\n")), Ok(()), "{fits}");
        }
        let without = judged("[Service]\nExecStart=/bin/true\n").unwrap_err();
        assert!(
            without.contains("may take 90s") && without.contains("must be at most 7s"),
            "{without}"
        );
        for long in
            ["TimeoutStopSec=8s", "TimeoutSec=8", "TimeoutStopSec=0", "TimeoutStopSec=infinity"]
        {
            assert!(judged(&format!("[Service]\n{long}\n")).is_err(), "{long}");
        }
    }

    fn native(lines: &str) -> Result<(), String> {
        whole(&format!("{PROMPTLY}: yes\n{lines}"))
    }

    fn whole(lines: &str) -> Result<(), String> {
        let text = format!("unit: a\nexec-start: /bin/true\n{lines}\n");
        let name = UnitName::new("a.service").unwrap();
        stops_in_time(&Content::of(&name, native_unit::read("a.yaml", &text).unwrap()), TTL)
    }

    #[test]
    fn native_unit_is_judged_by_its_stop_timeout() {
        assert_eq!(native("stop-timeout: 3s"), Ok(()));
        let without = native("").unwrap_err();
        assert!(without.contains("may take as long as init.yaml on its machine says"), "{without}");
        assert!(without.contains("stop-timeout must be at most 7s"), "{without}");
        assert!(native("stop-timeout: none").unwrap_err().contains("may take unlimited time"));
    }

    #[test]
    fn native_unit_whose_dependents_may_delay_its_stop_is_refused() {
        for (lines, fits) in
            [("", false), ("stop-promptly: no", false), ("stop-promptly: on", true)]
        {
            let result = whole(&format!("stop-timeout: 3s\n{lines}"));
            assert_eq!(result.is_ok(), fits, "{lines}: {result:?}");
            assert!(fits || result.unwrap_err().contains("set `stop-promptly: yes`"));
        }
    }

    #[test]
    fn unit_whose_stop_may_leave_processes_behind_is_refused() {
        for fits in ["KillMode=mixed", "KillMode=control-group\nSendSIGKILL=yes", "SendSIGKILL=1"] {
            assert_eq!(judged(&format!("[Service]\nTimeoutStopSec=5\n{fits}\n")), Ok(()), "{fits}");
        }
        for (leaves, key) in [
            ("KillMode=none", "KillMode"),
            ("KillMode=process", "KillMode"),
            ("KillMode=%i", "KillMode"),
            ("SendSIGKILL=no", "SendSIGKILL"),
            ("SendSIGKILL=f\n[Socket]\nSendSIGKILL=yes", "SendSIGKILL"),
        ] {
            let refusal = judged(&format!("[Service]\nTimeoutStopSec=5\n{leaves}\n")).unwrap_err();
            assert!(
                refusal.contains("may leave processes behind") && refusal.contains(key),
                "{refusal}"
            );
        }
        assert_eq!(native("stop-timeout: 5s\nkill-mode: mixed\nkill-final: yes"), Ok(()));
        for (leaves, key) in [
            ("kill-mode: none", "kill-mode"),
            ("kill-mode: process", "kill-mode"),
            ("kill-final: no", "kill-final"),
        ] {
            let refusal = native(&format!("stop-timeout: 5s\n{leaves}")).unwrap_err();
            assert!(
                refusal.contains("may leave processes behind") && refusal.contains(key),
                "{refusal}"
            );
        }
    }

    #[test]
    fn final_signal_other_than_kill_and_abort_timeout_lengthen_the_stop() {
        let judged_stop =
            |stop: u8, line: &str| judged(&format!("[Service]\nTimeoutStopSec={stop}\n{line}\n"));
        assert_eq!(judged_stop(7, "FinalKillSignal=SIGKILL"), Ok(()));
        assert_eq!(judged_stop(5, "FinalKillSignal=SIGQUIT"), Ok(()));
        assert!(judged_stop(6, "FinalKillSignal=SIGQUIT").unwrap_err().contains("may take 8s"));
        assert_eq!(judged_stop(5, "TimeoutAbortSec=7"), Ok(()));
        let aborted = judged_stop(5, "TimeoutAbortSec=20").unwrap_err();
        assert!(aborted.contains("may take 20s: TimeoutAbortSec must be"), "{aborted}");
        assert!(native("stop-timeout: 6s\nstop-final-signal: QUIT").is_err());
        assert!(native("stop-timeout: 6s\nabort-timeout: none").is_err());
        assert_eq!(native("stop-timeout: 5s\nstop-final-signal: QUIT\nabort-timeout: 5s"), Ok(()));
    }
}
