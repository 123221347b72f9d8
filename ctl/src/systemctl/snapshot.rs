//! What init said about everything, at once, and whom a name of systemd's means in it.

use super::shown::{self, Shown, has_suffix, is_glob};
use crate::arguments::{Colour, Common};
use crate::exit::Error;
use crate::policy_file;
use crate::session::{Instance, Session};
use groundstate_units::control::answer::{Pong, Status, UnitStatus};
use groundstate_units::control::request::Verb;
use groundstate_units::text::glob;
use groundstate_units::unit::policy::Policy;

/// A way to init, as the environment says.
pub(crate) fn session() -> Session {
    session_of(None)
}

/// The same; for the instance of this user, or of the machine, where the caller names one.
pub(super) fn session_of(user: Option<bool>) -> Session {
    let common = Common { socket: None, json: false, color: Colour::Never };
    let instance = match user {
        None => Instance::Any,
        Some(true) => Instance::User,
        Some(false) => Instance::System,
    };
    Session::of(&common, instance)
}

/// Everything there is.
pub(super) struct Snapshot {
    /// As answered.
    pub(super) status: Status,
    /// Where init reads.
    pub(super) pong: Pong,
    /// As the files say.
    pub(super) policy: Policy,
}

impl Snapshot {
    /// Asks.
    pub(super) fn take(session: &Session) -> Result<Snapshot, Error> {
        let (pong, _) = session.ask_as::<Pong>(Verb::Ping {})?;
        let (status, _) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?;
        // The policy is only for the word "masked": one that can not be read masks nothing.
        let mut policy = policy_file::read(&pong.paths.policy).unwrap_or_default();
        if let Some(passing) = &pong.paths.runtime_policy {
            policy = policy.overlaid(&policy_file::read(passing).unwrap_or_default());
        }
        Ok(Snapshot { status, pong, policy })
    }

    /// The unit a name means: with its suffix, or without where that is `.service`; a target's
    /// name is that of its provider.
    pub(super) fn find(&self, name: &str) -> Option<&UnitStatus> {
        let mut tried = vec![name.to_string()];
        match name.rsplit_once('.') {
            // A native unit needs no suffix.
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

    /// A unit in systemd's words.
    pub(super) fn shown(&self, unit: &UnitStatus) -> Shown {
        Shown::of(unit, self.is_masked(unit))
    }

    /// By policy: what the overlay drops is stopped, and not masked.
    pub(super) fn is_masked(&self, unit: &UnitStatus) -> bool {
        let named = |name: &String| self.policy.mask.contains(name.as_str());
        named(&unit.unit) || (!unit.provides.is_empty() && unit.provides.iter().all(named))
    }

    /// In the order of the names; a pattern means those that fit, a name that is nobody's is
    /// [`Found::Nobody`].
    pub(super) fn chosen(&self, names: &[String]) -> Vec<Found<'_>> {
        let mut found: Vec<Found<'_>> = Vec::new();
        for name in names {
            if !is_glob(name) {
                found.push(match self.find(name) {
                    Some(unit) => Found::Unit(unit),
                    None => Found::Nobody(with_suffix(name)),
                });
                continue;
            }
            let fits = |unit: &&UnitStatus| {
                let names = std::iter::once(&unit.unit).chain(&unit.provides);
                glob::matches(name, &shown::full_name(unit))
                    || names.into_iter().any(|n| glob::matches(name, n))
            };
            for unit in self.status.units.iter().filter(fits) {
                let again =
                    |old: &Found<'_>| matches!(old, Found::Unit(old) if old.unit == unit.unit);
                if !found.iter().any(again) {
                    found.push(Found::Unit(unit));
                }
            }
        }
        found
    }
}

/// Whom a name means.
pub(super) enum Found<'a> {
    /// This unit.
    Unit(&'a UnitStatus),
    /// The name, with its suffix.
    Nobody(String),
}

/// `nginx` is `nginx.service`; a pattern stays as it is.
pub(super) fn with_suffix(name: &str) -> String {
    if has_suffix(name) || is_glob(name) { name.to_string() } else { format!("{name}.service") }
}
