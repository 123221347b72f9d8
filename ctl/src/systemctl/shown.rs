//! One unit in systemd's words: its full name, and the three states LOAD, ACTIVE, SUB.

use groundstate_units::control::answer::{Cause, UnitStatus};
use groundstate_units::machine::reason::State;
use groundstate_units::spec::Kind;

/// What a unit's name ends in, systemd.unit(5).
pub(crate) const SUFFIXES: [&str; 11] = [
    "service",
    "socket",
    "timer",
    "path",
    "target",
    "mount",
    "automount",
    "swap",
    "device",
    "slice",
    "scope",
];

/// A unit, or the want of one, as `list-units` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// With suffix.
    pub(super) name: String,
    /// `loaded`, `masked`, `error`, `not-found`.
    pub(super) load: &'static str,
    /// `active`, `reloading`, `inactive`, `failed`, `activating`, `deactivating`.
    pub(super) active: &'static str,
    /// The finer state.
    pub(super) sub: &'static str,
    /// For people.
    pub(super) description: String,
}

impl Shown {
    /// Of a unit init knows.
    pub(super) fn of(unit: &UnitStatus, masked: bool) -> Shown {
        let name = full_name(unit);
        let broken =
            matches!(unit.reason.as_ref().map(|why| &why.cause), Some(Cause::Config { .. }));
        let load = match (masked, broken) {
            (true, _) => "masked",
            (_, true) => "error",
            _ => "loaded",
        };
        let (active, sub) = states(unit, kind_of(&name), broken);
        let description = match unit.description.is_empty() {
            true => name.clone(),
            false => unit.description.clone(),
        };
        Shown { name, load, active, sub, description }
    }

    /// `service`, `target` …
    pub(super) fn kind(&self) -> &str {
        kind_of(&self.name)
    }
}

/// The suffix of a full name.
fn kind_of(name: &str) -> &str {
    name.rsplit_once('.').map_or("service", |(_, suffix)| suffix)
}

/// The name ends in one of systemd's suffixes.
pub(super) fn has_suffix(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, suffix)| SUFFIXES.contains(&suffix))
}

/// The name systemd would have for it: its own, or a target of it, or made from its type.
pub(super) fn full_name(unit: &UnitStatus) -> String {
    let names = std::iter::once(&unit.unit).chain(&unit.provides);
    if let Some(name) = names.into_iter().find(|name| has_suffix(name)) {
        return name.clone();
    }
    let suffix = match unit.kind {
        Kind::Virtual => "target",
        Kind::Socket => "socket",
        Kind::Timer => "timer",
        Kind::Path => "path",
        Kind::ForegroundNotified
        | Kind::ForegroundSupervised
        | Kind::BackgroundPidfile
        | Kind::BackgroundScripted
        | Kind::Oneshot => "service",
    };
    format!("{}.{suffix}", unit.unit)
}

fn states(unit: &UnitStatus, suffix: &str, broken: bool) -> (&'static str, &'static str) {
    let cause = unit.reason.as_ref().map(|why| &why.cause);
    let skipped = matches!(cause, Some(Cause::Skipped { .. }));
    match unit.state {
        State::Failed if broken => ("inactive", "dead"),
        State::Disabled => ("inactive", "dead"),
        State::Waiting if matches!(cause, Some(Cause::Backoff { .. })) => {
            ("activating", "auto-restart")
        }
        State::Waiting => ("inactive", "dead"),
        State::Starting => match suffix {
            "service" => ("activating", "start"),
            "mount" => ("activating", "mounting"),
            _ => ("activating", "activating"),
        },
        State::Running => ("active", resting(unit.kind, suffix)),
        State::Reloading => ("reloading", "reload"),
        State::Exited if skipped => ("inactive", "dead"),
        State::Exited => ("active", if suffix == "mount" { "mounted" } else { "exited" }),
        State::Stopping => match suffix {
            "mount" => ("deactivating", "unmounting"),
            _ => ("deactivating", "stop-sigterm"),
        },
        State::Failed => match cause {
            // Not its own failure: systemd's job would have been cancelled.
            Some(Cause::Dependency { .. } | Cause::Missing { .. } | Cause::Masked { .. }) => {
                ("inactive", "dead")
            }
            _ => ("failed", "failed"),
        },
    }
}

fn resting(kind: Kind, suffix: &str) -> &'static str {
    match (kind, suffix) {
        (Kind::Socket, _) => "listening",
        (Kind::Timer | Kind::Path, _) => "waiting",
        (Kind::Virtual, "service") => "exited",
        (Kind::Virtual, _) => "active",
        (_, "mount") => "mounted",
        _ => "running",
    }
}

/// Matches as a shell does: `*`, `?`, `[…]`. No recursion: the last star is gone back to.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while let Some(here) = text.get(t) {
        match pattern.get(p) {
            Some('*') => {
                back = Some((p, t));
                p += 1;
                continue;
            }
            Some(c) => {
                if let Some(next) = one(&pattern, p, *c, *here) {
                    p = next;
                    t += 1;
                    continue;
                }
            }
            None => {}
        }
        let Some((star, from)) = back else { return false };
        (p, t) = (star + 1, from + 1);
        back = Some((star, from + 1));
    }
    pattern.get(p..).unwrap_or_default().iter().all(|c| *c == '*')
}

/// Where the pattern goes on, when what stands at `p` takes the character.
fn one(pattern: &[char], p: usize, c: char, text: char) -> Option<usize> {
    match c {
        '?' => Some(p + 1),
        '[' => {
            let rest = pattern.get(p + 1..)?;
            let close = rest.iter().skip(1).position(|c| *c == ']')? + 1;
            let set = rest.get(..close)?;
            let (negated, set) = match set.split_first() {
                Some(('!' | '^', set)) => (true, set),
                _ => (false, set),
            };
            (in_set(set, text) != negated).then_some(p + close + 2)
        }
        '\\' if pattern.get(p + 1) == Some(&text) => Some(p + 2),
        c => (c == text).then_some(p + 1),
    }
}

fn in_set(set: &[char], text: char) -> bool {
    let mut set = set;
    while let Some((first, rest)) = set.split_first() {
        match rest {
            ['-', last, rest @ ..] => {
                if (*first..=*last).contains(&text) {
                    return true;
                }
                set = rest;
            }
            _ => {
                if *first == text {
                    return true;
                }
                set = rest;
            }
        }
    }
    false
}

/// The name holds a pattern's characters.
pub(super) fn is_glob(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, text, fits) in [
            ("mesos-master@*", "mesos-master@1.service", true),
            ("*.service", "a.service", true),
            ("*.service", "a.socket", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x*", "bxyz", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[a", "[a", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("", "", true),
            ("**", "", true),
            ("a", "ab", false),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_is_not_slow() {
        assert!(!glob(&"*a".repeat(200), &"a".repeat(199).repeat(20).replace("aa", "ab")));
    }
}
