//! Checks of a request: who may make it, and which instances it names.

use super::client::Caller;
use crate::fd::{self, Foreign};
use groundstate_units::control::request::{Malformed, Request, Verb};
use groundstate_units::import::systemd::UnitName;
use groundstate_units::machine::event::Event;
use groundstate_units::text::name::Name;
use groundstate_units::unit::settings::Settings;

/// Returns true if the settings name this uid as the owner of the source; for a list, of any
/// source.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other verb is a source's")]
pub(crate) fn is_owner(settings: &Settings, caller: Caller, verb: &Verb) -> bool {
    match verb {
        Verb::SourcePut { source, .. } | Verb::SourceDrop { source, .. } => {
            settings.sources.get(source).is_some_and(|owner| caller.is_user(*owner))
        }
        Verb::SourceList {} => settings.sources.values().any(|owner| caller.is_user(*owner)),
        _ => false,
    }
}

/// Counts and closes descriptors that came with a request that does not use them.
pub(crate) fn count_unused(request: &Result<Request, Malformed>, passed: &[Foreign]) {
    let verb = request.as_ref().map(|request| &request.verb);
    if !matches!(verb, Ok(Verb::SourcePut { .. })) {
        fd::dropped(passed.len());
    }
}

/// The instances of templates that a request names.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other wish brings a target in")]
pub(crate) fn instances_of(wish: &Event) -> impl Iterator<Item = &Name> {
    let named: Vec<&Name> = match wish {
        Event::SetGoal(goal) => {
            goal.targets.iter().chain(goal.want.iter().map(|(name, _)| name)).collect()
        }
        Event::Want { target, .. } => vec![target],
        Event::SetPolicy(policy) => policy.enable.iter().collect(),
        _ => Vec::new(),
    };
    named.into_iter().filter(|name| UnitName::of(name.as_str()).is_instance())
}
