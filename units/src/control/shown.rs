//! One unit in systemd's words: its full name, and the three states LOAD, ACTIVE, SUB.

use super::answer::{Cause, UnitStatus};
use crate::machine::reason::State;
use crate::spec::Kind;

/// What a unit's name ends in, systemd.unit(5).
pub const SUFFIXES: [&str; 11] = [
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
pub struct Shown {
    /// With suffix.
    pub name: String,
    /// `loaded`, `masked`, `error`, `not-found`.
    pub load: &'static str,
    /// `active`, `reloading`, `inactive`, `failed`, `activating`, `deactivating`.
    pub active: &'static str,
    /// The finer state.
    pub sub: &'static str,
    /// For people.
    pub description: String,
}

impl Shown {
    /// Of a unit init knows.
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

/// The name ends in one of systemd's suffixes.
pub fn has_suffix(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, suffix)| SUFFIXES.contains(&suffix))
}

/// The name systemd would have for it: its own, or a target of it, or made from its type.
pub fn full_name(unit: &UnitStatus) -> String {
    let names = std::iter::once(&unit.unit).chain(&unit.provides);
    if let Some(name) = names.into_iter().find(|name| has_suffix(name)) {
        return name.clone();
    }
    format!("{}.{}", unit.unit, suffix_of(unit.kind))
}

/// The suffix for a unit of this type whose name has none.
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
        // A connection whose run failed: systemd keeps its instance so until it is reset.
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
        State::Running => ("active", resting(unit.kind, suffix)),
        State::Reloading => ("reloading", "reload"),
        State::Exited if skipped || !unit.remains => ("inactive", "dead"),
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

/// It is not needed, and yet its last run failed by itself.
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

/// The name holds a pattern's characters.
pub fn is_glob(name: &str) -> bool {
    name.contains(['*', '?', '['])
}
