//! A unit in systemd's terms: its full name and the three states LOAD, ACTIVE and SUB.

use super::answer::{Cause, UnitStatus};
use crate::machine::reason::State;
use crate::spec::Kind;
use crate::text::unit_name::Suffix;

/// The suffixes of unit names, systemd.unit(5).
pub const SUFFIXES: [&str; 11] = Suffix::WORDS;

/// A unit, or a missing one, as `list-units` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The full name with suffix.
    pub name: String,
    /// `loaded`, `masked`, `error`, `not-found`.
    pub load: &'static str,
    /// `active`, `reloading`, `inactive`, `failed`, `activating`, `deactivating`.
    pub active: &'static str,
    /// The SUB state.
    pub sub: &'static str,
    /// The description.
    pub description: String,
}

impl Shown {
    /// Creates the entry of a unit that init knows.
    pub fn of(unit: &UnitStatus, masked: bool) -> Shown {
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
    pub fn kind(&self) -> &str {
        kind_of(&self.name)
    }
}

/// The suffix of a full name.
fn kind_of(name: &str) -> &str {
    name.rsplit_once('.').map_or("service", |(_, suffix)| suffix)
}

/// Returns true if the name ends in one of systemd's suffixes.
pub fn has_suffix(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, suffix)| SUFFIXES.contains(&suffix))
}

/// Returns the name that systemd would use: the unit's own, one of its targets, or one made from
/// its type.
pub fn full_name(unit: &UnitStatus) -> String {
    name_with_suffix(&unit.unit, &unit.provides, unit.kind)
}

/// Like [`full_name`], of a unit that no init has loaded.
pub fn name_with_suffix(unit: &str, provides: &[String], kind: Kind) -> String {
    let names = std::iter::once(unit).chain(provides.iter().map(String::as_str));
    match names.into_iter().find(|name| has_suffix(name)) {
        Some(name) => name.to_string(),
        None => format!("{unit}.{}", suffix_of(kind)),
    }
}

/// Returns the suffix for a unit of this type whose name has none.
pub fn suffix_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Virtual => "target",
        Kind::Socket => "socket",
        Kind::Timer => "timer",
        Kind::Path => "path",
        Kind::ForegroundNotified
        | Kind::ForegroundSupervised
        | Kind::BackgroundPidfile
        | Kind::BackgroundScripted
        | Kind::Oneshot => "service",
    }
}

fn states(unit: &UnitStatus, suffix: &str, broken: bool) -> (&'static str, &'static str) {
    let cause = unit.reason.as_ref().map(|why| &why.cause);
    let skipped = matches!(cause, Some(Cause::Skipped { .. }));
    match unit.state {
        State::Failed if broken => ("inactive", "dead"),
        // The run of a connection failed: systemd keeps its instance as failed until a reset.
        State::Disabled if broke_off(cause) => ("failed", "failed"),
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
        State::Running => ("active", sub_of_running(unit.kind, suffix)),
        State::Reloading => ("reloading", "reload"),
        State::Exited if skipped || !unit.remains => ("inactive", "dead"),
        State::Exited => ("active", if suffix == "mount" { "mounted" } else { "exited" }),
        State::Stopping => match suffix {
            "mount" => ("deactivating", "unmounting"),
            _ => ("deactivating", "stop-sigterm"),
        },
        State::Failed => match cause {
            // The failure is another unit's: systemd would have cancelled the job.
            Some(Cause::Dependency { .. } | Cause::Missing { .. } | Cause::Masked { .. }) => {
                ("inactive", "dead")
            }
            _ => ("failed", "failed"),
        },
    }
}

/// Returns true if the unit is not needed, but its last run failed by itself.
fn broke_off(cause: Option<&Cause>) -> bool {
    match cause {
        Some(
            Cause::Exit { .. }
            | Cause::Signal { .. }
            | Cause::Exec { .. }
            | Cause::StartTimeout
            | Cause::Watchdog
            | Cause::RunTimeout
            | Cause::Oom
            | Cause::Protocol { .. },
        ) => true,
        Some(_) | None => false,
    }
}

fn sub_of_running(kind: Kind, suffix: &str) -> &'static str {
    match (kind, suffix) {
        (Kind::Socket, _) => "listening",
        (Kind::Timer | Kind::Path, _) => "waiting",
        (Kind::Virtual, "service") => "exited",
        (Kind::Virtual, _) => "active",
        (_, "mount") => "mounted",
        _ => "running",
    }
}

/// Returns true if the name contains characters of a pattern.
pub fn is_glob(name: &str) -> bool {
    name.contains(['*', '?', '['])
}
