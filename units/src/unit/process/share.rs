//! Parses the resource settings of a unit file.

use super::particular::relative;
use crate::limit;
use crate::spec::value::{self, Mistake, is_plain_number, mistake};
use crate::spec::{Cgroup, Schedule};
use crate::text::diagnostic::Diagnostic;
use crate::unit::semantics::Reader;
use std::time::Duration;

/// A key of the cgroup, the file that gets its value, and the parser of the value.
type Setting = (&'static str, &'static str, fn(&str) -> Result<String, Mistake>);

/// The settings in the order in which init writes them. See
/// Documentation/admin-guide/cgroup-v2.rst.
const SETTINGS: [Setting; 8] = [
    ("cgroup-memory-min", "memory.min", bytes),
    ("cgroup-memory-low", "memory.low", bytes),
    ("cgroup-memory-high", "memory.high", bytes),
    ("cgroup-memory-max", "memory.max", bytes),
    ("cgroup-memory-swap-max", "memory.swap.max", bytes),
    ("cgroup-pids-max", "pids.max", number),
    ("cgroup-cpu-max", "cpu.max", processor_time),
    ("cgroup-cpu-weight", "cpu.weight", weight),
];

impl Reader<'_> {
    pub(super) fn schedule(&mut self) -> Schedule {
        let nice = self.value("nice", None, |text| signed(text, 20, 19).map(Some));
        let oom = self.value("oom-score-adjust", None, |text| signed(text, 1000, 1000).map(Some));
        let class = self.choice("io-class", &["none", "realtime", "best-effort", "idle"]);
        let level = self.number("io-priority", 0, 7);
        // IOPRIO_PRIO_VALUE of linux/ioprio.h; a priority alone means best-effort.
        let io_priority = match (class, level) {
            (None, None) => None,
            (class, level) => {
                let class = class.and_then(|class| u16::try_from(class).ok()).unwrap_or(2);
                let level = if matches!(class, 1 | 2) { level.unwrap_or(4) } else { 0 };
                Some(class << 13 | level)
            }
        };
        let policy = self.choice("cpu-policy", &["other", "batch", "idle", "fifo", "rr"]);
        let priority = self.number("cpu-priority", 1, 99);
        // SCHED_* of linux/sched.h.
        let real_time = |number: u8| (number, priority.map_or(1, |p| u8::try_from(p).unwrap_or(1)));
        let cpu_policy = match policy {
            None => None,
            Some(1) => Some((3, 0)),
            Some(2) => Some((5, 0)),
            Some(3) => Some(real_time(1)),
            Some(4) => Some(real_time(2)),
            Some(_) => Some((0, 0)),
        };
        if let (Some(field), false) =
            (self.field("cpu-priority"), cpu_policy.is_some_and(|(_, priority)| priority > 0))
        {
            let message = "`cpu-priority` is for the policies fifo and rr";
            let warning = Diagnostic::warning("value", field.place(), message);
            self.found.push(warning.with_hint("say `cpu-policy: fifo` or `rr`"));
        }
        let mut cpu_affinity: Vec<u16> = Vec::new();
        for (first, last) in self.words("cpu-affinity", range).unwrap_or_default() {
            cpu_affinity.extend(first..=last);
        }
        cpu_affinity.sort_unstable();
        cpu_affinity.dedup();
        Schedule {
            nice: nice.and_then(|n| i8::try_from(n).ok()),
            oom_score_adjust: oom,
            io_priority,
            cpu_policy,
            cpu_affinity,
        }
    }

    pub(super) fn cgroup(&mut self) -> Cgroup {
        let mut settings = Vec::new();
        let mut write = |file: &str, text: String| settings.push((file.to_string(), text));
        for (key, file, read) in SETTINGS {
            if let Some(text) = self.value(key, None, |text| read(text).map(Some)) {
                // The kernel has a separate file for `cpu-weight: idle`.
                match (file, text.as_str()) {
                    ("cpu.weight", "idle") => write("cpu.idle", "1".to_string()),
                    _ => write(file, text),
                }
            }
        }
        for text in self.words("cgroup-io-weight", disk_weight).unwrap_or_default() {
            write("io.weight", text);
        }
        for text in self.words("cgroup-io-max", disk_limits).unwrap_or_default() {
            write("io.max", text);
        }
        if let Some(ranges) = self.words("cgroup-cpuset", range) {
            let texts: Vec<String> = ranges.iter().map(|(a, b)| format!("{a}-{b}")).collect();
            write("cpuset.cpus", texts.join(","));
        }
        Cgroup {
            settings,
            slice: self.value("cgroup-slice", String::new(), slice),
            delegate: self.value("cgroup-delegate", false, value::boolean),
        }
    }
}

fn slice(text: &str) -> Result<String, Mistake> {
    let path = relative(text)?;
    if path.split('/').count() > limit::SLICE_DEPTH {
        return mistake(format!("`{text}` is too deep"), "eight names at most");
    }
    // Names with a dot belong to the cgroups of runs and to the kernel's files.
    if path.contains('.') && !path.split('/').all(|part| part.ends_with(".slice")) {
        return mistake(format!("`{text}` has a dot"), "plain names, or names like `web.slice`");
    }
    Ok(path)
}

/// Parses a number from `-below` to `above`.
fn signed(text: &str, below: i16, above: i16) -> Result<i16, Mistake> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let number =
        if is_plain_number(digits) && text != "-0" { text.parse::<i16>().ok() } else { None };
    match number.filter(|number| (-below..=above).contains(number)) {
        Some(number) => Ok(number),
        None => mistake(
            format!("`{text}` is not a whole number from -{below} to {above}"),
            "write it in decimal digits, without leading zeros",
        ),
    }
}

/// Parses a processor `3` or a range `0-3`.
fn range(text: &str) -> Result<(u16, u16), Mistake> {
    let one = |text: &str| {
        let number = if is_plain_number(text) { text.parse::<u16>().ok() } else { None };
        number.filter(|number| *number < limit::PROCESSORS)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (one(first), one(last)) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        _ => mistake(
            format!("`{text}` is not a processor"),
            "a number like `0`, or a range like `0-3`",
        ),
    }
}

/// Parses a percentage such as `12.5%`, in hundredths of a percent.
fn percentage(text: &str) -> Option<u64> {
    let number = text.strip_suffix('%')?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = (1..=2).contains(&fraction.len()) && fraction.bytes().all(|b| b.is_ascii_digit());
    if !is_plain_number(whole) || !digits {
        return None;
    }
    let scale = if fraction.len() == 1 { 10 } else { 1 };
    whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(fraction.parse::<u64>().ok()? * scale)
}

/// Parses a size, `50%` of the memory (init computes the bytes), or no limit.
fn bytes(text: &str) -> Result<String, Mistake> {
    if text == "infinity" {
        return Ok("max".to_string());
    }
    if text.ends_with('%') {
        return part(text);
    }
    Ok(value::size(text)?.to_string())
}

fn number(text: &str) -> Result<String, Mistake> {
    if text == "infinity" {
        return Ok("max".to_string());
    }
    if text.ends_with('%') {
        return part(text);
    }
    Ok(value::count(text, 0, u32::MAX)?.to_string())
}

fn part(text: &str) -> Result<String, Mistake> {
    match percentage(text) {
        Some(hundredths) if hundredths <= 10_000 => Ok(text.to_string()),
        _ => mistake(format!("`{text}` is not a percentage"), "from 0% to 100%"),
    }
}

/// Parses `50%` or `150%/20ms` to microseconds of processor time and of the period.
fn processor_time(text: &str) -> Result<String, Mistake> {
    let (share, period) = text.split_once('/').unwrap_or((text, "100ms"));
    let period = value::duration(period.trim())?;
    // The kernel has these bounds.
    if !(Duration::from_millis(1)..=Duration::from_secs(1)).contains(&period) {
        return mistake(format!("`{text}`: the period is out of range"), "from 1ms to 1s");
    }
    let period = u64::try_from(period.as_micros()).unwrap_or(100_000);
    if share.trim() == "infinity" {
        return Ok(format!("max {period}"));
    }
    match percentage(share.trim()).and_then(|share| share.checked_mul(period)) {
        // The kernel's minimum is a millisecond.
        Some(time) if time >= 10_000_000 => Ok(format!("{} {period}", time / 10_000)),
        _ => mistake(format!("`{text}` is not a processor time"), "like `50%`, `150%`, `20%/10ms`"),
    }
}

fn weight(text: &str) -> Result<String, Mistake> {
    if text == "idle" {
        return Ok(text.to_string());
    }
    Ok(value::count(text, 1, 10_000)?.to_string())
}

/// Parses `8:0` or `/dev/sda`; init looks up the number of the latter.
fn disk(text: &str) -> Result<&str, Mistake> {
    let number = text.split_once(':').is_some_and(|(major, minor)| {
        [major, minor].iter().all(|n| is_plain_number(n) && n.parse::<u32>().is_ok())
    });
    if number || value::path(text).is_ok() {
        return Ok(text);
    }
    mistake(format!("`{text}` is not a disk"), "its numbers as in `8:0`, or its path")
}

fn disk_weight(text: &str) -> Result<String, Mistake> {
    match text.split_once(' ') {
        None => Ok(format!("default {}", value::count(text, 1, 10_000)?)),
        Some((of, number)) => {
            Ok(format!("{} {}", disk(of)?, value::count(number.trim(), 1, 10_000)?))
        }
    }
}

fn disk_limits(text: &str) -> Result<String, Mistake> {
    let mut words = text.split_whitespace();
    let mut line = disk(words.next().unwrap_or_default())?.to_string();
    let mut any = false;
    for word in words {
        let Some((name, amount)) = word.split_once('=') else {
            return mistake(format!("`{word}` limits nothing"), "like `wbps=1M`");
        };
        if !matches!(name, "rbps" | "wbps" | "riops" | "wiops") {
            return mistake(format!("`{name}` is not a limit"), "rbps, wbps, riops or wiops");
        }
        let amount = match amount {
            "infinity" | "max" => "max".to_string(),
            _ => value::size(amount)?.to_string(),
        };
        line += &format!(" {name}={amount}");
        any = true;
    }
    if any { Ok(line) } else { mistake(format!("`{text}` limits nothing"), "like `8:0 wbps=1M`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup_limits_are_written_in_the_form_of_the_kernel() {
        let ok = |text: &str| Ok(text.to_string());
        assert_eq!(bytes("32M"), ok("33554432"));
        assert_eq!((bytes("infinity"), bytes("50%"), bytes("0")), (ok("max"), ok("50%"), ok("0")));
        assert_eq!(
            (number("infinity"), number("99%"), number("7")),
            (ok("max"), ok("99%"), ok("7"))
        );
        assert_eq!(processor_time("50%"), ok("50000 100000"));
        assert_eq!(processor_time("150%/20ms"), ok("30000 20000"));
        assert_eq!(processor_time("12.5%"), ok("12500 100000"));
        assert_eq!(processor_time("infinity"), ok("max 100000"));
        assert_eq!(disk_weight("50"), ok("default 50"));
        assert_eq!(disk_weight("8:0 50"), ok("8:0 50"));
        assert_eq!(
            disk_limits("/dev/sda wbps=1M riops=infinity"),
            ok("/dev/sda wbps=1048576 riops=max")
        );
        assert_eq!(range("0-3"), Ok((0, 3)));
        assert_eq!(slice("web.slice/front.slice"), ok("web.slice/front.slice"));
    }

    #[test]
    fn cgroup_value_that_the_kernel_refuses_is_refused() {
        for bad in ["", "-1", "101%", "1.5", "1e9", "%", "0x1", "1 %", "max"] {
            assert!(bytes(bad).is_err() && number(bad).is_err(), "{bad}");
        }
        for bad in ["", "50", "0%", "0.9%", "50%/2s", "50%/0", "-5%", "max"] {
            assert!(processor_time(bad).is_err(), "{bad}");
        }
        for bad in ["", "0", "10001", "8:0", "sda 50", "8: 5", "8:0 0"] {
            assert!(disk_weight(bad).is_err(), "{bad}");
        }
        for bad in ["", "8:0", "8:0 wbps", "8:0 x=1", "8:0 wbps=-1", "wbps=1"] {
            assert!(disk_limits(bad).is_err(), "{bad}");
        }
        for bad in ["", "3-1", "-1", "1-", "8192", "a"] {
            assert!(range(bad).is_err(), "{bad}");
        }
        for bad in ["/web", "..", "a.b", "cgroup.procs", "a/b/c/d/e/f/g/h/i"] {
            assert!(slice(bad).is_err(), "{bad}");
        }
        for (bad, below, above) in [("20", 20, 19), ("-21", 20, 19), ("+1", 20, 19), ("-0", 20, 19)]
        {
            assert!(signed(bad, below, above).is_err(), "{bad}");
        }
        assert_eq!((signed("-20", 20, 19), signed("0", 20, 19)), (Ok(-20), Ok(0)));
    }
}
