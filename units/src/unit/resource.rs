//! Resource limits: getrlimit(2), as `limits` of a unit file writes them.

use crate::spec::ResourceLimit;
use crate::spec::value::{Mistake, is_plain_number, mistake, size};

/// The unit of a resource limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measure {
    Bytes,
    Count,
}

/// getrlimit(2): name, number on Linux, unit.
const RESOURCES: [(&str, u8, Measure); 16] = [
    ("cpu", 0, Measure::Count),
    ("fsize", 1, Measure::Bytes),
    ("data", 2, Measure::Bytes),
    ("stack", 3, Measure::Bytes),
    ("core", 4, Measure::Bytes),
    ("rss", 5, Measure::Bytes),
    ("nproc", 6, Measure::Count),
    ("nofile", 7, Measure::Count),
    ("memlock", 8, Measure::Bytes),
    ("as", 9, Measure::Bytes),
    ("locks", 10, Measure::Count),
    ("sigpending", 11, Measure::Count),
    ("msgqueue", 12, Measure::Bytes),
    ("nice", 13, Measure::Count),
    ("rtprio", 14, Measure::Count),
    ("rttime", 15, Measure::Count),
];

/// The names of resource limits.
pub fn resources() -> impl Iterator<Item = &'static str> {
    RESOURCES.iter().map(|(name, ..)| *name)
}

/// The name of the resource limit with this number, or `?`.
pub fn resource_name(number: u32) -> &'static str {
    let known = RESOURCES.iter().find(|(_, known, _)| u32::from(*known) == number);
    known.map_or("?", |(name, ..)| name)
}

/// Parses one entry of `limits`: `infinity`, a number (a size if the limit counts bytes), or
/// `soft:hard`.
pub fn resource_limit(name: &str, text: &str) -> Result<ResourceLimit, Mistake> {
    let Some((_, resource, measure)) = RESOURCES.iter().find(|(known, ..)| *known == name) else {
        return mistake(
            format!("`{name}` is not a resource limit"),
            "see getrlimit(2): nofile, nproc, core, memlock …",
        );
    };
    let one = |text: &str| -> Result<Option<u64>, Mistake> {
        if matches!(text, "infinity" | "unlimited") {
            return Ok(None);
        }
        let number = match measure {
            Measure::Bytes => size(text).ok(),
            Measure::Count if is_plain_number(text) => text.parse::<u64>().ok(),
            Measure::Count => None,
        };
        // The number of RLIM_INFINITY is refused: only a word removes the limit.
        match number.filter(|number| *number < u64::MAX) {
            Some(number) => Ok(Some(number)),
            None => mistake(
                format!("`{text}` is not a value for `{name}`"),
                "a number, `infinity`, or `soft:hard`",
            ),
        }
    };
    let (soft, hard) = match text.split_once(':') {
        Some((soft, hard)) => (one(soft)?, one(hard)?),
        None => (one(text)?, one(text)?),
    };
    if hard.is_some_and(|hard| soft.is_none_or(|soft| soft > hard)) {
        return mistake(
            format!("`{text}`: the soft limit is above the hard one"),
            "write `soft:hard`",
        );
    }
    Ok(ResourceLimit { resource: *resource, soft, hard })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_limits_are_parsed_with_soft_and_hard_value() {
        let limit = |soft, hard| Ok(ResourceLimit { resource: 7, soft, hard });
        assert_eq!(resource_limit("nofile", "1024:4096"), limit(Some(1024), Some(4096)));
        assert_eq!(resource_limit("nofile", "infinity"), limit(None, None));
        assert_eq!(resource_limit("nofile", "1024:infinity"), limit(Some(1024), None));
        assert_eq!(resource_limit("core", "1M").unwrap().hard, Some(1 << 20));
        for bad in ["4096:1024", "infinity:5", "1:2:3", ":", "1M", "18446744073709551615"] {
            assert!(resource_limit("nofile", bad).is_err(), "{bad}");
        }
        assert!(resource_limit("nofiles", "1").is_err());
    }
}
