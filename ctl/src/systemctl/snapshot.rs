//! init's answers about everything at one moment, and the lookup of systemd names in them.

use super::shown::{self, Shown, has_suffix, is_glob};
use crate::arguments::{Colour, Common};
use crate::exit::Error;
use crate::policy_file;
use crate::session::{Instance, Session};
use groundstate_units::control::answer::{Pong, Status, UnitStatus};
use groundstate_units::control::request::Verb;
use groundstate_units::text::glob;
use groundstate_units::unit::policy::Policy;

/// Creates a session from the environment.
pub(crate) fn session() -> Session {
    session_of(None)
}

/// Like [`session`], for the instance of this user or of the machine if given.
pub(super) fn session_of(user: Option<bool>) -> Session {
    let common = Common { socket: None, json: false, color: Colour::Never };
    let instance = match user {
        None => Instance::SystemFirst,
        Some(true) => Instance::User,
        Some(false) => Instance::System,
    };
    Session::of(&common, instance)
}

/// init's answers.
pub(super) struct Snapshot {
    /// The status.
    pub(super) status: Status,
    /// init's paths and version.
    pub(super) pong: Pong,
    /// The policy from the files.
    pub(super) policy: Policy,
}

impl Snapshot {
    /// Asks init.
    pub(super) fn take(session: &Session) -> Result<Snapshot, Error> {
        let (pong, _) = session.ask_as::<Pong>(Verb::Ping {})?;
        let (status, _) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?;
        // The policy is only needed for the word "masked"; an unreadable one masks nothing.
        let mut policy = policy_file::read(&pong.paths.policy).unwrap_or_default();
        if let Some(runtime) = &pong.paths.runtime_policy {
            policy = policy.overlaid(&policy_file::read(runtime).unwrap_or_default());
        }
        Ok(Snapshot { status, pong, policy })
    }

    /// Finds the unit of a name, with or without `.service`; a target's name means its provider.
    pub(super) fn find(&self, name: &str) -> Option<&UnitStatus> {
        let mut tried = vec![name.to_string()];
        match name.rsplit_once('.') {
            // A native unit may lack the suffix.
            Some((stem, "service" | "target")) => tried.push(stem.to_string()),
            _ if !has_suffix(name) => tried.insert(0, format!("{name}.service")),
            _ => {}
        }
        tried.iter().find_map(|name| self.provider(name))
    }

    fn provider(&self, name: &str) -> Option<&UnitStatus> {
        let target = self.status.targets.iter().find(|target| target.target == name);
        let unit = target.and_then(|target| target.unit.as_deref()).unwrap_or(name);
        self.status.units.iter().find(|one| one.unit == unit)
    }

    /// Formats a unit in systemd's words.
    pub(super) fn shown(&self, unit: &UnitStatus) -> Shown {
        Shown::of(unit, self.is_masked(unit))
    }

    /// Masked by policy; a dropped unit is stopped, not masked.
    pub(super) fn is_masked(&self, unit: &UnitStatus) -> bool {
        let named = |name: &String| self.policy.mask.contains(name.as_str());
        named(&unit.unit) || (!unit.provides.is_empty() && unit.provides.iter().all(named))
    }

    /// Resolves names in order. A pattern means all matches; an unknown name is [`Found::Unknown`].
    pub(super) fn chosen(&self, names: &[String]) -> Vec<Found<'_>> {
        let mut found: Vec<Found<'_>> = Vec::new();
        for name in names {
            if !is_glob(name) {
                found.push(match self.find(name) {
                    Some(unit) => Found::Unit(unit),
                    None => Found::Unknown(with_suffix(name)),
                });
                continue;
            }
            let fits = |unit: &&UnitStatus| {
                let names = std::iter::once(&unit.unit).chain(&unit.provides);
                glob::matches(name, &shown::full_name(unit))
                    || names.into_iter().any(|n| glob::matches(name, n))
            };
            for unit in self.status.units.iter().filter(fits) {
                let is_listed =
                    |old: &Found<'_>| matches!(old, Found::Unit(old) if old.unit == unit.unit);
                if !found.iter().any(is_listed) {
                    found.push(Found::Unit(unit));
                }
            }
        }
        found
    }
}

/// The result of a lookup.
pub(super) enum Found<'a> {
    /// The unit.
    Unit(&'a UnitStatus),
    /// The unknown name, with its suffix.
    Unknown(String),
}

/// Returns `nginx.service` for `nginx`; a pattern stays unchanged.
pub(super) fn with_suffix(name: &str) -> String {
    if has_suffix(name) || is_glob(name) { name.to_string() } else { format!("{name}.service") }
}
