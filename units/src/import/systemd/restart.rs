//! `.service`: failures and restarts. systemd's defaults are written out if they differ from the
//! native ones.

use super::conversion::Conversion;
use super::import_outcome::Outcome;
use super::span::{self, Span};
use super::table::partly;
use super::unit_text::UnitOption;
use crate::limit;

const SECTION: &str = "Service";
/// Exits of a daemon that systemd counts as clean besides exit 0 (systemd.service(5), `Restart=`).
const CLEAN_SIGNALS: [&str; 4] = ["HUP", "INT", "TERM", "PIPE"];

pub(super) fn convert(this: &mut Conversion<'_>, kind: &str) {
    restart(this, kind);
    success(this, kind);
}

fn restart(this: &mut Conversion<'_>, kind: &str) {
    let said = this.last(SECTION, "Restart");
    let word = said.map_or("no", |option| option.value.as_str());
    let native = match word {
        "no" => "never",
        "on-success" | "on-failure" | "on-abnormal" | "on-watchdog" | "on-abort" | "always" => word,
        _ => {
            if let Some(option) = said {
                this.refuse(option, &format!("Restart={word}: no such value"), "");
            }
            return;
        }
    };
    if let (Some(option), "oneshot", "always" | "on-success") = (said, kind, native) {
        let message = format!("Restart={word} of a oneshot: it would never finish");
        return this.refuse(option, &message, "systemd refuses this too");
    }
    this.put_said("restart", native, said);
    let forced = !this.all(SECTION, "RestartForceExitStatus").is_empty();
    let delay = if native == "never" && !forced {
        for name in ["RestartSec", "RestartMaxDelaySec", "RestartSteps"] {
            if let Some(option) = this.last(SECTION, name) {
                this.leave_out(option, "it is never started again by itself");
            }
        }
        None
    } else {
        Some(restart_delay(this))
    };
    let most = restart_limit(this);
    if let Some(option) = said {
        differences(this, option, delay, most);
    }
    if delay.is_some() {
        let last = most.filter(|_| is_reached(delay, most)).map(|(count, _)| count);
        alarm(this, last);
    }
    for (name, key) in
        [("RestartPreventExitStatus", "restart-except"), ("RestartForceExitStatus", "restart-also")]
    {
        statuses(this, name, key);
    }
    for name in ["RestartMode", "ExitType", "TimeoutStartFailureMode", "TimeoutStopFailureMode"] {
        let usual = ["normal", "main", "terminate"];
        if let Some(option) = this.last(SECTION, name) {
            if usual.contains(&option.value.as_str()) {
                this.leave_out(option, "init always does that");
            } else {
                this.lose(option, "not supported yet");
            }
        }
    }
}

/// A limit of starts: number and interval in microseconds (`None` for no interval).
type Limit = (u32, Option<u64>);

/// Returns true if starts that fail at once reach the limit with this delay between them.
fn is_reached(delay: Option<u64>, most: Option<Limit>) -> bool {
    let (Some((count, within)), Some(delay)) = (most, delay) else { return false };
    let took = delay.saturating_mul(u64::from(count.saturating_sub(1)));
    within.is_none_or(|within| took < within)
}

/// Reports if the restarts of this unit differ from those of `Restart=`.
fn differences(
    this: &mut Conversion<'_>,
    option: &UnitOption,
    delay: Option<u64>,
    most: Option<Limit>,
) {
    let word = option.value.as_str();
    let mut gaps = Vec::new();
    if matches!(word, "always" | "on-success") && most.is_some() {
        gaps.push(partly::UNCOUNTED);
    }
    // At the limit systemd gives up as well, a moment later.
    if matches!(word, "always" | "on-failure") && !is_reached(delay, most) {
        gaps.push(partly::NOT_EXECUTED);
    }
    for how in gaps {
        this.note(option, &format!("Restart=: {how}"));
    }
}

/// Handles `OnFailure=` of a restarted unit: systemd activates it when the limit of starts is
/// reached, the native key at the verdict. `last` is the number of the failure that reaches the
/// limit.
fn alarm(this: &mut Conversion<'_>, last: Option<u32>) {
    let Some(option) = this.last("Unit", "OnFailure") else { return };
    // The machine remembers no more failures than this.
    if let Some(count) = last.filter(|count| *count <= limit::FAILURES) {
        this.put_default("failure-verdict", &count.to_string());
    }
    this.note(option, &format!("OnFailure=: {}", partly::ALARMED));
}

/// Sets the delay of retries, in microseconds: systemd does not increase it unless configured.
fn restart_delay(this: &mut Conversion<'_>) -> u64 {
    let option = this.last(SECTION, "RestartSec");
    let micros = match option.map(|option| span::parse(&option.value)) {
        None => 100_000,
        Some(Some(Span::Micros(micros))) => micros,
        Some(_) => {
            if let Some(option) = option {
                this.lose(option, "it is not a span of time");
            }
            100_000
        }
    };
    this.put_said("restart-delay", &span::native(micros), option);
    restart_delay_max(this, micros);
    micros
}

/// Sets the delay of later retries. systemd lets it grow by one factor for a number of steps; here
/// it doubles up to the maximum.
fn restart_delay_max(this: &mut Conversion<'_>, first: u64) {
    let most = this.last(SECTION, "RestartMaxDelaySec");
    let steps = this.last(SECTION, "RestartSteps");
    let count = steps.and_then(|option| option.value.parse::<u32>().ok()).unwrap_or(0);
    let longest = most.and_then(|option| span::parse(&option.value));
    match (most, longest, steps) {
        (Some(most), Some(Span::Micros(longest)), Some(steps)) if count > 0 && longest > first => {
            this.put("restart-delay-max", &span::native(longest), most);
            let doubled = 1u64.checked_shl(count).and_then(|factor| first.checked_mul(factor));
            if doubled == Some(longest) {
                this.record_outcome(steps, Outcome::Kept("restart-delay-max".to_string()));
            } else {
                this.lose(steps, partly::GROWS);
            }
        }
        _ => {
            this.put_default("restart-delay-max", &span::native(first));
            let why = "RestartSteps= and RestartMaxDelaySec= have an effect only together";
            for option in [most, steps].into_iter().flatten() {
                this.leave_out(option, why);
            }
        }
    }
}

/// Returns the limit of starts, or `None` if there is none.
fn restart_limit(this: &mut Conversion<'_>) -> Option<Limit> {
    let interval = this.last("Unit", "StartLimitIntervalSec");
    let interval = interval.or_else(|| this.last("Unit", "StartLimitInterval"));
    let interval = interval.or_else(|| this.last(SECTION, "StartLimitInterval"));
    let burst = this.last("Unit", "StartLimitBurst");
    let burst = burst.or_else(|| this.last(SECTION, "StartLimitBurst"));
    let span = interval.map_or(Some(Span::Micros(10_000_000)), |option| span::parse(&option.value));
    let count = burst.map_or(Some(5), |option| option.value.parse::<u32>().ok());
    let most = match (span, count) {
        (Some(Span::Micros(0)), _) | (_, Some(0)) => None,
        (Some(Span::Micros(micros)), Some(count)) => Some((count, Some(micros))),
        (Some(Span::Infinite), Some(count)) => Some((count, None)),
        _ => {
            for option in [interval, burst].into_iter().flatten() {
                this.lose(option, "it cannot be parsed");
            }
            Some((5, Some(10_000_000)))
        }
    };
    let limit = match most {
        None => "none".to_string(),
        Some((count, Some(micros))) => {
            format!("{}/{}", count.min(limit::FAILURES), span::native(micros))
        }
        Some((count, None)) => count.to_string(),
    };
    if let Some(option) = interval.or(burst).filter(|_| most.is_some()) {
        this.note(option, &format!("{}=: {}", option.name, partly::BY_HAND));
    }
    this.put_said("restart-limit", &limit, interval.or(burst));
    if let (Some(_), Some(burst)) = (interval, burst) {
        this.record_outcome(burst, Outcome::Kept("restart-limit".to_string()));
    }
    for section in ["Unit", SECTION] {
        if let Some(option) = this.last(section, "StartLimitAction") {
            if option.value == "none" {
                this.leave_out(option, "this value requests nothing");
            } else {
                this.lose(option, partly::NO_ACTION);
            }
        }
    }
    most
}

/// Converts additional success statuses.
fn success(this: &mut Conversion<'_>, kind: &str) {
    let said = this.last(SECTION, "SuccessExitStatus").is_some();
    let daemon = !matches!(kind, "oneshot");
    if !daemon && !said {
        return;
    }
    let at = this.manifest.at;
    this.add("success-status", "0", None, at);
    for signal in CLEAN_SIGNALS.into_iter().filter(|_| daemon) {
        this.add("success-status", signal, None, at);
    }
    statuses(this, "SuccessExitStatus", "success-status");
}

/// Parses a list of exit statuses, by number or name, and signals.
fn statuses(this: &mut Conversion<'_>, name: &str, key: &str) {
    let options = this.all(SECTION, name);
    for (word, option, at) in this.words(&options) {
        if let Some(text) = status(&word) {
            this.add(key, &text, Some(option), at);
        } else {
            let message = format!("{name}=: `{word}` is neither an exit status nor a signal");
            this.warn(option, "dropped", &message, "");
        }
    }
}

fn status(word: &str) -> Option<String> {
    if word.bytes().all(|byte| byte.is_ascii_digit()) && !word.is_empty() {
        return word.parse::<u8>().ok().map(|number| number.to_string());
    }
    if let Some((_, number)) = EXIT_STATUSES.iter().find(|(name, _)| *name == word) {
        return Some(number.to_string());
    }
    let signal = word.strip_prefix("SIG").unwrap_or(word);
    crate::text::signal::number(signal).map(|_| signal.to_string())
}

/// Names of exit statuses: systemd.exec(5), "PROCESS EXIT CODES", and sysexits(3).
#[rustfmt::skip]
const EXIT_STATUSES: &[(&str, u8)] = &[
    ("SUCCESS", 0), ("FAILURE", 1), ("INVALIDARGUMENT", 2), ("NOTIMPLEMENTED", 3),
    ("NOPERMISSION", 4), ("NOTINSTALLED", 5), ("NOTCONFIGURED", 6), ("NOTRUNNING", 7),
    ("USAGE", 64), ("DATAERR", 65), ("NOINPUT", 66), ("NOUSER", 67), ("NOHOST", 68),
    ("UNAVAILABLE", 69), ("SOFTWARE", 70), ("OSERR", 71), ("OSFILE", 72), ("CANTCREAT", 73),
    ("IOERR", 74), ("TEMPFAIL", 75), ("PROTOCOL", 76), ("NOPERM", 77), ("CONFIG", 78),
    ("CHDIR", 200), ("NICE", 201), ("FDS", 202), ("EXEC", 203), ("MEMORY", 204),
    ("LIMITS", 205), ("OOM_ADJUST", 206), ("SIGNAL_MASK", 207), ("STDIN", 208),
    ("STDOUT", 209), ("CHROOT", 210), ("IOPRIO", 211), ("TIMERSLACK", 212),
    ("SECUREBITS", 213), ("SETSCHEDULER", 214), ("CPUAFFINITY", 215), ("GROUP", 216),
    ("USER", 217), ("CAPABILITIES", 218), ("CGROUP", 219), ("SETSID", 220), ("CONFIRM", 221),
    ("STDERR", 222), ("PAM", 224), ("NETWORK", 225), ("NAMESPACE", 226),
    ("NO_NEW_PRIVILEGES", 227), ("SECCOMP", 228), ("SELINUX_CONTEXT", 229),
    ("PERSONALITY", 230), ("APPARMOR_PROFILE", 231), ("APPARMOR", 231),
    ("ADDRESS_FAMILIES", 232), ("RUNTIME_DIRECTORY", 233), ("CHOWN", 235),
    ("SMACK_PROCESS_LABEL", 236), ("KEYRING", 237), ("STATE_DIRECTORY", 238),
    ("CACHE_DIRECTORY", 239), ("LOGS_DIRECTORY", 240), ("CONFIGURATION_DIRECTORY", 241),
    ("NUMA_POLICY", 242), ("CREDENTIALS", 243), ("BPF", 245), ("EXCEPTION", 255),
];
